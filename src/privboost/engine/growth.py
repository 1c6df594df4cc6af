"""Node histograms of a tree that is grown level by level, on the rows of one shard.

What is remembered between levels (where each row is, the last histograms, joint codes) is a cache:
without it the same integers are computed from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privboost.engine import kernels
from privboost.engine.block import Block, route_and_count
from privboost.engine.bundles import Bundles, bundle
from privboost.engine.commands import NodeHistograms, Sample
from privboost.engine.layout import Layout, columns_of, join_cells, lay_out
from privboost.engine.tree import Tree
from privboost.grid import BLOCK_ROWS

RowsOfBlock = Callable[[int], tuple[Any, ...]]
"""From a block's number to the first arguments of `kernels.sum_block_by_node`."""


@dataclass
class _Level:
    """The last level answered: what was asked, where the rows are, and their histograms."""

    query: NodeHistograms
    nodes: list[np.ndarray]
    histogram: np.ndarray


@dataclass
class Grower:
    """Answers `NodeHistograms` for one shard."""

    blocks: Sequence[Block]
    _last: _Level | None = None
    _bundles: Bundles | None = None
    _cells: _Cells | None = None

    def forget(self) -> None:
        """Drop what belongs to a tree: the rows' states have changed."""
        self._last = None

    def nodes_above(self, tree: Tree) -> tuple[int, list[np.ndarray]] | None:
        """Return down to which depth rows were led in a tree that grows, and where they are."""
        if self._last is None:
            return None
        above = self._last.query.tree
        grown = above.depth <= tree.depth and tree.top(above.depth).same_as(above)
        return (above.depth, self._last.nodes) if grown else None

    def answer(self, query: NodeHistograms, rows_of_block: RowsOfBlock) -> np.ndarray:
        """Return the exact histograms."""
        parent = self._parent(query)
        self._last = None  # its rows move on; should anything fail, nothing stale remains
        nodes, counts = self._route(query.tree, parent)
        chosen = np.ones(query.tree.n_leaves, dtype=np.bool_)
        if parent is not None:
            chosen = _smaller_siblings(counts)
        histogram = self._add_up(query, nodes, chosen, rows_of_block)
        if parent is not None:
            _subtract(histogram, chosen, parent.histogram)
        self._last = _Level(query, nodes, histogram)
        answer = histogram[..., 2 - len(query.statistics) :]
        answer.flags.writeable = False  # it is remembered here
        return answer

    def _parent(self, query: NodeHistograms) -> _Level | None:
        """The last level, if the query asks the same of its children."""
        if self._last is None:
            return None
        last, tree = self._last.query, query.tree
        same = (
            tree.depth == last.tree.depth + 1
            and (query.features, query.output, query.statistics)
            == (last.features, last.output, last.statistics)
            and _same_sample(query.sample, last.sample)
            and (
                query.cell_of is last.cell_of
                or all(map(np.array_equal, query.cell_of, last.cell_of))
            )
            and tree.top(last.tree.depth).same_as(last.tree)
        )
        return self._last if same else None

    def _route(self, tree: Tree, parent: _Level | None) -> tuple[list[np.ndarray], np.ndarray]:
        """Lead the rows to the leaves; return where they are, and how many are in each."""
        if parent is None:
            depth, nodes = 0, [np.zeros(len(block), dtype=np.uint16) for block in self.blocks]
        else:
            depth, nodes = parent.query.tree.depth, parent.nodes
        counts = np.zeros(tree.n_leaves, dtype=np.int64)
        for block, node in zip(self.blocks, nodes, strict=True):
            route_and_count(block, tree, node, depth, counts)
        return nodes, counts

    def _add_up(
        self,
        query: NodeHistograms,
        nodes: list[np.ndarray],
        chosen: np.ndarray,
        rows_of_block: RowsOfBlock,
    ) -> np.ndarray:
        out = np.zeros((*query.shape[:-1], 2), dtype=np.int64)
        if not self.blocks:
            return out
        if self._bundles is None or self._bundles.asked != query.features:
            self._bundles = bundle(self.blocks, query.features)
        bundles = self._bundles
        if self._cells is None or self._cells.cell_of is not query.cell_of:
            self._cells = _Cells(query, bundles, self.blocks[0].layout)
        cells = self._cells
        joint_out = np.zeros((len(out), bundles.n_codes, 2), dtype=np.int64)
        own_rows, start = np.empty((2, BLOCK_ROWS), dtype=np.uint32)
        pairs = np.empty(BLOCK_ROWS, dtype=np.int64)
        packed, joint_packed = (
            np.empty(sums.shape[:2], dtype=np.int64) for sums in (out, joint_out)
        )
        for k, (block, node) in enumerate(zip(self.blocks, nodes, strict=True)):
            looked_up, weight, active = rows_of_block(k)
            kernels.sum_block_by_node(
                looked_up,
                weight,
                active,
                node,
                chosen,
                (block.narrow, *cells.narrow),
                (block.wide, *cells.wide),
                (bundles.codes[k], *cells.joint),
                own_rows,
                start,
                pairs,
                packed,
                joint_packed,
                out,
                joint_out,
            )
        first = 0
        for each, own in zip(bundles.members, cells.of_bundles, strict=True):
            last = first + len(each.digits)
            kernels.add_marginals(joint_out[:, first:last], each.digits, *own, out)
            first = last
        return out


class _Cells:
    """The cells of a query's features, as the kernels want them; kept while queries share them."""

    def __init__(self, query: NodeHistograms, bundles: Bundles, layout: Layout) -> None:
        self.cell_of = query.cell_of
        own = dict(zip(query.features, query.cell_of, strict=True))
        self.narrow, self.wide = columns_of(layout, {f: own[f] for f in bundles.left_over})
        codes = {
            k: bundles.first[k] + np.arange(len(each.digits))
            for k, each in enumerate(bundles.members)
        }
        self.joint = lay_out(codes)
        self.of_bundles = [join_cells([own[f] for f in each.features]) for each in bundles.members]


def _same_sample(one: Sample | None, other: Sample | None) -> bool:
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
