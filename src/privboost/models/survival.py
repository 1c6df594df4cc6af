"""Survival times: concordance of scores with times, and checked times of survival functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_AT_ONCE = 2**24
"""Pairs of rows that are compared at once."""


def check_times(times: Any) -> np.ndarray:
    """Return times at which survival is predicted, or one, as an array; none is below 0."""
    try:
        found = np.asarray(times, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("times must be numbers") from None
    if found.ndim > 1 or not found.size:
        raise ValueError("times must be a number, or a list of them with at least one")
    if not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError("times must be finite, and 0 or more")
    return found.reshape(-1)


def concordance(times: np.ndarray, events: np.ndarray, scores: np.ndarray) -> float:
    """Return Harrell's concordance: how often the row with the earlier event has the lower score.

    Two rows are compared if it is known which event came first: that of a row at the earlier time
    was observed, or at the same time it was, and the other was censored there. Equal scores count
    half.

    Parameters
    ----------
    times, events : arrays
        The times, NaN where they are unknown, and whether the event was observed then.
    scores : array
        The scores, such as predicted times: the lower, the earlier.

    Returns
    -------
    float
        NaN where no rows can be compared.
    """
    known = ~np.isnan(times)
    times, events, scores = times[known], events[known], scores[known]
    pairs = right = 0.0
    first = np.flatnonzero(events)
    step = max(_AT_ONCE // max(len(times), 1), 1)
    for begin in range(0, len(first), step):
        own = first[begin : begin + step, None]
        later = (times > times[own]) | ((times == times[own]) & ~events)
        pairs += float(later.sum())
        above, same = scores > scores[own], scores == scores[own]
        right += float((later & above).sum()) + float((later & same).sum()) / 2
    return right / pairs if pairs else math.nan
