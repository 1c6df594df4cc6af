"""Shares of rows at the bounds of a number, where released counts by label show many there.

They cost nothing: counts were released to find the clipping range, or the scale of times. A model
keeps the few shares that its findings name, and none where nothing is unusual.
"""

from __future__ import annotations

import numpy as np

from privboost.data.targets import ClassTarget, Target
from privboost.models.scores import UNKNOWN_SHARE
from privboost.recipes.common.label_counts import LabelCounts

_CELLS_BEFORE = 6, 12
"""Cells before the last one that it is compared with; more if these few are empty."""

_TIMES, _LEAST = 1.5, 0.02
"""Labels pile up at a bound with so many times the rows of any cell before, and this share."""

_GEOMETRIC_TIMES, _GEOMETRIC_LEAST = 0.75, 0.05
"""The same where the widths of cells double, so that the last one is the widest."""

_SURE = 3.0
"""Standard deviations of noise that are taken off a count."""

_AT_ONCE = 0.5
"""Share of times in the first cell from which it is unusual: early events are common."""

_FEW_EVENTS, _MOST_FEW = 0.002, 0.1
"""Hardly an event, or censored row, is known below the one share, or where noise hides it, if it
hides no more than the other."""


def shares_at_bounds(labels: LabelCounts | None, target: Target) -> np.ndarray | None:
    """Return shares by even cells, in half widths of the bounds; see `Scores.label_shares`.

    A bound of 0 is left out: amounts and counts lie there by nature. So are labels with two values,
    such as 0 and 1, whose bounds those are.
    """
    if labels is None or isinstance(target, ClassTarget) or len(labels.counts) < 3:
        return None
    counts, noise = labels.counts, labels.deviation
    clear = _SURE * noise
    within = counts[1:-1]
    if within.sum() <= clear * np.sqrt(len(within)) and min(counts[0], counts[-1]) > clear:
        return None
    low, high = target.bounds
    about = counts, labels.rows, noise, _CELLS_BEFORE, _TIMES, _LEAST
    upper = _piled(*about) if high != 0 else UNKNOWN_SHARE
    lower = _piled(counts[::-1], *about[1:]) if low != 0 else UNKNOWN_SHARE
    return _noted(lower, upper, UNKNOWN_SHARE)


def share_at_the_top(labels: LabelCounts) -> np.ndarray | None:
    """Return the share by cells whose widths double, up to the upper bound."""
    about = labels.rows, labels.deviation, (1,), _GEOMETRIC_TIMES, _GEOMETRIC_LEAST
    return _noted(UNKNOWN_SHARE, _piled(labels.counts, *about), UNKNOWN_SHARE)


def shares_of_times(counts: np.ndarray, noise: float, at_bound: bool) -> np.ndarray | None:
    """Return shares by counts of censored rows and events, by log time.

    `at_bound` says whether the first cell begins at the lower bound.

    Many rows at the upper bound are none to name: those that live to the end are censored there.
    """
    total = max(float(counts.sum()), 1.0)
    clear = counts[0].sum() - _SURE * noise * np.sqrt(2)
    early = at_bound and clear > _AT_ONCE * total
    lower = float(counts[0].sum()) / total if early else UNKNOWN_SHARE
    error = noise * np.sqrt(len(counts))
    observed = UNKNOWN_SHARE
    for few, share in zip(counts.sum(axis=0), (1.0, 0.0), strict=True):
        hidden = few <= max(2 * error, _FEW_EVENTS * total)
        if hidden and few + 2 * error < _MOST_FEW * total:
            observed = abs(share - max(float(few), 0.0) / total)
    return _noted(min(lower, 1.0), UNKNOWN_SHARE, observed)


def _piled(
    counts: np.ndarray,
    rows: float,
    noise: float,
    cells_before: tuple[int, ...],
    times: float,
    least: float,
) -> float:
    """Return the share of the last cell if it stands out, else `UNKNOWN_SHARE`."""
    clear, before = float(counts[-1]) - _SURE * noise, 0.0
    for cells in cells_before:
        before = max(float(counts[-1 - cells : -1].max()), 0.0)
        if before > _SURE * noise:
            break
    stands_out = clear > max(times * before, least * rows)
    return min(float(counts[-1]) / rows, 1.0) if stands_out else UNKNOWN_SHARE


def _noted(*shares: float) -> np.ndarray | None:
    """Return shares as an array, or None where there is none."""
    return None if max(shares) == UNKNOWN_SHARE else np.array(shares, dtype=np.float64)
