"""Split candidates of node histograms: which there are, and where each sends a feature's codes.

Candidate 0 does not split: every row goes left. Then come the candidates of each feature in turn: a
number may be split after each of its cells but the last, with missing values on the left or, where
the choice is open, on the right as well; a category sends one of its codes to the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Splits:
    """The candidates of some features.

    Attributes
    ----------
    features : tuple of int
        The features.
    cell_of : tuple of uint32 arrays
        For each of them the cell of each code, numbered through; a number's last code (missing)
        has a cell of its own, a category's codes all have.
    category : bool array
        Whether a feature is a category.
    missing : bool array
        Whether missing values of a number may go either way.
    """

    features: tuple[int, ...]
    cell_of: tuple[np.ndarray, ...]
    category: np.ndarray
    missing: np.ndarray

    @cached_property
    def first(self) -> np.ndarray:
        """The first cell of each feature."""
        return np.array([int(cells[0]) for cells in self.cell_of], dtype=np.int64)

    @cached_property
    def count(self) -> np.ndarray:
        """The number of cells of each feature, that of missing values among them."""
        return np.array([int(cells.max()) for cells in self.cell_of]) - self.first + 1

    @property
    def n_cells(self) -> int:
        """How many cells there are in all."""
        return int(self.count.sum())

    @cached_property
    def n_candidates(self) -> np.ndarray:
        """The number of candidates of each feature."""
        places = np.maximum(self.count - 2, 0)  # a number's cells but missing and the last
        return np.where(self.category, self.count, places * (1 + self.missing))

    @cached_property
    def start(self) -> np.ndarray:
        """The first candidate of each feature."""
        return 1 + np.cumsum([0, *self.n_candidates])[:-1]

    @property
    def total(self) -> int:
        """How many candidates there are in all."""
        return 1 + int(self.n_candidates.sum())

    def turns(self, candidate: int) -> tuple[int, np.ndarray]:
        """Return the feature that a candidate looks at, and for each of its codes left or right."""
        if candidate == 0:
            return self.features[0], np.zeros(len(self.cell_of[0]), dtype=np.uint8)
        place = int(np.searchsorted(self.start, candidate, side="right")) - 1
        while self.n_candidates[place] == 0:  # features without candidates share a start
            place -= 1
        own, k = self.cell_of[place] - self.first[place], candidate - int(self.start[place])
        if self.category[place]:
            return self.features[place], (own == k).astype(np.uint8)
        after, right = divmod(k, 2) if self.missing[place] else (k, 0)
        turns = (own > after).astype(np.uint8)
        turns[-1] = right
        return self.features[place], turns


def join_splits(parts: Sequence[tuple[int, np.ndarray, bool, bool]]) -> Splits:
    """Number the cells of several features through.

    Parameters
    ----------
    parts : sequence of (feature, cell of each code from 0 on, category, missing)
    """
    cell_of, at = [], 0
    for _, own, _, _ in parts:
        cell_of.append((own + at).astype(np.uint32))
        at += int(own.max()) + 1
    return Splits(
        tuple(feature for feature, *_ in parts),
        tuple(cell_of),
        np.array([category for *_, category, _ in parts], dtype=np.bool_),
        np.array([missing for *_, missing in parts], dtype=np.bool_),
    )
