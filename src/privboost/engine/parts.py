"""The cells of rows in several parts, in the layout of `block_kernels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from privboost.engine.blocks import Blocks, Ids
from privboost.trees.cell_map import CellPart

Digit = tuple[Ids, np.ndarray, int]
"""Ids of rows, the cell of each id, and the number of cells."""


class Parts(NamedTuple):
    """Several parts: the cell of a row in each is a mixed-radix number with a digit per id.

    Attributes
    ----------
    ids_at : int64 array of shape (digits, blocks)
        The addresses of ids.
    wide : bool array of shape (digits,)
        Whether ids take two bytes.
    cell_of : uint16 array
        The cell of each id, digit after digit.
    cell_first : int64 array of shape (digits,)
        The offset of each digit in `cell_of`.
    radix : uint32 array of shape (digits,)
        The number of cells of each digit.
    digit_first : int64 array of shape (parts + 1,)
        The first digit of each part.
    part_first : int64 array of shape (parts + 1,)
        The first cell of each part.
    """

    ids_at: np.ndarray
    wide: np.ndarray
    cell_of: np.ndarray
    cell_first: np.ndarray
    radix: np.ndarray
    digit_first: np.ndarray
    part_first: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[Sequence[Digit]]) -> Parts:
        """Join parts; each is a sequence of digits, of which the last varies fastest."""
        digits = [digit for part in parts for digit in part]
        cells = [int(np.prod([size for _, _, size in part])) for part in parts]
        return cls(
            np.stack([at for (at, _), _, _ in digits]),
            np.array([wide for (_, wide), _, _ in digits], dtype=np.bool_),
            np.concatenate([cell_of for _, cell_of, _ in digits]),
            _starts([len(cell_of) for _, cell_of, _ in digits])[:-1],
            np.array([size for _, _, size in digits], dtype=np.uint32),
            _starts([len(part) for part in parts]),
            _starts(cells),
        )


def digits_of(blocks: Blocks, part: CellPart) -> list[Digit]:
    """Return the digits of the cells of one or several features."""
    own = zip(part.features, part.cell_of, part.sizes, strict=True)
    return [(blocks.column(feature), cell_of, size) for feature, cell_of, size in own]


def _starts(counts: Sequence[int]) -> np.ndarray:
    return np.cumsum([0, *counts], dtype=np.int64)
