"""Losses of quantiles: where they begin, how wide their step is, and the share below at last.

Rows are counted by label in even cells of the clipping range. The quantile of these counts is the
initial score, and their density there decides the width over which the step of the gradient is
smoothed, so that Hessians are densities that noise does not hide. At last rows are counted by
residual, and all scores are shifted so that the wanted share of labels lies below them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost.accounting.noisy_sums import NoisySums
from privboost.engine.queries import ScoreCounts
from privboost.engine.updates import Start
from privboost.losses.base import Pinball
from privboost.mechanisms.curator import Curator
from privboost.recipes.common.plan import Plan

_CELLS = 64
"""Cells of labels, and of residuals."""

_NEAR = 0.2
"""Share of labels on either side of the quantile over which their density is taken."""

_SMOOTH = 0.25
"""Width of the step, in parts of the range of these labels."""

_LEAST_WIDTH, _MOST_WIDTH = 0.01, 0.25
"""Bounds of the width, in units of scores."""

_FINE = 0.02
"""Residuals have even cells below this, in units of scores, and geometric ones above."""


def plan_quantile_releases(
    kind: type[NoisySums], bound: Mapping[str, Any]
) -> tuple[NoisySums, NoisySums]:
    """Return the releases of the initial score and of the last shift, with a noise of 1."""
    first = "rows by label, for the initial score"
    last = "rows by residual, to correct the share below predictions"
    return (
        kind(first, 1.0, cells=1, shares=(1.0,), **bound),
        kind(last, 1.0, cells=1, shares=(1.0,), **bound),
    )


@dataclass(frozen=True, eq=False)
class QuantileScale:
    """Start and width of a loss of quantiles, from released counts by label.

    Attributes
    ----------
    loss : Pinball
        The loss, with its width.
    start : int
        The initial score, in score steps.
    start_noise : float
        About the standard deviation of the initial score.
    curvature : float
        About the mean Hessian at the initial score.
    reach : float
        Range of the labels around the quantile.
    counted : float array
        The noisy count of rows, and its standard deviation.
    """

    loss: Pinball
    start: int
    start_noise: float
    curvature: float
    reach: float
    counted: np.ndarray

    most_step: ClassVar[float] = math.inf

    @property
    def clip(self) -> float:
        """Clip of gradients, which none exceeds."""
        return self.loss.largest_gradient

    @property
    def hessian_clip(self) -> float:
        """Clip of Hessians, which none exceeds."""
        return self.loss.largest_hessian

    @property
    def spread(self) -> float:
        """Variance of gradients for a sum of Hessians of 1."""
        share = self.loss.quantile
        return share * (1 - share) / self.curvature

    @property
    def typical(self) -> float:
        """Size of an effect that a measurement should detect."""
        return self.reach / 4

    def response(self, rows: float, scores: np.ndarray) -> np.ndarray:
        """Return about the derivative of so many rows' gradients with respect to their scores."""
        return np.full(len(scores), rows * self.curvature)

    def correct(self, curator: Curator, plan: Plan, release: NoisySums) -> float:
        """Return the shift of all scores with which the wanted share of labels lies below them.

        Privacy
        -------
        Spends `release` once: a row lies in one cell of residuals.
        """
        steps = np.arange(1, _CELLS // 2) * (math.asinh(2 / _FINE) / (_CELLS // 2))
        sizes = _FINE * np.sinh(steps)
        at = np.concatenate([-sizes[::-1], [0.0], sizes])
        edges = np.rint(at * SCORE_STEPS).astype(np.int32)
        counts = curator.sums(ScoreCounts(edges, 1), release)[:, 0, 0]
        # A label lies below its prediction where the residual is above 0.
        ends = np.concatenate([[-2.0], at, [2.0]])
        return -_level(_shares_below(counts), ends, 1 - self.loss.quantile)


def release_quantile_scale(
    curator: Curator, plan: Plan, release: NoisySums
) -> tuple[QuantileScale, np.ndarray]:
    """Count rows by label; return start and width, and the noisy count of rows in grid steps.

    Privacy
    -------
    Spends `release` once: a row lies in one of `_CELLS` even cells of the clipping range.
    """
    loss = plan.task.loss_instance
    assert isinstance(loss, Pinball)
    curator.publish(Start(loss.table(loss.largest_gradient, loss.largest_hessian)))
    edges = np.rint(np.linspace(-SCORE_STEPS, SCORE_STEPS, _CELLS + 1)).astype(np.int32)
    counts = curator.sums(ScoreCounts(-edges[-2:0:-1], 1), release)[::-1, 0, 0]
    rows, noise = int(counts.sum()), float(release.deviations[0])
    below = _shares_below(counts)
    at = edges / SCORE_STEPS
    start, first, last = (
        _level(below, at, min(max(loss.quantile + step, 0.02), 0.98))
        for step in (0.0, -_NEAR, _NEAR)
    )
    reach = max(last - first, 2 / _CELLS)
    density = 2 * _NEAR / reach
    width = min(max(_SMOOTH * reach, _LEAST_WIDTH), _MOST_WIDTH)
    error = noise * math.sqrt(_CELLS / 4) / max(rows, 1) / density
    found = QuantileScale(
        loss.with_width(width),
        round(start * SCORE_STEPS),
        min(error, 1.0),
        min(density, 1 / (4 * width)),
        reach,
        np.array([rows, noise * math.sqrt(_CELLS)]) * plan.count_step,
    )
    return found, np.array([rows])


def _shares_below(counts: np.ndarray) -> np.ndarray:
    """Return the share of rows below each end of cells, from noisy counts: it never falls."""
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.float64)
    total = max(float(ends[-1]), 1.0)
    rising, falling = np.maximum.accumulate(ends), np.minimum.accumulate(ends[::-1])[::-1]
    shares: np.ndarray = np.clip((rising + falling) / 2 / total, 0.0, 1.0)
    return shares


def _level(below: np.ndarray, at: np.ndarray, share: float) -> float:
    """Return where the share of rows below reaches a level, between ends of cells."""
    last = int(np.clip(np.searchsorted(below, share), 1, len(below) - 1))
    low, high = float(below[last - 1]), float(below[last])
    part = min(max((share - low) / (high - low), 0.0), 1.0) if high > low else 0.5
    return float(at[last - 1] + part * (at[last] - at[last - 1]))
