"""Where the rows of a shard are in the trees it was asked about last.

A tree's leaves are asked for twice, when sums are added up and when values come back, and once more
for each further class. What is remembered is a cache of two bytes a row and tree; a tree that looks
at one feature needs none, because the feature's code says it all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privboost.engine.block import Block, route
from privboost.engine.growth import Grower
from privboost.engine.tree import Tree

_EVERY_LEAF = np.arange(2**16, dtype=np.uint16)


class Routes:
    """Finds the leaf of each row, and remembers it until other trees are asked about."""

    def __init__(self, blocks: Sequence[Block], grower: Grower) -> None:
        self._blocks = blocks
        self._grower = grower
        self._trees: tuple[Tree, ...] = ()
        self._leaf_of_codes: list[np.ndarray | None] = []
        self._nodes: dict[tuple[int, int], np.ndarray] = {}
        self._begun: list[tuple[int, list[np.ndarray]] | None] = []

    def follow(self, trees: tuple[Tree, ...]) -> None:
        """Turn to these trees."""
        if len(trees) == len(self._trees) and all(map(Tree.same_as, trees, self._trees)):
            return
        self._trees, self._nodes = trees, {}
        self._leaf_of_codes = [
            None if tree.only_feature is None else tree.leaf_of_codes() for tree in trees
        ]
        self._begun = [self._grower.nodes_above(tree) for tree in trees]

    def leaves(self, tree: int, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Return an id for each row of a block, and the leaf of each id, in a tree."""
        leaf_of_code, rows = self._leaf_of_codes[tree], self._blocks[block]
        if leaf_of_code is not None:
            return rows.column(int(self._trees[tree].feature[0])), leaf_of_code
        if (tree, block) not in self._nodes:
            begun = self._begun[tree]
            if begun is None:
                node = np.zeros(len(rows), dtype=np.uint16)
                route(rows, self._trees[tree], node)
            else:
                node = begun[1][block].copy()
                route(rows, self._trees[tree], node, from_depth=begun[0])
            self._nodes[tree, block] = node
        return self._nodes[tree, block], _EVERY_LEAF[: self._trees[tree].n_leaves]
