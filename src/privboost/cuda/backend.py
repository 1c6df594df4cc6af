"""The backend of one card: `backend="cuda"`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privboost.cuda.card import Card, find_card
from privboost.cuda.shard import CardShard
from privboost.engine.backend import OpenBackend, add_answers
from privboost.engine.queries import Query
from privboost.engine.shard import tally_texts
from privboost.engine.updates import Update
from privboost.tables.loading import Load, load_rows
from privboost.tables.rows import Rows

_MOST_ROWS = 2**31
"""Rows of a shard: kernels number them in 32 bits."""


class CudaBackend:
    """Rows on a card; the answers are those of any other backend, bit for bit.

    Parameters
    ----------
    blocks : sequence of Rows
        The rows, in this machine's memory.
    card : Card, optional
        Where they go; by default the current one.
    most_rows : int
        Rows of a shard.
    """

    def __init__(
        self, blocks: Sequence[Rows], card: Card | None = None, most_rows: int = _MOST_ROWS
    ) -> None:
        self._card = find_card() if card is None else card
        self._texts = [block.texts for block in blocks]
        self._shards = [CardShard(self._card, lot) for lot in _lots(blocks, most_rows)]

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        return add_answers(shard.sum(query) for shard in self._shards)

    def apply(self, update: Update) -> None:
        """Tell every shard what has been released."""
        for shard in self._shards:
            shard.apply(update)

    def tally(self) -> dict[bytes, int]:
        """Return how many rows have each text; texts stay in this machine's memory."""
        return tally_texts(self._texts)

    def close(self) -> None:
        """Let go of the rows."""
        self._shards, self._texts = [], []
        self._card.rest()


def open_cuda(n_threads: int = 1) -> OpenBackend:
    """Return what opens a backend on a card; refuse here, before rows are read, if there is none.

    Parameters
    ----------
    n_threads : int
        How many threads of this machine code rows.
    """
    card = find_card()

    def open_backend(loads: Sequence[Load]) -> CudaBackend:
        loaded = load_rows(loads, n_threads)
        return CudaBackend([block for each in loaded for block in each.blocks], card)

    return open_backend


def _lots(blocks: Sequence[Rows], most_rows: int) -> list[list[Rows]]:
    """Part blocks into lots of at most so many rows; there is always one."""
    lots: list[list[Rows]] = [[]]
    rows = 0
    for block in blocks:
        rows += len(block)
        if lots[-1] and rows > most_rows:
            lots.append([])
            rows = len(block)
        lots[-1].append(block)
    return lots
