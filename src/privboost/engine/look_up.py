"""What a row's statistics are looked up by, and in which table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from privboost.losses import OTHER_CLASS, OWN_CLASS, UNKNOWN, UNKNOWN_LABEL, LossTable

LookUp = tuple[np.ndarray, np.ndarray, int, np.int32]
"""Where rows are looked up: where in a table the line of each label begins (uint32), the table of
packed pairs of statistics (int64, of length lines · size), how many entries a line has, and by how
many bits states are shifted right to give the entry."""


class Statistics(NamedTuple):
    """What rows add to sums, before it is known to which.

    Attributes
    ----------
    look_up : LookUp
        Where their statistics are.
    state_at : int64 array
        Where each block's states lie.
    active_at : int64 array or None
        Where each block's marks of those who take part lie; None is everybody.
    sampled : callable or None
        Of a sample, instead: it cuts a share of blocks, from one to before another, into runs of
        them, and tells for each where the marks of those who take part lie.
    """

    look_up: LookUp
    state_at: np.ndarray
    active_at: np.ndarray | None
    sampled: Callable[[int, int], Iterable[tuple[int, int, np.ndarray]]] | None


def packed_table(loss: LossTable, statistics: tuple[str, ...]) -> np.ndarray:
    """Join two statistics into one table of int64: (first << 32) + second; one alone is second."""
    tables = [loss.statistic(name).astype(np.int64) for name in statistics]
    first, second = tables if len(tables) == 2 else (np.zeros_like(tables[0]), tables[0])
    return ((first << 32) + second).reshape(-1)


@lru_cache(maxsize=1024)
def place_of_label(output: int, n_outputs: int, size: int) -> np.ndarray:
    """Where the line of a loss table begins that a label means for one output.

    With one output, class 1 is its own class (and a regression has label 0 only); with several,
    each output has the class of its number.
    """
    own = 1 if n_outputs == 1 else output
    lines = np.full(256, OTHER_CLASS, dtype=np.uint32)
    lines[own] = OWN_CLASS
    lines[UNKNOWN_LABEL] = UNKNOWN
    return lines * np.uint32(size)
