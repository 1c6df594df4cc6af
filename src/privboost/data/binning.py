"""Bins of numbers: guessed by arithmetic, then settled with the exact edges.

Arithmetic maps a number to a slot, and larger numbers never to smaller slots: rounding is monotone.
So all edges in earlier slots lie below a number, none in a later slot does, and only the edges in
its own slot are compared with it. The codes are those of a binary search among all edges, bit for
bit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privboost._core.addresses import NUMBERS
from privboost._core.pickling import DeclaredState
from privboost.data import kernels

_SLOTS_OF_AN_EDGE = 8
"""If most slots have no edge, branch prediction seldom fails."""
_MOST_EVEN_SLOTS = 2**12
_MOST_SLOTS = 2**14
"""Beyond this the table of slots leaves the processor's cache."""


_Guess = tuple[float, float, int, int]
"""The first four arguments of `kernels.bin_numbers` after the numbers."""


@dataclass(frozen=True, eq=False)
class Bins(DeclaredState):
    """Bins of one column, from the upper edges of all bins but the last, in order."""

    edges: np.ndarray

    @property
    def missing(self) -> int:
        """The code of NaN."""
        return len(self.edges) + 1

    def code(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write the bin of each number to `out` (uint8 or uint16); NaN is missing."""
        kernels.bin_numbers(values, *self.settled, out)

    @cached_property
    def settled(self) -> tuple[_Guess, np.ndarray, int, np.ndarray]:
        """The map to slots, the first edge of each slot, the number of halvings, and the edges."""
        best, fewest = None, math.inf
        for guess, slots in self._guesses():
            own = np.empty(len(self.edges), dtype=np.int32)
            kernels.guess_slots(self.edges, *guess, slots, own)
            counts = np.bincount(own, minlength=slots)
            crowd = int(counts.max())
            if crowd <= fewest:
                best, fewest = (guess, counts), crowd
            if crowd <= 1 and slots >= _SLOTS_OF_AN_EDGE * len(self.edges):
                break
        assert best is not None
        guess, counts = best
        start = np.concatenate([[0], np.cumsum(counts)[:-1], [self.missing]]).astype(np.uint16)
        halvings = int(fewest).bit_length()
        return guess, start, halvings, np.append(self.edges, np.full(2**halvings + 1, math.inf))

    def _guesses(self) -> Iterator[tuple[_Guess, int]]:
        """Yield maps to slots, with the number of slots, from coarse to fine.

        Slots have equal width, or hold equally many neighbouring floats, which is nearly equal
        width in logarithms.
        """
        yield (0.0, 0.0, 0, 63), 1
        if not len(self.edges):
            return
        low, high = float(self.edges[0]), float(self.edges[-1])
        slots = _SLOTS_OF_AN_EDGE << len(self.edges).bit_length()
        while slots <= _MOST_EVEN_SLOTS and 0 < high - low < math.inf:
            scale = (slots - 2) / (high - low)
            if not 0 < scale < math.inf:
                break
            yield (low, scale, 0, 0), slots
            slots *= 2
        first, last = _order(low), _order(high)
        bits = 62
        while bits and (slots := (last >> bits) - (first >> bits) + 1) <= _MOST_SLOTS:
            yield (0.0, 0.0, first >> bits, bits), slots
            bits -= 1


class ColumnBins:
    """Bins of several features, whose plain numbers are coded in one call.

    `slots` has the line of each feature in the array of codes.
    """

    def __init__(self, bins: Mapping[int, Bins], slots: Sequence[int]) -> None:
        settled = [each.settled for each in bins.values()]
        kinds = (np.float64, np.float64, np.int64, np.int64)
        self._guesses = (
            *(np.array([own[0][k] for own in settled], dtype=kind) for k, kind in enumerate(kinds)),
            np.array([halvings for _, _, halvings, _ in settled], dtype=np.int64),
        )
        self._starts = _one_after_another([start for _, start, *_ in settled], np.uint16)
        self._edges = _one_after_another([edges for *_, edges in settled], np.float64)
        self._places = {feature: (slots[feature], own) for own, feature in enumerate(bins)}

    @property
    def features(self) -> Collection[int]:
        """The features whose plain numbers are coded together."""
        return self._places.keys()

    def code(self, columns: Mapping[int, np.ndarray], out: np.ndarray) -> None:
        """Write the bin of each number to its feature's line of `out` (uint8).

        Columns have types in `addresses.NUMBERS`, and any stride. Which features are among them
        depends on the rows, and is not stored.
        """
        if any(len(column) != out.shape[1] for column in columns.values()):
            raise ValueError("columns need a number for each row")  # kernels go by addresses
        addressed = [
            (
                *(column.__array_interface__["data"][0], column.strides[0]),
                *(_KINDS[column.dtype], *self._places[feature]),
            )
            for feature, column in columns.items()
        ]
        columns_at = np.array(addressed, dtype=np.int64).reshape(-1, 5)
        how = (self._guesses, self._starts, self._edges)
        kernels.bin_columns(out.shape[1], columns_at, *how, out)


_KINDS = {np.dtype(kind): number for number, kind in enumerate(NUMBERS)}


def _one_after_another(arrays: Sequence[np.ndarray], kind: type) -> tuple[np.ndarray, np.ndarray]:
    first = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
    return np.concatenate([np.empty(0, dtype=kind), *arrays]), first


def _order(number: float) -> int:
    """Return a float's rank among all floats, 0 for both zeros; see `kernels.guess_slots`."""
    size = int(np.array(abs(number)).view(np.int64))
    return -size if number < 0 else size
