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
from privboost.clusters.parts import CHANGED, coding_of
from privboost.engine.backend import add_answers, add_tallies
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

    def is_same(self, coding: bytes, part: int, digest: bytes) -> bool:
        """Whether a part has the rows that it had when it was first coded so."""


@dataclass(frozen=True, eq=False, repr=False)
class FrameLoad:
    """A frame, and how its rows are coded."""

    source: Parts
    loader: Loader
    order: Order

    @classmethod
    def of(cls, source: Parts, loader: Loader, threads: int) -> FrameLoad:
        """Make what workers are told of a load."""
        declared = source.declared(loader.columns)
        return cls(source, loader, Order(loader.to_bytes(), declared, own_version(), threads))

    def tasks(self) -> list[Any]:
        """Return what codes each part, not computed yet."""
        code, lengths = dask.delayed(code_part, pure=False), self.source.lengths
        firsts = list(accumulate(lengths, initial=0))[:-1]
        parts = self.source.parts(self.loader.columns)
        if len(parts) != len(lengths):
            raise ClusterError(CHANGED)
        return [
            code(part, self.order, first, rows)
            for part, first, rows in zip(parts, firsts, lengths, strict=True)
        ]


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
    loads : sequence of (Parts, Loader)
        The frames, and how their rows are coded: the batches of a stream are several.
    """

    def __init__(self, cluster: DaskCluster, loads: Sequence[tuple[Parts, Loader]]) -> None:
        self._cluster = cluster
        self._log: list[bytes] = []
        self._seats: list[Seat] = []
        cluster.check_versions()
        threads = cluster.threads()
        self._loads = [FrameLoad.of(*load, max(threads.values())) for load in loads]
        self._by_unit = loads[0][1].unit is not None
        self._places = [
            (number, part)
            for number, load in enumerate(self._loads)
            for part in range(len(load.source.lengths))
        ]
        parties = len(threads) if self._by_unit else min(len(threads), len(self._places))
        self._seats = [Seat(number) for number in range(parties)]
        try:
            self._all("follow")
        except BaseException:
            self.close()
            raise

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        return add_answers(self._all("sum", query.to_bytes()))

    def apply(self, update: Update) -> None:
        """Keep what has been released: it goes with the next question."""
        self._log.append(update.to_bytes())

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
        self._place(seats, list(self._cluster.threads()))
        orders = [load.order for load in self._loads]
        coded = self._code(seats)
        shares = {seat: self._share(coded, seat) for seat in seats}
        try:
            for seat, share in shares.items():
                seat.future = self._cluster.client.submit(
                    Party, orders, share, workers=[seat.worker], actor=True, pure=False
                )
            for seat in seats:
                self._await(seat)
        except BaseException:
            self._cluster.forget(list(coded.values()))
            raise
        for future in [*coded.values(), *chain(*chain(*shares.values()))]:
            future.release()  # parties hold the rows now

    def _await(self, seat: Seat) -> None:
        """Wait for a party, and compare what it was given with what was there before."""
        columns = [name for load in self._loads for name in load.loader.columns]
        try:
            party = self._cluster.wait(seat.future, columns, seat.worker)
            call = self._cluster.ask(party, "digests")
            digests = self._cluster.answer(call, seat.future, seat.worker)
        except LostError:
            self._leave(seat)
            return
        for (number, part), digest in zip(self._own(seat), digests, strict=True):
            load = self._loads[number]
            if not load.source.is_same(coding_of(load.loader), part, digest):
                raise ClusterError(CHANGED)
        seat.party = party

    def _place(self, seats: Sequence[Seat], workers: Sequence[str]) -> None:
        """Give each party the worker with the fewest of them."""
        load = Counter(seat.worker for seat in self._seats if seat not in seats)
        for seat in seats:
            seat.worker = min(workers, key=lambda worker: load[worker])
            load[seat.worker] += 1

    def _own(self, seat: Seat) -> list[tuple[int, int]]:
        """Return where the parts are that a party has rows of: which load, and which part."""
        return self._places if self._by_unit else self._places[seat.number :: len(self._seats)]

    def _code(self, seats: Sequence[Seat]) -> dict[tuple[int, int], Future]:
        """Have the parts coded that some parties hold rows of."""
        wanted = sorted({place for seat in seats for place in self._own(seat)})
        tasks = [load.tasks() for load in self._loads]
        futures = self._cluster.compute([tasks[number][part] for number, part in wanted])
        return dict(zip(wanted, futures, strict=True))

    def _share(self, coded: dict[tuple[int, int], Future], seat: Seat) -> list[list[Future]]:
        """Return a party's rows of each frame: whole parts, or of each the units of its bucket."""
        shares: list[list[Future]] = [[] for _ in self._loads]
        pick, buckets = self._cluster.client.submit, len(self._seats)
        for place in self._own(seat):
            future = coded[place]
            if self._by_unit:
                future = pick(pick_bucket, future, seat.number, buckets, pure=False)
            shares[place[0]].append(future)
        return shares
