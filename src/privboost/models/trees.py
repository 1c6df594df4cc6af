"""Scores of an ensemble of complete trees: a row's score is the sum of its leaves' values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np

from privboost._core.checks import in_quotes, listed
from privboost._core.grid import SCORE_STEPS
from privboost.data.encoding import Encoder
from privboost.data.features import BooleanFeature, CategoricalFeature
from privboost.data.rows import Codes, Layout
from privboost.data.targets import ClassTarget
from privboost.engine import kernels
from privboost.models import kernels as tree_kernels
from privboost.models.checks import (
    largest,
    need,
    need_array,
    need_keys,
    need_list,
    need_scores,
    read_label_shares,
    read_mean,
    read_row_count,
    within_grid,
)
from privboost.models.forest import Forest
from privboost.models.parts import JointTree, ScoreParts
from privboost.models.scores import ModelView, Scores, even
from privboost.trees.tree import Tree, find_leaves

_MOST_FEATURES = 2**16
"""The largest number of features that nodes can refer to."""

_CHANGES = 2**18
"""The largest number of score changes held at once, for some features at a time."""

_ITERATIONS = 10
"""Iterations of the estimate of code probabilities; more make no visible difference."""

_ENOUGH_TREES = 10
"""The number of trees from which on the noise of their totals is estimated from the totals."""


_KEYS = {"start", "forests", "updates", "n_codes"}


@dataclass(frozen=True, eq=False)
class TreeScores(Scores):
    """Released trees on the score grid.

    Attributes
    ----------
    start : int32 array of shape (outputs,)
        The initial score.
    forests : tuple of Forest
        The trees, in the order of training; each forest has one depth.
    updates : int array
        The number of trees of each update: the stages of training.
    n_codes : int array
        The number of codes of each feature.
    """

    kind = "trees"
    log_odds = True
    has_shapes: ClassVar[bool] = False
    start: np.ndarray
    forests: tuple[Forest, ...]
    updates: np.ndarray
    n_codes: np.ndarray
    rows: np.ndarray | None = field(default=None, kw_only=True)
    mean: np.ndarray | None = field(default=None, kw_only=True)
    label_shares: np.ndarray | None = field(default=None, kw_only=True)

    @classmethod
    def of(cls, start: np.ndarray, n_codes: Sequence[int], rows: np.ndarray | None = None) -> Self:
        """Return scores without trees."""
        nothing = np.zeros(0, dtype=np.int32)
        return cls(start, (), nothing, np.array(n_codes, dtype=np.int32), rows=rows)

    def extended(self, forest: Forest, updates: Sequence[int]) -> TreeScores:
        """Return the scores with more trees."""
        more = np.array(updates, dtype=np.int32)
        together = np.concatenate([self.updates, more])
        return replace(self, forests=(*self.forests, forest), updates=together)

    @property
    def n_outputs(self) -> int:
        return len(self.start)

    @property
    def n_trees(self) -> int:
        """The number of trees (for each output)."""
        return sum(map(len, self.forests))

    def trees(self) -> Iterator[tuple[Tree, np.ndarray]]:
        """Yield each tree with its values, of shape (outputs, leaves)."""
        for forest in self.forests:
            for number, values in enumerate(forest.values):
                yield forest.tree(number), values

    def scores(self, codes: Codes) -> np.ndarray:
        scores = np.repeat(self.start[:, None], len(codes), axis=1)
        for feature, tables in self._tables.items():
            for output, values in enumerate(tables):
                kernels.add_values(codes.column(feature), values, scores[output])
        for forest in self.forests:
            forest.add_joint(codes, scores)
        return scores

    def staged_scores(self, codes: Codes) -> Iterator[np.ndarray]:
        scores = np.repeat(self.start[:, None], len(codes), axis=1)
        trees = self.trees()
        for count in self.updates:
            for tree, values in islice(trees, int(count)):
                leaf = find_leaves(codes, tree)
                for output, value_of in enumerate(values):
                    kernels.add_values(leaf, value_of, scores[output])
            yield scores

    @cached_property
    def _tables(self) -> dict[int, np.ndarray]:
        """For each feature, the sum over trees of that feature alone: (outputs, codes)."""
        tables: dict[int, np.ndarray] = {}
        for forest in self.forests:
            for number in np.flatnonzero(~forest.joins).tolist():
                feature = int(forest.feature[number, 0])
                leaves = forest.tree(number).leaf_of_codes()[: self.n_codes[feature]]
                own = forest.values[number][:, leaves]
                tables[feature] = tables.get(feature, np.zeros_like(own)) + own
        return tables

    @property
    def largest(self) -> np.ndarray:
        """A bound on the absolute score of any row, for each output, in score steps."""
        own = (largest(forest.values, axis=2).sum(axis=0) for forest in self.forests)
        most: np.ndarray = sum(own, largest(self.start[None], 0))
        return most

    def with_calibration(self, lines: np.ndarray) -> Self:
        """Return the calibrated scores: a linear function of the scores, rounded to the grid.

        Parameters
        ----------
        lines : float array of shape (outputs, 2)
            Slope, above 0, and intercept of each output. Slopes are limited by the score grid.
        """
        slope = within_grid(lines[:, 0], self.largest)
        start = np.rint(slope * self.start + lines[:, 1] * SCORE_STEPS).astype(np.int32)
        forests = tuple(forest.scaled(slope) for forest in self.forests)
        return replace(self, start=start, forests=forests)

    def each_tree(self) -> Iterator[JointTree]:
        """Yield each tree with its values, mass and noise."""
        numbered = ((forest, k) for forest in self.forests for k in range(len(forest)))
        for number, (forest, k) in enumerate(numbered):
            mass = None if forest.mass is None else forest.mass[k]
            noise = None if forest.noise is None else forest.noise[k]
            yield JointTree(number, forest.tree(k), forest.values[k], mass, noise)

    def parts(self) -> ScoreParts:
        """Return the scores as one sum, with trees of one feature in its table."""
        tables = tuple(self._tables.get(k, table) for k, table in enumerate(self._empty_tables()))
        joint = tuple(tree for tree in self.each_tree() if tree.tree.only_feature is None)
        return ScoreParts(self.start, tables, trees=joint)

    def export_parts(self) -> ScoreParts:
        """Return the scores as one sum of all trees."""
        return ScoreParts(self.start, self._empty_tables(), trees=tuple(self.each_tree()))

    def _empty_tables(self) -> tuple[np.ndarray, ...]:
        return tuple(np.zeros((self.n_outputs, codes), dtype=np.int32) for codes in self.n_codes)

    def code_probabilities(self) -> tuple[np.ndarray, ...]:
        """Return for each feature the probability of each code, from the mass of leaves.

        Features are assumed to be independent. Starting from even probabilities, the mass on the
        two sides of each node is repeatedly divided among the codes that reach them in proportion
        to the probabilities.
        """
        last = np.cumsum(self.n_codes)
        first = last - self.n_codes
        found = np.concatenate([np.full(codes, 1 / codes) for codes in self.n_codes])
        masses = [list(map(forest.mass_below, range(len(forest)))) for forest in self.forests]
        for _ in range(_ITERATIONS):
            shared = np.zeros_like(found)
            for forest, below in zip(self.forests, masses, strict=True):
                for number, mass in enumerate(below):
                    tree = forest.tree(number)
                    arrays = (tree.feature, tree.goes_right, self.n_codes, first)
                    tree_kernels.add_shares(*arrays, mass, found, shared)
            parts = [even(part) for part in np.split(shared, last[:-1])]
            found = np.concatenate(parts)
        return tuple(np.split(found, last[:-1]))

    def missing_cells(self) -> np.ndarray:
        """Return the mass of leaves that rows without a value of a feature reach, or can't reach.

        Of shape (features, 3), summed over the trees of the feature: the mass they reach, the mass
        they can't reach, and the standard error of the latter. The sums are informative only where
        the side of missing values was drawn at random. The noise of a leaf is estimated from the
        differences of the total mass between trees.
        """
        found = np.zeros((len(self.n_codes), 3))
        for forest in self.forests:
            if forest.mass is None or len(forest) < 2 or not forest.feature.size:
                continue
            mass = forest.mass.sum(axis=1, dtype=np.float64)
            steps = np.diff(mass.sum(axis=1))
            leaf_variance = float(np.mean(steps**2)) / 2 / mass.shape[1]
            for feature, (above, out_of_reach) in forest.reach_of_missing(self.n_codes):
                reached = above & ~out_of_reach
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
        features = {own for forest in self.forests for own in np.unique(forest.feature).tolist()}
        width = max(_CHANGES // (self.n_outputs * rows.shape[1]), 1)
        for first in range(0, len(rows), width):
            change = np.zeros((min(width, len(rows) - first), self.n_outputs, rows.shape[1]))
            variance = np.zeros_like(change)
            for forest in self.forests:
                arrays = (forest.feature, forest.goes_right, first, rows, others, forest.values)
                tree_kernels.add_changes(*arrays, forest.all_noise, change, variance)
            for k in range(len(change)):
                if first + k in features:
                    yield first + k, change[k], variance[k]

    def feature_values(self) -> tuple[np.ndarray, ...]:
        if any(forest.joins.any() for forest in self.forests):
            raise AttributeError(
                "effects: these trees split on several features; only trees of one feature each "
                '(features="cyclical") add up feature by feature'
            )
        return self.parts().tables

    def row_counts(self) -> Iterator[tuple[float, float]]:
        """Yield the released row count, and the mean mass of trees, which is no larger.

        In a stream the trees of later batches hold the mass of later rows.
        """
        yield from super().row_counts()
        if (found := self._mean_masses()) is not None:
            means, errors = found
            yield float(means.mean()), float(np.linalg.norm(errors)) / len(means)

    def least_rows(self) -> float | None:
        found = self._mean_masses()
        return None if found is None else float((found[0] - 2 * found[1]).max())

    def _mean_masses(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the mean mass of trees for each output, and its standard error, of many trees."""
        masses = [f.mass.sum(axis=2, dtype=np.float64) for f in self.forests if f.mass is not None]
        if sum(map(len, masses)) < _ENOUGH_TREES:
            return None
        totals = np.concatenate(masses)
        # Where each tree belongs to one output, the other outputs have no mass.
        if totals.shape[1] > 1 and bool(((totals != 0).sum(axis=1) <= 1).all()):
            totals = totals.sum(axis=1, keepdims=True)
        return totals.mean(axis=0), totals.std(axis=0) / math.sqrt(len(totals))

    def to_text(self, model: ModelView, most_trees: int | None = None) -> str:
        """Return the trees as conditions and leaf values."""
        target = model.domain.target
        middle, half = model.middle_and_half
        several = isinstance(target, ClassTarget) and self.n_outputs > 1
        names = [in_quotes(name) for name in model.classes] if several else [""]
        start = ", ".join(
            f"{name}{': ' if name else ''}{value / SCORE_STEPS:+.4g}"
            for name, value in zip(names, self.start, strict=True)
        )
        lines = [f"score at the start {start}"]
        if not isinstance(target, ClassTarget):
            first = middle + half * self.start[0] / SCORE_STEPS
            log = "log of the " * (model.scale_name == "log")
            lines = [f"{log}prediction at the start {first:.6g}"]
        for number, (tree, values) in enumerate(islice(self.trees(), most_trees), 1):
            outputs = [k for k in range(len(values)) if values[k].any()] or [0]
            for output in outputs:
                of = f" of class {names[output]}" if names[output] else ""
                lines.append(f"tree {number}{of}")
                lines += _branch(model.encoder, tree, values[output] * half / SCORE_STEPS, 0, 1)
        if most_trees is not None and most_trees < self.n_trees:
            lines.append(f"… and {self.n_trees - most_trees} trees more")
        return "\n".join(lines)

    def to_payload(self) -> dict[str, Any]:
        kept = {} if self.rows is None else {"rows": self.rows}
        kept |= {} if self.mean is None else {"mean": self.mean}
        kept |= {} if self.label_shares is None else {"label_shares": self.label_shares}
        return kept | {
            "start": self.start,
            "forests": [forest.to_payload() for forest in self.forests],
            "updates": self.updates,
            "n_codes": self.n_codes,
        }

    @classmethod
    def from_payload(cls, payload: Any, layout: Layout, n_outputs: int) -> Self:
        payload = need_keys(payload, "scores", _KEYS, {"rows", "mean", "label_shares"})
        need(len(layout.n_codes) <= _MOST_FEATURES, "domain", "too many features for trees")
        start = need_array(payload["start"], "scores.start", np.int32, (n_outputs,))
        listed = need_list(payload["forests"], "scores.forests")
        forests = tuple(Forest.from_payload(each, layout, n_outputs) for each in listed)
        n_codes = need_array(payload["n_codes"], "scores.n_codes", np.int32, (len(layout.n_codes),))
        need(tuple(n_codes.tolist()) == layout.n_codes, "scores.n_codes", "not those of the domain")
        count = sum(map(len, forests))
        updates = need_array(payload["updates"], "scores.updates", np.int32, (None,), 1, count)
        total = int(updates.sum(dtype=np.int64))
        need(total == count, "scores.updates", "they must add up to the trees")
        about = {"rows": read_row_count(payload), "mean": read_mean(payload)}
        about["label_shares"] = read_label_shares(payload)
        scores = cls(start, forests, updates, n_codes, **about)
        need_scores(scores.largest, "scores.forests.values")
        return scores


