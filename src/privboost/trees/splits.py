"""Split candidates of node histograms.

Candidate 0 does not split: every row goes left. The candidates of each feature follow: a numeric
feature may be split after each of its cells but the last, with missing values on the left or, if
they are expected, also on the right; a categorical feature sends one of its codes to the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from privboost._core.compilation import compiled
from privboost.trees.cell_map import CellMap


class Candidates(NamedTuple):
    """The columns of a table of candidates.

    `place` is the index of a candidate's feature. Its cells from `begin` to before `end` go right,
    with `missing_right` also its last cell.
    """

    place: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    missing_right: np.ndarray

    @classmethod
    def that_does_not_split(cls) -> Candidates:
        """Return candidate 0: no cell goes right."""
        nothing = np.zeros(1, dtype=np.int64)
        return cls(nothing, nothing, nothing, np.zeros(1, dtype=np.bool_))


@dataclass(frozen=True, eq=False)
class Splits:
    """The candidates of some features.

    Attributes
    ----------
    cells : CellMap
        The cells of the features, each a part of its own; the last code of a numeric feature
        (missing) has the last cell to itself, each code of a categorical feature its own cell.
    category : bool array
        Whether a feature is categorical.
    missing : bool array
        Whether missing values are expected: those of a numeric feature may then go either way, and
        those of a categorical feature may be the code that goes right.
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
        """The number of cells of each feature, including that of missing values."""
        return np.array([part.n_cells for part in self.cells.parts], dtype=np.int64)

    @cached_property
    def width(self) -> int:
        """The largest number of codes of a feature, which is the width of trees' tables."""
        return max(len(part.cell_of[0]) for part in self.cells.parts)

    @cached_property
    def candidates(self) -> Candidates:
        """All candidates, in order."""
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
        """The number of candidates."""
        return len(self.candidates.place)

    def parted(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums left and right of each candidate, over the cells of its own feature.

        `cells` has shape (nodes, cells, statistics); both results (nodes, candidates, statistics).
        """
        shape = (len(cells), self.total, cells.shape[2])
        left, right = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
        _part(cells, self.first, self.first + self.count, *self.candidates, left, right)
        return left, right

    def start_reach(self) -> np.ndarray:
        """Return the cells that rows can have at the root: all but unexpected missing values."""
        reach = np.ones((1, self.cells.n_cells), dtype=np.bool_)
        reach[0, (self.first + self.count - 1)[~self.missing]] = False
        return reach

    def allowed(self, reach: np.ndarray) -> np.ndarray:
        """Return which candidates split the cells that each node can have, or are candidate 0.

        `reach`, of shape (nodes, cells), tells which cells the path to each node leaves: it is
        public, like the path.
        """
        left, right = self.parted(reach.astype(np.int64)[..., None])
        allowed: np.ndarray = ((left > 0) & (right > 0))[..., 0]
        allowed[:, 0] = True
        return allowed

    def follow(self, reach: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return the cells that the children of nodes with these splits can have."""
        children = np.repeat(reach, 2, axis=0)
        for node, candidate in enumerate(chosen):
            if candidate == 0:
                children[2 * node + 1] = False  # no row goes right
                continue
            k, right = self._sides(int(candidate))
            own = slice(self.first[k], self.first[k] + self.count[k])
            children[2 * node, own] &= ~right
            children[2 * node + 1, own] &= right
        return children

    def _sides(self, candidate: int) -> tuple[int, np.ndarray]:
        """Return the index of a feature and which of its cells go right; not for candidate 0."""
        place, begin, end, missing_right = (column[candidate] for column in self.candidates)
        cells = self.first[place] + np.arange(self.count[place])
        right = (cells >= begin) & (cells < end)
        right[-1] |= missing_right
        return int(place), right

    def goes_right(self, candidate: int) -> tuple[int, np.ndarray]:
        """Return the feature of a candidate, and which of its codes go right (uint8)."""
        if candidate == 0:
            part = self.cells.parts[0]
            return part.features[0], np.zeros(len(part.cell_of[0]), dtype=np.uint8)
        place, right = self._sides(candidate)
        part = self.cells.parts[place]
        return part.features[0], right[part.cell_of[0]].astype(np.uint8)


@compiled
def _part(cells, first, stop, place, begin, end, missing_right, left, right):  # type: ignore[no-untyped-def]
    """Sum both sides of every candidate: see `Splits.parted`.

    Cumulative sums may exceed int64; their differences are right all the same, because those fit
    and integers wrap around.
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
    """Return the candidates of features: (feature, cell of each code, category, missing) each."""
    return Splits(
        CellMap.side_by_side(CellMap.of_feature(feature, own) for feature, own, *_ in parts),
        np.array([category for *_, category, _ in parts], dtype=np.bool_),
        np.array([missing for *_, missing in parts], dtype=np.bool_),
    )
