"""Node histograms of a tree that is grown level by level, over the rows of a CPU shard.

The last histograms and the joint codes are a cache: without it the same integers are computed from
scratch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from privboost.engine import kernels, node_kernels
from privboost.engine.blocks import Blocks
from privboost.engine.bundles import Bundles, bundle
from privboost.engine.look_up import Statistics
from privboost.engine.protocol import Summand
from privboost.engine.routes import LeafAssignment
from privboost.tables.layout import Layout, columns_of, join_cells, lay_out
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree


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
                *(blocks.sizes, blocks.label_at, statistics.state_at, blocks.weight_at, active_at),
                *(statistics.look_up, node_at, chosen, blocks.columns, cells.narrow, cells.wide),
                *(bundles.codes_at, cells.joint, (nodes, n_cells, bundles.n_codes)),
                *(blocks.rooms(len(copies), in_hand), copies),
            )

        in_hand = node_kernels.room_of_nodes(nodes, n_cells, bundles.n_codes)
        columns = len(bundles.left_over) + len(bundles.members)
        size = 2 * nodes * (n_cells + bundles.n_codes)
        kernel = node_kernels.sum_by_node
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
