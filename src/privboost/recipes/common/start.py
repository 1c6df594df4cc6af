"""Releases before the first round: the target clipping range, and the initial score.

Declared bounds of a number are often far wider than its labels, and all noise is in parts of their
width. So rows are counted by label in a few cells with noise, the cells that have labels are
divided further, and so on: each pass is a histogram of all rows, whose noise is that of one count.
Labels are then scaled and clipped to the range. Where the counts are inconclusive, it stays wide.
The initial score is that of the released mean label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from privboost._core.grid import FULL_RANGE, LABEL_STEPS, SCORE_STEPS
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import LaplaceRelease, NoisySums
from privboost.engine.queries import GRADIENT_COUNT, ScoreCounts, TreeSums
from privboost.engine.updates import AddTreeValues, SetClippingRange, Start
from privboost.losses.base import LossTable, loss_of
from privboost.mechanisms.curator import Curator
from privboost.models.scores import pool_counts
from privboost.recipes.common.plan import Draft, Plan
from privboost.trees.tree import stump

PASSES = 3
"""Passes; each narrows a range that is too wide by a factor of up to 8."""

_CELLS = 25
"""Cells of one pass: an odd number, so that no edge divides labels in the middle."""

_WIDE = 3
"""Factor from which bounds count as too wide; then a larger error probability is taken."""


CAREFUL, KEEN = 0.1, 0.15
"""Probability that labels lie beyond an end of the range: while bounds may fit, and then."""

_UNEVEN = np.array([[0.2], [1.0], [5.0]])
"""Mean count of a full cell, relative to the mean of its run: one very full cell, of zeros say,
must not hide a wide distribution."""

_LEAST_FULL = 0.5
"""Least mean count of a full cell, in standard deviations of the noise."""


def plan_target_range(draft: Draft, share: float, kind: type[NoisySums]) -> Planned:
    """Return the releases of a number's clipping range, with a noise of 1; 0 is no share."""
    if share > 0 and draft.task.target != "number":
        raise ValueError("span_share must be 0 for classes: they have no clipping range")
    what = "rows by label, to find the span of the target"
    return Planned(kind(what, 1.0, cells=1, shares=(1.0,), **draft.bound), PASSES)


def find_target_range(curator: Curator, plan: Plan) -> tuple[int, int]:
    """Find and publish the clipping range of a number's labels; its bounds if none is planned.

    Returned are the labels that are −1 and 1 from now on, in `grid.LABEL_STEPS`.

    Privacy
    -------
    Spends `plan.span` three times (`PASSES`), whatever the rows. A row lies in one cell of a pass;
    the cells of a pass follow from earlier ones.
    """
    if plan.span is None:
        return FULL_RANGE
    curator.publish(Start(loss_of("number", "squared").table(1.0, 1.0)))
    low, high = -SCORE_STEPS, SCORE_STEPS  # of states, which are minus the labels
    for _ in range(PASSES):
        edges = low + (high - low) * np.arange(_CELLS + 1) // _CELLS
        error = KEEN if _WIDE * (high - low) <= 2 * SCORE_STEPS else CAREFUL
        first, last = full_cells(_histogram(curator, plan.span, edges), error)
        cell = -(-(high - low) // _CELLS)  # one more at each end, for a thin tail
        low = max(int(edges[first]) - cell, -SCORE_STEPS)
        high = min(int(edges[last]) + cell, SCORE_STEPS)
    fine = LABEL_STEPS // SCORE_STEPS
    span = SetClippingRange(-high * fine, -low * fine)
    curator.publish(span)
    return span.low, span.high


def _histogram(curator: Curator, event: Any, edges: np.ndarray) -> np.ndarray:
    """Release counts of rows between edges, in standard deviations of their noise."""
    cells = edges.astype(np.int32)
    cells[-1] += 1  # the last cell has its end
    counts = curator.sums(ScoreCounts(cells, 1), event)[1:-1, 0, 0]
    scale = float(event.scales[0])
    if scale == 0:  # public rows are counted exactly
        return np.where(counts > 0, math.inf, 0.0)
    inside: np.ndarray = counts / scale
    return as_normal(inside) if isinstance(event, LaplaceRelease) else inside


def as_normal(laplace: np.ndarray) -> np.ndarray:
    """Return normal deviates of the same quantiles as Laplace noise of scale 1."""
    size: np.ndarray = -ndtri_exp(math.log(0.5) - np.abs(laplace))
    normal: np.ndarray = np.sign(laplace) * size
    return normal


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


INIT_SHARES = (0.75, 0.25)
"""Shares of the sum of labels and of the count in the release of the initial score."""


def initial_release(
    kind: type[NoisySums],
    noise: float,
    bound: Mapping[str, Any],
    shares: tuple[float, float] = INIT_SHARES,
) -> NoisySums:
    """Return the release of one output's initial score; `bound` is `Draft.bound`."""
    what = "labels and their count, for the initial score"
    return kind(what, noise, cells=1, shares=shares, **bound)


def release_start(
    curator: Curator,
    plan: Plan,
    init: NoisySums,
    clip: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Release the mean label and the number of rows of each output.

    Initial scores are returned in score steps, and noisy counts in grid steps. The sum is released
    in parts of `clip`, the bound of labels, so that one row adds at most one clip; by default it is
    the largest label.

    Privacy
    -------
    Spends `init` once for each output.
    """
    outputs, loss = range(plan.task.n_outputs), loss_of(plan.task.target, plan.task.loss)
    clip = loss.start_clip if clip is None else clip
    curator.publish(Start(loss.table(clip, 1.0), len(outputs)))
    start = np.zeros(len(outputs), dtype=np.int32)
    counts = np.zeros(len(outputs), dtype=np.int64)
    for output in outputs:
        query = TreeSums((stump(),), output, GRADIENT_COUNT)
        total, counts[output] = curator.sums(query, init)[0, 0]
        mean = total / max(counts[output], plan.contribution.row_steps)
        score = loss.start(mean * (clip / loss.start_clip))
        start[output] = int(np.rint(score * SCORE_STEPS))
    return start, counts


def count_rows(plan: Plan, init: NoisySums, counts: np.ndarray) -> np.ndarray:
    """Return the noisy count of rows, and its deviation, in rows of the largest weight."""
    return pool_counts(counts * plan.count_step, float(init.deviations[1]) * plan.count_step)


def publish_start(curator: Curator, loss: LossTable, start: np.ndarray) -> None:
    """Publish the loss of training and the initial scores."""
    curator.publish(Start(loss, len(start)))
    for output, score in enumerate(start):
        curator.publish(AddTreeValues((stump(),), score.reshape(1, 1), output))
