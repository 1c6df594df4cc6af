"""Scores of a majority vote: rules and small trees, of which each adds or takes away one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from privboost.grid import SCORE_STEPS, VOTE
from privboost.models.checks import need, need_array, need_scores
from privboost.models.parts import ScoreParts
from privboost.models.trees import Forest, TreeScores
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes
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


@dataclass(frozen=True, eq=False)
class OddsVotes(VoteScores):
    """Votes whose worth was released: scores are log-odds, on a line through the sum of votes.

    `start` is the score where there are as many votes for as against. Stages are votes, but the
    last: the line was found for all of them together.

    Attributes
    ----------
    worth : int32 array of shape (outputs,)
        What one vote adds to the log-odds, in score steps.
    """

    kind = "votes with odds"
    log_odds: ClassVar[bool] = True
    worth: np.ndarray

    @classmethod
    def worth_of(cls, votes: VoteScores, lines: np.ndarray, rows: np.ndarray) -> OddsVotes:
        """Return votes with the slope (the log-odds of a vote) and shift of each output."""
        start, worth = np.rint(lines.T[::-1] * SCORE_STEPS).astype(np.int32)
        told = {field.name: getattr(votes, field.name) for field in fields(votes)}
        return cls(**(told | {"start": start, "worth": worth, "rows": rows}))

    def scores(self, codes: Codes) -> np.ndarray:
        """Return the exact scores of rows: int32 of shape (outputs, rows)."""
        return self._on_line(super().scores(codes) - self.start[:, None])

    def staged_scores(self, codes: Codes) -> Iterator[np.ndarray]:
        """Yield the votes after each update, and at last the scores."""
        last = len(self.updates) - 1
        plain = replace(self, start=np.zeros_like(self.start))
        for number, votes in enumerate(TreeScores.staged_scores(plain, codes)):
            yield votes if number < last else self._on_line(votes)

    def parts(self) -> ScoreParts:
        """Return the scores as one sum: each vote has its worth."""
        votes, worth = super().parts(), self.worth[:, None]
        trees = (replace(own, values=worth * (own.values // VOTE)) for own in votes.trees)
        return replace(
            votes,
            tables=tuple(worth * (own // VOTE) for own in votes.tables),
            trees=tuple(trees),
        )

    def _on_line(self, votes: np.ndarray) -> np.ndarray:
        scores: np.ndarray = self.start[:, None] + self.worth[:, None] * (votes // VOTE)
        return scores

    def to_form(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        return super().to_form() | {"worth": self.worth}

    @classmethod
    def from_form(cls, form: Any, layout: Layout, n_outputs: int) -> Self:
        """Read what `to_form` gave: votes, each worth more than nothing."""
        need(isinstance(form, dict) and "worth" in form, "scores", "a vote's worth is needed")
        votes = {name: value for name, value in form.items() if name != "worth"}
        own = VoteScores.from_form(votes, layout, n_outputs)
        worth = need_array(form["worth"], "scores.worth", np.int32, (n_outputs,), 1)
        most = worth.astype(np.int64) * own.n_trees + np.abs(own.start.astype(np.int64))
        need_scores(most, "scores.worth")
        told = {field.name: getattr(own, field.name) for field in fields(own)}
        return cls(**told, worth=worth)
