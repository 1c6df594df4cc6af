"""Where the rows of a shard are in the trees it was asked about last.

A tree's leaves are asked for several times: level by level while it grows, when sums are added up,
when values come back, and once more for each further class. What is remembered is a cache of two
bytes a row and tree; the leaves of a tree that looks at one feature need none, because the
feature's code says it all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privboost.tables.rows import Rows
from privboost.trees.routing import route, route_and_count
from privboost.trees.tree import Tree

_EVERY_LEAF = np.arange(2**16, dtype=np.uint16)


class _Walk:
    """How far the rows of each block were led down one tree.

    Attributes
    ----------
    tree : Tree
        The tree.
    leaf_of_code : uint16 array, optional
        The leaf of each code, where the tree looks at one feature.
    at : dict from block to (int, uint16 array)
        At which depth its rows are, and in which nodes; the others are at the root.
    """

    def __init__(self, tree: Tree, at: dict[int, tuple[int, np.ndarray]]) -> None:
        self.tree, self.at = tree, at
        self.leaf_of_code = None if tree.only_feature is None else tree.leaf_of_codes()

    def goes_on_with(self, tree: Tree) -> bool:
        """Whether a tree is this one, grown deeper."""
        depth = self.tree.depth
        return depth < tree.depth and tree.top(depth).same_as(self.tree)


class Routes:
    """Finds the leaf of each row, and remembers it until other trees are asked about."""

    def __init__(self, blocks: Sequence[Rows]) -> None:
        self._blocks = blocks
        self._walks: list[_Walk] = []

    def follow(self, trees: tuple[Tree, ...]) -> None:
        """Turn to these trees."""
        walks = self._walks
        if len(trees) == len(walks) and all(
            tree.same_as(walk.tree) for tree, walk in zip(trees, walks, strict=True)
        ):
            return
        known: dict[int, tuple[int, np.ndarray]] = {}
        if len(trees) == len(walks) == 1 and walks[0].goes_on_with(trees[0]):
            known = walks[0].at
        self._walks = [_Walk(tree, known if len(trees) == 1 else {}) for tree in trees]

    def leaves(self, tree: int, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Return an id for each row of a block, and the leaf of each id, in a tree."""
        walk, rows = self._walks[tree], self._blocks[block]
        if walk.leaf_of_code is not None:
            return rows.column(int(walk.tree.feature[0])), walk.leaf_of_code
        depth, node = self._leave(walk, block)
        if depth < walk.tree.depth:
            route(rows.codes, walk.tree, node, from_depth=depth)
        walk.at[block] = walk.tree.depth, node
        return node, _EVERY_LEAF[: walk.tree.n_leaves]

    def descend(self, tree: Tree) -> tuple[list[np.ndarray], np.ndarray]:
        """Lead all rows to the leaves of a tree that grows.

        Returns
        -------
        list of uint16 arrays
            The leaf of each row, block by block, until other leaves are asked for.
        int64 array
            How many rows are in each leaf.
        """
        self.follow((tree,))
        walk, counts = self._walks[0], np.zeros(tree.n_leaves, dtype=np.int64)
        for k, rows in enumerate(self._blocks):
            depth, node = self._leave(walk, k)
            route_and_count(rows.codes, tree, node, depth, counts)
            walk.at[k] = tree.depth, node
        return [walk.at[k][1] for k in range(len(self._blocks))], counts

    def _leave(self, walk: _Walk, block: int) -> tuple[int, np.ndarray]:
        """Return where a block's rows are, and forget it: should they not arrive, nothing stays."""
        if block in walk.at:
            return walk.at.pop(block)
        return 0, np.zeros(len(self._blocks[block]), dtype=np.uint16)
