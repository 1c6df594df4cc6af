"""Node histograms of a tree that is grown level by level, on the rows of one shard.

What is remembered between levels (where each row is, the last histograms, joint codes) is a cache:
without it the same integers are computed from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privboost.engine import kernels
from privboost.engine.block import Block, route
from privboost.engine.bundles import Bundle, bundle
from privboost.engine.commands import NodeHistograms, Sample
from privboost.engine.layout import Layout
from privboost.engine.tree import Tree
from privboost.grid import BLOCK_ROWS

PairsOfBlock = Callable[[int], np.ndarray]


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
    _bundled: tuple[tuple[int, ...], list[Bundle], list[int]] | None = None
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

    def answer(self, query: NodeHistograms, pairs_of_block: PairsOfBlock) -> np.ndarray:
        """Return the exact histograms."""
        parent = self._parent(query)
        self._last = None  # its rows move on; should anything fail, nothing stale remains
        nodes = self._route(query.tree, parent)
        chosen = np.ones(query.tree.n_leaves, dtype=np.bool_)
        if parent is not None:
            chosen = _smaller_siblings(nodes, query.tree.n_leaves)
        histogram = self._add_up(query, nodes, chosen, pairs_of_block)
        if parent is not None:
            _subtract(histogram, chosen, parent.histogram)
        self._last = _Level(query, nodes, histogram)
        return histogram[..., 2 - len(query.statistics) :].copy()

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

    def _route(self, tree: Tree, parent: _Level | None) -> list[np.ndarray]:
        if parent is None:
            nodes = [np.zeros(len(block), dtype=np.uint16) for block in self.blocks]
        else:
            nodes = parent.nodes
        for block, node in zip(self.blocks, nodes, strict=True):
            route(block, tree, node, from_depth=0 if parent is None else parent.query.tree.depth)
        return nodes

    def _add_up(
        self,
        query: NodeHistograms,
        nodes: list[np.ndarray],
        chosen: np.ndarray,
        pairs_of_block: PairsOfBlock,
    ) -> np.ndarray:
        out = np.zeros((*query.shape[:-1], 2), dtype=np.int64)
        if not self.blocks:
            return out
        bundles, single = self._bundle(query.features)
        if self._cells is None or self._cells.cell_of is not query.cell_of:
            self._cells = _Cells(query, bundles, single, self.blocks[0].layout)
        narrow, wide = self._cells.narrow, self._cells.wide
        joint = [np.zeros((len(out), len(each.digits), 2), dtype=np.int64) for each in bundles]
        own_rows, own_node = np.empty((2, BLOCK_ROWS), dtype=np.uint32)
        own_pairs = np.empty((BLOCK_ROWS, 2), dtype=np.int64)
        for k, (block, node) in enumerate(zip(self.blocks, nodes, strict=True)):
            found = kernels.rows_of_nodes(
                node, chosen, pairs_of_block(k), own_rows, own_node, own_pairs
            )
            rows, at, pairs = own_rows[:found], own_node[:found], own_pairs[:found]
            narrow.add_up(rows, at, pairs, block.narrow, out)
            wide.add_up(rows, at, pairs, block.wide, out)
            for each, sums in zip(bundles, joint, strict=True):
                _EVERY_CODE.add_up(rows, at, pairs, each.codes[k][None], sums)
        for each, sums, cells in zip(bundles, joint, self._cells.of_bundles, strict=True):
            kernels.add_marginals(sums, each.digits, *cells, out)
        return out

    def _bundle(self, features: tuple[int, ...]) -> tuple[list[Bundle], list[int]]:
        """The joint codes of these features; those of the last ones asked for are remembered."""
        if self._bundled is None or self._bundled[0] != features:
            self._bundled = (features, *bundle(self.blocks, features))
        return self._bundled[1], self._bundled[2]


class _Cells:
    """The cells of a query's features, as the kernels want them; kept while queries share them."""

    def __init__(
        self,
        query: NodeHistograms,
        bundles: Sequence[Bundle],
        single: Sequence[int],
        layout: Layout,
    ) -> None:
        self.cell_of = query.cell_of
        own = dict(zip(query.features, query.cell_of, strict=True))
        self.narrow = _Columns([f for f in single if not layout.wide[f]], own, layout)
        self.wide = _Columns([f for f in single if layout.wide[f]], own, layout)
        self.of_bundles = [_join([own[f] for f in each.features]) for each in bundles]


class _Columns:
    """Columns of one kind, and the cells of their codes, as the kernel wants them."""

    def __init__(
        self, features: Sequence[int], cell_of: dict[int, np.ndarray], layout: Layout
    ) -> None:
        offset = layout.n_narrow if features and layout.wide[features[0]] else 0
        self.slots = np.array([layout.slots[f] - offset for f in features], dtype=np.int64)
        cells, self.first = _join([cell_of[f] for f in features])
        self.cells = 2 * cells.astype(np.uint32)

    def add_up(
        self,
        rows: np.ndarray,
        node: np.ndarray,
        pairs: np.ndarray,
        codes: np.ndarray,
        out: np.ndarray,
    ) -> None:
        """Add the rows' pairs by node and cell."""
        if len(self.slots):
            start = node * np.uint32(2 * out.shape[1])
            kernels.sum_pairs_by_node(
                rows, start, pairs, codes, self.slots, self.cells, self.first, out.reshape(-1)
            )


class _JointColumn(_Columns):
    """A column whose codes are cells."""

    def __init__(self) -> None:
        self.slots = np.zeros(1, dtype=np.int64)
        self.first = np.zeros(1, dtype=np.int64)
        self.cells = 2 * np.arange(2**16, dtype=np.uint32)


_EVERY_CODE = _JointColumn()


def _join(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return several arrays in one, and where each begins."""
    first = np.cumsum([0, *map(len, parts)], dtype=np.int64)[:-1]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts]).astype(np.int64), first


def _same_sample(one: Sample | None, other: Sample | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.rate == other.rate and np.array_equal(one.key, other.key)


def _smaller_siblings(nodes: list[np.ndarray], n_nodes: int) -> np.ndarray:
    """Choose in each pair of siblings the one with fewer rows here; the other is a difference."""
    counts = np.zeros(n_nodes, dtype=np.int64)
    for node in nodes:
        kernels.count_nodes(node, counts)
    left_is_smaller = counts[::2] <= counts[1::2]
    return np.stack([left_is_smaller, ~left_is_smaller], axis=1).reshape(-1)


def _subtract(histogram: np.ndarray, chosen: np.ndarray, parent: np.ndarray) -> None:
    """Fill the histograms of the siblings that were not added up."""
    own = np.flatnonzero(~chosen)
    histogram[own] = parent[own // 2] - histogram[own ^ 1]
