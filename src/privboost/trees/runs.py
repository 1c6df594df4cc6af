"""Code intervals: the ranges of codes that nodes send to the right, for `turn_kernels`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privboost.trees.turn_kernels import find_runs_of_level

_LEVELS = 7
_MOST = 64
"""The most levels with intervals, and intervals of a level: with more, look-ups are faster."""


class Runs(NamedTuple):
    """The code intervals of the first levels of a tree, as far as a level has few.

    Attributes
    ----------
    levels : int
        The number of these levels.
    first : int32 array
        The index of each node's first interval, and the end of the last node's: each has at least
        one, which may be empty.
    begin, length : uint16 arrays
        The first code, and the number of codes, of each interval.
    """

    levels: int
    first: np.ndarray
    begin: np.ndarray
    length: np.ndarray

    @classmethod
    def of(cls, goes_right: np.ndarray) -> Runs:
        """Find the intervals of a tree; see `Tree`."""
        first = np.zeros(2**_LEVELS, dtype=np.int32)
        begin, length = np.empty((2, _LEVELS * _MOST), dtype=np.uint16)
        levels = 0
        while levels < _LEVELS and 2**levels <= len(goes_right):
            own = slice(2**levels - 1, 2 ** (levels + 1) - 1)
            out = first[own.start :], begin, length
            if not find_runs_of_level(goes_right[own], _MOST, *out):
                break
            levels += 1
        last = first[2**levels - 1]
        return cls(levels, first[: 2**levels], begin[:last], length[:last])


NO_RUNS = Runs.of(np.zeros((0, 1), dtype=np.uint8))
"""The intervals of a tree without nodes."""
