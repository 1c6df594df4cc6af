"""Prediction intervals of numbers and prediction sets of classes, from a released histogram."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from privboost._core.grid import LABEL_STEPS, SCORE_STEPS
from privboost._core.pickling import DeclaredState
from privboost.data.rows import LARGEST_RESIDUAL, MOST_OFFSET, RelativeResiduals
from privboost.data.targets import NumberTarget
from privboost.models.checks import (
    need,
    need_array,
    need_finite,
    need_keys,
    need_number,
    need_whole,
)

NOISE_PROBABILITY = 0.2
"""Largest probability that noise makes intervals shorter than those without noise."""

EXPORTED_COVERAGE = 0.9
"""Coverage of the intervals in exports."""

_MOST_CELLS = 2**16

_BITS, _COLUMNS = 8, 2**13
"""Of relative residuals: bits of an interval of scores, and how many there are, half of them on
either side of the middle."""

_REACH = _COLUMNS // 2 << _BITS
"""Largest distance of a score from the middle, in score steps: a factor of e^16."""

_NEAR = math.exp(2.0 ** (_BITS - 1) / SCORE_STEPS) * (1 + 1e-9)
"""Largest factor between a mean and that of the middle of its interval of scores."""

_LEAST_STEP = 2.0**-28
"""Bound of the rounding of labels and of their lines, in halves of the declared range."""

_STEPS = 2
"""The same of residuals, in score steps."""


@dataclass(frozen=True)
class RelativeScale(DeclaredState):
    """The scale of residuals where scores are logarithms of means.

    The residual of a number y whose mean is m is |y − m|/m^(p/2), y and m in parts of a unit.

    Attributes
    ----------
    power : float
        p, the power of the mean to which the variance is taken to be proportional.
    middle : int
        The logarithm of the unit, in score steps; means lie within a factor of e^16 of it.
    top : int
        The largest score that counts, in score steps: of larger ones the mean is that of this one.
    """

    power: float
    middle: int
    top: int

    @classmethod
    def of(cls, power: float, start: int, highest: float) -> Self:
        """Return the scale around a start in score steps, of means up to the highest prediction."""
        top = min(round(math.log(highest) * SCORE_STEPS), start + _REACH)
        return cls(power, start, max(top, start))

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the largest score that count."""
        return (self.middle - _REACH) / SCORE_STEPS, self.top / SCORE_STEPS

    def residuals(self, target: NumberTarget) -> RelativeResiduals:
        """Return the residuals of each interval of scores as lines in the label."""
        first = self.middle - _REACH
        middles = first + (np.arange(_COLUMNS) + 0.5) * 2**_BITS
        means = np.exp((np.minimum(middles, self.top) - self.middle) / SCORE_STEPS)
        middle, half = target.middle_and_half()
        unit, power = math.exp(self.middle / SCORE_STEPS), means ** (-self.power / 2)
        slope = half / unit * power * (SCORE_STEPS / LABEL_STEPS)
        offset = (means - middle / unit) * power * SCORE_STEPS
        shift = np.clip(31 - np.frexp(slope)[1], 0, 62)
        fits = (slope <= 2.0**31) & (np.abs(offset) <= MOST_OFFSET)
        # Where a line does not fit, all residuals are the largest.
        slopes = np.rint(np.ldexp(np.where(fits, slope, 0.0), shift)).astype(np.int64)
        offsets = np.rint(np.where(fits, offset, MOST_OFFSET)).astype(np.int64)
        return RelativeResiduals(first, _BITS, slopes, shift.astype(np.int64), offsets)

    def terms(self, edge: int, half: float) -> tuple[tuple[float, float, float], ...]:
        """Return what an interval's ends are sums of, for residuals below an edge.

        They are (a, b, c) for either end, a·m + b·m^(p/2) + c of the mean m; `half` is half of the
        target's declared range.
        """
        unit = math.exp(self.middle / SCORE_STEPS)
        width = (edge + _STEPS) / SCORE_STEPS * unit ** (1 - self.power / 2)
        width *= _NEAR ** (self.power / 2)
        slack = half * _LEAST_STEP
        return (1 / _NEAR, -width, -slack), (_NEAR, width, slack)


