"""Memory layout of coded columns: public, the same for every block of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privboost.pickling import DeclaredState

MOST_NARROW_CODES = 255
"""A column with more codes than this takes two bytes a cell."""

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Columns as kernels read them: their rows in a block's array, the concatenated cells of their
codes, and the offset of each column's cells."""


@dataclass(frozen=True)
class Layout(DeclaredState):
    """The number of codes of each feature, and the row of the code arrays that holds it.

    Columns of one byte come first (the rows of `Codes.narrow`), then columns of two bytes (the
    rows of `Codes.wide`), so a feature's slot below `n_narrow` is a row of the first array.
    """

    n_codes: tuple[int, ...]

    @cached_property
    def wide(self) -> tuple[bool, ...]:
        """For each feature, whether its codes take two bytes."""
        return tuple(codes > MOST_NARROW_CODES for codes in self.n_codes)

    @cached_property
    def n_narrow(self) -> int:
        """The number of features with one-byte codes."""
        return self.wide.count(False)

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """The position of each feature among narrow columns followed by wide ones."""
        order = sorted(range(len(self.n_codes)), key=lambda feature: self.wide[feature])
        slot_of = {feature: slot for slot, feature in enumerate(order)}
        return tuple(slot_of[feature] for feature in range(len(order)))

    @cached_property
    def slot_array(self) -> np.ndarray:
        """The slots as an array (uint16)."""
        return np.array(self.slots, dtype=np.uint16)


def columns_of(layout: Layout, cell_of: Mapping[int, np.ndarray]) -> tuple[Columns, Columns]:
    """Return the narrow and the wide columns of some features, with the cells of their codes.

    Parameters
    ----------
    layout : Layout
        The positions of columns.
    cell_of : mapping from feature to array
        The cell of each code.
    """
    narrow = {layout.slots[f]: cells for f, cells in cell_of.items() if not layout.wide[f]}
    wide = {
        layout.slots[f] - layout.n_narrow: cells for f, cells in cell_of.items() if layout.wide[f]
    }
    return lay_out(narrow), lay_out(wide)


def lay_out(cell_of: Mapping[int, np.ndarray]) -> Columns:
    """Return columns for kernels from the cells of each, by its row in a block's array."""
    cells, first = join_cells(list(cell_of.values()))
    return np.array(list(cell_of), dtype=np.int64), cells.astype(np.uint32), first


def join_cells(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the concatenation of arrays, and the offset of each."""
    first = np.cumsum([0, *map(len, parts)], dtype=np.int64)[:-1]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts]).astype(np.int64), first
