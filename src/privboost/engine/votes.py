"""Counts of rows by the votes that were cast on them, on the rows of one shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from privboost.engine import kernels
from privboost.engine.block import Block
from privboost.engine.commands import VoteCounts
from privboost.engine.layout import Columns, columns_of
from privboost.engine.routes import Routes
from privboost.grid import BLOCK_ROWS, VOTE

StateOf = Callable[[int], np.ndarray]


class VoteCounter:
    """Answers `VoteCounts` for one shard."""

    def __init__(self, blocks: Sequence[Block], routes: Routes) -> None:
        self._blocks, self._routes = blocks, routes
        self._cell_of: tuple[np.ndarray, ...] | None = None
        self._columns: tuple[Columns, Columns]

    def answer(self, query: VoteCounts, kind_of_label: np.ndarray, state_of: StateOf) -> np.ndarray:
        """Return the exact counts.

        Parameters
        ----------
        query : VoteCounts
            What is asked.
        kind_of_label : unsigned array
            What each label means for the query's output.
        state_of : callable
            From a block's number to the states of its rows.
        """
        if np.prod(query.shape, dtype=np.float64) >= 2**32:
            raise ValueError("there are too many counts to number them")
        out = np.zeros(query.shape, dtype=np.int64)
        rows, start = np.empty((2, BLOCK_ROWS), dtype=np.uint32)
        self._routes.follow((query.tree,))
        for k, block in enumerate(self._blocks):
            narrow, wide = self._cells(query)
            ids, leaf_of = self._routes.leaves(0, k)
            kernels.count_votes(
                block.label,
                kind_of_label,
                state_of(k),
                VOTE,
                query.votes,
                ids,
                query.node_of_leaf[leaf_of],
                (block.narrow, *narrow),
                (block.wide, *wide),
                rows,
                start,
                out,
            )
        return out

    def _cells(self, query: VoteCounts) -> tuple[Columns, Columns]:
        """The cells of the query's features, kept while queries share them."""
        if self._cell_of is not query.cell_of:
            cell_of = dict(zip(query.features, query.cell_of, strict=True))
            self._columns = columns_of(self._blocks[0].layout, cell_of)
            self._cell_of = query.cell_of
        return self._columns
