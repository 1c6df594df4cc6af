"""Look-ups: how the kernels of a CPU shard read what a row adds off the table of a loss.

An entry is at the line of the row's kind, or of its label's bin, and the score bin of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from privboost.losses.base import (
    KINDS_OF_ROWS,
    OTHER_CLASS,
    OWN_CLASS,
    UNKNOWN,
    UNKNOWN_LABEL,
    LossTable,
)

LookUp = tuple[np.ndarray, np.ndarray, int, np.int32]
"""The first entry of each label's line (uint32), the table of packed pairs of statistics (int64,
of length lines · size), the score bins of a line, and the bits by which scores are shifted right to
give the bin."""


class Statistics(NamedTuple):
    """What rows add to sums, as kernels read it.

    Attributes
    ----------
    look_up : LookUp
        The table of their statistics.
    label_at : int64 array
        The address of each block's labels, or of their bins.
    state_at : int64 array
        The address of each block's scores.
    active_at : int64 array or None
        The address of each block's mask of rows that count; None for all rows.
    sampled : callable or None
        For a sample, in place of `active_at`: from a range of blocks to an iterator over shorter
        ranges and the addresses of their masks.
    """

    look_up: LookUp
    label_at: np.ndarray
    state_at: np.ndarray
    active_at: np.ndarray | None
    sampled: Callable[[int, int], Iterable[tuple[int, int, np.ndarray]]] | None


NO_EDGES = np.zeros(0, dtype=np.int32)
"""The edges of bins of labels where there are none."""


def need_lines(loss: LossTable | None, edges: np.ndarray, n_outputs: int) -> None:
    """Refuse a loss without a line for each bin of labels, or for each kind of row."""
    if len(edges) and n_outputs != 1:
        raise ValueError("labels that are looked up by bin have one score")
    lines = len(edges) + 2 if len(edges) else KINDS_OF_ROWS
    if loss is not None and loss.lines != lines:
        raise ValueError(f"the loss needs {lines} lines, and has {loss.lines}")


def need_same_lines(loss: LossTable, before: LossTable | None) -> None:
    """Refuse to replace a loss by one that has other lines."""
    if before is not None and loss.lines != before.lines:
        raise ValueError(f"the loss needs {before.lines} lines, and has {loss.lines}")


def need_no_bins(lines: object) -> None:
    """Refuse to put rows aside while labels are looked up by bin: no residuals are known."""
    if lines is not None:
        raise ValueError("rows are put aside only where states are residuals, or of classes")


def packed_table(loss: LossTable, statistics: tuple[str, ...]) -> np.ndarray:
    """Pack two statistics into one int64 table: (first << 32) + second; one alone is second."""
    tables = [loss.statistic(name).astype(np.int64) for name in statistics]
    first, second = tables if len(tables) == 2 else (np.zeros_like(tables[0]), tables[0])
    return ((first << 32) + second).reshape(-1)


@lru_cache(maxsize=1024)
def kind_of_label(output: int, n_outputs: int) -> np.ndarray:
    """Return the kind of row that each label means for one output (uint32).

    With one output, class 1 is its own class (and a regression has label 0 only); with several,
    each output has the class of its number.
    """
    own = 1 if n_outputs == 1 else output
    kinds = np.full(256, OTHER_CLASS, dtype=np.uint32)
    kinds[own] = OWN_CLASS
    kinds[UNKNOWN_LABEL] = UNKNOWN
    return kinds


@lru_cache(maxsize=1024)
def first_entry_of_label(
    output: int, n_outputs: int, size: int, lines: int = KINDS_OF_ROWS
) -> np.ndarray:
    """Return the index of the first entry of each label's line, in lines of a size (uint32).

    In a table of other than three lines a label is the number of its line, and those that have
    none have the last, in which rows add nothing. Two bins of labels are as two classes.
    """
    if lines == KINDS_OF_ROWS:
        return kind_of_label(output, n_outputs) * np.uint32(size)
    return np.minimum(np.arange(256, dtype=np.uint32), np.uint32(lines - 1)) * np.uint32(size)
