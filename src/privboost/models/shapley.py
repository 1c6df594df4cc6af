"""Exact Shapley values of a sum of tables and trees, for rows with independent features.

Shapley values of a sum add up. The value of a table of one feature is its effect less the mean
effect. A leaf of a tree is a product with one factor for each feature: whether the feature's code
leads there. Let a be that factor for a row, and p its mean; then the value of feature j is
v · (a_j − p_j) · ∫ Π_{k≠j} (p_k + t·(a_k − p_k)) dt, t from 0 to 1 (Owen's integral). The integrand
is a polynomial, so Gauss-Legendre quadrature with few points is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from privboost.models import tree_kernels
from privboost.models.parts import JointTable, JointTree, ScoreParts
from privboost.tables.rows import Codes

_ROWS = 4096
"""The number of rows of a block, whose intermediate results fit into a cache."""


class Shapley:
    """The Shapley values of a model.

    Parameters
    ----------
    parts : ScoreParts
        The model.
    probabilities : sequence of float arrays
        For each feature the probability of each code.
    """

    def __init__(self, parts: ScoreParts, probabilities: Sequence[np.ndarray]) -> None:
        self._parts, self._probabilities = parts, probabilities
        self._paths = [own for tree in parts.trees for own in _paths(tree, probabilities)]

    def baseline(self) -> np.ndarray:
        """Return the mean score of rows, in score steps: shape (outputs,)."""
        parts, probabilities = self._parts, self._probabilities
        total = parts.start.astype(np.float64)
        for table, own in zip(parts.tables, probabilities, strict=True):
            total += table @ own
        for pair in parts.pairs:
            total += pair.mean(probabilities)
        for path in self._paths:
            total += path.mean.prod() * path.values
        return total

    def values(self, codes: Codes) -> np.ndarray:
        """Return the Shapley values of rows, in score steps.

        Returns
        -------
        float array of shape (features, outputs, rows)
        """
        parts, probabilities = self._parts, self._probabilities
        found = np.empty((len(parts.tables), parts.n_outputs, len(codes)))
        for feature, (table, own) in enumerate(zip(parts.tables, probabilities, strict=True)):
            found[feature] = table[:, codes.column(feature)] - (table @ own)[:, None]
        for pair in parts.pairs:
            _add_pair(pair, probabilities, codes, found)
        columns = np.stack([codes.column(feature) for feature in range(len(found))])
        for first in range(0, len(codes), _ROWS):
            rows = slice(first, first + _ROWS)
            for path in self._paths:
                path.add(columns[:, rows], found[:, :, rows])
        return found


def _add_pair(
    pair: JointTable, probabilities: Sequence[np.ndarray], codes: Codes, found: np.ndarray
) -> None:
    """Add the Shapley values of a pair; the joint part is shared equally."""
    first, second = pair.cell_probabilities(probabilities)
    own, other = (
        cells[codes.column(feature)]
        for feature, cells in zip(pair.features, pair.cell_of, strict=True)
    )
    both = pair.values[:, own, other]
    given_first = (pair.values @ second)[:, own]
    given_second = np.einsum("oab,a->ob", pair.values, first)[:, other]
    nothing = pair.mean(probabilities)[:, None]
    found[pair.features[0]] += (both - given_second + given_first - nothing) / 2
    found[pair.features[1]] += (both - given_first + given_second - nothing) / 2


def _leaves(
    tree: JointTree, probabilities: Sequence[np.ndarray]
) -> Iterator[tuple[int, dict[int, np.ndarray]]]:
    """Yield each reachable leaf with a value, and the codes of each feature that lead there."""
    inner = len(tree.tree.feature)
    below: list[tuple[int, dict[int, np.ndarray]]] = [(0, {})]
    while below:
        node, reach = below.pop()
        if node >= inner:
            if tree.values[:, node - inner].any():
                yield node - inner, reach
            continue
        feature = int(tree.tree.feature[node])
        right = tree.tree.goes_right[node, : len(probabilities[feature])].astype(bool)
        before = reach.get(feature, np.True_)
        for child, side in ((2 * node + 1, ~right), (2 * node + 2, right)):
            codes = before & side
            if codes.any():
                below.append((child, reach | {feature: codes}))


@dataclass(frozen=True, eq=False)
class _Path:
    """The conditions of a leaf.

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

    def add(self, columns: np.ndarray, found: np.ndarray) -> None:
        """Add the Shapley values of the leaf: Owen's integral, exactly."""
        points, weights = _quadrature(max((len(self.features) + 1) // 2, 1))
        arrays = (self.features, self.reach, self.first, self.mean, self.values)
        tree_kernels.add_moves(*arrays, points, weights, columns, found)


def _paths(tree: JointTree, probabilities: Sequence[np.ndarray]) -> Iterator[_Path]:
    """Yield the conditions of each reachable leaf with a value."""
    for leaf, reach in _leaves(tree, probabilities):
        deciding = {feature: own for feature, own in reach.items() if not own.all()}
        codes = [own.astype(np.uint8) for own in deciding.values()]
        yield _Path(
            np.array([*deciding], dtype=np.int64),
            np.concatenate([np.zeros(0, dtype=np.uint8), *codes]),
            np.cumsum([0, *map(len, codes)])[:-1],
            np.array(
                [probabilities[feature] @ own for feature, own in deciding.items()], dtype=float
            ),
            tree.values[:, leaf].astype(np.int64),
        )


@cache
def _quadrature(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gauss-Legendre points between 0 and 1, and their weights."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (points + 1) / 2, weights / 2
