"""A model's score as a sum of terms: a start, tables of features and pairs, and trees.

Shapley values of the sum are exact for rows with independent features. They add up over terms: the
value of a table of one feature is its effect less the mean effect. A leaf of a tree is a product
with one factor for each feature: whether the feature's code leads there. Let a be that factor for
a row, and p its mean; then the value of feature j is
v · (a_j − p_j) · ∫ Π_{k≠j} (p_k + t·(a_k − p_k)) dt, t from 0 to 1 (Owen's integral). The integrand
is a polynomial, so Gauss-Legendre quadrature with few points is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from privboost.data.rows import Codes
from privboost.models import kernels
from privboost.trees.tree import Tree, find_leaves

_ROWS = 4096
"""The number of rows of a block, whose intermediate results fit into a cache."""


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

    def twice(self) -> JointTable:
        """Return the same effect on two outputs."""
        return replace(self, values=self.values.repeat(2, axis=0), output=None)

    def _cells(self, codes: Codes) -> tuple[np.ndarray, np.ndarray]:
        """Return the cells of rows of either feature."""
        (first, second), (own, other) = self.features, self.cell_of
        return own[codes.column(first)], other[codes.column(second)]

    def of(self, codes: Codes) -> np.ndarray:
        """Return the effect on rows: shape (outputs, rows)."""
        own, other = self._cells(codes)
        found: np.ndarray = self.values[:, own, other]
        return found

    def _cell_probabilities(self, by_code: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
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
        first, second = self._cell_probabilities(by_code)
        found: np.ndarray = self.values @ second @ first
        return found

    def add_shapley(self, by_code: Sequence[np.ndarray], codes: Codes, found: np.ndarray) -> None:
        """Add the Shapley values of the pair; the joint part is shared equally."""
        first, second = self._cell_probabilities(by_code)
        own, other = self._cells(codes)
        both = self.values[:, own, other]
        given_first = (self.values @ second)[:, own]
        given_second = np.einsum("oab,a->ob", self.values, first)[:, other]
        nothing = self.mean(by_code)[:, None]
        found[self.features[0]] += (both - given_second + given_first - nothing) / 2
        found[self.features[1]] += (both - given_first + given_second - nothing) / 2


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

    def leaves(self, probabilities: Sequence[np.ndarray]) -> Iterator[_Leaf]:
        """Yield each reachable leaf with a value."""
        inner = len(self.tree.feature)
        below: list[tuple[int, dict[int, np.ndarray]]] = [(0, {})]
        while below:
            node, reach = below.pop()
            if node >= inner:
                values = self.values[:, node - inner]
                if values.any():
                    yield _Leaf.of(reach, probabilities, values)
                continue
            feature = int(self.tree.feature[node])
            right = self.tree.goes_right[node, : len(probabilities[feature])].astype(bool)
            before = reach.get(feature, np.True_)
            for child, side in ((2 * node + 1, ~right), (2 * node + 2, right)):
                codes = before & side
                if codes.any():
                    below.append((child, reach | {feature: codes}))


class _Leaf(NamedTuple):
    """A leaf with its conditions, as `kernels.add_moves` reads them.

    Attributes
    ----------
    features : int array
        The features that decide whether a row reaches the leaf.
    reach, first : uint8 array, int array
        Whether each of their codes leads there, and the index of each feature's first code.
    mean : float array
        For each feature the probability of those codes.
    values : int array of shape (outputs,)
        The values of the leaf.
    """

    features: np.ndarray
    reach: np.ndarray
    first: np.ndarray
    mean: np.ndarray
    values: np.ndarray

    @classmethod
    def of(
        cls, reach: dict[int, np.ndarray], probabilities: Sequence[np.ndarray], values: np.ndarray
    ) -> _Leaf:
        """Return a leaf from the codes of each feature above it that lead there."""
        deciding = {feature: own for feature, own in reach.items() if not own.all()}
        codes = [own.astype(np.uint8) for own in deciding.values()]
        return cls(
            np.array([*deciding], dtype=np.int64),
            np.concatenate([np.zeros(0, dtype=np.uint8), *codes]),
            np.cumsum([0, *map(len, codes)])[:-1],
            np.array([probabilities[feature] @ own for feature, own in deciding.items()], float),
            values.astype(np.int64),
        )


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

    def with_rate(self, feature: int) -> ScoreParts:
        """Return the sum of one output twice: the second time without the effect of a feature."""
        tables = [table.repeat(2, axis=0) for table in self.tables]
        tables[feature][1] = 0
        return ScoreParts(
            self.start[[0, 0]],
            tuple(tables),
            tuple(pair.twice() for pair in self.pairs),
            tuple(replace(tree, values=tree.values.repeat(2, axis=0)) for tree in self.trees),
        )

    def centred(self, probabilities: Sequence[np.ndarray]) -> ScoreParts:
        """Return the same sum with tables and pairs whose mean effect is 0.

        Their means, by the probabilities of each feature's codes, move to the start in whole steps,
        so that every score stays the same to the last bit.
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
            own.append(sum((tree.of(codes) for tree in self.trees), np.zeros((), np.int64)))
        return np.stack(own)


@cache
def _quadrature(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gauss-Legendre points between 0 and 1, and their weights."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (points + 1) / 2, weights / 2


class Shapley:
    """The Shapley values of a model, in score steps, by the probabilities of features' codes."""

    def __init__(self, parts: ScoreParts, probabilities: Sequence[np.ndarray]) -> None:
        self._parts, self._probabilities = parts, probabilities
        self._leaves = [own for tree in parts.trees for own in tree.leaves(probabilities)]

    def baseline(self) -> np.ndarray:
        """Return the mean score of rows: shape (outputs,)."""
        parts, probabilities = self._parts, self._probabilities
        total = parts.start.astype(np.float64)
        for table, own in zip(parts.tables, probabilities, strict=True):
            total += table @ own
        for pair in parts.pairs:
            total += pair.mean(probabilities)
        for leaf in self._leaves:
            total += leaf.mean.prod() * leaf.values
        return total

    def values(self, codes: Codes) -> np.ndarray:
        """Return the Shapley values of rows: shape (features, outputs, rows)."""
        parts, probabilities = self._parts, self._probabilities
        found = np.empty((len(parts.tables), parts.n_outputs, len(codes)))
        for feature, (table, own) in enumerate(zip(parts.tables, probabilities, strict=True)):
            found[feature] = table[:, codes.column(feature)] - (table @ own)[:, None]
        for pair in parts.pairs:
            pair.add_shapley(probabilities, codes, found)
        columns = np.stack([codes.column(feature) for feature in range(len(found))])
        for first in range(0, len(codes), _ROWS):
            rows = slice(first, first + _ROWS)
            for leaf in self._leaves:
                points, weights = _quadrature(max((len(leaf.features) + 1) // 2, 1))
                kernels.add_moves(*leaf, points, weights, columns[:, rows], found[:, :, rows])
        return found
