"""The runs of codes that nodes send to the right, with which `turn_kernels` compare rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privboost.trees import turn_kernels


class Runs(NamedTuple):
    """Those of the first levels of a tree, as far as they are few.

    Attributes
    ----------
    levels : int
        How many levels have few.
    first : uint16 array
        The place of each node's first run, and where the last one's end: each has at least one, be
        it empty.
    begin, length : uint8 arrays
        The first code of each run, and how many there are.
    """

    levels: int
    first: np.ndarray
    begin: np.ndarray
    length: np.ndarray

    @classmethod
    def of(cls, goes_right: np.ndarray) -> Runs:
        """Find those of a tree; see `Tree`."""
        most = turn_kernels.MOST_LEVELS * turn_kernels.MOST_RUNS
        first = np.zeros(2**turn_kernels.MOST_LEVELS, dtype=np.uint16)
        begin, length = np.empty((2, most), dtype=np.uint8)
        levels = turn_kernels.find_runs(goes_right, first, begin, length)
        last = first[2**levels - 1]
        return cls(levels, first[: 2**levels], begin[:last], length[:last])

    def on(self, slots: np.ndarray, n_narrow: int) -> Runs:
        """Return those of the levels that look at columns of bytes alone."""
        return self._replace(levels=min(self.levels, int(narrow_levels(slots, n_narrow))))


NO_RUNS = Runs.of(np.zeros((0, 1), dtype=np.uint8))
"""Of a tree without nodes."""


def narrow_levels(slots: np.ndarray, n_narrow: int) -> np.ndarray:
    """Return how many levels of each tree, from the root on, look at columns of bytes alone.

    Parameters
    ----------
    slots : uint16 array of shape (…, nodes)
        The columns that nodes look at.
    """
    so_far = np.logical_and.accumulate(slots < n_narrow, axis=-1).sum(axis=-1)
    levels: np.ndarray = np.log2(so_far + 1).astype(np.int64)
    return levels
