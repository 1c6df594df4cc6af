"""The Spark backend: executors' Python workers hold shards; frames are tables.

A query is one job, which also carries the updates since the last one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NoReturn
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import RDD, StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import to_arrow_type

from privboost import __version__
from privboost._core.errors import ClusterError, SchemaError
from privboost.data.loading import Load, Loader
from privboost.data.table import Batch, RemoteTable, unique
from privboost.distributed import spark_worker
from privboost.distributed.partitions import CHANGED, NO_PRIVBOOST, coding_of, loads_of
from privboost.distributed.spark_worker import COLUMN, Chunk, Part, Request
from privboost.engine.backend import add_sums, add_tallies
from privboost.engine.queries import Query
from privboost.engine.updates import Update

_MOST_NEW = 64
_MOST_NEW_BYTES = 2**18
"""With more updates, or more bytes of them, they are broadcast instead of sent with every task."""
_SAFE = re.compile(
    rf"{re.escape(ClusterError.__module__)}\.\w+: (.*)"
    r"|ModuleNotFoundError: (No module named '[\w.]+')"
)
"""Errors of workers that contain no value; others (of a frame's own functions) may."""
_UNSAFE = "a Spark job failed: the reason is in Spark's logs, which are as private as the rows"
_OPEN: set[str] = set()
"""The open runs of this application: Python workers release the shards of others."""


class SparkBackend:
    """Coded rows in a persisted RDD, and their shards in Spark's Python workers.

    The batches of a stream are several frames.
    """

    def __init__(self, loads: Sequence[tuple[SparkTable, Loader]]) -> None:
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
        self._used = False
        self._chunks: list[Chunk] = []
        self._newest: list[bytes] = []
        try:
            self._load(loads, frames)
        except BaseException:
            self.close()
            raise

    def sum(self, query: Query) -> np.ndarray:
        return add_sums(self._ask(query.to_bytes()))

    def tally(self) -> dict[bytes, int]:
        return add_tallies(self._ask(None))

    def apply(self, update: Update) -> None:
        """Log an update, which is sent with the next query."""
        self._newest.append(update.to_bytes())
        if len(self._newest) >= _MOST_NEW or sum(map(len, self._newest)) >= _MOST_NEW_BYTES:
            first = self._chunks[-1].stop if self._chunks else 0
            stop = first + len(self._newest)
            self._chunks.append(Chunk(first, stop, self._context.broadcast(self._newest)))
            self._newest = []

    def close(self) -> None:
        """Release the rows, as far as Spark has not lost or stopped them."""
        _OPEN.discard(self._run)
        with suppress(Exception):
            if self._used:  # as far as tasks reach; other processes learn it from the next request
                slots = self._context.parallelize(range(self._context.defaultParallelism))
                slots.mapPartitions(partial(spark_worker.forget, frozenset(_OPEN))).collect()
        for rdd in self._persisted:
            with suppress(Exception):
                rdd.unpersist()
        for chunk in self._chunks:
            with suppress(Exception):
                chunk.messages.destroy()
        self._persisted, self._chunks, self._newest = [], [], []
        self._rows = self._surveyed = None  # Spark clears the files of unreferenced shuffles

    def _load(
        self, loads: Sequence[tuple[SparkTable, Loader]], frames: Sequence[DataFrame]
    ) -> None:
        loaders = [loader.to_bytes() for _, loader in loads]
        with _without_values():
            coded = [
                _coded(frame, loader, _counted(frame) if own.by_place else None)
                for frame, loader, (_, own) in zip(frames, loaders, loads, strict=True)
            ]
            sizes = [rows.getNumPartitions() for rows in coded]
            rows = self._context.union(coded) if sum(sizes) else self._context.parallelize([], 1)
        self._hold(rows)
        for (source, loader), (a, b) in zip(
            loads, pairwise(accumulate(sizes, initial=0)), strict=True
        ):
            if not source.is_same(coding_of(loader), self._parts[a:b], not loader.by_place):
                raise ClusterError(CHANGED)
            if not loader.by_place:  # else rows are numbered already
                lengths = [part.n_rows for part in self._parts[a:b]]
                self._firsts[a:b] = [0, *accumulate(lengths)][:-1]
        if loads[0][1].unit is None:
            return
        before = list(self._persisted)
        of_parts = [data for data, size in zip(loaders, sizes, strict=True) for _ in range(size)]
        distributed = rows.mapPartitionsWithIndex(
            partial(spark_worker.distribute, self._parts, self._firsts)
        ).partitionBy(len(self._parts), int)
        self._hold(distributed.mapPartitions(partial(spark_worker.bound, of_parts)))
        for rdd in before:
            rdd.unpersist()
        self._persisted = self._persisted[len(before) :]

    def _hold(self, rows: RDD) -> None:
        """Persist coded rows, and collect the metadata of each partition."""
        self._rows = self._persist(rows)
        # Metadata is stored where its rows are, and is small: rounds run over it.
        surveyed = self._persist(self._rows.mapPartitionsWithIndex(spark_worker.survey))
        found = self._job(surveyed, range(rows.getNumPartitions()))
        self._parts = [part for _, part in found]
        # Starting a task costs more than answering: one task per core, for all its partitions.
        self._surveyed = surveyed.coalesce(self._context.defaultParallelism)
        self._tasks = range(self._surveyed.getNumPartitions())
        self._firsts = [0] * len(self._parts)  # distributed rows are numbered already

    def _persist(self, rdd: RDD) -> RDD:
        rdd.persist(StorageLevel.MEMORY_AND_DISK)
        self._persisted.append(rdd)
        return rdd

    def _ask(self, query: bytes | None) -> list[Any]:
        """Return the answers of all partitions; missing shards are made from their rows."""
        request = Request(
            self._run,
            frozenset(_OPEN),
            __version__,
            self._parts,
            self._firsts,
            tuple(self._chunks),
            tuple(self._newest),
            query,
        )
        self._used = True
        replies = self._surveyed.mapPartitions(partial(spark_worker.answer, request))
        answers = dict(self._job(replies, self._tasks))
        if lost := [number for number, answer in answers.items() if answer is None]:
            loading = partial(spark_worker.load_and_answer, request)
            answers |= dict(self._job(self._rows.mapPartitionsWithIndex(loading), lost))
        return list(answers.values())

    def _job(self, rdd: RDD, partitions: Sequence[int]) -> list[Any]:
        with _without_values():
            done: list[Any] = self._context.runJob(rdd, list, list(partitions))
        return done


@contextmanager
def _without_values() -> Iterator[None]:
    """Replace errors of Spark by errors that contain no value."""
    text = None
    try:
        yield
    except Exception as error:
        text = str(error)
    if text is None:
        return
    # Outside of `except`: the original error as context may quote values.
    if "No module named 'privboost" in text:
        raise ClusterError(NO_PRIVBOOST)
    found = _SAFE.search(text)
    raise ClusterError(f"in a worker: {found[1] or found[2]}" if found else _UNSAFE)


def _counted(frame: DataFrame) -> list[int]:
    """Return the number of rows of each partition."""
    first = col("`" + frame.columns[0].replace("`", "``") + "`")
    counted = frame.select(first).mapInArrow(spark_worker.count, "part int, n_rows long")
    lengths = {row[0]: row[1] for row in counted.collect()}
    return [lengths.get(number, 0) for number in range(max(lengths, default=-1) + 1)]


def _coded(frame: DataFrame, loader: bytes, counted: Sequence[int] | None) -> RDD:
    code = partial(spark_worker.code, __version__, loader, counted)
    return frame.mapInArrow(code, f"{COLUMN} binary").rdd.map(lambda row: bytes(row[0]))


class SparkTable(RemoteTable):
    """A Spark DataFrame; its rows and their order must be the same whenever Spark computes them."""

    place = "with Spark's executors"

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self._seen: dict[bytes, Sequence[Part]] = {}
        self._lengths: list[int] | None = None
        self.columns = unique(frame.columns)

    def no_rows(self, names: Sequence[str]) -> Batch:
        """Return the named columns without rows."""
        return {name: pa.array([], self._kind(name)) for name in names}

    def count_rows(self) -> int:
        """Return the number of rows."""
        return int(self._frame.count()) if self._lengths is None else sum(self._lengths)

    def open_backend(self, loads: Sequence[Load]) -> SparkBackend:
        """Load the rows on the executors."""
        return SparkBackend(loads_of(loads, SparkTable))

    def select(self, names: Sequence[str]) -> DataFrame:
        """Return the named columns, in this order."""
        return self._frame.select(*(col("`" + name.replace("`", "``") + "`") for name in names))

    def is_same(self, coding: bytes, parts: Sequence[Part], whole: bool) -> bool:
        """Whether the frame has the rows that it had when it was first coded with this coding.

        With another coding of all rows it must have had as many: rows are identified by their
        index.
        """
        lengths = [part.n_rows for part in parts]
        if whole:
            self._lengths = lengths if self._lengths is None else self._lengths
            if lengths != self._lengths:
                return False
        return self._seen.setdefault(coding, parts) == parts

    def _kind(self, name: str) -> pa.DataType:
        kind = self._frame.schema[name].dataType
        try:
            return to_arrow_type(kind)
        except Exception:
            raise SchemaError(
                f"column {name!r} holds {kind.simpleString()}, which is neither number nor text"
            ) from None


def open_frame(frame: Any) -> SparkTable:
    """Return a DataFrame of a classic session as a table."""
    if not isinstance(frame, DataFrame) or "connect" in type(frame).__module__.split("."):
        raise TypeError(
            "a Spark frame must be a pyspark.sql.DataFrame of a classic session (Spark Connect has "
            "no RDDs; a pandas-on-Spark frame has to_spark())"
        )
    if frame.isStreaming:
        raise TypeError("the frame is a stream: write it to a table first")
    return SparkTable(frame)


def map_rows(model: Any, method: str, frame: Any) -> NoReturn:
    """Refuse: predictions on Spark are columns of a frame; see `privboost.spark`."""
    raise TypeError(
        f"{method}: predictions on a Spark DataFrame are columns: use privboost.spark.score_column"
    )
