"""The runs of codes that nodes send to the right, with which kernels compare rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privboost.trees.turn_kernels import find_runs_of_level

_LEVELS = 7
_MOST = 64
"""Levels that are gone down by runs, and runs of such a level: with more, look-ups are faster."""


class Runs(NamedTuple):
    """Those of the first levels of a tree, as far as they are few.

    Attributes
    ----------
    levels : int
        How many levels have few.
    first : int32 array
        The place of each node's first run, and where the last one's end: each has at least one, be
        it empty.
    begin, length : uint16 arrays
        The first code of each run, and how many there are.
    """

    levels: int
    first: np.ndarray
    begin: np.ndarray
    length: np.ndarray

    @classmethod
    def of(cls, goes_right: np.ndarray) -> Runs:
        """Find those of a tree; see `Tree`."""
        first = np.zeros(2**_LEVELS, dtype=np.int32)
        begin, length = np.empty((2, _LEVELS * _MOST), dtype=np.uint16)
        levels = 0
        while levels < _LEVELS and 2**levels <= len(goes_right):
            own = slice(2**levels - 1, 2 ** (levels + 1) - 1)
            room = first[own.start :], begin, length
            if not find_runs_of_level(goes_right[own], _MOST, *room):
                break
            levels += 1
        last = first[2**levels - 1]
        return cls(levels, first[: 2**levels], begin[:last], length[:last])


NO_RUNS = Runs.of(np.zeros((0, 1), dtype=np.uint8))
"""Of a tree without nodes."""
