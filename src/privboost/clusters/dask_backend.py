"""The backend whose shards are held by actors on Dask's workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Protocol

import dask
import numpy as np
from distributed import Future

from privboost.clusters.dask_cluster import DaskCluster, LostError
from privboost.clusters.dask_worker import Order, Party, code_part, own_version, pick_bucket
from privboost.engine.backend import add_answers, add_tallies
from privboost.engine.commands import to_bytes
from privboost.engine.queries import Query
from privboost.engine.updates import Update
from privboost.errors import ClusterError
from privboost.tables.loader import Loader

_MOST_LOSSES = 10
"""So often one question is asked again: a cluster that loses more workers by then is of no use."""


class Parts(Protocol):
    """A frame in parts."""

    @property
    def lengths(self) -> list[int]:
        """How many rows each part has."""

    def declared(self, names: Sequence[str]) -> Any:
        """Return the named columns of a frame without rows: what parts hold."""

    def parts(self, names: Sequence[str]) -> list[Any]:
        """Return the named columns of each part, not computed yet."""


@dataclass(eq=False)
class Seat:
    """Where one party sits.

    Attributes
    ----------
    number : int
        Which rows the party holds: every so many parts from this one, or the units of this bucket.
    worker : str
        The address of its worker.
    future : Future or None
        What keeps the actor alive.
    party : actor or None
        The party; None before it is loaded, and when it is lost.
    followed : int
        How many updates of the log it has followed.
    """

    number: int
    worker: str = ""
    future: Future | None = None
    party: Any = None
    followed: int = 0


class DaskBackend:
    """One party on each worker. The driver holds no row, and a lost party is loaded again.

    An update is kept in a log and sent with the next question: so a round is one message to each
    worker, and a party that was loaded again is told the whole log.

    Parameters
    ----------
    cluster : DaskCluster
        The workers.
    source : Parts
        The frame.
    loader : Loader
        How its rows are coded.
    """

    def __init__(self, cluster: DaskCluster, source: Parts, loader: Loader) -> None:
        self._cluster, self._source, self._loader = cluster, source, loader
        self._log: list[bytes] = []
        self._seats: list[Seat] = []
        cluster.check_versions()
        parties = len(cluster.threads())
        if loader.unit is None:
            parties = min(parties, len(source.lengths))
        self._seats = [Seat(number) for number in range(parties)]
        try:
            self._all("follow")
        except BaseException:
            self.close()
            raise

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        return add_answers(self._all("sum", to_bytes(query)))

    def apply(self, update: Update) -> None:
        """Keep what has been released: it goes with the next question."""
        self._log.append(to_bytes(update))

    def tally(self) -> dict[bytes, int]:
        """Return how many rows have each text."""
        return add_tallies(self._all("tally"))

    def close(self) -> None:
        """Let go of the rows."""
        for seat in self._seats:
            self._leave(seat)
        self._seats, self._log = [], []

    def _leave(self, seat: Seat) -> None:
        """Let a party go."""
        if seat.future is not None:
            self._cluster.forget([seat.future])
        seat.future, seat.party, seat.followed = None, None, 0

    def _all(self, question: str, *message: bytes) -> list[Any]:
        """Ask every party once; a lost one is loaded again, and asked again."""
        answers: dict[Seat, Any] = {}
        for _ in range(_MOST_LOSSES):
            asked = [seat for seat in self._seats if seat not in answers]
            self._load([seat for seat in asked if seat.party is None])
            there = [seat for seat in asked if seat.party is not None]
            answers |= self._ask(there, question, message)
            if len(answers) == len(self._seats):
                return list(answers.values())
        raise ClusterError("the Dask cluster loses its workers again and again")

    def _ask(
        self, seats: Sequence[Seat], question: str, message: Sequence[bytes]
    ) -> dict[Seat, Any]:
        """Ask some parties at once; return the answers of those that are not lost."""
        calls = {seat: self._call(seat, question, message) for seat in seats}
        answers = {}
        for seat, call in calls.items():
            try:
                answers[seat] = self._cluster.answer(call, seat.future, seat.worker)
                seat.followed = len(self._log)
            except LostError:
                self._leave(seat)
        return answers

    def _call(self, seat: Seat, question: str, message: Sequence[bytes]) -> Any:
        updates = self._log[seat.followed :]
        return self._cluster.ask(seat.party, question, seat.followed, updates, *message)

    def _load(self, seats: Sequence[Seat]) -> None:
        """Have workers load the rows of some parties; those that are lost meanwhile stay empty."""
        if not seats:
            return
        threads = self._cluster.threads()
        self._place(seats, list(threads))
        declared = self._source.declared(self._loader.columns)
        order = Order(self._loader.to_bytes(), declared, own_version(), max(threads.values()))
        coded = self._code(order, seats)
        shares = {seat: self._share(coded, seat) for seat in seats}
        try:
            for seat, share in shares.items():
                seat.future = self._cluster.client.submit(
                    Party, order, share, workers=[seat.worker], actor=True, pure=False
                )
            for seat in seats:
                self._await(seat)
        except BaseException:
            self._cluster.forget(list(coded.values()))
            raise
        for future in [*coded.values(), *chain(*shares.values())]:
            future.release()  # parties hold the rows now

    def _await(self, seat: Seat) -> None:
        try:
            seat.party = self._cluster.wait(seat.future, self._loader.columns, seat.worker)
        except LostError:
            self._leave(seat)

    def _place(self, seats: Sequence[Seat], workers: Sequence[str]) -> None:
        """Give each party the worker with the fewest of them."""
        load = Counter(seat.worker for seat in self._seats if seat not in seats)
        for seat in seats:
            seat.worker = min(workers, key=lambda worker: load[worker])
            load[seat.worker] += 1

    def _code(self, order: Order, seats: Sequence[Seat]) -> dict[int, Future]:
        """Have the parts coded that some parties hold rows of."""
        lengths, code = self._source.lengths, dask.delayed(code_part, pure=False)
        firsts = list(accumulate(lengths, initial=0))
        parts = self._source.parts(self._loader.columns)
        wanted = [k for k in range(len(parts)) if any(self._has(seat, k) for seat in seats)]
        tasks = [code(parts[k], order, firsts[k], lengths[k]) for k in wanted]
        return dict(zip(wanted, self._cluster.client.compute(tasks), strict=True))

    def _has(self, seat: Seat, part: int) -> bool:
        return self._loader.unit is not None or part % len(self._seats) == seat.number

    def _share(self, coded: dict[int, Future], seat: Seat) -> list[Future]:
        """Return the rows of one party: whole parts, or of each part the units of its bucket."""
        own = [future for part, future in coded.items() if self._has(seat, part)]
        if self._loader.unit is None:
            return own
        pick, buckets = self._cluster.client.submit, len(self._seats)
        return [pick(pick_bucket, future, seat.number, buckets, pure=False) for future in own]
