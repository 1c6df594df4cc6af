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

from privboost.compiling import compiled


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
        Whether missing values are expected: those of a number may then go either way, and those of
        a category may be what a node singles out.
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

    def start_reach(self) -> np.ndarray:
        """Return which cells rows can be in at the root: all but missing ones not expected."""
        reach = np.ones((1, self.n_cells), dtype=np.bool_)
        reach[0, (self.first + self.count - 1)[~self.missing]] = False
        return reach

    def allowed(self, reach: np.ndarray) -> np.ndarray:
        """Return which candidates part the cells that each node can have; not splitting always is.

        Parameters
        ----------
        reach : bool array of shape (nodes, cells)
            Which cells the path to each node leaves open: public, like the path.
        """
        allowed = np.empty((len(reach), self.total), dtype=np.bool_)
        _mark_allowed(reach, self.first, self.count, self.category, self.missing, allowed)
        return allowed

    def follow(self, reach: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return which cells are open to the children of nodes that take these candidates."""
        children = np.repeat(reach, 2, axis=0)
        for node, candidate in enumerate(chosen):
            if candidate == 0:
                children[2 * node + 1] = False  # nobody goes right
                continue
            k, right = self._sides(int(candidate))
            own = slice(self.first[k], self.first[k] + self.count[k])
            children[2 * node, own] &= ~right
            children[2 * node + 1, own] &= right
        return children

    def _sides(self, candidate: int) -> tuple[int, np.ndarray]:
        """Return the place of a candidate's feature, and for each of its cells whether it is right.

        For every candidate but 0.
        """
        if candidate not in self._known_sides:
            self._known_sides[candidate] = self._find_sides(candidate)
        return self._known_sides[candidate]

    def _find_sides(self, candidate: int) -> tuple[int, np.ndarray]:
        place = int(np.searchsorted(self.start, candidate, side="right")) - 1
        while self.n_candidates[place] == 0:  # features without candidates share a start
            place -= 1
        cells, k = np.arange(self.count[place]), candidate - int(self.start[place])
        if self.category[place]:
            return place, cells == k
        after, missing_right = divmod(k, 2) if self.missing[place] else (k, 0)
        right = cells > after
        right[-1] = missing_right
        return place, right

    def turns(self, candidate: int) -> tuple[int, np.ndarray]:
        """Return the feature that a candidate looks at, and for each of its codes left or right."""
        if candidate == 0:
            return self.features[0], np.zeros(len(self.cell_of[0]), dtype=np.uint8)
        place, right = self._sides(candidate)
        own = self.cell_of[place] - self.first[place]
        return self.features[place], right[own].astype(np.uint8)

    @cached_property
    def _known_sides(self) -> dict[int, tuple[int, np.ndarray]]:
        """The sides of candidates that were chosen before: many trees share their candidates."""
        return {}


@compiled
def _mark_allowed(reach, first, count, category, missing, out):
    for node in range(reach.shape[0]):
        out[node, 0] = True
        at = 1
        for k in range(first.size):
            cells = reach[node, first[k] : first[k] + count[k]]
            whole = cells.sum()
            if category[k]:
                for cell in range(count[k]):
                    out[node, at] = cells[cell] and whole > 1
                    at += 1
                continue
            on_left = 0
            for cell in range(count[k] - 2):
                on_left += cells[cell]
                with_missing = on_left + cells[-1]
                out[node, at] = with_missing > 0 and whole > with_missing
                at += 1
                if missing[k]:
                    out[node, at] = on_left > 0 and whole > on_left
                    at += 1


def join_splits(parts: Sequence[tuple[int, np.ndarray, bool, bool]]) -> Splits:
    """Number the cells of several features through.

    Parameters
    ----------
    parts : sequence of (feature, cell of each code from 0 on, category, missing)
    """
    cell_of, at = [], 0
    for _, own, _, _ in parts:
        cell_of.append((own + at).astype(np.uint32))
        cell_of[-1].flags.writeable = False
        at += int(own.max()) + 1
    return Splits(
        tuple(feature for feature, *_ in parts),
        tuple(cell_of),
        np.array([category for *_, category, _ in parts], dtype=np.bool_),
        np.array([missing for *_, missing in parts], dtype=np.bool_),
    )
