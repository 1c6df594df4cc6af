"""Where the rows of a shard are in the trees it was asked about last.

A tree's leaves are asked for several times: level by level while it grows, when sums are added up,
when values come back, and once more for each further class. What is remembered is a cache of two
bytes a row and tree; the leaves of a tree that looks at one feature need none, because the
feature's code says it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from privboost.addresses import addresses
from privboost.engine import block_kernels
from privboost.engine.blocks import Blocks, Ids
from privboost.trees.runs import NO_RUNS
from privboost.trees.tree import Tree

_RUNS_OF_A_LOOK_UP = 64
"""A row is compared with so many runs in about the time of a look-up."""
_EVERY_LEAF = np.arange(2**16, dtype=np.uint16)
_EVERY_LEAF.flags.writeable = False


class _Nodes:
    """Room for the nodes of all rows: two bytes each, block by block."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.arrays = [np.empty(size, dtype=np.uint16) for size in sizes]
        self.at = addresses(self.arrays)


class _Walk:
    """How far the rows were led down one tree.

    Attributes
    ----------
    tree : Tree
        The tree.
    nodes : _Nodes, optional
        In which node each row is, where somebody has looked.
    depth : int
        At which depth they are; −1 where nobody knows.
    leaf_of_code : uint16 array, optional
        The leaf of each code, where the tree looks at one feature.
    """

    def __init__(self, tree: Tree, nodes: _Nodes | None, depth: int) -> None:
        self.tree, self.nodes, self.depth = tree, nodes, depth
        self.leaf_of_code = None if tree.only_feature is None else tree.leaf_of_codes()

    def goes_on_with(self, tree: Tree) -> bool:
        """Whether a tree is this one, grown deeper."""
        depth = self.tree.depth
        return depth < tree.depth and tree.top(depth).same_as(self.tree)


class Routes:
    """Finds the leaf of each row, and remembers it until other trees are asked about."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._walks: list[_Walk] = []

    def follow(self, trees: tuple[Tree, ...]) -> None:
        """Turn to these trees."""
        walks = self._walks
        if len(trees) == len(walks) and all(
            tree.same_as(walk.tree) for tree, walk in zip(trees, walks, strict=True)
        ):
            return
        on_the_way = len(trees) == len(walks) == 1 and walks[0].goes_on_with(trees[0])
        depth = walks[0].depth if on_the_way else -1
        rooms = [walk.nodes for walk in walks] + [None] * len(trees)
        self._walks = [_Walk(tree, rooms[k], depth) for k, tree in enumerate(trees)]

    def leaves(self, tree: int) -> tuple[Ids, np.ndarray]:
        """Return an id for each row that was led there, and the leaf of each id, in a tree."""
        walk = self._walks[tree]
        if walk.leaf_of_code is not None:
            return self._blocks.column(int(walk.tree.feature[0])), walk.leaf_of_code
        return self.nodes(tree), _EVERY_LEAF[: walk.tree.n_leaves]

    def nodes(self, tree: int) -> Ids:
        """Return where the node of each row is written."""
        nodes = self._walks[tree].nodes
        assert nodes is not None
        return nodes.at, True

    def leaves_of_block(self, tree: int, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the same for the rows of one block."""
        walk = self._walks[tree]
        if walk.leaf_of_code is not None:
            column = self._blocks.rows[block].column(int(walk.tree.feature[0]))
            return column, walk.leaf_of_code
        assert walk.nodes is not None
        return walk.nodes.arrays[block], _EVERY_LEAF[: walk.tree.n_leaves]

    def lead(self) -> None:
        """Lead all rows to the leaves of all trees, where their codes do not say it all."""
        for walk in self._walks:
            if walk.leaf_of_code is None and walk.depth < walk.tree.depth:
                self._lead(walk, 0)

    def descend(self, tree: Tree) -> np.ndarray:
        """Lead all rows to the leaves of a tree that grows, and count them by leaf (int64)."""
        self.follow((tree,))
        return self._lead(self._walks[0], tree.n_leaves)

    def _lead(self, walk: _Walk, leaves: int) -> np.ndarray:
        """Lead all rows to the leaves of a tree; should they not arrive, nothing is known.

        Return how many there are in each of the first leaves: none are counted, or all.
        """
        blocks, tree = self._blocks, walk.tree
        if walk.nodes is None:
            walk.nodes, walk.depth = _Nodes(blocks.sizes.tolist()), -1
        depth, node_at = max(walk.depth, 0), walk.nodes.at
        slots = blocks.layout.slot_array[tree.feature] if len(blocks) else tree.feature
        runs = tree.runs if depth == 0 else NO_RUNS
        walk.depth = -1

        def task_of(_: np.ndarray | None, copies: np.ndarray) -> tuple[Any, ...]:
            how = (slots, tree.goes_right, runs, depth, node_at, copies)
            return (blocks.sizes, blocks.columns, *how)

        by_look_up = tree.depth - max(depth, runs.levels)
        look_ups = by_look_up + len(runs.begin) / _RUNS_OF_A_LOOK_UP + (leaves > 0)
        counts = blocks.add_up(look_ups, block_kernels.route_blocks, task_of, leaves)
        walk.depth = tree.depth
        return counts
