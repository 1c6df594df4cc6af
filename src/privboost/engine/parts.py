"""The cells that rows have side by side, as `block_kernels` read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from privboost.engine.blocks import Blocks, Ids
from privboost.trees.cell_map import CellPart

Digit = tuple[Ids, np.ndarray, int]
"""Ids of rows, the cell of each id, and how many cells there are."""


class Parts(NamedTuple):
    """Several parts: the cell of a row in each is a number whose digits are read off ids.

    Attributes
    ----------
    ids_at : int64 array of shape (digits, blocks)
        Where ids lie.
    wide : bool array of shape (digits,)
        Whether ids take two bytes.
    cell_of : uint16 array
        The cell of each id, digit after digit.
    cell_first : int64 array of shape (digits,)
        Where those of each begin.
    radix : uint32 array of shape (digits,)
        How many cells each has.
    digit_first : int64 array of shape (parts + 1,)
        Where each part's digits begin.
    part_first : int64 array of shape (parts + 1,)
        Where each part's cells begin, all counted through.
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
        """Put parts side by side, each given as its digits, of which the last runs fastest."""
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
