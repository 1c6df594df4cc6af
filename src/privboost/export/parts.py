"""What any model's scores are made of: tables of one feature, tables of two, and trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from privboost.grid import VOTE
from privboost.models.additive import AdditiveScores
from privboost.models.compound import CompoundScores
from privboost.models.linear import LinearScores
from privboost.models.model import Model
from privboost.models.trees import TreeScores
from privboost.models.votes import OddsVotes
from privboost.trees.tree import Tree


@dataclass(frozen=True, eq=False)
class Pair:
    """What two features add to one score together.

    Attributes
    ----------
    output : int
        The score.
    features : (int, int)
        Which ones.
    cell_of : (int array, int array)
        The cell of each of their codes.
    values : int32 array of shape (cells of the first, cells of the second)
        In score steps.
    """

    output: int
    features: tuple[int, int]
    cell_of: tuple[np.ndarray, np.ndarray]
    values: np.ndarray

    def narrowed(self) -> Pair:
        """Return the same with cells joined that have the same values."""
        (first, second), values = self.cell_of, self.values
        values, joined = np.unique(values, axis=0, return_inverse=True)
        first = joined.reshape(-1)[first]
        values, joined = np.unique(values, axis=1, return_inverse=True)
        return Pair(self.output, self.features, (first, joined.reshape(-1)[second]), values)


@dataclass(eq=False)
class Parts:
    """The parts of a model, whose values add up to its scores.

    Attributes
    ----------
    start : int array of shape (outputs,)
        What every row has, in score steps.
    alone : list of int arrays of shape (outputs, codes)
        What the codes of each feature add.
    pairs : list of Pair
        What two features add together.
    trees : list of (Tree, int array of shape (outputs, leaves))
        What trees of several features add.
    """

    start: np.ndarray
    alone: list[np.ndarray]
    pairs: list[Pair] = field(default_factory=list)
    trees: list[tuple[Tree, np.ndarray]] = field(default_factory=list)

    def add_pair(self, pair: Pair) -> None:
        """Add a pair; one that looks at one feature only is added to that feature's table."""
        pair = pair.narrowed()
        (first, second), (own, other), output = pair.features, pair.cell_of, pair.output
        if pair.values.shape[1] == 1:
            self.alone[first][output] += pair.values[own, 0]
        elif pair.values.shape[0] == 1:
            self.alone[second][output] += pair.values[0, other]
        else:
            self.pairs.append(pair)

    def add_tree(self, tree: Tree, values: np.ndarray) -> None:
        """Add a tree; one that looks at one feature only is added to that feature's table."""
        turns = [
            tree.goes_right[node, : self.alone[feature].shape[1]]
            for node, feature in enumerate(tree.feature)
        ]
        splits = [node for node, own in enumerate(turns) if own.min() != own.max()]
        looked_at = {int(tree.feature[node]) for node in splits}
        if len(looked_at) > 1:
            self.trees.append((tree, values))
            return
        feature = looked_at.pop() if looked_at else 0
        node = np.zeros(self.alone[feature].shape[1], dtype=np.intp)
        for _ in range(tree.depth):
            right = [
                turns[n][code] if tree.feature[n] == feature else turns[n][0]
                for code, n in enumerate(node)
            ]
            node = 2 * node + 1 + np.array(right, dtype=np.intp)
        self.alone[feature] += values[:, node - len(tree.feature)]


def parts_of(model: Model) -> Parts:
    """Return what a model of any kind is made of."""
    scores, n_codes = model.scores, model.encoder.layout.n_codes
    nothing = [np.zeros((scores.n_outputs, codes), dtype=np.int64) for codes in n_codes]
    if isinstance(scores, LinearScores):
        return _linear_parts(scores, Parts(np.zeros(scores.n_outputs, dtype=np.int64), nothing))
    parts = Parts(scores.start.astype(np.int64), nothing)
    effects = scores.alone if isinstance(scores, CompoundScores) else scores
    if isinstance(effects, AdditiveScores):
        parts.alone = [own.astype(np.int64) for own in effects.values]
    if isinstance(scores, CompoundScores):
        parts.start += scores.trees.start
        for pair in scores.pairs:
            parts.add_pair(Pair(pair.output, pair.features, pair.cell_of, pair.values))
        scores = scores.trees
    if isinstance(scores, TreeScores):
        for tree, values in _trees(scores):
            parts.add_tree(tree, values)
    return parts


def _trees(scores: TreeScores) -> Iterator[tuple[Tree, np.ndarray]]:
    """Yield each tree with what its leaves add to the scores."""
    for tree, values in scores.trees():
        odds = isinstance(scores, OddsVotes)
        yield tree, scores.worth[:, None] * (values // VOTE) if odds else values  # type: ignore[attr-defined]


def _linear_parts(scores: LinearScores, parts: Parts) -> Parts:
    """Add the tables of a linear model, whose intercept lies in one of them."""
    for output, coefficients in enumerate(scores.coefficients):
        for (first, second), table in scores.terms.tables(coefficients).items():
            if second < 0:
                parts.alone[first][output] += table
                continue
            shape = (parts.alone[first].shape[1], parts.alone[second].shape[1])
            cells = np.arange(shape[0]), np.arange(shape[1])
            parts.add_pair(Pair(output, (first, second), cells, table.reshape(shape)))
    return parts
