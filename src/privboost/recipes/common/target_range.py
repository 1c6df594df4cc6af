"""The target clipping range: where a number's labels lie, found before the first round.

Declared bounds of a number are often far wider than its labels, and all noise is in parts of their
width. So rows are counted by label in a few cells with noise, the cells that have labels are
divided further, and so on: each pass is a histogram of all rows, whose noise is that of one count.
Labels are then scaled and clipped to the range. Where the counts are inconclusive, it stays wide.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from privboost._core.grid import FULL_RANGE, LABEL_STEPS, SCORE_STEPS
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import NoisySums
from privboost.engine.updates import SetClippingRange, Start
from privboost.losses.base import loss_of
from privboost.mechanisms.curator import Curator
from privboost.recipes.common.label_counts import LabelCounts, count_states
from privboost.recipes.common.plan import Plan, PlanBasis, counts_release

PASSES = 3
"""Passes; each narrows a range that is too wide by a factor of up to 8."""

_CELLS = 25
"""Cells of one pass: an odd number, so that no edge divides labels in the middle."""

_WIDE = 3
"""Factor from which bounds count as too wide; then `KEEN` is taken."""

CAREFUL = 0.1
"""Probability that labels lie beyond an end of the range, while the bounds may fit."""

KEEN = 0.15
"""The same once the bounds are known to be too wide."""

_UNEVEN = np.array([[0.2], [1.0], [5.0]])
"""Mean count of a full cell, relative to the mean of its run: one very full cell, of zeros say,
must not hide a wide distribution."""

_DECAYS = np.array([1.0, 1.5, 2.0, 3.0, 4.0])
"""Exponents of tails: how fast rows become fewer with the distance from the range's other end."""

_AMOUNTS = np.append(0.0, np.geomspace(0.1, 1e4, 60))
"""Rows in the first cell of a tail that a model of tails may have, in deviations of the noise."""

_AMOUNT_PRIOR = np.append(0.5, np.full(60, 0.5 / 60))
"""Their prior probabilities: half for no tail at all."""

SURE = 2.5
"""Standard deviations of noise that are taken off counts that may move an end of the range."""

NOISE_OF_SUMS = 1.0
"""Noise of a sum of labels, in parts of the range's width and of a count's noise."""

_LEAST_FULL = 0.5
"""Least mean count of a full cell, in standard deviations of the noise."""


def plan_target_range(basis: PlanBasis, share: float, kind: type[NoisySums]) -> Planned:
    """Return the releases of a number's clipping range, with a noise of 1; 0 is no share."""
    if share > 0 and basis.task.target == "classes":
        raise ValueError("span_share must be 0 for classes: they have no clipping range")
    what = "rows by label, to find the span of the target"
    return Planned(counts_release(kind, what, basis.bound), PASSES)


class TargetRange(NamedTuple):
    """Target clipping range, in `grid.LABEL_STEPS`, and the counts that it follows from, if any."""

    low: int
    high: int
    labels: LabelCounts | None

    @property
    def ends(self) -> tuple[int, int]:
        """Labels that are −1 and 1 from now on."""
        return self.low, self.high

    def residuals(self) -> tuple[np.ndarray, np.ndarray]:
        """Return labels less their mean, and how many rows have them: one entry a cell.

        In half widths of the range, and in rows, by the counts that are clear of noise; there are
        none where no counts were released.
        """
        if self.labels is None or not self.labels.clear.any():
            return np.empty(0), np.empty(0)
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        scaled = np.clip((self.labels.middles * LABEL_STEPS - middle) / half, -1, 1)
        rows = self.labels.clear
        return scaled - float((scaled * rows).sum() / rows.sum()), rows


WHOLE_RANGE = TargetRange(*FULL_RANGE, None)
"""The bounds, where no range is planned."""


