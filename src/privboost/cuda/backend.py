"""The backend of this machine's cards: `backend="cuda"`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from privboost.crew import Crew
from privboost.cuda.card import Card, find_cards, open_card
from privboost.cuda.coding import leave_numbers
from privboost.cuda.dealing import LEAST_ROWS, MOST_ROWS, Lot, cards_for, deal
from privboost.cuda.shard import CardShard
from privboost.engine.backend import LocalBackend, OpenBackend, add_answers
from privboost.engine.queries import Query
from privboost.engine.shard import tally_texts
from privboost.engine.updates import Update
from privboost.tables.cutting import tells_length
from privboost.tables.loading import Coded, Load, load_rows
from privboost.tables.rows import Rows

FEW_ROWS = 2**16
"""So many rows are as soon done by a card as by one thread of a processor."""

_What = TypeVar("_What")


class CudaBackend:
    """Rows on cards; the answers are those of any other backend, bit for bit.

    Parameters
    ----------
    blocks : sequence of Rows
        The rows, in this machine's memory.
    cards : sequence of Card, optional
        Where they go; by default all cards of this machine that have work.
    most_rows : int
        Rows of a shard.
    least_rows : int
        Rows of a card, where there are several.
    n_threads : int
        How many threads bring rows there.
    """

    def __init__(
        self,
        blocks: Sequence[Rows],
        cards: Sequence[Card] | None = None,
        most_rows: int = MOST_ROWS,
        least_rows: int = LEAST_ROWS,
        n_threads: int = 1,
    ) -> None:
        if cards is None:
            numbers = find_cards()
            used = cards_for(sum(map(len, blocks)), len(numbers), least_rows)
            cards = [open_card(number) for number in numbers[:used]]
        self._cards = cards
        self._texts = [block.texts for block in blocks]
        lots = deal(blocks, cards, most_rows, least_rows)
        self._crew = Crew(len(lots))
        threads = max(n_threads // len(lots), 1)
        self._lanes = self._all(lambda lot: _Lane(lot, threads), lots)

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        return add_answers(self._all(lambda lane: lane.sum(query), self._lanes))

    def apply(self, update: Update) -> None:
        """Tell every shard what has been released."""
        self._all(lambda lane: lane.apply(update), self._lanes)

    def _all(self, act: Callable[[Any], _What], lots: Sequence[Any]) -> list[_What]:
        """Act on all lots at once, on the first in this thread."""
        return self._crew.do([partial(act, lot) for lot in lots])

    def tally(self) -> dict[bytes, int]:
        """Return how many rows have each text; texts stay in this machine's memory."""
        return tally_texts(self._texts)

    def close(self) -> None:
        """Let go of the rows and the threads."""
        self._lanes, self._texts = [], []
        self._crew.close()
        for card in self._cards:
            with card.at_work():
                card.rest()


class _Lane:
    """Shards of one card that one thread asks one after the other."""

    def __init__(self, lot: Lot, n_threads: int) -> None:
        self._card = lot.card
        with self._card.at_work():
            self._shards = [CardShard(lot.card, blocks, n_threads) for blocks in lot.shards]

    def sum(self, query: Query) -> np.ndarray:
        with self._card.at_work():
            return add_answers(shard.sum(query) for shard in self._shards)

    def apply(self, update: Update) -> None:
        with self._card.at_work():
            for shard in self._shards:
                shard.apply(update)


def open_cuda(n_threads: int = 1) -> OpenBackend:
    """Return what opens a backend on cards; refuse here, before rows are read, if there are none.

    Few rows stay with the processor: their answers, which are the same, are sooner there.

    Parameters
    ----------
    n_threads : int
        How many threads of this machine read rows, and code what cards do not.
    """
    open_card(find_cards()[0])

    def open_backend(loads: Sequence[Load]) -> CudaBackend | LocalBackend:
        left, rows = leave_numbers(loads) if _are_many(loads) else (loads, None)
        loaded = load_rows(left, n_threads, rows)
        blocks = [block for each in loaded for block in each.blocks]
        if rows is None and sum(map(len, blocks)) < FEW_ROWS:
            return LocalBackend(blocks, n_threads)
        return CudaBackend(blocks, n_threads=n_threads)

    return open_backend


def _are_many(loads: Sequence[Load]) -> bool:
    """Whether tables tell, without being read, that they have rows enough for a card."""
    rows = 0
    for load in loads:
        if isinstance(load.source, Coded):
            rows += sum(map(len, load.source.blocks))
        elif tells_length(load.source):
            rows += load.source.count_rows()
    return rows >= FEW_ROWS
