"""Counts of a CPU shard's rows by tree node, cell, sum of votes and class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privboost._core.grid import BLOCK_ROWS, VOTE
from privboost.data.rows import Columns, columns_of
from privboost.engine import kernels
from privboost.engine.blocks import Blocks, add_all
from privboost.engine.leaf_assignment import LeafAssignment
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree


class VoteCounter:
    """Answers `VoteCounts`."""

    def __init__(self, blocks: Blocks, leaves: LeafAssignment) -> None:
        self._blocks, self._leaves = blocks, leaves
        self._asked: CellMap | None = None
        self._columns: tuple[Columns, Columns]

    def answer(
        self,
        tree: Tree,
        node_of_leaf: np.ndarray,
        cells: CellMap,
        votes: int,
        kind_of_label: np.ndarray,
        state_of: Callable[[int], np.ndarray],
    ) -> np.ndarray:
        """Return the exact counts.

        Parameters
        ----------
        tree, node_of_leaf, cells, votes
            As in `VoteCounts`.
        kind_of_label : unsigned array
            The kind of row that each label means for the output.
        state_of : callable
            From a block's number to the scores of its rows.
        """
        shape = (int(node_of_leaf.max()) + 1, cells.n_cells + 1, votes + 1, 2)
        if not len(self._blocks):
            return np.zeros(shape, dtype=np.int64)
        self._leaves.set_trees((tree,))
        self._leaves.assign()
        narrow, wide = self._cells(cells)

        def act(first: int, last: int) -> np.ndarray:
            out = np.zeros(shape, dtype=np.int64)
            rows, start = np.empty((2, BLOCK_ROWS), dtype=np.uint32)
            for k in range(first, last):
                block, (ids, leaf_of) = self._blocks.rows[k], self._leaves.leaves_of_block(0, k)
                kernels.count_votes(
                    block.label,
                    kind_of_label,
                    state_of(k),
                    VOTE,
                    votes,
                    ids,
                    node_of_leaf[leaf_of],
                    (block.codes.narrow, *narrow),
                    (block.codes.wide, *wide),
                    rows,
                    start,
                    out,
                )
            return out

        return add_all(self._blocks.work(1 + len(cells.parts), act))

    def _cells(self, cells: CellMap) -> tuple[Columns, Columns]:
        """Return the columns of the cells' features, kept while queries share their cells."""
        if self._asked is None or not self._asked.same_as(cells):
            self._columns = columns_of(self._blocks.layout, cells.by_feature())
            self._asked = cells
        return self._columns
