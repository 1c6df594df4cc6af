"""Private bounds of numbers: noisy counts by signed power of two, and the range of full bins.

All numbers are counted at once: a row lies in one bin of each, so it changes p counts of p numbers
by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from privboost.engine.queries import COUNT, NodeHistograms
from privboost.grid import CLIP_STEPS, Contribution
from privboost.privacy.curator import Curator
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease
from privboost.tables.size_loader import LARGEST, SIZE_CODES, SIZE_EDGES
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import stump

_BOUND = 2.0 ** (LARGEST + 1)
_FALSE_ALARM = 0.01
"""The probability that any empty bin of any number counts as full."""

Bounds = tuple[float, float, str]
"""Lower, upper, and the scale between them."""
NO_BOUNDS: Bounds = (-1.0, 1.0, "linear")
"""Bounds of a number of which no bin is full."""


def plan_sizes(
    contribution: Contribution, numbers: int, pure: bool
) -> GaussianRelease | LaplaceRelease:
    """Return the release of the counts of some numbers; Laplace noise under pure DP."""
    kind = LaplaceRelease if pure else GaussianRelease
    steps, rows = CLIP_STEPS * contribution.rows, contribution.rows
    return kind(f"rows by size of {numbers} numbers", 1.0, steps, numbers, rows, (1.0,))


def learn_bounds(
    names: Sequence[str], curator: Curator, event: GaussianRelease | LaplaceRelease
) -> dict[str, Bounds]:
    """Release counts by power of two, and derive the bounds of numbers from them.

    Parameters
    ----------
    names : sequence of str
        The numbers, in the order of the rows' codes.
    curator : Curator
        The curator.
    event : GaussianRelease or LaplaceRelease
        The noise, as it was reserved.

    Privacy
    -------
    Spends `event`; bounds are post-processing.
    """
    release = curator.laplace if isinstance(event, LaplaceRelease) else curator.gaussian
    counts = release(_sizes(len(names)), event)[0, :, 0] / CLIP_STEPS  # type: ignore[arg-type]
    least = least_count(event, len(counts))
    by_name = counts.reshape(len(names), SIZE_CODES)[:, :-1]  # the last are missing
    return {name: _span(own, least) for name, own in zip(names, by_name, strict=True)}


def least_count(event: GaussianRelease | LaplaceRelease, bins: int) -> float:
    """Return the noisy count, in rows, above which a bin counts as full.

    With probability `_FALSE_ALARM` at most, any of `bins` empty bins exceeds it. The added row
    covers the steps of the grid, to which Laplace scales are rounded up.
    """
    probability = _FALSE_ALARM / bins
    scale = float(event.scales[0]) / CLIP_STEPS
    if isinstance(event, LaplaceRelease):  # P(noise > x) = exp(-x/scale)/2
        return 1 - scale * math.log(2 * probability)
    return 1 + scale * float(ndtri(1 - probability))


def _sizes(numbers: int) -> NodeHistograms:
    """Return the query for counts by power of two of every number."""
    cells = np.arange(SIZE_CODES)
    every = CellMap.side_by_side(CellMap.of_feature(k, cells) for k in range(numbers))
    return NodeHistograms(stump(), every, statistics=COUNT)


def _span(counts: np.ndarray, least: float) -> Bounds:
    """Return the range of full bins; on a log scale if most rows are far smaller than its ends."""
    lows, highs = [-_BOUND, *SIZE_EDGES], [*SIZE_EDGES, _BOUND]
    full = np.flatnonzero(counts > least)
    if len(full) == 0:
        return NO_BOUNDS
    low, high = lows[full[0]], highs[full[-1]]
    low = 0.0 if abs(low) < 1e-300 else low  # the bin of zero itself
    high = 1.0 if low == high else high
    weight = np.maximum(counts, 0) * (counts > least)
    size = np.maximum(np.abs(lows), np.abs(highs))
    small = weight[size <= max(abs(low), abs(high)) / 16].sum()
    return (low, high, "log" if small > 0.8 * weight.sum() else "linear")
