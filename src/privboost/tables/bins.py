"""The bin of a number: guessed by arithmetic, then settled with the exact edges.

A guess puts a number into a slot, and larger numbers never into smaller slots: rounding is
monotone. So all edges in slots before a number's own lie below it, none in a later slot does, and
only those in its own slot have to be compared with it. The codes are those of a search among all
edges, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privboost.tables import kernels

_SLOTS_OF_AN_EDGE = 8
"""Where most slots have no edge, processors seldom guess wrong whether there is one."""
_MOST_EVEN_SLOTS = 2**12
_MOST_SLOTS = 2**14
"""Beyond this the table of slots no longer stays near the processor."""


_Guess = tuple[float, float, int, int]
"""The first four arguments of `kernels.bin_numbers` after the numbers."""


@dataclass(frozen=True, eq=False)
class Bins:
    """What finds bins: a number's bin is how many of the edges lie below it.

    Parameters
    ----------
    edges : float64 array
        Where bins end, in order.
    """

    edges: np.ndarray

    @property
    def missing(self) -> int:
        """The code of what is no number."""
        return len(self.edges) + 1

    def code(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write the bin of each number; NaN is missing.

        Parameters
        ----------
        values : float64 or float32 array
            The numbers.
        out : uint8 or uint16 array
            Room for their codes.
        """
        kernels.bin_numbers(values, *self._settled, out)

    @cached_property
    def _settled(self) -> tuple[_Guess, np.ndarray, int, np.ndarray]:
        """How slots are found, where the edges of each begin, how often to halve, and the edges."""
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
        """Yield ways to find slots, with how many there are, from coarse to fine.

        Slots are of equal width, or of equally many neighbouring numbers: nearly of equal width in
        logarithms.
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


def _order(number: float) -> int:
    """Return a number's place among all numbers: 0 for both zeros; see `kernels.guess_slots`."""
    size = int(np.array(abs(number)).view(np.int64))
    return -size if number < 0 else size
