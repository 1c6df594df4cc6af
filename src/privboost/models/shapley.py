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

import numpy as np

from privboost.models.parts import JointTable, JointTree, ScoreParts
from privboost.tables.rows import Codes

_ROWS = 1024
"""How many rows are looked at together: what is computed of them stays small."""


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
        for paths in self._paths:
            total += paths.mean.prod(axis=0)[:, 0] @ paths.values[:, :, 0]
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
            for paths in self._paths:
                paths.add(columns[:, rows], found[:, :, rows])
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
class _Paths:
    """The leaves of a tree to which equally many features lead.

    Attributes
    ----------
    features : list of lists of int
        For each leaf, the features that decide whether a row comes there.
    reach : list of lists of bool arrays
        For each of them, which of its codes lead there.
    mean : float array of shape (features of a leaf, leaves, 1)
        How likely that is.
    values : int array of shape (leaves, outputs, 1)
        What the leaves add.
    """

    features: list[list[int]]
    reach: list[list[np.ndarray]]
    mean: np.ndarray
    values: np.ndarray

    def add(self, columns: np.ndarray, found: np.ndarray) -> None:
        """Add what leaves give to the features that lead to them: Owen's integral, exactly."""
        count = len(self.mean)
        gain = np.empty((*self.mean.shape[:2], columns.shape[1]))
        for leaf, path in enumerate(zip(self.features, self.reach, strict=True)):
            for place, (feature, own) in enumerate(zip(*path, strict=True)):
                gain[place, leaf] = own[columns[feature]]
        gain -= self.mean
        moved = np.zeros_like(gain)
        points, weights = np.polynomial.legendre.leggauss(max((count + 1) // 2, 1))
        for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
            _add_products_of_others(self.mean + point * gain, weight, moved)
        moved *= gain
        for leaf, (features, value) in enumerate(zip(self.features, self.values, strict=True)):
            for place, feature in enumerate(features):
                found[feature] += value * moved[place, leaf]


def _paths(tree: JointTree, chances: Sequence[np.ndarray]) -> Iterator[_Paths]:
    """Yield the leaves of a tree by how many features lead to them."""
    by_length: dict[int, list[tuple[int, dict[int, np.ndarray]]]] = {}
    for leaf, reach in _leaves(tree, chances):
        deciding = {feature: own for feature, own in reach.items() if not own.all()}
        by_length.setdefault(len(deciding), []).append((leaf, deciding))
    for count, leaves in by_length.items():
        mean = [[chances[feature] @ own for feature, own in path.items()] for _, path in leaves]
        yield _Paths(
            [list(path) for _, path in leaves],
            [list(path.values()) for _, path in leaves],
            np.array(mean).reshape(len(leaves), count).T[:, :, None],
            tree.values[:, [leaf for leaf, _ in leaves]].T[:, :, None],
        )


def _add_products_of_others(factors: np.ndarray, weight: float, total: np.ndarray) -> None:
    """Add, for each factor along the first axis, the product of all others times a weight."""
    before = [np.full(factors.shape[1:], weight)]
    for factor in factors[:-1]:
        before.append(before[-1] * factor)
    after = np.ones(factors.shape[1:])
    for place in range(len(factors) - 1, -1, -1):
        total[place] += before[place] * after
        after *= factors[place]
