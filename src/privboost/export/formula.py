"""A model as every export writes it: the codes that it tells apart, and whole steps to add up.

Bins between which nothing changes are one, categories that nothing tells apart are one, and
columns that nothing looks at are left out: what is written is no larger than what was learned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privboost.export.parts import Pair, Parts, parts_of
from privboost.models.model import Model
from privboost.tables.features import (
    BooleanFeature,
    CategoricalFeature,
    DateFeature,
    DurationFeature,
    Feature,
    OrdinalFeature,
)
from privboost.tables.times import DAY


@dataclass(frozen=True, eq=False)
class Reading:
    """How a column's values become codes.

    Attributes
    ----------
    feature : Feature
        The column.
    edges : float array
        Of a number: its code is how many of them lie below it. Of a date, they are of what
        `counts` says; of a duration, of seconds.
    codes : int array
        Of categories: the code of each, of any other value, and of a missing one.
    n_codes : int
        How many codes there are; the last is that of a missing number.
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
    def of_text(self) -> bool:
        """Whether the values are words."""
        feature = self.feature
        return isinstance(feature, CategoricalFeature) and isinstance(feature.categories[0], str)

    @property
    def counts(self) -> str:
        """What the edges are of: "numbers", "days" or "seconds" since 1970, or "durations"."""
        feature = self.feature
        if isinstance(feature, DateFeature):
            return "days" if feature.step == DAY else "seconds"
        return "durations" if isinstance(feature, DurationFeature) else "numbers"


@dataclass(frozen=True, eq=False)
class Split:
    """Where the codes of one column go: 1 is right."""

    reading: int
    turns: np.ndarray


@dataclass(frozen=True, eq=False)
class Branching:
    """A complete tree: the split of each node, level by level, and the values of its leaves."""

    splits: np.ndarray
    values: np.ndarray

    @property
    def depth(self) -> int:
        """How many splits lie between the root and a leaf."""
        return (len(self.splits) + 1).bit_length() - 1


@dataclass(frozen=True, eq=False)
class Formula:
    """A model's scores, in whole steps (`grid.SCORE_STEPS`) that add up.

    Attributes
    ----------
    model : Model
        What it was made of: what scores mean is said there.
    readings : tuple of Reading
        The columns that it looks at.
    start : int array of shape (outputs,)
        What every row has.
    alone : tuple of int arrays of shape (outputs, codes)
        What the codes of each column add.
    pairs : tuple of Pair
        What two columns add together; they are named by their place among the readings.
    splits : tuple of Split
        The splits of all trees, each once.
    trees : tuple of Branching
        What trees add.
    """

    model: Model
    readings: tuple[Reading, ...]
    start: np.ndarray
    alone: tuple[np.ndarray, ...]
    pairs: tuple[Pair, ...]
    splits: tuple[Split, ...]
    trees: tuple[Branching, ...]

    @classmethod
    def of(cls, model: Model) -> Formula:
        """Return the formula of a model."""
        parts = parts_of(model)
        splits, trees = _number_splits(parts)
        looks = _looks(parts, splits)
        used = [f for f, own in enumerate(looks) if (own != own[:1]).any()] or [0]
        place = {feature: number for number, feature in enumerate(used)}
        merged = {feature: _merge(model, feature, looks[feature]) for feature in used}
        start = parts.start + sum(own[:, 0] for f, own in enumerate(parts.alone) if f not in place)
        return cls(
            model,
            tuple(reading for reading, _ in merged.values()),
            start,
            tuple(parts.alone[feature][:, first] for feature, (_, first) in merged.items()),
            tuple(
                replace(
                    pair,
                    features=(place[pair.features[0]], place[pair.features[1]]),
                    cell_of=(
                        pair.cell_of[0][merged[pair.features[0]][1]],
                        pair.cell_of[1][merged[pair.features[1]][1]],
                    ),
                )
                for pair in parts.pairs
            ),
            tuple(_split(split, place, merged, used[0]) for split in splits),
            trees,
        )


_Turns = tuple[int, np.ndarray]
"""A feature, and where its codes go."""


def _number_splits(parts: Parts) -> tuple[list[_Turns], tuple[Branching, ...]]:
    """Return all splits of a model's trees, each once, and the trees that name them."""
    numbers: dict[tuple[int, bytes], int] = {}
    splits: list[_Turns] = []
    trees = []
    for tree, values in parts.trees:
        own = []
        for feature, line in zip(tree.feature.tolist(), tree.goes_right, strict=True):
            turns = line[: parts.alone[feature].shape[1]]
            number = numbers.setdefault((feature, turns.tobytes()), len(splits))
            if number == len(splits):
                splits.append((feature, turns))
            own.append(number)
        trees.append(Branching(np.array(own), values))
    return splits, tuple(trees)


def _looks(parts: Parts, splits: list[_Turns]) -> list[np.ndarray]:
    """Return all that a model knows of each feature's codes, a line a code."""
    looks = [list(own) for own in parts.alone]
    for pair in parts.pairs:
        for feature, cells in zip(pair.features, pair.cell_of, strict=True):
            looks[feature].append(cells)
    for feature, turns in splits:
        looks[feature].append(turns)
    return [np.stack(own, axis=1).astype(np.int64) for own in looks]


def _merge(model: Model, feature: int, looks: np.ndarray) -> tuple[Reading, np.ndarray]:
    """Return how a column is read where codes that look alike are one, and the first of each."""
    declared, edges = model.domain.features[feature], model.encoder.edges[feature]
    if isinstance(declared, BooleanFeature | OrdinalFeature):
        _, first, codes = np.unique(looks, axis=0, return_index=True, return_inverse=True)
        every = codes.reshape(-1)
        labels = (0, 1) if isinstance(declared, BooleanFeature) else declared.categories
        own = CategoricalFeature(declared.name, labels)
        return Reading(own, np.empty(0), np.append(every, every[-1]), len(first)), first
    if isinstance(declared, CategoricalFeature):
        _, first, codes = np.unique(looks, axis=0, return_index=True, return_inverse=True)
        return Reading(declared, edges, codes.reshape(-1), len(first)), first
    changes = np.flatnonzero((looks[1:-1] != looks[:-2]).any(axis=1))
    first = np.array([0, *(changes + 1), len(looks) - 1])
    return Reading(declared, edges[changes], np.empty(0, dtype=np.int64), len(first)), first


def _split(
    split: _Turns,
    place: dict[int, int],
    merged: dict[int, tuple[Reading, np.ndarray]],
    any_used: int,
) -> Split:
    """Return a split by the codes that are left; one that parts nothing may be of any column."""
    feature, turns = split
    if feature not in place:
        return Split(0, np.repeat(turns[:1], len(merged[any_used][1])))
    return Split(place[feature], turns[merged[feature][1]])