@dataclass(frozen=True, eq=False)
class MarginScores(TreeScores):
    """Trees whose scores separate classes but are no log-odds: predictions of labels −1 and 1."""

    kind = "margin trees"
    log_odds = False
    needs_classes: ClassVar[bool] = True


def _branch(encoder: Encoder, tree: Tree, values: np.ndarray, node: int, depth: int) -> list[str]:
    """Return the lines of a subtree; leaves are numbered after the inner nodes."""
    inner, indent = len(tree.feature), "  " * depth
    if node >= inner:
        return [f"{indent}{values[node - inner]:+.4g}"]
    goes_right = tree.goes_right[node]
    if not goes_right[: encoder.layout.n_codes[tree.feature[node]]].any():
        return _branch(encoder, tree, values, 2 * node + 1, depth)
    left, right = conditions(encoder, int(tree.feature[node]), goes_right)
    return [
        f"{indent}{left}",
        *_branch(encoder, tree, values, 2 * node + 1, depth + 1),
        f"{indent}{right}",
        *_branch(encoder, tree, values, 2 * node + 2, depth + 1),
    ]


def conditions(encoder: Encoder, feature: int, goes_right: np.ndarray) -> tuple[str, str]:
    """Return the conditions under which values of a feature go left, and right."""
    declared = encoder.domain.features[feature]
    goes_right = goes_right[: encoder.layout.n_codes[feature]]
    if isinstance(declared, CategoricalFeature):
        names = [*map(str, declared.categories), "other", "missing"]
        chosen = [name for name, right in zip(names, goes_right, strict=True) if right]
        others = [name for name, right in zip(names, goes_right, strict=True) if not right]
        if len(chosen) <= len(others) or not others:
            inside, outside = _one_of(chosen)
            return f"{declared.name} {outside}", f"{declared.name} {inside}"
        inside, outside = _one_of(others)
        return f"{declared.name} {inside}", f"{declared.name} {outside}"
    values = goes_right[:-1]
    on_right = ", or missing" if goes_right[-1] else ""
    on_left = "" if goes_right[-1] else ", or missing"
    if not values.any():
        return f"{declared.name} is there", f"{declared.name} is missing"
    if values.all() and not goes_right[-1]:
        return f"{declared.name} is missing", f"{declared.name} is there"
    if isinstance(declared, BooleanFeature) and not values.all():
        own, other = declared.names[:: 1 if values[0] else -1]
        return f"{declared.name} is {other}{on_left}", f"{declared.name} is {own}{on_right}"
    name, right = declared.name, np.flatnonzero(values)
    first, last = int(right[0]), int(right[-1])
    low = encoder.edge(feature, first - 1) if first else "-inf"
    if last == len(values) - 1:
        return f"{name} ≤ {low}{on_left}", f"{name} > {low}{on_right}"
    high = encoder.edge(feature, last)
    if first == 0:
        return f"{name} > {high}{on_left}", f"{name} ≤ {high}{on_right}"
    outside, inside = f"≤ {low} or > {high}", f"> {low} and ≤ {high}"
    return f"{name} {outside}{on_left}", f"{name} {inside}{on_right}"


def _one_of(names: list[str]) -> tuple[str, str]:
    """Return the conditions of being one of these names, and of being none of them."""
    if len(names) == 1:
        own = in_quotes(names[0])
        return f"is {own}", f"is not {own}"
    text = listed(names)
    return f"is one of: {text}", f"is none of: {text}"
