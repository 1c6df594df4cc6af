"""A model as every export writes it: codes, and integer terms that add up to its scores.

Bins between which no term changes are merged, so are categories that no term distinguishes, and
unused columns are left out: an export is no larger than what was learned.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from privboost.data.features import CategoricalFeature, Feature, OrderedFeature
from privboost.data.values import code_labels
from privboost.models.model import Model
from privboost.models.parts import ScoreParts
from privboost.trees.tree import Tree

BOOLEANS = {True: ("True", "true", "TRUE"), False: ("False", "false", "FALSE")}
"""The strings that are read as booleans."""


@dataclass(frozen=True, eq=False)
class Column:
    """How the values of a table's column become codes.

    Attributes
    ----------
    feature : Feature
        The feature; booleans and ordinals are exported as categories.
    edges : float array
        For a number: its code is the count of edges below it. Edges of dates are in the unit that
        `unit` names, those of durations in seconds.
    codes : int array
        For categories: the code of each, of any other value, and of a missing value.
    n_codes : int
        The number of codes; the last is that of a missing number.
    """

    feature: Feature
    edges: np.ndarray
    codes: np.ndarray
    n_codes: int

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.feature.name

    @property
    def has_strings(self) -> bool:
        """Whether the values are strings."""
        feature = self.feature
        return isinstance(feature, CategoricalFeature) and isinstance(feature.categories[0], str)

    @property
    def unit(self) -> str:
        """The unit of the edges: "numbers", "days" or "seconds" since 1970, or "durations"."""
        assert isinstance(self.feature, OrderedFeature)
        return self.feature.counted_in


@dataclass(frozen=True, eq=False)
class PairTerm:
    """The joint effect of two features (in a `Formula`, of columns) on one score.

    `cell_of` has the cell of each code of either; `values`, in score steps, has shape (cells of the
    first, cells of the second).
    """

    output: int
    features: tuple[int, int]
    cell_of: tuple[np.ndarray, np.ndarray]
    values: np.ndarray

    def merged(self) -> PairTerm:
        """Return the same term with cells of equal values merged."""
        (first, second), values = self.cell_of, self.values
        values, joined = np.unique(values, axis=0, return_inverse=True)
        first = joined.reshape(-1)[first]
        values, joined = np.unique(values, axis=1, return_inverse=True)
        return PairTerm(self.output, self.features, (first, joined.reshape(-1)[second]), values)


class Split(NamedTuple):
    """The side of each code of one feature (in a `Formula`, of a column): 1 is right."""

    feature: int
    goes_right: np.ndarray


class TreeTerm(NamedTuple):
    """A complete tree: the split of each node, level by level, and the values of its leaves."""

    splits: np.ndarray
    values: np.ndarray

    @property
    def depth(self) -> int:
        """The number of splits between the root and a leaf."""
        return (len(self.splits) + 1).bit_length() - 1


@dataclass(frozen=True, eq=False)
class Formula:
    """A model's scores as a sum of terms in score steps (`grid.SCORE_STEPS`).

    Attributes
    ----------
    columns : tuple of Column
        The columns that some term depends on.
    start : int array of shape (outputs,)
        The constant term.
    alone : tuple of int arrays of shape (outputs, codes)
        The effect of each column.
    pairs : tuple of PairTerm
        The joint effects of two columns.
    splits : tuple of Split
        The unique splits of all trees.
    trees : tuple of TreeTerm
        The trees of several columns.
    """

    columns: tuple[Column, ...]
    start: np.ndarray
    alone: tuple[np.ndarray, ...]
    pairs: tuple[PairTerm, ...]
    splits: tuple[Split, ...]
    trees: tuple[TreeTerm, ...]

    @classmethod
    def of(cls, model: Model) -> Formula:
        """Return the formula of a model; one with an exposure has two scores, the rate's last."""
        parts = model.scores.export_parts()
        if model.exposure is not None:  # the score of the rate as well
            parts = parts.with_rate(model.domain.feature_names.index(model.exposure))
        terms = _Terms(parts)
        splits, trees = terms.unique_splits()
        by_code = terms.by_code(splits)
        used = [f for f, own in enumerate(by_code) if (own != own[:1]).any()] or [0]
        column_of = {feature: number for number, feature in enumerate(used)}
        merged = {feature: _merge_codes(model, feature, by_code[feature]) for feature in used}
        unused = (own[:, 0] for f, own in enumerate(terms.alone) if f not in column_of)
        return cls(
            tuple(column for column, _ in merged.values()),
            terms.start + sum(unused),
            tuple(terms.alone[feature][:, first] for feature, (_, first) in merged.items()),
            tuple(
                replace(
                    pair,
                    features=(column_of[pair.features[0]], column_of[pair.features[1]]),
                    cell_of=(
                        pair.cell_of[0][merged[pair.features[0]][1]],
                        pair.cell_of[1][merged[pair.features[1]][1]],
                    ),
                )
                for pair in terms.pairs
            ),
            tuple(
                # A split of an unused feature sends all codes one way: any column will do.
                Split(column_of[feature], goes_right[merged[feature][1]])
                if feature in column_of
                else Split(0, np.repeat(goes_right[:1], len(merged[used[0]][1])))
                for feature, goes_right in splits
            ),
            trees,
        )