def find_target_range(curator: Curator, plan: Plan) -> TargetRange:
    """Find and publish the clipping range of a number's labels; its bounds if none is planned.

    Privacy
    -------
    Spends `plan.range_release` three times (`PASSES`), whatever the rows. A row lies in one cell of
    a pass; the cells of a pass follow from earlier ones.
    """
    if plan.range_release is None:
        return WHOLE_RANGE
    curator.publish(Start(loss_of("number", "squared").table(1.0, 1.0)))
    low, high = -SCORE_STEPS, SCORE_STEPS  # of states, which are minus the labels
    for _ in range(PASSES):
        inner = low + (high - low) * np.arange(_CELLS + 1) // _CELLS
        edges, before = _with_tails(inner)
        states = count_states(curator, plan, plan.range_release, edges, outer=True)
        error = KEEN if _WIDE * (high - low) <= 2 * SCORE_STEPS else CAREFUL
        first, last = full_cells(states.deviates[before : before + _CELLS], error)
        cell = -(-(high - low) // _CELLS)  # one more at each end, for a thin tail
        low = max(int(inner[first]) - cell, -SCORE_STEPS)
        high = min(int(inner[last]) + cell, SCORE_STEPS)
    labels = states.mirrored()
    ends = with_tails(labels, -high / SCORE_STEPS, -low / SCORE_STEPS)
    steps = [round(end * SCORE_STEPS) * (LABEL_STEPS // SCORE_STEPS) for end in ends]
    clipping = SetClippingRange(*steps)
    curator.publish(clipping)
    return TargetRange(clipping.low, clipping.high, labels)


def _with_tails(inner: np.ndarray) -> tuple[np.ndarray, int]:
    """Return edges with cells of doubling width on both sides, and the number of those before."""
    low, high = int(inner[0]), int(inner[-1])
    away = (high - low) * (2 ** np.arange(1, SCORE_STEPS.bit_length() + 2) - 1)
    below = low - np.append(away[away < low + SCORE_STEPS], low + SCORE_STEPS)
    above = high + np.append(away[away < SCORE_STEPS - high], SCORE_STEPS - high)
    edges = np.unique(np.concatenate([below, inner, above]))
    return edges, int(np.searchsorted(edges, low))


def with_tails(labels: LabelCounts, low: float, high: float) -> tuple[float, float]:
    """Return a range extended to the tails whose loss would cost more than their noise.

    Labels beyond an end count as the end. What that takes from the sum of all labels is squared,
    and compared with the noise of sums, which grows with the width of the range.
    """
    if labels.deviation == 0:  # what is there is known
        full = np.flatnonzero(labels.counts > 0)
        if not len(full):
            return low, high
        return min(low, labels.edges[full[0]]), max(high, labels.edges[full[-1] + 1])
    up = _best_end(labels.edges, labels.deviates, low, high)
    down = _best_end(-labels.edges[::-1], labels.deviates[::-1], -high, -low)
    return -down, up


def _best_end(edges: np.ndarray, deviates: np.ndarray, low: float, high: float) -> float:
    """Return the upper end of a range, at `high` or above."""
    beyond = np.flatnonzero(edges[:-1] >= high - 1e-9)
    if not len(beyond):
        return high
    middles, own = ((edges[1:] + edges[:-1]) / 2)[beyond], deviates[beyond]
    ends = np.unique(np.concatenate([[high], edges[beyond], edges[-1:]]))
    lost = np.maximum(middles - ends[:, None], 0.0)
    decay = ((edges[beyond] - low) / (edges[beyond[0]] - low))[:, None] ** -_DECAYS
    decay *= (np.diff(edges)[beyond] / (edges[beyond + 1] - low))[:, None]
    amounts = _AMOUNTS[:, None, None] * decay  # counts in deviations, by amount, cell and decay
    fit = ((own[:, None] - amounts) ** 2).sum(axis=1)
    weight = _AMOUNT_PRIOR[:, None] * np.exp(-(fit - fit.min()) / 2)
    sums = np.einsum("ec,acd->ead", lost, amounts)
    squared = (sums**2 * weight).sum(axis=(1, 2)) / weight.sum()
    squared = np.maximum(squared, (lost @ np.maximum(own - SURE, 0.0)) ** 2)
    return float(ends[np.argmin(squared + (NOISE_OF_SUMS * (ends - low)) ** 2)])


def full_cells(deviates: np.ndarray, error: float) -> tuple[int, int]:
    """Return the range of full cells, given noisy counts.

    The model: cells of one unknown run are full, with exponential counts (whose mean is the run's,
    or a multiple of it), and the others are empty; all lengths of the run are equally likely, and
    so are all positions of one length. The posterior probability beyond each end of the range is
    at most `error`.

    Counts are in standard deviations of their noise; infinite where a cell is known to be full.
    Returned are the first full cell and the one behind the last: all, where none is known to be
    full.
    """
    known = np.flatnonzero(np.isposinf(deviates))
    if len(known) or not deviates.any():
        return (int(known[0]), int(known[-1]) + 1) if len(known) else (0, len(deviates))
    cells = len(deviates)
    probability = np.full((cells, cells + 1), -math.inf)
    for length in range(1, cells + 1):
        for first in range(cells - length + 1):
            ratio = _log_ratio(deviates[first : first + length])
            probability[first, first + length] = ratio - math.log(length * (cells - length + 1))
    probability = np.exp(probability - probability.max())
    probability /= probability.sum()
    first = int(np.searchsorted(probability.sum(axis=1).cumsum(), error))
    behind = int(np.searchsorted(probability.sum(axis=0)[::-1].cumsum(), error))
    return first, cells - behind


def _log_ratio(deviates: np.ndarray) -> float:
    """Return the log-likelihood ratio of full cells against empty ones."""
    length = len(deviates)
    mean = max(float(deviates.sum()), math.sqrt(length)) / length
    rate = 1 / np.maximum(mean * _UNEVEN, _LEAST_FULL)
    each = np.log(rate) + rate * (rate / 2 - deviates) + log_ndtr(deviates - rate)
    full = np.logaddexp.reduce(each, axis=0) - math.log(len(_UNEVEN))
    empty = -(deviates**2) / 2 - math.log(2 * math.pi) / 2
    return float((full - empty).sum())
