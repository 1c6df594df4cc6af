"""Node histograms of a tree that is grown level by level, on the rows of one shard.

What is remembered between levels (the last histograms, joint codes) is a cache: without it the same
integers are computed from scratch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privboost.engine import kernels, node_kernels
from privboost.engine.blocks import Blocks
from privboost.engine.bundles import Bundles, bundle
from privboost.engine.look_up import Statistics
from privboost.engine.queries import NodeHistograms, Sample
from privboost.engine.routes import Routes
from privboost.tables.layout import Layout, columns_of, join_cells, lay_out
from privboost.trees.cell_map import CellMap


@dataclass
class _Level:
    """The last level answered: what was asked, and the histograms."""

    query: NodeHistograms
    histogram: np.ndarray


@dataclass
class Grower:
    """Answers `NodeHistograms` for one shard."""

    blocks: Blocks
    routes: Routes
    _last: _Level | None = None
    _bundles: Bundles | None = None
    _cells: _Cells | None = None

    def forget(self) -> None:
        """Drop what belongs to a tree: the rows' states have changed."""
        self._last = None

    def answer(self, query: NodeHistograms, statistics: Statistics) -> np.ndarray:
        """Return the exact histograms."""
        parent = self._parent(query)
        counts = self.routes.descend(query.tree)
        chosen = np.ones(query.tree.n_leaves, dtype=np.bool_)
        if parent is not None:
            chosen = _smaller_siblings(counts)
        histogram = self._add_up(query, chosen, statistics)
        if parent is not None:
            _subtract(histogram, chosen, parent.histogram)
        self._last = _Level(query, histogram)
        answer = histogram[..., 2 - len(query.statistics) :]
        answer.flags.writeable = False  # it is remembered here
        return answer

    def _parent(self, query: NodeHistograms) -> _Level | None:
        """The last level, if the query asks the same of its children."""
        last = self._last
        return last if last is not None and asks_children(query, last.query) else None

    def _add_up(
        self, query: NodeHistograms, chosen: np.ndarray, statistics: Statistics
    ) -> np.ndarray:
        shape, blocks = (*query.shape[:-1], 2), self.blocks
        if not len(blocks):
            return np.zeros(shape, dtype=np.int64)
        if self._bundles is None or self._bundles.asked != query.cells.features:
            self._bundles = bundle(blocks, query.cells.features)
        bundles = self._bundles
        if self._cells is None or not self._cells.asked.same_as(query.cells):
            self._cells = _Cells(query.cells, bundles, blocks.layout)
        cells = self._cells
        node_at, _ = self.routes.nodes(0)

        nodes, n_cells = shape[:2]

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
    """The cells of features, as the kernels want them; kept while queries share them."""

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


def asks_children(query: NodeHistograms, last: NodeHistograms) -> bool:
    """Whether a query asks the same as another, one level deeper."""
    tree = query.tree
    return (
        tree.depth == last.tree.depth + 1
        and (query.output, query.statistics) == (last.output, last.statistics)
        and same_sample(query.sample, last.sample)
        and query.cells.same_as(last.cells)
        and tree.top(last.tree.depth).same_as(last.tree)
    )


def same_sample(one: Sample | None, other: Sample | None) -> bool:
    """Whether two samples are of the same rows."""
    if one is None or other is None:
        return one is other
    return one.rate == other.rate and np.array_equal(one.key, other.key)


def _smaller_siblings(counts: np.ndarray) -> np.ndarray:
    """Choose in each pair of siblings the one with fewer rows here; the other is a difference."""
    left_is_smaller = counts[::2] <= counts[1::2]
    return np.stack([left_is_smaller, ~left_is_smaller], axis=1).reshape(-1)


def _subtract(histogram: np.ndarray, chosen: np.ndarray, parent: np.ndarray) -> None:
    """Fill the histograms of the siblings that were not added up."""
    own = np.flatnonzero(~chosen)
    histogram[own] = parent[own // 2] - histogram[own ^ 1]