class _Terms:
    """The terms of a model by feature, with terms of one feature in that feature's table."""

    def __init__(self, parts: ScoreParts) -> None:
        self.start = parts.start.astype(np.int64)
        self.alone = [table.astype(np.int64) for table in parts.tables]
        self.pairs: list[PairTerm] = []
        self.trees: list[tuple[Tree, np.ndarray]] = []
        for pair in parts.pairs:
            for output in np.flatnonzero(pair.values.any(axis=(1, 2))).tolist():
                self._add_pair(PairTerm(output, pair.features, pair.cell_of, pair.values[output]))
        for tree in parts.trees:
            self._add_tree(tree.tree, tree.values)

    def _add_pair(self, pair: PairTerm) -> None:
        pair = pair.merged()
        (first, second), (own, other), output = pair.features, pair.cell_of, pair.output
        if pair.values.shape[1] == 1:
            self.alone[first][output] += pair.values[own, 0]
        elif pair.values.shape[0] == 1:
            self.alone[second][output] += pair.values[0, other]
        else:
            self.pairs.append(pair)

    def _add_tree(self, tree: Tree, values: np.ndarray) -> None:
        goes_right = [
            tree.goes_right[node, : self.alone[feature].shape[1]]
            for node, feature in enumerate(tree.feature)
        ]
        splits = [node for node, own in enumerate(goes_right) if own.min() != own.max()]
        features = {int(tree.feature[node]) for node in splits}
        if len(features) > 1:
            self.trees.append((tree, values))
            return
        feature = features.pop() if features else 0
        node = np.zeros(self.alone[feature].shape[1], dtype=np.intp)
        for _ in range(tree.depth):
            right = [
                goes_right[n][code] if tree.feature[n] == feature else goes_right[n][0]
                for code, n in enumerate(node)
            ]
            node = 2 * node + 1 + np.array(right, dtype=np.intp)
        self.alone[feature] += values[:, node - len(tree.feature)]

    def unique_splits(self) -> tuple[list[Split], tuple[TreeTerm, ...]]:
        """Return the unique splits of all trees, and the trees by the numbers of their splits."""
        numbers: dict[tuple[int, bytes], int] = {}
        splits: list[Split] = []
        trees = []
        for tree, values in self.trees:
            own = []
            for feature, line in zip(tree.feature.tolist(), tree.goes_right, strict=True):
                goes_right = line[: self.alone[feature].shape[1]]
                number = numbers.setdefault((feature, goes_right.tobytes()), len(splits))
                if number == len(splits):
                    splits.append(Split(feature, goes_right))
                own.append(number)
            trees.append(TreeTerm(np.array(own), values))
        return splits, tuple(trees)

    def by_code(self, splits: list[Split]) -> list[np.ndarray]:
        """Return for each feature all that terms know of its codes: shape (codes, any)."""
        known = [list(own) for own in self.alone]
        for pair in self.pairs:
            for feature, cells in zip(pair.features, pair.cell_of, strict=True):
                known[feature].append(cells)
        for feature, goes_right in splits:
            known[feature].append(goes_right)
        return [np.stack(own, axis=1).astype(np.int64) for own in known]


def _merge_codes(model: Model, feature: int, by_code: np.ndarray) -> tuple[Column, np.ndarray]:
    """Return a column whose indistinguishable codes are merged, and the first code of each."""
    declared, edges = model.domain.features[feature], model.encoder.edges[feature]
    if declared.labels:
        _, first, codes = np.unique(by_code, axis=0, return_index=True, return_inverse=True)
        codes = codes.reshape(-1)
        if isinstance(declared, OrderedFeature):  # whose other values have the code of missing ones
            declared = CategoricalFeature(declared.name, declared.labels)
            codes = np.append(codes, codes[-1])
        return Column(declared, np.empty(0), codes, len(first)), first
    changes = np.flatnonzero((by_code[1:-1] != by_code[:-2]).any(axis=1))
    first = np.array([0, *(changes + 1), len(by_code) - 1])
    return Column(declared, edges[changes], np.empty(0, dtype=np.int64), len(first)), first


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken, with underscores appended where needed."""
    while name in taken:
        name += "_"
    return name


def spellings(feature: CategoricalFeature) -> dict[str, int]:
    """Return the index of the category that each string stands for.

    A table may hold strings, numbers or booleans, and `data.values` reads all of them; ONNX and
    SQL compare strings as written, so the usual spellings of numbers and booleans are listed.
    """
    written = [str(label) for label in feature.categories]
    values: dict[str, object] = {string: string for string in written}
    for string in written:
        values |= {other: other for other in _spellings_of_number(string) if other not in values}
    for boolean, strings in BOOLEANS.items():
        values |= {string: string for string in strings if string not in values}
        values |= {s: boolean for s in strings if _categories(feature, [s])[0] < 0}
    found = zip(values, _categories(feature, list(values.values())), strict=True)
    return {string: int(index) for string, index in found if index >= 0}


def missing_text(feature: CategoricalFeature) -> str:
    """Return the string that means "missing" where a format has no missing strings."""
    taken = spellings(feature)
    text = ""
    while text in taken:
        text = f"({text})" if text else "(missing)"
    return text


def _categories(feature: CategoricalFeature, values: list[object]) -> np.ndarray:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return code_labels(column, feature.categories, feature.name)


def _spellings_of_number(string: str) -> tuple[str, ...]:
    """Return other spellings of a string that is a number."""
    try:
        number = float(string)
    except ValueError:
        return ()
    if not math.isfinite(number):
        return ()
    whole = (str(int(number)),) if number == int(number) else ()
    return (*whole, repr(number))
