"""Additive scores with interactions: joint effects of pairs of features, and trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from privboost._core.compilation import compiled
from privboost._core.pickling import DeclaredState
from privboost.data.rows import Codes, Layout
from privboost.engine.kernels import add_values, join_cells
from privboost.explanations.terms import WASTED_SHARE, Finding
from privboost.models.additive import AdditiveScores
from privboost.models.checks import (
    largest,
    need,
    need_array,
    need_finite,
    need_keys,
    need_list,
    need_scores,
    need_whole,
    within_grid,
)
from privboost.models.parts import JointTable, ScoreParts
from privboost.models.scores import MORE_NOISE, ModelView, add_noise, make_read_only
from privboost.models.trees import TreeScores
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import find_leaves

_MOST_CELLS = 2**16
"""The largest number of cells of a pair."""


@dataclass(frozen=True, eq=False)
class PairValues(DeclaredState):
    """The joint effect of two features on one score.

    Attributes
    ----------
    output : int
        The score.
    features : tuple of int
        The indices of the features, in ascending order.
    cell_of : tuple of uint16 arrays
        For each of the two the cell of each code.
    values : int32 array of shape (cells of the first, cells of the second)
        In score steps.
    mass : float64 array of the same shape
        The noisy count of each cell.
    noise : float64 array of the same shape
        The standard deviation of each value, in score steps.
    """

    output: int
    features: tuple[int, int]
    cell_of: tuple[np.ndarray, np.ndarray]
    values: np.ndarray
    mass: np.ndarray
    noise: np.ndarray

    def __post_init__(self) -> None:
        make_read_only(self)

    @classmethod
    def of(
        cls, output: int, cells: CellMap, values: np.ndarray, mass: np.ndarray, noise: np.ndarray
    ) -> PairValues:
        """Return a pair from values of the joint cells of two features."""
        part = cells.parts[0]
        (first, second), (own, other) = part.features, part.cell_of
        shaped = (each.reshape(part.sizes) for each in (values, mass, noise))
        return cls(output, (first, second), (own, other), *shaped)

    def _cells(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the joint cells of rows from their codes of both features."""
        own, other = self.cell_of
        cells: np.ndarray = own[first].astype(np.intp) * self.values.shape[1] + other[second]
        return cells

    def add_variances(self, codes: Codes, total: np.ndarray) -> None:
        """Add the variance that noise gives to the scores of rows to a total of their shape."""
        first, second = (codes.column(feature) for feature in self.features)
        total[self.output] += self.noise.reshape(-1)[self._cells(first, second)] ** 2

    def with_more_noise(self, generator: np.random.Generator) -> PairValues:
        """Return the pair with noise drawn once more on top."""
        values = add_noise(self.values, self.noise, generator)
        return replace(self, values=values, noise=MORE_NOISE * self.noise)

    def scaled(self, slope: np.ndarray) -> PairValues:
        """Return the pair with values and noise times the slope of its output."""
        own = slope[self.output]
        values = np.rint(own * self.values).astype(np.int32)
        return replace(self, values=values, noise=own * self.noise)

    def joint_table(self, n_outputs: int) -> JointTable:
        """Return the pair as a term of all outputs."""
        values = np.zeros((n_outputs, *self.values.shape), dtype=np.int32)
        values[self.output] = self.values
        return JointTable(self.features, self.cell_of, values, self.output, self.noise)

    def change(
        self, feature: int, rows: np.ndarray, others: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the change where one of the features takes another code, and its variance."""
        before = self._cells(*(rows[own] for own in self.features))
        after = self._cells(*((others if own == feature else rows)[own] for own in self.features))
        values, variance = self.values.reshape(-1).astype(np.float64), self.noise.reshape(-1) ** 2
        change = values[after] - values[before]
        return change, (after != before) * (variance[after] + variance[before])

    def to_payload(self) -> dict[str, Any]:
        """Return the content of a model file."""
        payload = {field.name: getattr(self, field.name) for field in fields(self)}
        return payload | {"features": list(self.features), "cell_of": list(self.cell_of)}

    @classmethod
    def from_payload(cls, payload: Any, layout: Layout, n_outputs: int) -> PairValues:
        """Return a checked pair from the content of a model file."""
        place = "scores.pairs"
        payload = need_keys(payload, place, {field.name for field in fields(cls)})
        for name in ("features", "cell_of"):
            fine = isinstance(payload[name], list) and len(payload[name]) == 2
            need(fine, f"{place}.{name}", "one for each of two features is needed")
        last = len(layout.n_codes) - 1
        first, second = (need_whole(f, f"{place}.features", 0, last) for f in payload["features"])
        need(first < second, f"{place}.features", "two features are needed, in their order")
        output = need_whole(payload["output"], f"{place}.output", 0, n_outputs - 1)
        values = need_array(payload["values"], f"{place}.values", np.int32, (None, None))
        fine = 0 < values.size <= _MOST_CELLS
        need(fine, f"{place}.values", f"there must be 1 to {_MOST_CELLS} cells")
        cell_of = [
            need_array(
                cells, f"{place}.cell_of", np.uint16, (layout.n_codes[feature],), most=size - 1
            )
            for cells, feature, size in zip(
                payload["cell_of"], (first, second), values.shape, strict=True
            )
        ]
        mass = need_finite(payload["mass"], f"{place}.mass", values.shape)
        noise = need_finite(payload["noise"], f"{place}.noise", values.shape, least=0)
        return cls(output, (first, second), (cell_of[0], cell_of[1]), values, mass, noise)


def add_pairs(pairs: Sequence[PairValues], codes: Codes, scores: np.ndarray) -> None:
    """Add the effects of pairs to the scores of rows, of shape (outputs, rows)."""
    if not pairs:
        return
    slots, table, at, first = codes.layout.slots, [], 0, 0
    for pair in pairs:
        (one, two), (cells, others) = pair.features, pair.cell_of
        middle = at + len(cells)
        end, last = middle + len(others), first + pair.values.size
        ends = (at, middle, end, first, last)
        table.append((pair.output, slots[one], slots[two], *ends, pair.values.shape[1]))
        at, first = end, last
    cell_of = np.concatenate([cells for pair in pairs for cells in pair.cell_of])
    values = np.concatenate([pair.values.reshape(-1) for pair in pairs])
    numbers = np.array(table, dtype=np.int64)
    _add_pairs(codes.narrow, codes.wide, numbers, cell_of, values, scores)


@dataclass(frozen=True, eq=False)
class InteractionScores(AdditiveScores):
    """Additive scores with joint effects of pairs of features, and trees.

    Attributes
    ----------
    pairs : tuple of PairValues
        The joint effects of two features.
    trees : TreeScores
        The trees, whose start is 0.
    """

    kind = "compound"
    pairs: tuple[PairValues, ...] = field(kw_only=True)
    trees: TreeScores = field(kw_only=True)

    @classmethod
    def of(
        cls, alone: AdditiveScores, pairs: tuple[PairValues, ...], trees: TreeScores
    ) -> InteractionScores:
        """Return additive scores with interactions."""
        own = {field.name: getattr(alone, field.name) for field in fields(AdditiveScores)}
        return cls(**own, pairs=pairs, trees=trees)

    def scores(self, codes: Codes) -> np.ndarray:
        scores = super().scores(codes)
        add_pairs(self.pairs, codes, scores)
        scores += self.trees.scores(codes)
        return scores

    def _scores_of_few(self, codes: Codes) -> np.ndarray:
        scores = super()._scores_of_few(codes)
        for pair in self.pairs:
            own = zip(pair.features, pair.cell_of, strict=True)
            scores[pair.output] += pair.values[tuple(cells[codes.column(f)] for f, cells in own)]
        for tree, values in self.trees.trees():
            scores += values[:, find_leaves(codes, tree)]
        return scores

    def _add_variances(self, codes: Codes, total: np.ndarray) -> None:
        super()._add_variances(codes, total)
        self._add_variances_of_interactions(codes, total)

    def _add_variances_of_interactions(self, codes: Codes, total: np.ndarray) -> None:
        for pair in self.pairs:
            pair.add_variances(codes, total)
        for forest in self.trees.forests:
            forest.add_variances(codes, total)

    def with_more_noise(self, generator: np.random.Generator) -> Self:
        forests = tuple(forest.with_more_noise(generator) for forest in self.trees.forests)
        return replace(
            super().with_more_noise(generator),
            pairs=tuple(pair.with_more_noise(generator) for pair in self.pairs),
            trees=replace(self.trees, forests=forests),
        )

    def parts(self) -> ScoreParts:
        pairs = tuple(pair.joint_table(self.n_outputs) for pair in self.pairs)
        return replace(super().parts(), pairs=pairs, trees=tuple(self.trees.each_tree()))

    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        of_trees = {feature: parts for feature, *parts in self.trees.changes(rows, others)}
        for feature, change, variance in super().changes(rows, others):
            for pair in self.pairs:
                if feature in pair.features:
                    more, own_variance = pair.change(feature, rows, others)
                    change[pair.output] += more
                    variance[pair.output] += own_variance
            if feature in of_trees:
                more, own_variance = of_trees[feature]
                change, variance = change + more, variance + own_variance
            yield feature, change, variance

    def findings(self, model: ModelView, rows: Codes | None) -> Iterator[Finding]:
        """Yield a finding where interactions do not stand out from the noise."""
        if rows is None or model.privacy.public_rows:
            return
        joint = self.scores(rows).astype(np.float64) - super().scores(rows)
        noise = np.zeros(joint.shape)
        self._add_variances_of_interactions(rows, noise)
        if joint.var(axis=1).sum() <= noise.mean(axis=1).sum():
            text = (
                "pairs and trees do not stand out from the noise: features may make better use of "
                "their share (interactions=False); another fit on these rows costs its epsilon "
                "again"
            )
            yield Finding(WASTED_SHARE, text)

    def to_payload(self) -> dict[str, Any]:
        return {
            "alone": super().to_payload(),
            "pairs": [pair.to_payload() for pair in self.pairs],
            "trees": self.trees.to_payload(),
        }

    @classmethod
    def from_payload(cls, payload: Any, layout: Layout, n_outputs: int) -> InteractionScores:
        payload = need_keys(payload, "scores", {"alone", "pairs", "trees"})
        alone = AdditiveScores.from_payload(payload["alone"], layout, n_outputs)
        listed = need_list(payload["pairs"], "scores.pairs")
        pairs = tuple(PairValues.from_payload(each, layout, n_outputs) for each in listed)
        trees = TreeScores.from_payload(payload["trees"], layout, n_outputs)
        need(not trees.start.any(), "scores.trees.start", "it must be 0")
        found = cls.of(alone, pairs, trees)
        need_scores(found.largest, "scores")
        return found

    @property
    def largest(self) -> np.ndarray:
        most: np.ndarray = super().largest + self.trees.largest
        for pair in self.pairs:
            most[pair.output] += largest(pair.values.reshape(-1), axis=0)
        return most

    def with_calibration(self, lines: np.ndarray) -> Self:
        slope = within_grid(lines[:, 0], self.largest)
        forests = tuple(forest.scaled(slope) for forest in self.trees.forests)
        return replace(
            super().with_calibration(lines),
            pairs=tuple(pair.scaled(slope) for pair in self.pairs),
            trees=replace(self.trees, forests=forests),
        )


@compiled
def _add_pairs(narrow, wide, pairs, cell_of, values, scores):  # type: ignore[no-untyped-def]
    """Add the values of the joint cells of pairs of features to the scores of rows.

    `pairs` is an int64 array of shape (pairs, 9): for each pair its output, the columns of both
    features, where the cells of their codes begin and end in `cell_of`, where its values begin and
    end in `values`, and how many cells the second feature has.
    """
    cells = np.empty(scores.shape[1], dtype=np.uint32)
    for k in range(pairs.shape[0]):
        output, one, two, begin, middle, end, first, last, width = pairs[k]
        own, other = cell_of[begin:middle], cell_of[middle:end]
        cells[:] = 0
        if one < narrow.shape[0]:
            join_cells(narrow[one], own, middle - begin, cells)
        else:
            join_cells(wide[one - narrow.shape[0]], own, middle - begin, cells)
        if two < narrow.shape[0]:
            join_cells(narrow[two], other, width, cells)
        else:
            join_cells(wide[two - narrow.shape[0]], other, width, cells)
        add_values(cells, values[first:last], scores[output])
