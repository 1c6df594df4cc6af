"""Scores of a majority vote: rules and small trees, of which each adds or takes away one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from privboost.grid import VOTE
from privboost.models.checks import need
from privboost.models.trees import Forest, TreeScores
from privboost.tables.layout import Layout
from privboost.trees.tree import Tree

NO_COUNT = "feature_importances: votes are choices, and no count of rows was released with them"


@dataclass(frozen=True, eq=False)
class VoteScores(TreeScores):
    """Votes for class 1 minus votes against it (or for each class beyond two)."""

    kind = "votes"
    log_odds: ClassVar[bool] = False

    def chances(self) -> tuple[np.ndarray, ...]:
        """Raise: choices say nothing of how many rows they concern."""
        raise AttributeError(NO_COUNT)

    @property
    def of_rules(self) -> bool:
        """Whether each voter looks at one feature once."""
        return all(tree.depth == 1 for tree, _ in self.trees())

    def with_voter(self, tree: Tree, votes: np.ndarray, output: int) -> VoteScores:
        """Return the model with one voter more: a tree, and what its leaves say."""
        values = np.zeros((1, self.n_outputs, tree.n_leaves), dtype=np.int32)
        values[0, output] = votes
        updates = np.append(self.updates, np.int32(1))
        return replace(
            self, forests=(*self.forests, Forest.of([tree], list(values))), updates=updates
        )

    @classmethod
    def from_form(cls, form: Any, layout: Layout, n_outputs: int) -> Self:
        """Read what `to_form` gave: trees whose leaves say one vote, or nothing."""
        scores = super().from_form(form, layout, n_outputs)
        for forest in scores.forests:
            votes = bool(np.isin(forest.values, (-VOTE, 0, VOTE)).all())
            need(votes, "scores.forests.values", "leaves must say one vote, or nothing")
        return scores
