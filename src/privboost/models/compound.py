"""Compound scores: effects of single features, of pairs, and trees; a row's score is their sum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from privboost.models.additive import AdditiveScores
from privboost.models.checks import largest, need, need_keys, need_list, need_scores, within_grid
from privboost.models.importance import draw_rows
from privboost.models.pairs import PairValues, add_pairs
from privboost.models.parts import JointTable, ScoreParts
from privboost.models.trees import TreeScores
from privboost.pickling import DeclaredState
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes


@dataclass(frozen=True, eq=False)
class CompoundScores(DeclaredState):
    """Released values on the score grid.

    Attributes
    ----------
    alone : AdditiveScores
        The start, and the effects of single features.
    pairs : tuple of PairValues
        What two features add together.
    trees : TreeScores
        What trees add, from 0 on.
    """

    kind = "compound"
    log_odds: ClassVar[bool] = True
    alone: AdditiveScores
    pairs: tuple[PairValues, ...]
    trees: TreeScores

    @property
    def start(self) -> np.ndarray:
        """The score before any feature is looked at."""
        return self.alone.start

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return self.alone.n_outputs

    def scores(self, codes: Codes) -> np.ndarray:
        """Return the exact scores of rows: int32 of shape (outputs, rows)."""
        scores = self.alone.scores(codes)
        add_pairs(self.pairs, codes, scores)
        scores += self.trees.scores(codes)
        return scores

    def variances(self, codes: Codes) -> np.ndarray:
        """Return what noise gives to scores, squared; see `AdditiveScores.variances`."""
        return self.alone.variances_with((*self.pairs, *self.trees.forests), codes)

    def drawn(self, generator: np.random.Generator) -> CompoundScores:
        """Return the model with noise drawn once more on top; see `importance.deviations`."""
        forests = tuple(forest.drawn(generator) for forest in self.trees.forests)
        return CompoundScores(
            self.alone.drawn(generator),
            tuple(pair.drawn(generator) for pair in self.pairs),
            replace(self.trees, forests=forests),
        )

    def feature_noise(self) -> tuple[np.ndarray, ...] | None:
        """Return for each feature the standard deviation of its codes' values."""
        return self.alone.noise

    def feature_values(self) -> tuple[np.ndarray, ...]:
        """Return for each feature the score of its codes, interactions aside."""
        return self.alone.feature_values()

    def parts(self) -> ScoreParts:
        """Return the scores as one sum."""
        pairs = tuple(self._joint_table(pair) for pair in self.pairs)
        return replace(self.alone.parts(), pairs=pairs, trees=tuple(self.trees.each_tree()))

    def _joint_table(self, pair: PairValues) -> JointTable:
        values = np.zeros((self.n_outputs, *pair.values.shape), dtype=np.int32)
        values[pair.output] = pair.values
        return JointTable(pair.features, pair.cell_of, values)

    def chances(self) -> tuple[np.ndarray, ...]:
        """Return for each feature how likely its codes are, from released Hessians."""
        return self.alone.chances()

    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield what other codes change; see `importance.Explainable`."""
        of_trees = {feature: parts for feature, *parts in self.trees.changes(rows, others)}
        for feature, change, doubt in self.alone.changes(rows, others):
            for pair in self.pairs:
                if feature in pair.features:
                    more, unsure = _pair_changes(pair, feature, rows, others)
                    change[pair.output] += more
                    doubt[pair.output] += unsure
            if feature in of_trees:
                more, unsure = of_trees[feature]
                change, doubt = change + more, doubt + unsure
            yield feature, change, doubt

    def to_form(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        return {
            "alone": self.alone.to_form(),
            "pairs": [pair.to_form() for pair in self.pairs],
            "trees": self.trees.to_form(),
        }

    @classmethod
    def from_form(cls, form: Any, layout: Layout, n_outputs: int) -> CompoundScores:
        """Read what `to_form` gave: parts of one layout, whose scores together stay on the grid."""
        form = need_keys(form, "scores", {"alone", "pairs", "trees"})
        alone = AdditiveScores.from_form(form["alone"], layout, n_outputs)
        listed = need_list(form["pairs"], "scores.pairs")
        pairs = tuple(PairValues.from_form(each, layout, n_outputs) for each in listed)
        trees = TreeScores.from_form(form["trees"], layout, n_outputs)
        need(not trees.start.any(), "scores.trees.start", "trees add to effects from 0 on")
        found = cls(alone, pairs, trees)
        need_scores(found.largest, "scores")
        return found

    @property
    def largest(self) -> np.ndarray:
        """A size that no row's score exceeds, of each output, in score steps."""
        most: np.ndarray = self.alone.largest + self.trees.largest
        for pair in self.pairs:
            most[pair.output] += largest(pair.values.reshape(-1), axis=0)
        return most

    def typical(self) -> np.ndarray:
        """Return the scores of rows drawn from released mass: int32 of shape (outputs, rows)."""
        layout = Layout(tuple(self.trees.n_codes.tolist()))
        return self.scores(Codes.of(layout, draw_rows(self.chances())[0]))

    def on_lines(self, lines: np.ndarray) -> CompoundScores:
        """Return the model with each output's scores on a line; see `TreeScores.on_lines`."""
        slope = within_grid(lines[:, 0], self.largest)
        alone = self.alone.on_lines(np.stack([slope, lines[:, 1]], axis=1))
        pairs = tuple(pair.stretched(slope) for pair in self.pairs)
        forests = tuple(forest.stretched(slope) for forest in self.trees.forests)
        return CompoundScores(alone, pairs, replace(self.trees, forests=forests))


def _pair_changes(
    pair: PairValues, feature: int, rows: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what a pair adds where one of its features takes another code, and the doubt."""
    first, second = pair.features
    before = pair.cells(rows[first], rows[second])
    after = (
        pair.cells(others[first], rows[second])
        if feature == first
        else pair.cells(rows[first], others[second])
    )
    values, variance = pair.values.reshape(-1).astype(np.float64), pair.noise.reshape(-1) ** 2
    change = values[after] - values[before]
    return change, (after != before) * (variance[after] + variance[before])
