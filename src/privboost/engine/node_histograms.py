"""Histograms by tree node, of the statistics of a CPU shard's rows while a tree grows.

The last histograms are cached, and so are bundles: small features with one joint code, so that one
pass over the rows serves several. Only combinations that a shard's own rows have get a joint code:
forty indicators of which one is set have forty, not 2⁴⁰. The histogram of joint codes gives each
feature's own exactly. Which combinations exist never leaves the shard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from privboost._core.addresses import addresses
from privboost.data.rows import Layout, columns_of, join_cells, lay_out
from privboost.engine import block_kernels, kernels
from privboost.engine.blocks import Blocks
from privboost.engine.leaf_assignment import LeafAssignment
from privboost.engine.look_ups import Statistics
from privboost.engine.protocol import Summand
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree

MOST_COMBINATIONS = 2**10
"""Larger joint histograms no longer stay in the processor's cache."""
MOST_BUNDLED_CODES = 32
"""Features with more codes are not bundled."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """Features that share a column.

    Attributes
    ----------
    features : tuple of int
        The features.
    digits : uint16 array of shape (combinations, features)
        The codes of the features for each joint code.
    """

    features: tuple[int, ...]
    digits: np.ndarray


@dataclass(frozen=True, eq=False)
class Bundles:
    """All bundles of some features.

    Attributes
    ----------
    asked : tuple of int
        The features.
    members : list of Bundle
        The bundles, of two features or more.
    codes : list of uint16 arrays of shape (bundles, rows)
        The joint codes of each block's rows.
    left_over : list of int
        The features that are in no bundle.
    """

    asked: tuple[int, ...]
    members: list[Bundle]
    codes: list[np.ndarray]
    left_over: list[int]

    @cached_property
    def codes_at(self) -> np.ndarray:
        """The addresses of each block's joint codes."""
        return addresses(self.codes)

    @property
    def first(self) -> np.ndarray:
        """The first joint code of each bundle, numbered over all bundles."""
        return np.cumsum([0, *(len(each.digits) for each in self.members)])

    @property
    def n_codes(self) -> int:
        """The number of joint codes of all bundles."""
        return int(self.first[-1])


