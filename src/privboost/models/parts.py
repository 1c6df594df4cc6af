"""Scores of any kind as one sum: a start, features alone, pairs, and trees that join features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privboost.tables.rows import Codes
from privboost.trees.routing import find_leaves
from privboost.trees.tree import Tree


@dataclass(frozen=True, eq=False)
class JointTable:
    """What two features add together.

    Attributes
    ----------
    features : (int, int)
        Which ones.
    cell_of : tuple of int arrays
        For each of the two the cell of each code.
    values : int array of shape (outputs, cells of the first, cells of the second)
        In score steps.
    """

    features: tuple[int, int]
    cell_of: tuple[np.ndarray, np.ndarray]
    values: np.ndarray

    def of(self, codes: Codes) -> np.ndarray:
        """Return what rows have: shape (outputs, rows)."""
        own, other = (
            cells[codes.column(feature)]
            for feature, cells in zip(self.features, self.cell_of, strict=True)
        )
        found: np.ndarray = self.values[:, own, other]
        return found

    def chances(self, by_code: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return how likely the cells of both features are, given that of all features' codes."""
        first, second = (
            np.bincount(cells, by_code[feature], size)
            for feature, cells, size in zip(
                self.features, self.cell_of, self.values.shape[1:], strict=True
            )
        )
        return first, second

    def mean(self, by_code: Sequence[np.ndarray]) -> np.ndarray:
        """Return what is added on average: shape (outputs,)."""
        first, second = self.chances(by_code)
        found: np.ndarray = self.values @ second @ first
        return found


@dataclass(frozen=True, eq=False)
class JointTree:
    """What a tree adds, whichever features it looks at.

    Attributes
    ----------
    number : int
        Its place among all trees of the model.
    tree : Tree
        Its splits.
    values : int array of shape (outputs, leaves)
        In score steps.
    mass, noise : arrays of the same shape, or None
        What was released about its rows, and what noise gives to its values; see `Forest`.
    """

    number: int
    tree: Tree
    values: np.ndarray
    mass: np.ndarray | None
    noise: np.ndarray | None

    def of(self, codes: Codes) -> np.ndarray:
        """Return what rows have: shape (outputs, rows)."""
        found: np.ndarray = self.values[:, find_leaves(codes, self.tree)]
        return found

    @cached_property
    def looked_at(self) -> tuple[int, ...]:
        """The features that it looks at."""
        return tuple(np.unique(self.tree.feature).tolist())


@dataclass(frozen=True, eq=False)
class ScoreParts:
    """All that adds up to a row's score, on the score grid.

    Attributes
    ----------
    start : int array of shape (outputs,)
        The score before any feature is looked at.
    tables : tuple of int arrays
        For each feature what its codes add by themselves, of shape (outputs, codes).
    pairs : tuple of JointTable
        What two features add together.
    trees : tuple of JointTree
        What trees add that are in no table.
    noise : tuple of float arrays, or None
        The standard deviation that noise gives to the tables; None where it cannot be told.
    """

    start: np.ndarray
    tables: tuple[np.ndarray, ...]
    pairs: tuple[JointTable, ...] = ()
    trees: tuple[JointTree, ...] = ()
    noise: tuple[np.ndarray, ...] | None = None

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return len(self.start)

    def centred(self, chances: Sequence[np.ndarray]) -> ScoreParts:
        """Return the same sum, to which each feature and pair adds nothing on average.

        What it added stands in the start, in whole steps: every score stays what it was, to the
        last bit.

        Parameters
        ----------
        chances : sequence of float arrays
            For each feature how likely its codes are.
        """
        start = self.start.astype(np.int64)
        tables, pairs = [], []
        for table, own in zip(self.tables, chances, strict=True):
            level = np.rint(table @ own).astype(np.int64)
            start += level
            tables.append(table - level[:, None])
        for pair in self.pairs:
            level = np.rint(pair.mean(chances)).astype(np.int64)
            start += level
            pairs.append(replace(pair, values=pair.values - level[:, None, None]))
        return replace(self, start=start, tables=tuple(tables), pairs=tuple(pairs))

    def contributions(self, codes: Codes) -> np.ndarray:
        """Return what features, pairs and trees add: int64 of shape (terms, outputs, rows).

        Trees are one term, the last, where there are any.
        """
        own = [table[:, codes.column(k)].astype(np.int64) for k, table in enumerate(self.tables)]
        own += [pair.of(codes) for pair in self.pairs]
        if self.trees:
            total = np.zeros((self.n_outputs, len(codes)), dtype=np.int64)
            for tree in self.trees:
                total += tree.of(codes)
            own.append(total)
        return np.stack(own)
