"""Exact Shapley values of a sum of tables and trees, for rows whose features are independent.

What a model adds is a sum, and Shapley values of a sum add up. A feature alone moves a score by
what it adds less its mean. A leaf of a tree is a product, one factor for each feature: whether the
feature's code leads there. Let a be that factor of a row, and p its mean; then the value of feature
j is v · (a_j − p_j) · ∫ Π_{k≠j} (p_k + t·(a_k − p_k)) dt, t from 0 to 1 (Owen's integral). The
integrand is a polynomial, so Gauss and Legendre's few points give the integral exactly.
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
"""How many rows are looked at together: what is computed of them stays near."""


class Shapley:
    """The Shapley values of a model.

    Parameters
    ----------
    parts : ScoreParts
        The model.
    chances : sequence of float arrays
        For each feature how likely its codes are.
    """

    def __init__(self, parts: ScoreParts, chances: Sequence[np.ndarray]) -> None:
        self._parts, self._chances = parts, chances
        self._paths = [own for tree in parts.trees for own in _paths(tree, chances)]

    def baseline(self) -> np.ndarray:
        """Return the mean score of rows with these chances, in score steps: shape (outputs,)."""
        parts, chances = self._parts, self._chances
        total = parts.start.astype(np.float64)
        for table, own in zip(parts.tables, chances, strict=True):
            total += table @ own
        for pair in parts.pairs:
            total += pair.mean(chances)
        for path in self._paths:
            total += path.mean.prod() * path.values
        return total

    def values(self, codes: Codes) -> np.ndarray:
        """Return what each feature moves scores by from the baseline, in score steps.

        Returns
        -------
        float array of shape (features, outputs, rows)
        """
        parts, chances = self._parts, self._chances
        found = np.empty((len(parts.tables), parts.n_outputs, len(codes)))
        for feature, (table, own) in enumerate(zip(parts.tables, chances, strict=True)):
            found[feature] = table[:, codes.column(feature)] - (table @ own)[:, None]
        for pair in parts.pairs:
            _add_pair(pair, chances, codes, found)
        columns = np.stack([codes.column(feature) for feature in range(len(found))])
        for first in range(0, len(codes), _ROWS):
            rows = slice(first, first + _ROWS)
            for path in self._paths:
                path.add(columns[:, rows], found[:, :, rows])
        return found


def _add_pair(
    pair: JointTable, chances: Sequence[np.ndarray], codes: Codes, found: np.ndarray
) -> None:
    """Add what two features move together; each has half of what neither moves alone."""
    first, second = pair.chances(chances)
    own, other = (
        cells[codes.column(feature)]
        for feature, cells in zip(pair.features, pair.cell_of, strict=True)
    )
    both = pair.values[:, own, other]
    given_first = (pair.values @ second)[:, own]
    given_second = np.einsum("oab,a->ob", pair.values, first)[:, other]
    nothing = pair.mean(chances)[:, None]
    found[pair.features[0]] += (both - given_second + given_first - nothing) / 2
    found[pair.features[1]] += (both - given_first + given_second - nothing) / 2


def _leaves(
    tree: JointTree, chances: Sequence[np.ndarray]
) -> Iterator[tuple[int, dict[int, np.ndarray]]]:
    """Yield each leaf that adds something, with the codes of each feature that lead there.

    Leaves that no code leads to are left out.
    """
    inner = len(tree.tree.feature)
    below: list[tuple[int, dict[int, np.ndarray]]] = [(0, {})]
    while below:
        node, reach = below.pop()
        if node >= inner:
            if tree.values[:, node - inner].any():
                yield node - inner, reach
            continue
        feature = int(tree.tree.feature[node])
        right = tree.tree.goes_right[node, : len(chances[feature])].astype(bool)
        before = reach.get(feature, np.True_)
        for child, turn in ((2 * node + 1, ~right), (2 * node + 2, right)):
            open_codes = before & turn
            if open_codes.any():
                below.append((child, reach | {feature: open_codes}))


@dataclass(frozen=True, eq=False)
class _Path:
    """What leads to a leaf.

    Attributes
    ----------
    features : int array
        Those that decide whether a row comes there.
    reach, first : uint8 array, int array
        Whether each of their codes leads there, and where each feature's codes begin.
    mean : float array
        For each feature how likely that is.
    values : int array of shape (outputs,)
        What the leaf adds.
    """

    features: np.ndarray
    reach: np.ndarray
    first: np.ndarray
    mean: np.ndarray
    values: np.ndarray

    def add(self, columns: np.ndarray, found: np.ndarray) -> None:
        """Add what the leaf gives to the features that lead to it: Owen's integral, exactly."""
        points, weights = _points(max((len(self.features) + 1) // 2, 1))
        arrays = (self.features, self.reach, self.first, self.mean, self.values)
        tree_kernels.add_moves(*arrays, points, weights, columns, found)


def _paths(tree: JointTree, chances: Sequence[np.ndarray]) -> Iterator[_Path]:
    """Yield what leads to each leaf of a tree that adds something."""
    for leaf, reach in _leaves(tree, chances):
        deciding = {feature: own for feature, own in reach.items() if not own.all()}
        codes = [own.astype(np.uint8) for own in deciding.values()]
        yield _Path(
            np.array([*deciding], dtype=np.int64),
            np.concatenate([np.zeros(0, dtype=np.uint8), *codes]),
            np.cumsum([0, *map(len, codes)])[:-1],
            np.array([chances[feature] @ own for feature, own in deciding.items()], dtype=float),
            tree.values[:, leaf].astype(np.int64),
        )


@cache
def _points(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of Gauss and Legendre between 0 and 1, and their weights."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (points + 1) / 2, weights / 2