@dataclass
class _Open:
    """A bundle that may still grow."""

    codes: list[np.ndarray]
    features: list[int] = field(default_factory=list)
    digits: np.ndarray = field(default_factory=lambda: np.zeros((1, 0), dtype=np.uint16))

    def takes(self, feature: int, radix: int, blocks: Blocks) -> bool:
        """Add a feature, unless there would be too many combinations."""
        used = np.zeros(len(self.digits) * radix, dtype=np.bool_)

        def mark(first: int, last: int) -> None:
            for codes, block in zip(self.codes[first:last], blocks.rows[first:last], strict=True):
                kernels.mark_pairs(codes, block.column(feature), radix, used)

        def join(first: int, last: int) -> None:
            for codes, block in zip(self.codes[first:last], blocks.rows[first:last], strict=True):
                kernels.join_codes(codes, block.column(feature), radix, number_of)

        blocks.work(1, mark)
        pairs = np.flatnonzero(used)
        if len(pairs) > MOST_COMBINATIONS:
            return False
        number_of = np.zeros(len(used), dtype=np.uint16)
        number_of[pairs] = np.arange(len(pairs))
        blocks.work(1, join)
        self.features.append(feature)
        last = (pairs % radix).astype(np.uint16)
        self.digits = np.column_stack([self.digits[pairs // radix], last])
        return True


def bundle(blocks: Blocks, features: Sequence[int]) -> Bundles:
    """Bundle small features, from the smallest up, so that each bundle holds as many as it can."""
    n_codes = blocks.layout.n_codes
    small = sorted(
        (f for f in features if n_codes[f] <= MOST_BUNDLED_CODES), key=lambda f: n_codes[f]
    )
    done: list[_Open] = []
    for feature in small:
        if not (done and done[-1].takes(feature, n_codes[feature], blocks)):
            done.append(_Open([np.zeros(len(block), dtype=np.uint16) for block in blocks.rows]))
            done[-1].takes(feature, n_codes[feature], blocks)
    done = [each for each in done if len(each.features) > 1]
    codes = []
    for k, block in enumerate(blocks.rows):
        parts = [each.codes[k] for each in done]
        codes.append(np.array(parts, dtype=np.uint16).reshape(len(parts), len(block)))
    packed = {feature for each in done for feature in each.features}
    return Bundles(
        tuple(features),
        [Bundle(tuple(each.features), each.digits) for each in done],
        codes,
        [feature for feature in features if feature not in packed],
    )


class Level(NamedTuple):
    """The histograms of one level: the tree so far, the cells of features, what rows add."""

    tree: Tree
    cells: CellMap
    summand: Summand

    def is_below(self, other: Level) -> bool:
        """Whether this level has the children of another one's nodes, and is otherwise the same."""
        tree, above = self.tree, other.tree
        return (
            tree.depth == above.depth + 1
            and self.summand.same_as(other.summand)
            and self.cells.same_as(other.cells)
            and tree.extends(above)
        )


@dataclass
class Grower:
    """Sums by node and cell, with sibling subtraction between levels."""

    blocks: Blocks
    leaves: LeafAssignment
    _last: tuple[Level, np.ndarray] | None = None
    _bundles: Bundles | None = None
    _cells: _Cells | None = None

    def forget(self) -> None:
        """Drop the last histograms: the scores of rows have changed."""
        self._last = None

    def answer(self, level: Level, statistics: Statistics) -> np.ndarray:
        """Return the exact histograms (int64, of shape (nodes, cells, 2); read-only)."""
        parent = None
        if self._last is not None and level.is_below(self._last[0]):
            parent = self._last[1]
        counts = self.leaves.descend(level.tree)
        chosen = np.ones(level.tree.n_leaves, dtype=np.bool_)
        if parent is not None:
            chosen = _smaller_siblings(counts)
        histogram = self._add_up(level, chosen, statistics)
        if parent is not None:
            _subtract(histogram, chosen, parent)
        self._last = level, histogram
        answer = histogram.view()
        answer.flags.writeable = False  # it is kept here
        return answer

    def _add_up(self, level: Level, chosen: np.ndarray, statistics: Statistics) -> np.ndarray:
        """Return the histograms of the chosen nodes; those of others are 0."""
        blocks, asked = self.blocks, level.cells
        nodes, n_cells = level.tree.n_leaves, asked.n_cells
        shape = (nodes, n_cells, 2)
        if not len(blocks):
            return np.zeros(shape, dtype=np.int64)
        if self._bundles is None or self._bundles.asked != asked.features:
            self._bundles = bundle(blocks, asked.features)
        bundles = self._bundles
        if self._cells is None or not self._cells.asked.same_as(asked):
            self._cells = _Cells(asked, bundles, blocks.layout)
        cells = self._cells
        node_at, _ = self.leaves.nodes(0)

        def task_of(active_at: np.ndarray | None, copies: np.ndarray) -> tuple[Any, ...]:
            return (
                *(
                    blocks.sizes,
                    statistics.label_at,
                    statistics.state_at,
                    blocks.weight_at,
                    active_at,
                ),
                *(statistics.look_up, node_at, chosen, blocks.columns, cells.narrow, cells.wide),
                *(bundles.codes_at, cells.joint, (nodes, n_cells, bundles.n_codes)),
                *(blocks.buffers(len(copies), in_hand), copies),
            )

        in_hand = block_kernels.room_of_nodes(nodes, n_cells, bundles.n_codes)
        columns = len(bundles.left_over) + len(bundles.members)
        size = 2 * nodes * (n_cells + bundles.n_codes)
        kernel = block_kernels.sum_by_node
        sums = blocks.add_up(1 + columns, kernel, task_of, size, statistics)
        out = sums[: math.prod(shape)].reshape(shape)
        joint_out = sums[math.prod(shape) :].reshape(nodes, bundles.n_codes, 2)
        start = 0
        for each, own in zip(bundles.members, cells.of_bundles, strict=True):
            stop = start + len(each.digits)
            kernels.add_marginals(joint_out[:, start:stop], each.digits, *own, out)
            start = stop
        return out


class _Cells:
    """The cells of features in the layout of the kernels; kept while queries share them."""

    def __init__(self, asked: CellMap, bundles: Bundles, layout: Layout) -> None:
        self.asked = asked
        own = asked.by_feature()
        self.narrow, self.wide = columns_of(layout, {f: own[f] for f in bundles.left_over})
        codes = {
            k: bundles.first[k] + np.arange(len(each.digits))
            for k, each in enumerate(bundles.members)
        }
        self.joint = lay_out(codes)
        self.of_bundles = [join_cells([own[f] for f in each.features]) for each in bundles.members]


def _smaller_siblings(counts: np.ndarray) -> np.ndarray:
    """Return for each node whether it is the sibling with fewer rows; the other is a difference."""
    left_is_smaller = counts[::2] <= counts[1::2]
    return np.stack([left_is_smaller, ~left_is_smaller], axis=1).reshape(-1)


def _subtract(histogram: np.ndarray, chosen: np.ndarray, parent: np.ndarray) -> None:
    """Fill the histograms of the other siblings."""
    own = np.flatnonzero(~chosen)
    histogram[own] = parent[own // 2] - histogram[own ^ 1]
