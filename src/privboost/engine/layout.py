"""How coded columns lie in memory: public, the same for every block of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

MOST_NARROW_CODES = 255
"""A column with more codes than this takes two bytes a cell."""


@dataclass(frozen=True)
class Layout:
    """The number of codes of each feature, and the row of the code arrays that holds it.

    Columns of one byte come first (the rows of `Block.narrow`), then columns of two bytes (the
    rows of `Block.wide`), so a feature's slot below `n_narrow` is a row of the first array.
    """

    n_codes: tuple[int, ...]

    @cached_property
    def wide(self) -> tuple[bool, ...]:
        """For each feature, whether its codes take two bytes."""
        return tuple(codes > MOST_NARROW_CODES for codes in self.n_codes)

    @cached_property
    def n_narrow(self) -> int:
        """How many features have one-byte codes."""
        return self.wide.count(False)

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """The position of each feature among narrow columns followed by wide ones."""
        order = sorted(range(len(self.n_codes)), key=lambda feature: self.wide[feature])
        slot_of = {feature: slot for slot, feature in enumerate(order)}
        return tuple(slot_of[feature] for feature in range(len(order)))

    @cached_property
    def slot_array(self) -> np.ndarray:
        """The same as an array (uint16)."""
        return np.array(self.slots, dtype=np.uint16)
