"""What a row's statistics are looked up by, and in which table."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from privboost.losses import OTHER_CLASS, OWN_CLASS, UNKNOWN, UNKNOWN_LABEL, LossTable


class LookUp(NamedTuple):
    """Where a block's rows are looked up: the first arguments of kernels.

    Attributes
    ----------
    label : uint8 array
        The rows' labels.
    place_of_label : uint32 array
        Where in the table the line of a label begins.
    state : int32 array
        The rows' states.
    table : int64 array of length lines · size
        Packed pairs of statistics.
    size : int
        How many entries a line has.
    shift : int32
        States are shifted right by this many bits to give the entry.
    """

    label: np.ndarray
    place_of_label: np.ndarray
    state: np.ndarray
    table: np.ndarray
    size: int
    shift: np.int32


class BlockRows(NamedTuple):
    """What a block's rows add to sums, before it is known to which: see `LookUp`.

    Attributes
    ----------
    look_up : LookUp
        Where their statistics are.
    weight : uint16 array, optional
        Their weights.
    active : uint8 array, optional
        Who takes part.
    """

    look_up: LookUp
    weight: np.ndarray | None
    active: np.ndarray | None


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
