"""Trees of one depth as arrays, and prediction with many of them by their unique splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from privboost._core.pickling import DeclaredState
from privboost.data.rows import Codes, Layout
from privboost.models import kernels
from privboost.models.checks import need, need_array, need_keys
from privboost.models.scores import MORE_NOISE, NO_MASS, add_noise, make_read_only, on_grid
from privboost.trees.kernels import FEWEST_ROWS
from privboost.trees.tree import MAX_DEPTH, Tree, find_leaves

_LEVELS = 8
"""The levels of a tree that are evaluated by unique splits, one operation on many rows each."""
_MOST_SPLITS = 2**13
"""The largest number of splits of a batch: the bits of a stride of rows fit into a cache."""
_MOST_BYTES = 2**23
"""The size of the unpacked bitmasks of a batch, or of one tree if that is larger."""
_MOST_INTERVALS = 64
"""The largest number of code intervals of a split; beyond it a table look-up is faster."""


@dataclass(frozen=True, eq=False)
class Forest(DeclaredState):
    """Trees of one depth as arrays, as in a model file.

    Attributes
    ----------
    feature : uint16 array of shape (trees, nodes)
        The feature of each node.
    goes_right : uint8 array of shape (trees, nodes, ⌈codes/8⌉)
        The split bitmask of each node: one bit a code.
    values : int32 array of shape (trees, outputs, leaves)
        The released values, in score steps.
    mass : int32 array of shape (trees, outputs, leaves), or None
        The noisy count of each leaf; noise may leave it below 0.
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
        """Return a forest of trees of one depth, with values of shape (outputs, leaves) each."""
        width = max(tree.goes_right.shape[1] for tree in trees)
        bits = np.zeros((len(trees), len(trees[0].feature), -(-width // 8)), dtype=np.uint8)
        for packed, tree in zip(bits, trees, strict=True):
            own = np.packbits(tree.goes_right, axis=1, bitorder="little")
            packed[:, : own.shape[1]] = own
        return cls(
            np.stack([tree.feature for tree in trees]),
            bits,
            np.stack(values),
            mass,
            None if noise is None else on_grid(noise),
        )

    def __post_init__(self) -> None:
        make_read_only(self)

    def __len__(self) -> int:
        return len(self.feature)

    def tree(self, number: int) -> Tree:
        """Return one tree."""
        goes_right = np.unpackbits(self.goes_right[number], axis=1, bitorder="little")
        return Tree(self.feature[number], goes_right)

    @cached_property
    def joins(self) -> np.ndarray:
        """Whether each tree splits on several features, or on none."""
        several = (self.feature != self.feature[:, :1]).any(axis=1)
        joins: np.ndarray = several | (self.feature.shape[1] == 0)
        return joins

    def reach_of_missing(
        self, n_codes: np.ndarray
    ) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]]:
        """Yield each feature of the trees with the leaves that its missing values can reach.

        Two boolean arrays of shape (trees, leaves): whether a node above the leaf splits on the
        feature, and whether one of them sends missing values to the other side.
        """
        feature = self.feature.astype(np.int64)
        last = n_codes[feature] - 1
        packed = np.take_along_axis(self.goes_right, (last // 8)[..., None], axis=2)[..., 0]
        missing_side = (packed >> (last % 8)) & 1
        leaves = np.arange(self.values.shape[2])
        depth = len(leaves).bit_length() - 1
        levels = range(depth)
        # The nodes above each leaf, and the side of them on which it lies.
        nodes = np.stack([2**level - 1 + (leaves >> (depth - level)) for level in levels], axis=-1)
        sides = np.stack([(leaves >> (depth - level - 1)) & 1 for level in levels], axis=-1)
        above, parted = feature[:, nodes], missing_side[:, nodes] != sides
        for own in np.unique(feature).tolist():
            here = above == own
            yield own, (here.any(axis=2), (here & parted).any(axis=2))

    def add_joint(self, codes: Codes, scores: np.ndarray) -> None:
        """Add the values of trees of several features to scores of shape (outputs, rows)."""
        feature, goes_right, values = self._joint
        slots, columns = codes.layout.slot_array, (codes.narrow, codes.wide)
        if len(codes) < FEWEST_ROWS or not feature.size:
            kernels.add_trees_by_row(*columns, slots[feature], goes_right, values, scores)
            return
        for own, split_feature, *splits in self._batches:
            whole = (slots[feature[own]], goes_right[own], values[own])
            kernels.add_trees_by_split(*columns, slots[split_feature], *splits, *whole, scores)

    @cached_property
    def _joint(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The arrays of trees of several features."""
        if self.joins.all():
            return self.feature, self.goes_right, self.values
        return self.feature[self.joins], self.goes_right[self.joins], self.values[self.joins]

    @cached_property
    def _batches(self) -> list[_Batch]:
        """The same trees in batches by their unique splits."""
        feature, goes_right, _ = self._joint
        return list(batches_of(feature, goes_right))

    def mass_below(self, number: int) -> np.ndarray:
        """Return the noisy counts below each node of a tree, leaves last."""
        if self.mass is None:
            raise AttributeError(NO_MASS)
        levels = [self.mass[number].sum(axis=0, dtype=np.float64)]
        while len(levels[0]) > 1:
            levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
        return np.concatenate(levels)

    @property
    def all_noise(self) -> np.ndarray:
        """The standard deviation of values, of shape (trees, outputs, leaves), as floats."""
        if self.noise is None:
            raise AttributeError(NO_MASS)
        noise: np.ndarray = self.noise.astype(np.float64)
        return noise

    def add_variances(self, codes: Codes, total: np.ndarray) -> None:
        """Add the variance that noise gives to the scores of rows to a total of their shape."""
        for number, noise in enumerate(self.all_noise):
            total += (noise**2)[:, find_leaves(codes, self.tree(number))]

    def with_more_noise(self, generator: np.random.Generator) -> Forest:
        """Return the same trees with noise drawn once more on top."""
        if self.noise is None:
            raise AttributeError(NO_MASS)
        values = add_noise(self.values, self.noise, generator)
        return replace(self, values=values, noise=on_grid(MORE_NOISE * self.noise))

    def scaled(self, slope: np.ndarray) -> Forest:
        """Return the same trees with values and noise times the slope of each output."""
        by_leaf = slope[:, None]
        noise = None if self.noise is None else on_grid(self.noise * by_leaf)
        return replace(self, values=np.rint(self.values * by_leaf).astype(np.int32), noise=noise)

    def to_payload(self) -> dict[str, np.ndarray]:
        """Return the content of a model file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_payload(cls, payload: Any, layout: Layout, n_outputs: int) -> Forest:
        """Return checked trees from the content of a model file."""
        place = "scores.forests"
        payload = need_keys(payload, place, {field.name for field in fields(cls)})
        last = len(layout.n_codes) - 1
        feature = need_array(
            payload["feature"], f"{place}.feature", np.uint16, (None, None), 0, last
        )
        count, nodes = feature.shape
        complete = count > 0 and nodes & (nodes + 1) == 0 and nodes < 2**MAX_DEPTH
        need(complete, f"{place}.feature", f"complete trees of depth {MAX_DEPTH} at most")
        shape = (count, n_outputs, nodes + 1)
        values = need_array(payload["values"], f"{place}.values", np.int32, shape)
        bits = payload["goes_right"]
        need_array(bits, f"{place}.goes_right", np.uint8, (count, nodes, None))
        n_codes = np.array(layout.n_codes)
        seen = n_codes[feature].max() if feature.size else 0
        fits = seen <= 8 * bits.shape[2] < n_codes.max() + 8
        need(fits, f"{place}.goes_right", "a bit for each code of the features is needed")
        mass, noise = payload["mass"], payload["noise"]
        if mass is not None:
            need_array(mass, f"{place}.mass", np.int32, shape)
        if mass is not None or noise is not None:
            need_array(noise, f"{place}.noise", np.int32, shape, 0)
        return cls(feature, bits, values, mass, noise)


class _Batch(NamedTuple):
    """Trees that together have few unique splits.

    Attributes
    ----------
    trees : slice
        The trees of the forest.
    feature : uint16 array
        The feature of each split.
    intervals : tuple of first, begin, length
        The intervals of codes that go right.
    many, bits : arrays
        The splits of many intervals, and their bitmasks.
    split_of : uint16 array of shape (trees, nodes)
        The split of each node of the first levels.
    """

    trees: slice
    feature: np.ndarray
    intervals: tuple[np.ndarray, np.ndarray, np.ndarray]
    many: np.ndarray
    bits: np.ndarray
    split_of: np.ndarray


def batches_of(feature: np.ndarray, goes_right: np.ndarray) -> Iterator[_Batch]:
    """Yield trees, given as in a `Forest`, in batches."""
    feature, goes_right = (
        np.ascontiguousarray(array[:, : 2**_LEVELS - 1]) for array in (feature, goes_right)
    )
    trees, nodes, size = goes_right.shape
    flat, bits = feature.reshape(-1), goes_right.reshape(-1, size)
    table = np.full(1 << (2 * flat.size - 1).bit_length(), -1, dtype=np.int32)
    split_of, first_seen, splits = np.empty((3, flat.size), dtype=np.int32)
    known = kernels.number_splits(flat, bits, table, split_of, first_seen)
    most = max(min(_MOST_SPLITS, _MOST_BYTES // (8 * size)), nodes)
    numbers, begins = np.empty((trees, nodes), np.uint16), np.empty((trees + 1, 2), np.int64)
    split_of = split_of.reshape(trees, nodes)
    count = kernels.batch_splits(split_of, known, most, numbers, splits, begins)
    for (tree, line), (last_tree, last_line) in pairwise(begins[: count + 1].tolist()):
        own, seen = slice(tree, last_tree), first_seen[splits[line:last_line]]
        yield _Batch(own, flat[seen], *_intervals_of(bits[seen]), numbers[own])


def _intervals_of(
    bits: np.ndarray,
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray, np.ndarray]:
    """Return the code intervals of splits, the splits of many, and their bitmasks."""
    goes_right = np.unpackbits(bits, axis=1, bitorder="little")
    first, many = np.empty(len(bits) + 1, dtype=np.int32), np.empty(len(bits), dtype=np.bool_)
    begin, length = np.empty((2, _MOST_INTERVALS * len(bits)), dtype=np.uint16)
    kernels.find_intervals_of_splits(goes_right, _MOST_INTERVALS, first, begin, length, many)
    intervals = first, begin[: first[-1]].copy(), length[: first[-1]].copy()
    return intervals, np.flatnonzero(many), bits[many]
