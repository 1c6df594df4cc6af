"""Leaf assignment: the leaf of each row of a CPU shard in the trees of the last message.

The leaves of a tree are needed several times: level by level while it grows, for sums, for its
values, and again for each further class. They are cached in two bytes a row and tree; a tree of one
feature needs no cache, because the feature's code determines the leaf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privboost.engine import block_kernels
from privboost.engine.blocks import BlockArrays, Blocks, Ids
from privboost.trees.tree import NO_INTERVALS, Tree

_INTERVALS_OF_A_LOOK_UP = 64
"""Comparisons with so many code intervals take about as long as a look-up."""
_EVERY_LEAF = np.arange(2**16, dtype=np.uint16)
_EVERY_LEAF.flags.writeable = False


class _Descent:
    """The nodes that rows have reached in one tree.

    Attributes
    ----------
    tree : Tree
        The tree.
    nodes : BlockArrays, optional
        The node of each row, once it was needed.
    depth : int
        The depth of these nodes; −1 where they are unknown.
    leaf_of_code : uint16 array, optional
        The leaf of each code of a tree of one feature.
    """

    def __init__(self, tree: Tree, nodes: BlockArrays | None, depth: int) -> None:
        self.tree, self.nodes, self.depth = tree, nodes, depth
        self.leaf_of_code = None if tree.only_feature is None else tree.leaf_of_codes()


class LeafAssignment:
    """Finds the leaf of each row, and caches it until other trees are set."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._descents: list[_Descent] = []

    def set_trees(self, trees: tuple[Tree, ...]) -> None:
        """Set the trees; what is cached of them is kept."""
        known = self._descents
        if len(trees) == len(known) and all(
            tree.same_as(descent.tree) for tree, descent in zip(trees, known, strict=True)
        ):
            return
        deeper = len(trees) == len(known) == 1 and trees[0].extends(known[0].tree)
        depth = known[0].depth if deeper else -1
        kept = [descent.nodes for descent in known] + [None] * len(trees)
        self._descents = [_Descent(tree, kept[k], depth) for k, tree in enumerate(trees)]

    def leaves(self, tree: int) -> tuple[Ids, np.ndarray]:
        """Return the ids of rows in a tree that were assigned, and the leaf of each id."""
        descent = self._descents[tree]
        if descent.leaf_of_code is not None:
            return self._blocks.column(int(descent.tree.feature[0])), descent.leaf_of_code
        return self.nodes(tree), _EVERY_LEAF[: descent.tree.n_leaves]

    def nodes(self, tree: int) -> Ids:
        """Return the addresses of the rows' nodes."""
        nodes = self._descents[tree].nodes
        assert nodes is not None
        return nodes.at, True

    def leaves_of_block(self, tree: int, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the same for the rows of one block."""
        descent = self._descents[tree]
        if descent.leaf_of_code is not None:
            column = self._blocks.rows[block].column(int(descent.tree.feature[0]))
            return column, descent.leaf_of_code
        assert descent.nodes is not None
        return descent.nodes.arrays[block], _EVERY_LEAF[: descent.tree.n_leaves]

    def assign(self) -> None:
        """Assign all rows to the leaves of all trees of several features."""
        for descent in self._descents:
            if descent.leaf_of_code is None and descent.depth < descent.tree.depth:
                self._assign(descent, 0)

    def descend(self, tree: Tree) -> np.ndarray:
        """Assign all rows to the leaves of a tree that grows; return the leaves' rows (int64)."""
        self.set_trees((tree,))
        return self._assign(self._descents[0], tree.n_leaves)

    def _assign(self, descent: _Descent, leaves: int) -> np.ndarray:
        """Assign all rows to the leaves of a tree; if that fails, the nodes count as unknown.

        Returns the rows of each leaf if `leaves` is not 0.
        """
        blocks, tree = self._blocks, descent.tree
        if descent.nodes is None:
            nodes = [np.empty(size, dtype=np.uint16) for size in blocks.sizes.tolist()]
            descent.nodes, descent.depth = BlockArrays(nodes), -1
        depth, node_at = max(descent.depth, 0), descent.nodes.at
        slots = blocks.layout.slot_array[tree.feature] if len(blocks) else tree.feature
        runs = tree.intervals if depth == 0 else NO_INTERVALS
        descent.depth = -1

        def task_of(_: np.ndarray | None, copies: np.ndarray) -> tuple[Any, ...]:
            how = (slots, tree.goes_right, runs, depth, node_at, copies)
            return (blocks.sizes, blocks.columns, *how)

        by_look_up = tree.depth - max(depth, runs.levels)
        look_ups = by_look_up + len(runs.begin) / _INTERVALS_OF_A_LOOK_UP + (leaves > 0)
        counts = blocks.add_up(look_ups, block_kernels.route_blocks, task_of, leaves)
        descent.depth = tree.depth
        return counts
