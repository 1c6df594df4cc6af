"""Scores of a majority vote of rules or small trees, each of which adds or subtracts one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import pyarrow as pa

from privboost._core.grid import SCORE_STEPS, VOTE
from privboost.data.rows import Codes, Layout
from privboost.explanations.terms import NO_SIGNAL, WASTED_SHARE, Finding, Rule, VoteSummary
from privboost.models.checks import need, need_array, need_scores
from privboost.models.forest import Forest
from privboost.models.parts import ScoreParts
from privboost.models.scores import VOTES, ModelView
from privboost.models.trees import TreeScores, conditions
from privboost.trees.tree import Tree

NO_COUNT = "feature_importances: votes are choices, and no count of rows was released with them"

_MANY_CANCELLED = 0.25
"""The part of cancelling votes from which on they are a finding."""

_FLAT = 0.1
"""All votes together are uninformative if they move the log-odds by less."""


@dataclass(frozen=True, eq=False)
class VoteScores(TreeScores):
    """Votes for class 1 minus votes against it (or for each class beyond two)."""

    kind = "votes"
    log_odds = False
    staged_log_odds: ClassVar[bool] = False
    needs_classes: ClassVar[bool] = True

    @property
    def unit(self) -> str:
        return VOTES

    def code_probabilities(self) -> NoReturn:
        """Raise: selections release no counts of rows."""
        raise AttributeError(NO_COUNT)

    @property
    def of_rules(self) -> bool:
        """Whether each voter is a single split."""
        return all(tree.depth == 1 for tree, _ in self.trees())

    def with_voter(self, tree: Tree, votes: np.ndarray, output: int) -> VoteScores:
        """Return the scores with one more voter: a tree and the votes of its leaves."""
        values = np.zeros((1, self.n_outputs, tree.n_leaves), dtype=np.int32)
        values[0, output] = votes
        updates = np.append(self.updates, np.int32(1))
        return replace(
            self, forests=(*self.forests, Forest.of([tree], list(values))), updates=updates
        )

    def vote_table(self, model: ModelView) -> pa.Table:
        if not self.of_rules:
            raise AttributeError("only votes of rules have a summary; see to_text() for trees")
        votes: Counter[tuple[int, str, str]] = Counter()
        for tree, values in self.trees():
            output = int(np.abs(values).max(axis=1).argmax())
            feature, goes_right = int(tree.feature[0]), tree.goes_right[0]
            if goes_right[: model.encoder.layout.n_codes[feature]].any():
                name = model.domain.features[feature].name
                text = conditions(model.encoder, feature, goes_right)[1].removeprefix(f"{name} ")
                votes[output, name, text] += int(values[output, 1]) // VOTE
            else:
                votes[output, "(every row)", ""] += int(values[output, 0]) // VOTE
        lines = sorted((-abs(count), key) for key, count in votes.items() if count)
        columns: dict[str, list[Any]] = {
            "votes": [votes[key] for _, key in lines],
            "feature": [name for _, (_, name, _) in lines],
            "value": [text for _, (_, _, text) in lines],
        }
        if self.n_outputs > 1:
            columns["class"] = [model.classes[output] for _, (output, _, _) in lines]
        return pa.table(columns)

    def vote_summary(self, model: ModelView) -> VoteSummary | None:
        if not self.of_rules:
            return None
        lines = self.vote_table(model).to_pylist()
        return VoteSummary(
            tuple(
                Rule(line["votes"], line["feature"], line["value"], str(line.get("class", "")))
                for line in lines
            )
        )

    def to_text(self, model: ModelView, most_trees: int | None = None) -> str:
        """Return votes of rules as a list, votes of trees as conditions and leaf values."""
        if not self.of_rules:
            return "\n".join([super().to_text(model, most_trees), *self._meaning(model)])
        several = self.n_outputs > 1
        lines = [
            f"{line['votes']:+5d}  {line['feature']} {line['value']}".rstrip()
            + (f"  (for {line['class']})" if several else "")
            for line in self.vote_table(model).to_pylist()
        ]
        end = f"votes count against where a line does not hold{self._winner(model)}"
        return "\n".join(["votes", *lines, end, *self._meaning(model)])

    def _winner(self, model: ModelView) -> str:
        if self.n_outputs > 1:
            return "; the class with the most votes wins"
        return f"; {model.classes[1]} with more than 0 wins"

    def _meaning(self, model: ModelView) -> list[str]:
        """Return lines on the log-odds of votes, where they were released."""
        return []

    def findings(self, model: ModelView, rows: Codes | None) -> Iterator[Finding]:
        """Yield a finding where many votes cancel each other."""
        if self.of_rules:
            table = self.vote_table(model)
            cast = self.n_trees
            left = int(np.abs(table["votes"].to_numpy()).sum()) if table.num_rows else 0
            if cast - left >= _MANY_CANCELLED * cast:
                yield Finding(WASTED_SHARE, f"{cast - left} of {cast} votes cancel each other")

    @classmethod
    def from_payload(cls, payload: Any, layout: Layout, n_outputs: int) -> Self:
        scores = super().from_payload(payload, layout, n_outputs)
        for forest in scores.forests:
            votes = bool(np.isin(forest.values, (-VOTE, 0, VOTE)).all())
            need(votes, "scores.forests.values", "leaves must say one vote, or nothing")
        return scores


@dataclass(frozen=True, eq=False)
class CalibratedVotes(VoteScores):
    """Votes with released log-odds: scores are a linear function of the sum of votes.

    `start` is the score at equally many votes for and against. Stages are votes, except the last:
    the calibration was measured for all votes together.

    Attributes
    ----------
    worth : int32 array of shape (outputs,)
        The log-odds of one vote, in score steps.
    """

    kind = "votes with odds"
    log_odds = True
    worth: np.ndarray

    @property
    def unit(self) -> str:
        return "log-odds"

    @classmethod
    def worth_of(cls, votes: VoteScores, lines: np.ndarray, rows: np.ndarray) -> CalibratedVotes:
        """Return votes with the slope (the log-odds of a vote) and intercept of each output."""
        start, worth = np.rint(lines.T[::-1] * SCORE_STEPS).astype(np.int32)
        own = {field.name: getattr(votes, field.name) for field in fields(votes)}
        return cls(**(own | {"start": start, "worth": worth, "rows": rows}))

    def scores(self, codes: Codes) -> np.ndarray:
        return self._calibrated(super().scores(codes) - self.start[:, None])

    def staged_scores(self, codes: Codes) -> Iterator[np.ndarray]:
        """Yield the votes after each update, and at last the scores."""
        last = len(self.updates) - 1
        plain = replace(self, start=np.zeros_like(self.start))
        for number, votes in enumerate(TreeScores.staged_scores(plain, codes)):
            yield votes if number < last else self._calibrated(votes)

    def parts(self) -> ScoreParts:
        return self._in_log_odds(super().parts())

    def export_parts(self) -> ScoreParts:
        return self._in_log_odds(super().export_parts())

    def _in_log_odds(self, votes: ScoreParts) -> ScoreParts:
        worth = self.worth[:, None]
        return replace(
            votes,
            tables=tuple(worth * (own // VOTE) for own in votes.tables),
            trees=tuple(replace(t, values=worth * (t.values // VOTE)) for t in votes.trees),
        )

    def _calibrated(self, votes: np.ndarray) -> np.ndarray:
        scores: np.ndarray = self.start[:, None] + self.worth[:, None] * (votes // VOTE)
        return scores

    def _winner(self, model: ModelView) -> str:
        return ""

    def _meaning(self, model: ModelView) -> list[str]:
        names = model.classes if self.n_outputs > 1 else model.classes[1:]
        return [
            f"log-odds of {name}: {start:+.4g}, and {worth:.4g} for each vote"
            for name, start, worth in zip(
                names, self.start / SCORE_STEPS, self.worth / SCORE_STEPS, strict=True
            )
        ]

    def findings(self, model: ModelView, rows: Codes | None) -> Iterator[Finding]:
        """Yield findings where votes cancel, or hardly move the log-odds of a class."""
        yield from super().findings(model, rows)
        most = self.worth / SCORE_STEPS * self.n_trees / self.n_outputs
        names = model.classes if self.n_outputs > 1 else model.classes[1:]
        for name, own in zip(names, most, strict=True):
            if own < _FLAT:
                yield Finding(NO_SIGNAL, f"votes hardly move the log-odds of class {name}")

    def to_payload(self) -> dict[str, Any]:
        return super().to_payload() | {"worth": self.worth}

    @classmethod
    def from_payload(cls, payload: Any, layout: Layout, n_outputs: int) -> Self:
        need(isinstance(payload, dict) and "worth" in payload, "scores", "a vote's worth is needed")
        votes = {name: value for name, value in payload.items() if name != "worth"}
        own = VoteScores.from_payload(votes, layout, n_outputs)
        worth = need_array(payload["worth"], "scores.worth", np.int32, (n_outputs,), 1)
        most = worth.astype(np.int64) * own.n_trees + np.abs(own.start.astype(np.int64))
        need_scores(most, "scores.worth")
        return cls(**{field.name: getattr(own, field.name) for field in fields(own)}, worth=worth)