@dataclass(frozen=True, eq=False)
class Nonconformity(DeclaredState):
    """A noisy histogram of the nonconformity of rows that no release of training used.

    Nonconformity is the residual of a number, absolute or relative, and minus the score of a row's
    own class.

    Attributes
    ----------
    edges : int32 array
        The lower ends of all cells but the first, in score steps.
    counts : float64 array
        The noisy count of each cell, in rows of the largest weight.
    deviation : float
        The standard deviation of the noise of each count.
    scale : RelativeScale, optional
        Where scores are logarithms of means, the scale of residuals.
    """

    edges: np.ndarray
    counts: np.ndarray
    deviation: float
    scale: RelativeScale | None = None

    def half_width(self, coverage: float) -> float:
        """Return half the width of prediction intervals in scores; infinite for the bounds."""
        edge = self.threshold(coverage)
        return math.inf if edge is None else (edge + 1) / SCORE_STEPS  # states are rounded

    def threshold(self, coverage: float) -> int | None:
        """Return the edge below which the nonconformity of labels is predicted, in score steps.

        None if no edge is large enough, or if noise hides which one is.

        Edges are tried from the largest down, until one leaves out too many rows. Of the n rows put
        aside at most (1 − coverage)(n + 1) − 1 may have a residual beyond the edge, by noisy counts
        and with a margin for their noise; see docs/guarantees/intervals.md.
        """
        left_out = 1.0 - coverage
        beyond = self.counts[::-1].cumsum()[::-1][1:]
        cells = np.arange(len(self.edges), 0, -1)  # beyond each edge
        variance = cells * coverage**2 + (len(self.counts) - cells) * left_out**2
        margin = -float(ndtri(NOISE_PROBABILITY)) * self.deviation * np.sqrt(variance)
        fine = beyond + margin <= left_out * self.counts.sum() - coverage
        too_many = np.flatnonzero(~fine)
        first = int(too_many[-1]) + 1 if len(too_many) else 0
        return None if first == len(self.edges) else int(self.edges[first])

    def to_payload(self) -> dict[str, Any]:
        """Return what a model's file holds."""
        own = {"edges": self.edges, "counts": self.counts, "deviation": self.deviation}
        return own if self.scale is None else own | {"scale": asdict(self.scale)}

    @classmethod
    def from_payload(cls, payload: Any, least: int) -> Self:
        """Read and check what a file holds; `least` is the least edge."""
        keys = {"edges", "counts", "deviation"}
        payload = need_keys(payload, "nonconformity", keys, {"scale"})
        edges, counts = payload["edges"], payload["counts"]
        fits = isinstance(edges, np.ndarray) and edges.ndim == 1 and len(edges) < _MOST_CELLS
        need(fits, "nonconformity.edges", "an array of one dimension is needed")
        need_array(edges, "nonconformity.edges", np.int32, (len(edges),), least, LARGEST_RESIDUAL)
        need(bool((edges[1:] > edges[:-1]).all()), "nonconformity.edges", "edges must increase")
        need_finite(counts, "nonconformity.counts", (len(edges) + 1,))
        deviation = need_number(payload["deviation"], "nonconformity.deviation", 0)
        return cls(edges, counts, deviation, _read_scale(payload.get("scale")))


def _read_scale(value: Any) -> RelativeScale | None:
    """Return the scale of relative residuals; most files have none."""
    if value is None:
        return None
    place = "nonconformity.scale"
    value = need_keys(value, place, {"power", "middle", "top"})
    power = need_number(value["power"], place, 1, 2)
    middle = need_whole(value["middle"], place, -_MOST_MIDDLE, _MOST_MIDDLE)
    return RelativeScale(power, middle, need_whole(value["top"], place, middle, middle + _REACH))


_MOST_MIDDLE = 200 * SCORE_STEPS
"""Largest logarithm of a unit, in score steps; that of a target's bounds is at most 116."""
