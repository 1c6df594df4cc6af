"""Node histograms of a tree that is grown level by level, on the rows of one shard.

What is remembered between levels (where each row is, the last histograms, joint codes) is a cache:
without it the same integers are computed from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from privboost.engine import kernels
from privboost.engine.block import Block
from privboost.engine.bundles import Bundle, bundle
from privboost.engine.commands import NodeHistograms, Sample
from privboost.engine.routes import route
from privboost.engine.tree import Tree

_EVERY_CODE = np.arange(2**16, dtype=np.uint16)

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
    _joint: dict[Bundle, list[np.ndarray]] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop what belongs to a tree: the rows' states have changed."""
        self._last = None

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
            and all(map(np.array_equal, query.cell_of, last.cell_of))
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
        bundles, single = bundle(self.blocks[0].layout, query.features, len(out))
        joint = [np.zeros((len(out), each.n_joint, 2), dtype=np.int64) for each in bundles]
        cell_of = dict(zip(query.features, query.cell_of, strict=True))
        for k, (block, node) in enumerate(zip(self.blocks, nodes, strict=True)):
            pairs = pairs_of_block(k)
            rows = np.empty(len(block), dtype=np.uint32)
            rows = rows[: kernels.rows_of_nodes(node, chosen, rows)]
            for feature in single:
                column = block.column(feature)
                kernels.sum_pairs_by_node(node, column, cell_of[feature], pairs, rows, out)
            for each, sums in zip(bundles, joint, strict=True):
                codes = self._joint_codes(each)[k]
                kernels.sum_pairs_by_node(node, codes, _EVERY_CODE, pairs, rows, sums)
        for each, sums in zip(bundles, joint, strict=True):
            for feature, marginal in zip(each.features, each.marginals(sums), strict=True):
                cells = cell_of[feature][: marginal.shape[1]]
                for code, cell in enumerate(cells):
                    out[:, cell] += marginal[:, code]
        return out

    def _joint_codes(self, each: Bundle) -> list[np.ndarray]:
        if each not in self._joint:
            self._joint[each] = [each.pack(block) for block in self.blocks]
        return self._joint[each]


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
