"""Where a number's labels lie within its bounds: rows are counted, coarse to fine.

Bounds that people know are often far wider than the labels, and all noise is in parts of their
width. So rows are counted by label in a few cells with noise, the cells that labels fill are looked
at more closely, and so on: each look is a release of all rows, whose noise is that of one count.
Labels are then scaled to the span that was found, and clipped to it. Where the counts do not tell,
the span stays wide.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from privboost.boosting.draft import Draft
from privboost.boosting.plan import Plan
from privboost.engine.queries import ScoreCounts
from privboost.engine.updates import SetClippingRange, Start
from privboost.grid import LABEL_STEPS, SCORE_STEPS, WHOLE_SPAN
from privboost.losses import loss_of
from privboost.privacy.curator import Curator
from privboost.privacy.events.event import Planned
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease

LOOKS = 3
"""How often rows are counted; each time a span that is too wide becomes up to 8 times narrower."""

_CELLS = 25
"""Cells of one look: an odd number, so that no edge parts labels in the middle."""

_WIDE = 3
"""Bounds of which at most one part in so many is full were too wide; more is risked from there."""


CAREFUL, KEEN = 0.1, 0.15
"""The chance that labels go on beyond an end of what is kept: while bounds may fit, and then."""

_UNEVEN = np.array([[0.2], [1.0], [5.0]])
"""How many rows a full cell may have on average, in parts of the mean of its run: one full cell,
of zeros say, must not hide what is spread out."""

_LEAST_FULL = 0.5
"""How many they are at least, in deviations of the noise."""


def plan_span(
    draft: Draft, share: float, kind: type[GaussianRelease] | type[LaplaceRelease]
) -> Planned:
    """Return the releases that find the span of a number, with a noise of 1.

    Parameters
    ----------
    draft : Draft
        What they are a part of.
    share : float
        What they have of the budget; 0 for none.
    kind : type
        What noise they have.
    """
    if share > 0 and draft.task.target != "number":
        raise ValueError("span_share must be 0 for classes: they have no span")
    what = "rows by label, to find the span of the target"
    return Planned(kind(what, 1.0, cells=1, shares=(1.0,), **draft.bound), LOOKS)


def learn_span(curator: Curator, plan: Plan) -> tuple[int, int]:
    """Find the span of a number's labels, and tell the rows; its bounds where that is not planned.

    Returns
    -------
    (int, int)
        The labels that are −1 and 1 from now on, in `grid.LABEL_STEPS`.

    Privacy
    -------
    Spends `plan.span` three times (`LOOKS`), whatever the rows. A row lies in one cell of a look;
    which cells a look has follows from earlier ones.
    """
    if plan.span is None:
        return WHOLE_SPAN
    curator.publish(Start(loss_of("number", "squared").table(1.0, 1.0)))
    low, high = -SCORE_STEPS, SCORE_STEPS  # of states, which are minus the labels
    for _ in range(LOOKS):
        edges = low + (high - low) * np.arange(_CELLS + 1) // _CELLS
        doubt = KEEN if _WIDE * (high - low) <= 2 * SCORE_STEPS else CAREFUL
        first, last = full_cells(_look(curator, plan.span, edges), doubt)
        cell = -(-(high - low) // _CELLS)  # one more at each end, for a tail too thin to be seen
        low = max(int(edges[first]) - cell, -SCORE_STEPS)
        high = min(int(edges[last]) + cell, SCORE_STEPS)
    fine = LABEL_STEPS // SCORE_STEPS
    span = SetClippingRange(-high * fine, -low * fine)
    curator.publish(span)
    return span.low, span.high


def _look(curator: Curator, event: Any, edges: np.ndarray) -> np.ndarray:
    """Count rows by state between edges; return the counts in deviations of their noise."""
    cells = edges.astype(np.int32)
    cells[-1] += 1  # the last cell has its end
    counts = curator.sums(ScoreCounts(cells, 1), event)
    scale = float(event.scales[0])
    if scale == 0:  # of public rows, who are counted exactly
        return np.where(counts[1:-1, 0, 0] > 0, math.inf, 0.0)
    inside: np.ndarray = counts[1:-1, 0, 0] / scale
    return as_normal(inside) if isinstance(event, LaplaceRelease) else inside


def as_normal(laplace: np.ndarray) -> np.ndarray:
    """Turn Laplace noise of scale 1 into a normal deviate of the same rank."""
    size: np.ndarray = -ndtri_exp(math.log(0.5) - np.abs(laplace))
    normal: np.ndarray = np.sign(laplace) * size
    return normal


def full_cells(deviates: np.ndarray, doubt: float) -> tuple[int, int]:
    """Return from where to where cells are full, given what is told of each.

    Cells of a run that nobody knows are full, each of any number of rows (exponential, of a mean
    that is the run's, or a part of it), and the others are empty; runs of all lengths are alike,
    and so are all places of one length. What is kept has all but a little of the chance at each
    end.

    Parameters
    ----------
    deviates : float array
        Counts in deviations of their noise; infinite where a cell is known to be full.
    doubt : float
        The chance that is left out at each end.

    Returns
    -------
    (int, int)
        The first full cell, and the one behind the last; all, where nothing is full for sure.
    """
    known = np.flatnonzero(np.isposinf(deviates))
    if len(known) or not deviates.any():
        return (int(known[0]), int(known[-1]) + 1) if len(known) else (0, len(deviates))
    cells = len(deviates)
    chance = np.full((cells, cells + 1), -math.inf)
    for length in range(1, cells + 1):
        for first in range(cells - length + 1):
            gain = _gain_of_full(deviates[first : first + length])
            chance[first, first + length] = gain - math.log(length * (cells - length + 1))
    chance = np.exp(chance - chance.max())
    chance /= chance.sum()
    first = int(np.searchsorted(chance.sum(axis=1).cumsum(), doubt))
    behind = int(np.searchsorted(chance.sum(axis=0)[::-1].cumsum(), doubt))
    return first, cells - behind


def _gain_of_full(deviates: np.ndarray) -> float:
    """Return the log of how much likelier counts are of full cells than of empty ones."""
    length = len(deviates)
    mean = max(float(deviates.sum()), math.sqrt(length)) / length
    rate = 1 / np.maximum(mean * _UNEVEN, _LEAST_FULL)
    each = np.log(rate) + rate * (rate / 2 - deviates) + log_ndtr(deviates - rate)
    full = np.logaddexp.reduce(each, axis=0) - math.log(len(_UNEVEN))
    empty = -(deviates**2) / 2 - math.log(2 * math.pi) / 2
    return float((full - empty).sum())
