"""Rows that lie with Spark's executors: one job a query; updates travel with the next one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
from pyspark import RDD, StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.functions import col

from privboost import __version__
from privboost.clusters import spark_worker
from privboost.clusters.parts import CHANGED, NO_PRIVBOOST, coding_of
from privboost.clusters.spark_worker import COLUMN, Chunk, Part, Question
from privboost.engine.backend import add_answers, add_tallies
from privboost.engine.queries import Query
from privboost.engine.updates import Update
from privboost.errors import ClusterError
from privboost.tables.loader import Loader

_MOST_NEW = 64
_MOST_NEW_BYTES = 2**18
"""More updates, or more bytes of them, do not travel with every task: they are broadcast once."""
_SAYABLE = re.compile(
    r"privboost\.errors\.\w+: (.*)|ModuleNotFoundError: (No module named '[\w.]+')"
)
"""Errors of workers that name no value; those of others (a frame's own functions) may."""
_UNSAID = "a Spark job failed: Spark's logs, which are as private as rows, say why"
_OPEN: set[str] = set()
"""The runs of this application: what Python workers hold for others is let go."""


class Parts(Protocol):
    """A frame in parts."""

    def select(self, names: Sequence[str]) -> DataFrame:
        """Return the named columns, in this order."""

    def is_same(self, coding: bytes, parts: Sequence[Part], whole: bool) -> bool:
        """Whether the frame has the rows that it had when it was first coded so."""


class SparkBackend:
    """Holds coded rows as a persisted RDD, and shards of them in Spark's Python workers.

    Parameters
    ----------
    loads : sequence of (Parts, Loader)
        The frames, and how their rows are coded: the batches of a stream are several.
    """

    def __init__(self, loads: Sequence[tuple[Parts, Loader]]) -> None:
        frames = [source.select(loader.columns) for source, loader in loads]
        self._context = frames[0].sparkSession.sparkContext
        self._run = uuid4().hex
        _OPEN.add(self._run)
        self._persisted: list[RDD] = []
        self._parts: list[Part] = []
        self._firsts: list[int] = []
        self._rows: Any = None
        self._surveyed: Any = None
        self._tasks: Sequence[int] = ()
        self._asked = False
        self._chunks: list[Chunk] = []
        self._newest: list[bytes] = []
        try:
            self._load(loads, frames)
        except BaseException:
            self.close()
            raise

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        return add_answers(self._ask(query.to_bytes()))

    def tally(self) -> dict[bytes, int]:
        """Return how many rows have each text."""
        return add_tallies(self._ask(None))

    def apply(self, update: Update) -> None:
        """Keep what has been released: whoever is asked next is told before."""
        self._newest.append(update.to_bytes())
        if len(self._newest) >= _MOST_NEW or sum(map(len, self._newest)) >= _MOST_NEW_BYTES:
            first = self._chunks[-1].stop if self._chunks else 0
            stop = first + len(self._newest)
            self._chunks.append(Chunk(first, stop, self._context.broadcast(self._newest)))
            self._newest = []

    def close(self) -> None:
        """Let go of the rows; what Spark has lost or stopped by now is let go of already."""
        _OPEN.discard(self._run)
        with suppress(Exception):
            if self._asked:  # as far as tasks reach; others are told with the next question
                seats = self._context.parallelize(range(self._context.defaultParallelism))
                seats.mapPartitions(partial(spark_worker.forget, frozenset(_OPEN))).collect()
        for rdd in self._persisted:
            with suppress(Exception):
                rdd.unpersist()
        for chunk in self._chunks:
            with suppress(Exception):
                chunk.messages.destroy()
        self._persisted, self._chunks, self._newest = [], [], []
        self._rows = self._surveyed = None  # Spark clears files of shuffles that nobody refers to

    def _load(self, loads: Sequence[tuple[Parts, Loader]], frames: Sequence[DataFrame]) -> None:
        loaders = [loader.to_bytes() for _, loader in loads]
        with _in_own_words():
            counted = [
                _counted(frame) if loader.by_place else None
                for frame, (_, loader) in zip(frames, loads, strict=True)
            ]
            coded = [_coded(*each) for each in zip(frames, loaders, counted, strict=True)]
            sizes = [rows.getNumPartitions() for rows in coded]
            rows = self._context.union(coded) if sum(sizes) else self._context.parallelize([], 1)
        self._hold(rows)
        for (source, loader), (a, b) in zip(
            loads, pairwise(accumulate(sizes, initial=0)), strict=True
        ):
            if not source.is_same(coding_of(loader), self._parts[a:b], not loader.by_place):
                raise ClusterError(CHANGED)
            if not loader.by_place:  # else rows have their places already
                lengths = [part.n_rows for part in self._parts[a:b]]
                self._firsts[a:b] = [0, *accumulate(lengths)][:-1]
        if loads[0][1].unit is None:
            return
        before = list(self._persisted)
        of_parts = [data for data, size in zip(loaders, sizes, strict=True) for _ in range(size)]
        dealt = rows.mapPartitionsWithIndex(
            partial(spark_worker.deal, self._parts, self._firsts)
        ).partitionBy(len(self._parts), int)
        self._hold(dealt.mapPartitions(partial(spark_worker.bound, of_parts)))
        for rdd in before:
            rdd.unpersist()
        self._persisted = self._persisted[len(before) :]

    def _hold(self, rows: RDD) -> None:
        """Persist coded rows, and learn what each partition has."""
        self._rows = self._persist(rows)
        # A survey lies where its rows do, and is small: rounds run over it.
        surveyed = self._persist(self._rows.mapPartitionsWithIndex(spark_worker.survey))
        found = self._job(surveyed, range(rows.getNumPartitions()))
        self._parts = [part for _, part in found]
        # To start a task costs more than to answer: a core has one, for all its partitions.
        self._surveyed = surveyed.coalesce(self._context.defaultParallelism)
        self._tasks = range(self._surveyed.getNumPartitions())
        self._firsts = [0] * len(self._parts)  # dealt rows have their places already

    def _persist(self, rdd: RDD) -> RDD:
        rdd.persist(StorageLevel.MEMORY_AND_DISK)
        self._persisted.append(rdd)
        return rdd

    def _ask(self, query: bytes | None) -> list[Any]:
        """Ask every partition; those that nobody holds are made from their rows."""
        question = Question(
            self._run,
            frozenset(_OPEN),
            __version__,
            self._parts,
            self._firsts,
            tuple(self._chunks),
            tuple(self._newest),
            query,
        )
        self._asked = True
        asked = self._surveyed.mapPartitions(partial(spark_worker.ask, question))
        answers = dict(self._job(asked, self._tasks))
        if lost := [number for number, answer in answers.items() if answer is None]:
            loading = partial(spark_worker.load_and_ask, question)
            answers |= dict(self._job(self._rows.mapPartitionsWithIndex(loading), lost))
        return list(answers.values())

    def _job(self, rdd: RDD, partitions: Sequence[int]) -> list[Any]:
        with _in_own_words():
            done: list[Any] = self._context.runJob(rdd, list, list(partitions))
        return done


@contextmanager
def _in_own_words() -> Iterator[None]:
    """Turn errors of Spark into ones that name no value."""
    said = None
    try:
        yield
    except Exception as error:
        said = str(error)
    if said is not None:  # with no other error behind it, which may quote values
        raise ClusterError(_sayable(said))


def _sayable(said: str) -> str:
    if "No module named 'privboost" in said:
        return NO_PRIVBOOST
    found = _SAYABLE.search(said)
    return f"in a worker: {found[1] or found[2]}" if found else _UNSAID


def _counted(frame: DataFrame) -> list[int]:
    """Return how many rows each partition has."""
    first = col("`" + frame.columns[0].replace("`", "``") + "`")
    counted = frame.select(first).mapInArrow(spark_worker.count, "part int, n_rows long")
    lengths = {row[0]: row[1] for row in counted.collect()}
    return [lengths.get(number, 0) for number in range(max(lengths, default=-1) + 1)]


def _coded(frame: DataFrame, loader: bytes, counted: Sequence[int] | None) -> RDD:
    code = partial(spark_worker.code, __version__, loader, counted)
    return frame.mapInArrow(code, f"{COLUMN} binary").rdd.map(_blob_of)


def _blob_of(row: Any) -> bytes:
    return bytes(row[0])
