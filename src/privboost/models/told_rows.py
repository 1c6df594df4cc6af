"""Noisy row counts: a released count with the standard deviation of its noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from privboost.models.checks import need_finite


def pool_counts(counts: Sequence[float] | np.ndarray, deviation: float) -> np.ndarray:
    """Return the mean of released counts of the same rows, and its standard deviation.

    Parameters
    ----------
    counts : sequence of float
        The counts, each with independent noise.
    deviation : float
        The standard deviation of the noise of each count.
    """
    return np.array([np.mean(counts), deviation / math.sqrt(len(counts))])


def read_row_count(payload: dict[str, Any]) -> np.ndarray | None:
    """Return the noisy row count of a model file, or None for files of earlier versions."""
    if "rows" not in payload:
        return None
    rows = need_finite(payload["rows"], "scores.rows", (2,))
    need_finite(rows[1:], "scores.rows", (1,), least=0)
    return rows


def as_counts(rows: np.ndarray | None) -> Iterator[tuple[float, float]]:
    """Yield a noisy row count and its standard deviation, if there is one."""
    if rows is not None:
        count, error = rows.tolist()
        yield count, error
