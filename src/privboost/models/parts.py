"""Scores of any kind as one sum: a start, tables of features and pairs, and trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from privboost.tables.rows import Codes
from privboost.trees.routing import find_leaves
from privboost.trees.tree import Tree


@dataclass(frozen=True, eq=False)
class JointTable:
    """The joint effect of two features.

    Attributes
    ----------
    features : (int, int)
        The indices of the two features.
    cell_of : tuple of int arrays
        For each of the two the cell of each code.
    values : int array of shape (outputs, cells of the first, cells of the second)
        In score steps.
    output : int or None
        The only output with values other than 0, where there is one.
    noise : float array of shape (cells of the first, cells of the second), or None
        The standard deviation of that output's values, where it is known.
    """

    features: tuple[int, int]
    cell_of: tuple[np.ndarray, np.ndarray]
    values: np.ndarray
    output: int | None = None
    noise: np.ndarray | None = None

    def of(self, codes: Codes) -> np.ndarray:
        """Return the effect on rows: shape (outputs, rows)."""
        own, other = (
            cells[codes.column(feature)]
            for feature, cells in zip(self.features, self.cell_of, strict=True)
        )
        found: np.ndarray = self.values[:, own, other]
        return found

    def cell_probabilities(self, by_code: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of both features' cells, from those of all features' codes."""
        first, second = (
            np.bincount(cells, by_code[feature], size)
            for feature, cells, size in zip(
                self.features, self.cell_of, self.values.shape[1:], strict=True
            )
        )
        return first, second

    def mean(self, by_code: Sequence[np.ndarray]) -> np.ndarray:
        """Return the mean effect: shape (outputs,)."""
        first, second = self.cell_probabilities(by_code)
        found: np.ndarray = self.values @ second @ first
        return found


@dataclass(frozen=True, eq=False)
class JointTree:
    """A tree of a model with its values.

    Attributes
    ----------
    number : int
        The index among all trees of the model.
    tree : Tree
        The splits.
    values : int array of shape (outputs, leaves)
        In score steps.
    mass, noise : arrays of the same shape, or None
        The noisy count of its leaves, and the standard deviation of its values; see `Forest`.
    """

    number: int
    tree: Tree
    values: np.ndarray
    mass: np.ndarray | None
    noise: np.ndarray | None

    def of(self, codes: Codes) -> np.ndarray:
        """Return the effect on rows: shape (outputs, rows)."""
        found: np.ndarray = self.values[:, find_leaves(codes, self.tree)]
        return found


@dataclass(frozen=True, eq=False)
class ScoreParts:
    """All terms that add up to a row's score, on the score grid.

    Attributes
    ----------
    start : int array of shape (outputs,)
        The constant term.
    tables : tuple of int arrays
        For each feature the effect of its codes, of shape (outputs, codes).
    pairs : tuple of JointTable
        The joint effects of two features.
    trees : tuple of JointTree
        Trees that are in no table.
    noise : tuple of float arrays, or None
        The standard deviation of the values in `tables`; None where it is unknown.
    """

    start: np.ndarray
    tables: tuple[np.ndarray, ...]
    pairs: tuple[JointTable, ...] = ()
    trees: tuple[JointTree, ...] = ()
    noise: tuple[np.ndarray, ...] | None = None

    @property
    def n_outputs(self) -> int:
        """The number of scores of a row."""
        return len(self.start)

    def centred(self, probabilities: Sequence[np.ndarray]) -> ScoreParts:
        """Return the same sum with tables and pairs whose mean effect is 0.

        Their means move to the start in whole steps, so that every score stays the same to the
        last bit.

        Parameters
        ----------
        probabilities : sequence of float arrays
            For each feature the probability of each code.
        """
        start = self.start.astype(np.int64)
        tables, pairs = [], []
        for table, own in zip(self.tables, probabilities, strict=True):
            level = np.rint(table @ own).astype(np.int64)
            start += level
            tables.append(table - level[:, None])
        for pair in self.pairs:
            level = np.rint(pair.mean(probabilities)).astype(np.int64)
            start += level
            pairs.append(replace(pair, values=pair.values - level[:, None, None]))
        return replace(self, start=start, tables=tuple(tables), pairs=tuple(pairs))

    def contributions(self, codes: Codes) -> np.ndarray:
        """Return the effects of features, pairs and trees: int64 of shape (terms, outputs, rows).

        All trees together are one term, the last.
        """
        own = [table[:, codes.column(k)].astype(np.int64) for k, table in enumerate(self.tables)]
        own += [pair.of(codes) for pair in self.pairs]
        if self.trees:
            total = np.zeros((self.n_outputs, len(codes)), dtype=np.int64)
            for tree in self.trees:
                total += tree.of(codes)
            own.append(total)
        return np.stack(own)
