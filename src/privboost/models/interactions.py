"""Additive scores with interactions: effects of features and of pairs, and trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from privboost.data.rows import Codes, Layout
from privboost.explanations.terms import WASTED_SHARE, Finding
from privboost.models.additive import AdditiveScores, PairValues, add_pairs, pair_table
from privboost.models.checks import largest, need, need_keys, need_list, need_scores, within_grid
from privboost.models.scores import ModelView, ScoreParts, Scores, draw_rows
from privboost.models.trees import TreeScores
from privboost.trees.tree import find_leaves


@dataclass(frozen=True, eq=False)
class InteractionScores(Scores):
    """Released values of features, pairs and trees on the score grid.

    Attributes
    ----------
    alone : AdditiveScores
        The start, and the effects of single features.
    pairs : tuple of PairValues
        The joint effects of two features.
    trees : TreeScores
        The trees, whose start is 0.
    """

    kind = "compound"
    log_odds = True
    alone: AdditiveScores
    pairs: tuple[PairValues, ...]
    trees: TreeScores

    @property
    def start(self) -> np.ndarray:
        """The constant term."""
        return self.alone.start

    @property
    def n_outputs(self) -> int:
        return self.alone.n_outputs

    @property
    def has_errors(self) -> bool:
        return self.alone.has_errors

    def scores(self, codes: Codes) -> np.ndarray:
        scores = self.alone.scores(codes)
        add_pairs(self.pairs, codes, scores)
        scores += self.trees.scores(codes)
        return scores

    def variances(self, codes: Codes) -> np.ndarray:
        return self.alone.variances_with((*self.pairs, *self.trees.forests), codes)

    def with_more_noise(self, generator: np.random.Generator) -> Self:
        forests = tuple(forest.with_more_noise(generator) for forest in self.trees.forests)
        return replace(
            self,
            alone=self.alone.with_more_noise(generator),
            pairs=tuple(pair.with_more_noise(generator) for pair in self.pairs),
            trees=replace(self.trees, forests=forests),
        )

    def feature_noise(self) -> tuple[np.ndarray, ...] | None:
        return self.alone.feature_noise()

    def feature_values(self) -> tuple[np.ndarray, ...]:
        return self.alone.feature_values()

    def parts(self) -> ScoreParts:
        pairs = tuple(pair.joint_table(self.n_outputs) for pair in self.pairs)
        return replace(self.alone.parts(), pairs=pairs, trees=tuple(self.trees.each_tree()))

    def code_masses(self) -> tuple[np.ndarray, ...] | None:
        return self.alone.code_masses()

    def code_probabilities(self) -> tuple[np.ndarray, ...]:
        return self.alone.code_probabilities()

    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        of_trees = {feature: parts for feature, *parts in self.trees.changes(rows, others)}
        for feature, change, variance in self.alone.changes(rows, others):
            for pair in self.pairs:
                if feature in pair.features:
                    more, own_variance = pair.change(feature, rows, others)
                    change[pair.output] += more
                    variance[pair.output] += own_variance
            if feature in of_trees:
                more, own_variance = of_trees[feature]
                change, variance = change + more, variance + own_variance
            yield feature, change, variance

    def row_counts(self) -> Iterator[tuple[float, float]]:
        return self.alone.row_counts()

    def least_rows(self) -> float | None:
        return self.alone.least_rows()

    def missing_cells(self) -> np.ndarray | None:
        return self.alone.missing_cells()

    def findings(self, model: ModelView, rows: Codes | None) -> Iterator[Finding]:
        """Yield a finding where interactions do not stand out from the noise."""
        if rows is None or model.privacy.public_rows:
            return
        joint = self.scores(rows).astype(np.float64) - self.alone.scores(rows)
        noise = np.zeros(joint.shape)
        terms: tuple[Any, ...] = (*self.pairs, *self.trees.forests)
        for term in terms:
            term.add_variances(rows, noise)
        if joint.var(axis=1).sum() <= noise.mean(axis=1).sum():
            text = (
                "pairs and trees do not stand out from the noise: features may make better use of "
                "their share (interactions=False); another fit on these rows costs its epsilon "
                "again"
            )
            yield Finding(WASTED_SHARE, text)

    def pair_table(self, model: ModelView) -> pa.Table:
        return pair_table(model, self.pairs)

    def to_payload(self) -> dict[str, Any]:
        return {
            "alone": self.alone.to_payload(),
            "pairs": [pair.to_payload() for pair in self.pairs],
            "trees": self.trees.to_payload(),
        }

    @classmethod
    def from_payload(cls, payload: Any, layout: Layout, n_outputs: int) -> Self:
        payload = need_keys(payload, "scores", {"alone", "pairs", "trees"})
        alone = AdditiveScores.from_payload(payload["alone"], layout, n_outputs)
        listed = need_list(payload["pairs"], "scores.pairs")
        pairs = tuple(PairValues.from_payload(each, layout, n_outputs) for each in listed)
        trees = TreeScores.from_payload(payload["trees"], layout, n_outputs)
        need(not trees.start.any(), "scores.trees.start", "it must be 0")
        found = cls(alone, pairs, trees)
        need_scores(found.largest, "scores")
        return found

    @property
    def largest(self) -> np.ndarray:
        """A bound on the absolute score of any row, for each output, in score steps."""
        most: np.ndarray = self.alone.largest + self.trees.largest
        for pair in self.pairs:
            most[pair.output] += largest(pair.values.reshape(-1), axis=0)
        return most

    def typical(self) -> np.ndarray:
        scores, rows = self.alone.typical(), draw_rows(self.code_probabilities())[0]
        for pair in self.pairs:
            cells = (own[rows[f]] for f, own in zip(pair.features, pair.cell_of, strict=True))
            scores[pair.output] += pair.values[tuple(cells)]
        codes = Codes.of(Layout(tuple(self.trees.n_codes.tolist())), rows)
        for tree, values in self.trees.trees():
            scores += values[:, find_leaves(codes, tree)]
        return scores

    def with_calibration(self, lines: np.ndarray) -> InteractionScores:
        """Return the calibrated scores; see `TreeScores.with_calibration`."""
        slope = within_grid(lines[:, 0], self.largest)
        alone = self.alone.with_calibration(np.stack([slope, lines[:, 1]], axis=1))
        pairs = tuple(pair.scaled(slope) for pair in self.pairs)
        forests = tuple(forest.scaled(slope) for forest in self.trees.forests)
        return replace(self, alone=alone, pairs=pairs, trees=replace(self.trees, forests=forests))
