"""Split candidates of node histograms: which there are, and where each sends a feature's codes.

Candidate 0 does not split: every row goes left. Then come the candidates of each feature in turn: a
number may be split after each of its cells but the last, with missing values on the left or, where
the choice is open, on the right as well; a category sends one of its codes to the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from privboost.compiling import compiled
from privboost.trees.cell_map import CellMap


class Candidates(NamedTuple):
    """Candidates of `Splits`, one after the other.

    Attributes
    ----------
    place : int64 array
        The place of the feature that each looks at.
    begin, end : int64 arrays
        The cells from `begin` on, and before `end`, go right.
    missing_right : bool array
        Whether the last cell of the feature goes right as well.
    """

    place: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    missing_right: np.ndarray

    @classmethod
    def that_does_not_split(cls) -> Candidates:
        """Return the first candidate: no cell goes right."""
        nothing = np.zeros(1, dtype=np.int64)
        return cls(nothing, nothing, nothing, np.zeros(1, dtype=np.bool_))


@dataclass(frozen=True, eq=False)
class Splits:
    """The candidates of some features.

    Attributes
    ----------
    cells : CellMap
        The cells of the features, each a part of its own; a number's last code (missing) has the
        last cell to itself, a category's codes all have cells of their own.
    category : bool array
        Whether a feature is a category.
    missing : bool array
        Whether missing values are expected: those of a number may then go either way, and those of
        a category may be what a node singles out.
    """

    cells: CellMap
    category: np.ndarray
    missing: np.ndarray

    @cached_property
    def first(self) -> np.ndarray:
        """The first cell of each feature."""
        return np.array(self.cells.first, dtype=np.int64)

    @cached_property
    def count(self) -> np.ndarray:
        """The number of cells of each feature, that of missing values among them."""
        return np.array([part.n_cells for part in self.cells.parts], dtype=np.int64)

    @cached_property
    def width(self) -> int:
        """The largest number of codes of a feature: how wide the tables of trees must be."""
        return max(len(part.cell_of[0]) for part in self.cells.parts)

    @cached_property
    def candidates(self) -> Candidates:
        """All candidates, in order: the one place that says which there are."""
        every = [Candidates.that_does_not_split()]
        for k, (first, count) in enumerate(zip(self.first, self.count, strict=True)):
            stop = first + count
            if self.category[k]:
                begin = np.arange(first, stop)
                end, missing_right = begin + 1, np.zeros(count, dtype=np.bool_)
            else:
                ways = 1 + int(self.missing[k])
                begin = np.repeat(np.arange(first + 1, max(stop - 1, first + 1)), ways)
                end, missing_right = np.full_like(begin, stop - 1), np.arange(len(begin)) % ways > 0
            every.append(Candidates(np.full_like(begin, k), begin, end, missing_right))
        return Candidates(*(np.concatenate(column) for column in zip(*every, strict=True)))

    @property
    def total(self) -> int:
        """How many candidates there are in all."""
        return len(self.candidates.place)

    def parted(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what lies left and right of each candidate, by the cells of its own feature.

        Parameters
        ----------
        cells : int64 array of shape (nodes, cells, statistics)

        Returns
        -------
        two int64 arrays of shape (nodes, candidates, statistics)
        """
        shape = (len(cells), self.total, cells.shape[2])
        left, right = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
        _part(cells, self.first, self.first + self.count, *self.candidates, left, right)
        return left, right

    def start_reach(self) -> np.ndarray:
        """Return which cells rows can be in at the root: all but missing ones not expected."""
        reach = np.ones((1, self.cells.n_cells), dtype=np.bool_)
        reach[0, (self.first + self.count - 1)[~self.missing]] = False
        return reach

    def allowed(self, reach: np.ndarray) -> np.ndarray:
        """Return which candidates part the cells that each node can have; not splitting always is.

        Parameters
        ----------
        reach : bool array of shape (nodes, cells)
            Which cells the path to each node leaves open: public, like the path.
        """
        left, right = self.parted(reach.astype(np.int64)[..., None])
        allowed: np.ndarray = ((left > 0) & (right > 0))[..., 0]
        allowed[:, 0] = True
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
        place, begin, end, missing_right = (column[candidate] for column in self.candidates)
        cells = self.first[place] + np.arange(self.count[place])
        right = (cells >= begin) & (cells < end)
        right[-1] |= missing_right
        return int(place), right

    def turns(self, candidate: int) -> tuple[int, np.ndarray]:
        """Return the feature that a candidate looks at, and for each of its codes left or right."""
        if candidate == 0:
            part = self.cells.parts[0]
            return part.features[0], np.zeros(len(part.cell_of[0]), dtype=np.uint8)
        place, right = self._sides(candidate)
        part = self.cells.parts[place]
        return part.features[0], right[part.cell_of[0]].astype(np.uint8)


@compiled
def _part(cells, first, stop, place, begin, end, missing_right, left, right):  # type: ignore[no-untyped-def]
    """Add up both sides of every candidate: see `Splits.parted`.

    Sums up to each cell, of all features, may exceed int64; their differences are right all the
    same, since those fit and integers wrap around.
    """
    statistics = cells.shape[2]
    so_far = np.zeros((cells.shape[1] + 1, statistics), dtype=np.int64)
    for node in range(cells.shape[0]):
        for cell in range(cells.shape[1]):
            for s in range(statistics):
                so_far[cell + 1, s] = so_far[cell, s] + cells[node, cell, s]
        for k in range(place.size):
            own = place[k]
            for s in range(statistics):
                side = so_far[end[k], s] - so_far[begin[k], s]
                if missing_right[k]:
                    side += cells[node, stop[own] - 1, s]
                right[node, k, s] = side
                left[node, k, s] = so_far[stop[own], s] - so_far[first[own], s] - side


def join_splits(parts: Sequence[tuple[int, np.ndarray, bool, bool]]) -> Splits:
    """Number the cells of several features through.

    Parameters
    ----------
    parts : sequence of (feature, cell of each code from 0 on, category, missing)
    """
    return Splits(
        CellMap.side_by_side(CellMap.of_feature(feature, own) for feature, own, *_ in parts),
        np.array([category for *_, category, _ in parts], dtype=np.bool_),
        np.array([missing for *_, missing in parts], dtype=np.bool_),
    )
