"""Scores of an ensemble of complete trees: a row's score is the sum of its leaves' values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from privboost.engine import kernels
from privboost.grid import SCORE_STEPS
from privboost.models import line_kernels, tree_kernels
from privboost.models.checks import (
    largest,
    need,
    need_array,
    need_keys,
    need_list,
    need_scores,
    within_grid,
)
from privboost.models.importance import MORE, NO_MASS, add_noise, draw_rows, even, on_grid
from privboost.models.parts import JointTree, ScoreParts
from privboost.models.told_rows import read_rows
from privboost.models.tree_lines import Batch, batches_of
from privboost.pickling import DeclaredState
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes
from privboost.trees.routing import find_leaves
from privboost.trees.tree import MAX_DEPTH, Tree
from privboost.trees.turn_words import FEWEST_ROWS

_MOST_FEATURES = 2**16
"""Features that a node of a tree can tell apart."""

_CHANGES = 2**18
"""How many changes of scores are held at once, of some features at a time."""

_SHARINGS = 10
"""How often mass is divided among codes anew: more changes nothing that can be seen."""


@dataclass(frozen=True, eq=False)
class Forest(DeclaredState):
    """Trees of one depth, as arrays; what a model file keeps.

    Attributes
    ----------
    feature : uint16 array of shape (trees, nodes)
        The feature each node looks at.
    goes_right : uint8 array of shape (trees, nodes, ⌈codes/8⌉)
        Where each code goes, a bit a code.
    values : int32 array of shape (trees, outputs, leaves)
        The released values, in score steps.
    mass : int32 array of shape (trees, outputs, leaves), or None
        What was released about how many rows lie in each leaf; noise may leave less than 0.
    noise : int32 array of shape (trees, outputs, leaves), or None
        The standard deviation that noise alone gives to each value, in score steps.
    """

    feature: np.ndarray
    goes_right: np.ndarray
    values: np.ndarray
    mass: np.ndarray | None = None
    noise: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        trees: Sequence[Tree],
        values: Sequence[np.ndarray],
        mass: np.ndarray | None = None,
        noise: np.ndarray | None = None,
    ) -> Forest:
        """Pack trees of one depth and their values, each of shape (outputs, leaves)."""
        width = max(tree.goes_right.shape[1] for tree in trees)
        turns = np.zeros((len(trees), len(trees[0].feature), -(-width // 8)), dtype=np.uint8)
        for packed, tree in zip(turns, trees, strict=True):
            own = np.packbits(tree.goes_right, axis=1, bitorder="little")
            packed[:, : own.shape[1]] = own
        return cls(
            np.stack([tree.feature for tree in trees]),
            turns,
            np.stack(values),
            mass,
            None if noise is None else on_grid(noise),
        )

    def __post_init__(self) -> None:
        for array in (self.feature, self.goes_right, self.values, self.mass, self.noise):
            if array is not None:
                array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.feature)

    def tree(self, number: int) -> Tree:
        """Return one tree."""
        turns = np.unpackbits(self.goes_right[number], axis=1, bitorder="little")
        return Tree(self.feature[number], turns)

    @cached_property
    def joins(self) -> np.ndarray:
        """Which trees look at several features, or at none."""
        several = (self.feature != self.feature[:, :1]).any(axis=1)
        joins: np.ndarray = several | (self.feature.shape[1] == 0)
        return joins

    def reach_of_missing(
        self, n_codes: np.ndarray
    ) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]]:
        """Yield each feature that nodes look at, and which leaves rows without a value reach.

        Two boolean arrays of shape (trees, leaves): whether a node above the leaf looks at the
        feature, and whether one of them sends missing values to the other side.
        """
        feature = self.feature.astype(np.int64)
        last = n_codes[feature] - 1
        packed = np.take_along_axis(self.goes_right, (last // 8)[..., None], axis=2)[..., 0]
        turns = (packed >> (last % 8)) & 1
        leaves = np.arange(self.values.shape[2])
        depth = len(leaves).bit_length() - 1
        levels = range(depth)
        # The nodes above each leaf, and on which side of them it lies.
        nodes = np.stack([2**level - 1 + (leaves >> (depth - level)) for level in levels], axis=-1)
        sides = np.stack([(leaves >> (depth - level - 1)) & 1 for level in levels], axis=-1)
        above, parted = feature[:, nodes], turns[:, nodes] != sides
        for own in np.unique(feature).tolist():
            here = above == own
            yield own, (here.any(axis=2), (here & parted).any(axis=2))

    def add_joint(self, codes: Codes, scores: np.ndarray) -> None:
        """Add to scores, of shape (outputs, rows), the values of trees that join features."""
        feature, goes_right, values = self._joint
        if len(codes) >= FEWEST_ROWS and feature.size:
            for batch in self._batches:
                batch.add(codes, feature, goes_right, values, scores)
            return
        slots = codes.layout.slot_array[feature]
        whole = (slots, goes_right, values)
        line_kernels.add_trees_by_row(codes.narrow, codes.wide, *whole, scores)

    @cached_property
    def _joint(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The arrays of trees that join features."""
        if self.joins.all():
            return self.feature, self.goes_right, self.values
        return self.feature[self.joins], self.goes_right[self.joins], self.values[self.joins]

    @cached_property
    def _batches(self) -> list[Batch]:
        """The same in batches."""
        feature, goes_right, _ = self._joint
        return list(batches_of(feature, goes_right))

    def mass_below(self, number: int) -> np.ndarray:
        """Return what was released about the rows below each node of a tree, leaves last."""
        if self.mass is None:
            raise AttributeError(NO_MASS)
        levels = [self.mass[number].sum(axis=0, dtype=np.float64)]
        while len(levels[0]) > 1:
            levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
        return np.concatenate(levels)

    @property
    def all_noise(self) -> np.ndarray:
        """What noise alone gives to values, of shape (trees, outputs, leaves), as floats."""
        if self.noise is None:
            raise AttributeError(NO_MASS)
        noise: np.ndarray = self.noise.astype(np.float64)
        return noise

    def add_variances(self, codes: Codes, total: np.ndarray) -> None:
        """Add what noise gives to the scores of rows, squared, to a total of their shape."""
        for number, noise in enumerate(self.all_noise):
            total += (noise**2)[:, find_leaves(codes, self.tree(number))]

    def drawn(self, generator: np.random.Generator) -> Forest:
        """Return the same trees with noise drawn once more on top."""
        if self.noise is None:
            raise AttributeError(NO_MASS)
        values = add_noise(self.values, self.noise, generator)
        return replace(self, values=values, noise=on_grid(MORE * self.noise))

    def stretched(self, slope: np.ndarray) -> Forest:
        """Return the same trees with values, and their noise, times each output's slope."""
        by_leaf = slope[:, None]
        noise = None if self.noise is None else on_grid(self.noise * by_leaf)
        return replace(self, values=np.rint(self.values * by_leaf).astype(np.int32), noise=noise)

    def to_form(self) -> dict[str, np.ndarray]:
        """Return what a model file keeps."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_form(cls, form: Any, layout: Layout, n_outputs: int) -> Forest:
        """Read what `to_form` gave: complete trees that turn at every code of their features."""
        place = "scores.forests"
        form = need_keys(form, place, {field.name for field in fields(cls)})
        last = len(layout.n_codes) - 1
        feature = need_array(form["feature"], f"{place}.feature", np.uint16, (None, None), 0, last)
        count, nodes = feature.shape
        complete = count > 0 and nodes & (nodes + 1) == 0 and nodes < 2**MAX_DEPTH
        need(complete, f"{place}.feature", f"complete trees of depth {MAX_DEPTH} at most")
        shape = (count, n_outputs, nodes + 1)
        values = need_array(form["values"], f"{place}.values", np.int32, shape)
        turns = form["goes_right"]
        need_array(turns, f"{place}.goes_right", np.uint8, (count, nodes, None))
        n_codes = np.array(layout.n_codes)
        seen = n_codes[feature].max() if feature.size else 0
        fits = seen <= 8 * turns.shape[2] < n_codes.max() + 8
        need(fits, f"{place}.goes_right", "a bit for each code of the features is needed")
        mass, noise = form["mass"], form["noise"]
        if mass is not None:
            need_array(mass, f"{place}.mass", np.int32, shape)
            need_array(noise, f"{place}.noise", np.int32, shape, 0)
        return cls(feature, turns, values, mass, noise)


@dataclass(frozen=True, eq=False)
class TreeScores(DeclaredState):
    """Released trees on the score grid.

    Attributes
    ----------
    start : int32 array of shape (outputs,)
        The initial score.
    forests : tuple of Forest
        The trees, in the order of training; each forest has one depth.
    updates : int array
        How many trees each update added: the stages of training.
    n_codes : int array
        How many codes each feature has.
    rows : float64 array of shape (2,), or None
        How many rows there are, as far as was released, and the standard deviation of that.
    """

    kind = "trees"
    log_odds: ClassVar[bool] = True
    start: np.ndarray
    forests: tuple[Forest, ...]
    updates: np.ndarray
    n_codes: np.ndarray
    rows: np.ndarray | None = field(default=None, kw_only=True)

    @classmethod
    def of(cls, start: np.ndarray, n_codes: Sequence[int], rows: np.ndarray | None = None) -> Self:
        """Return a model without trees."""
        nothing = np.zeros(0, dtype=np.int32)
        return cls(start, (), nothing, np.array(n_codes, dtype=np.int32), rows=rows)

    def extended(self, forest: Forest, updates: Sequence[int]) -> TreeScores:
        """Return the model with more trees."""
        more = np.array(updates, dtype=np.int32)
        together = np.concatenate([self.updates, more])
        return replace(self, forests=(*self.forests, forest), updates=together)

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return len(self.start)

    @property
    def n_trees(self) -> int:
        """How many trees there are (for each output)."""
        return sum(map(len, self.forests))

    def trees(self) -> Iterator[tuple[Tree, np.ndarray]]:
        """Yield each tree with its values, of shape (outputs, leaves)."""
        for forest in self.forests:
            for number, values in enumerate(forest.values):
                yield forest.tree(number), values

    def scores(self, codes: Codes) -> np.ndarray:
        """Return the exact scores of rows: int32 of shape (outputs, rows)."""
        scores = np.repeat(self.start[:, None], len(codes), axis=1)
        for feature, tables in self._tables.items():
            for output, values in enumerate(tables):
                kernels.add_values(codes.column(feature), values, scores[output])
        for forest in self.forests:
            forest.add_joint(codes, scores)
        return scores

    def staged_scores(self, codes: Codes) -> Iterator[np.ndarray]:
        """Yield the scores after each update (the same array, which goes on changing)."""
        scores = np.repeat(self.start[:, None], len(codes), axis=1)
        trees = self.trees()
        for count in self.updates:
            for _ in range(count):
                _add(codes, *next(trees), scores)
            yield scores

    @cached_property
    def _tables(self) -> dict[int, np.ndarray]:
        """For each feature, the sum over trees that look at it alone: (outputs, codes)."""
        tables: dict[int, np.ndarray] = {}
        for forest in self.forests:
            for number in np.flatnonzero(~forest.joins).tolist():
                feature = int(forest.feature[number, 0])
                leaves = forest.tree(number).leaf_of_codes()[: self.n_codes[feature]]
                own = forest.values[number][:, leaves]
                tables[feature] = tables.get(feature, np.zeros_like(own)) + own
        return tables

    def typical(self) -> np.ndarray:
        """Return the scores of rows drawn from released mass: int32 of shape (outputs, rows).

        Nothing is drawn, so that there are no rows, where no mass was released.
        """
        layout = Layout(tuple(self.n_codes.tolist()))
        if any(forest.mass is None for forest in self.forests):
            return self.scores(Codes.empty(layout, 0))
        return self.scores(Codes.of(layout, draw_rows(self.chances())[0]))

    @property
    def largest(self) -> np.ndarray:
        """A size that no row's score exceeds, of each output, in score steps."""
        own = (largest(forest.values, axis=2).sum(axis=0) for forest in self.forests)
        most: np.ndarray = sum(own, largest(self.start[None], 0))
        return most

    def on_lines(self, lines: np.ndarray) -> Self:
        """Return the model with each output's scores on a line, values rounded to the grid.

        Parameters
        ----------
        lines : float array of shape (outputs, 2)
            Slopes, above 0, and shifts. A slope goes as far as the grid of scores allows.
        """
        slope = within_grid(lines[:, 0], self.largest)
        start = np.rint(slope * self.start + lines[:, 1] * SCORE_STEPS).astype(np.int32)
        forests = tuple(forest.stretched(slope) for forest in self.forests)
        return replace(self, start=start, forests=forests)

    def each_tree(self) -> Iterator[JointTree]:
        """Yield each tree with all that is known of it."""
        numbered = ((forest, k) for forest in self.forests for k in range(len(forest)))
        for number, (forest, k) in enumerate(numbered):
            mass = None if forest.mass is None else forest.mass[k]
            noise = None if forest.noise is None else forest.noise[k]
            yield JointTree(number, forest.tree(k), forest.values[k], mass, noise)

    def parts(self) -> ScoreParts:
        """Return the scores as one sum: trees of one feature are in its table."""
        tables = tuple(
            self._tables.get(feature, np.zeros((self.n_outputs, codes), dtype=np.int32))
            for feature, codes in enumerate(self.n_codes)
        )
        joint = tuple(tree for tree in self.each_tree() if tree.tree.only_feature is None)
        return ScoreParts(self.start, tables, trees=joint)

    def chances(self) -> tuple[np.ndarray, ...]:
        """Return for each feature how likely its codes are, as the mass of the leaves tells.

        Features are taken to be independent. From even chances on, the mass on the two sides of
        each node is divided among the codes that reach them as the chances say, again and again.
        """
        last = np.cumsum(self.n_codes)
        first = last - self.n_codes
        chances = np.concatenate([np.full(codes, 1 / codes) for codes in self.n_codes])
        masses = [list(map(forest.mass_below, range(len(forest)))) for forest in self.forests]
        for _ in range(_SHARINGS):
            shared = np.zeros_like(chances)
            for forest, below in zip(self.forests, masses, strict=True):
                for number, mass in enumerate(below):
                    tree = forest.tree(number)
                    arrays = (tree.feature, tree.goes_right, self.n_codes, first)
                    tree_kernels.add_shares(*arrays, mass, chances, shared)
            parts = [even(part) for part in np.split(shared, last[:-1])]
            chances = np.concatenate(parts)
        return tuple(np.split(chances, last[:-1]))

    def missing_cells(self) -> np.ndarray:
        """Return the mass in leaves that rows without a value of a feature reach, or can't reach.

        Of shape (features, 3), summed over the trees that look at the feature: the mass they reach,
        the mass they can't reach, and the standard error of the latter. It tells only where the
        side of missing values was drawn at random. The noise of a leaf is estimated from how far
        the total mass moves from tree to tree.
        """
        found = np.zeros((len(self.n_codes), 3))
        for forest in self.forests:
            if forest.mass is None or len(forest) < 2 or not forest.feature.size:
                continue
            mass = forest.mass.sum(axis=1, dtype=np.float64)
            steps = np.diff(mass.sum(axis=1))
            leaf_variance = float(np.mean(steps**2)) / 2 / mass.shape[1]
            for feature, (looked_at, out_of_reach) in forest.reach_of_missing(self.n_codes):
                reached = looked_at & ~out_of_reach
                found[feature] += (
                    mass[reached].sum(),
                    mass[out_of_reach].sum(),
                    leaf_variance * np.count_nonzero(out_of_reach),
                )
        found[:, 2] = np.sqrt(found[:, 2])
        return found

    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield what other codes change; see `importance.Explainable`."""
        looked_at = {own for forest in self.forests for own in np.unique(forest.feature).tolist()}
        width = max(_CHANGES // (self.n_outputs * rows.shape[1]), 1)
        for first in range(0, len(rows), width):
            change = np.zeros((min(width, len(rows) - first), self.n_outputs, rows.shape[1]))
            doubt = np.zeros_like(change)
            for forest in self.forests:
                arrays = (forest.feature, forest.goes_right, first, rows, others, forest.values)
                tree_kernels.add_changes(*arrays, forest.all_noise, change, doubt)
            for place in range(len(change)):
                if first + place in looked_at:
                    yield first + place, change[place], doubt[place]

    def feature_values(self) -> tuple[np.ndarray, ...]:
        """Return for each feature the score of its codes, where no tree joins features."""
        if any(forest.joins.any() for forest in self.forests):
            raise AttributeError(
                "effects: these trees join several features; only trees of one feature each "
                '(features="cyclical") add up feature by feature'
            )
        return self.parts().tables

    def to_form(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        kept = {} if self.rows is None else {"rows": self.rows}
        return kept | {
            "start": self.start,
            "forests": [forest.to_form() for forest in self.forests],
            "updates": self.updates,
            "n_codes": self.n_codes,
        }

    @classmethod
    def from_form(cls, form: Any, layout: Layout, n_outputs: int) -> Self:
        """Read what `to_form` gave: trees for this layout, all of them in the stages."""
        form = need_keys(form, "scores", {"start", "forests", "updates", "n_codes"}, {"rows"})
        need(len(layout.n_codes) <= _MOST_FEATURES, "domain", "too many features for trees")
        start = need_array(form["start"], "scores.start", np.int32, (n_outputs,))
        listed = need_list(form["forests"], "scores.forests")
        forests = tuple(Forest.from_form(each, layout, n_outputs) for each in listed)
        n_codes = need_array(form["n_codes"], "scores.n_codes", np.int32, (len(layout.n_codes),))
        need(tuple(n_codes.tolist()) == layout.n_codes, "scores.n_codes", "not those of the domain")
        count = sum(map(len, forests))
        updates = need_array(form["updates"], "scores.updates", np.int32, (None,), 1, count)
        total = int(updates.sum(dtype=np.int64))
        need(total == count, "scores.updates", "they must add up to the trees")
        scores = cls(start, forests, updates, n_codes, rows=read_rows(form))
        need_scores(scores.largest, "scores.forests.values")
        return scores


@dataclass(frozen=True, eq=False)
class MarginScores(TreeScores):
    """Trees whose scores tell classes apart, but are no log-odds: labels −1 and 1, predicted."""

    kind = "margin trees"
    log_odds: ClassVar[bool] = False


def _add(codes: Codes, tree: Tree, values: np.ndarray, scores: np.ndarray) -> None:
    leaf = find_leaves(codes, tree)
    for output, value_of in enumerate(values):
        kernels.add_values(leaf, value_of, scores[output])
