"""How many rows there are, as far as was released, and what noise gives to that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from privboost.models.checks import need_finite


def pool_counts(counts: Sequence[float] | np.ndarray, deviation: float) -> np.ndarray:
    """Return the mean of released counts of the same rows, and its standard deviation.

    Parameters
    ----------
    counts : sequence of float
        The counts, of which each has noise of its own.
    deviation : float
        What noise gives to each of them.
    """
    return np.array([np.mean(counts), deviation / math.sqrt(len(counts))])


def read_rows(form: dict[str, Any]) -> np.ndarray | None:
    """Read what a model file keeps of it; earlier versions kept nothing."""
    if "rows" not in form:
        return None
    rows = need_finite(form["rows"], "scores.rows", (2,))
    need_finite(rows[1:], "scores.rows", (1,), least=0)
    return rows
