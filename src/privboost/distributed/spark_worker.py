"""Tasks of Spark's Python workers: they code rows, group them by unit, hold shards and answer.

A worker process caches the shards that it has made, and applies the updates that they lack. Spark
may send a request for any partition to any process: one without its shard replies None, and is
then sent the coded rows. So the cache saves time, and changes no sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from privboost._core.errors import ClusterError
from privboost._core.grid import BLOCK_ROWS
from privboost.data.loading import code_piece, read_loader
from privboost.data.rows import Rows, join, need_ids_below
from privboost.data.table import Piece
from privboost.distributed.partitions import (
    CHANGED,
    begin_digest,
    bound_rows,
    check_version,
    read_rows,
    share_of_units,
    split,
    write_rows,
)
from privboost.engine.queries import Query
from privboost.engine.shard import Shard
from privboost.engine.updates import Update

COLUMN = "rows"
"""The one column of coded rows, a block in each row."""


class Part(NamedTuple):
    """Metadata of a partition of coded rows."""

    n_rows: int
    digest: bytes  # of its bytes: rows that are computed again must be the same


class Chunk(NamedTuple):
    """Consecutive updates: the range of their numbers, and a broadcast of their bytes."""

    first: int
    stop: int
    messages: Any


@dataclass(frozen=True, eq=False, repr=False)
class Request:
    """A query for every partition, with the updates that precede it."""

    run: str  # a random name
    open_runs: frozenset[str]  # runs whose shards are kept: several fits may share an application
    version: str  # of the driver
    parts: Sequence[Part]
    firsts: Sequence[int]  # the index of each partition's first row in its own table
    chunks: tuple[Chunk, ...]  # all updates but the newest ones
    newest: tuple[bytes, ...]
    query: bytes | None  # None for the tally

    def updates_after(self, seen: int) -> list[bytes]:
        """Return the updates after the first `seen`."""
        out: list[bytes] = []
        for chunk in self.chunks:
            if seen < chunk.stop:  # other broadcasts are not fetched
                out += chunk.messages.value[max(0, seen - chunk.first) :]
        stop = self.chunks[-1].stop if self.chunks else 0
        return [*out, *self.newest[max(0, seen - stop) :]]


class _HeldShard:
    """A shard, and the number of updates it has followed."""

    def __init__(self, blocks: Sequence[Rows]) -> None:
        self._shard, self._seen = Shard(blocks), 0

    def answer(self, request: Request) -> Any:
        for message in request.updates_after(self._seen):
            self._shard.apply(Update.from_bytes(message))
            self._seen += 1
        if request.query is None:
            return self._shard.tally()
        return self._shard.sum(Query.from_bytes(request.query))


_HELD: dict[tuple[str, int], _HeldShard] = {}
"""The shards of this process, by run and partition."""


def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the number of rows of this partition."""
    n_rows = sum(batch.num_rows for batch in batches)
    numbers = (pa.array([_own_number()], pa.int32()), pa.array([n_rows], pa.int64()))
    yield pa.record_batch(list(numbers), names=["part", "n_rows"])


def code(
    version: str, loader: bytes, counted: Sequence[int] | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Code a partition.

    Rows are numbered from its own first row; if rows were counted before, from the table's.
    """
    check_version(version)
    own = read_loader(loader)
    begin = 0 if counted is None else sum(counted[: _own_number()])
    first = begin
    for batch in batches:
        for at in range(0, batch.num_rows, BLOCK_ROWS):
            block = batch.slice(at, BLOCK_ROWS)
            columns = dict(zip(own.columns, block.columns, strict=True))
            (coded,) = code_piece(own, Piece(first, block.num_rows, partial(list, [columns])))
            first += block.num_rows
            blob = pa.array([write_rows(coded.rows, coded.units)], pa.binary())
            yield pa.record_batch([blob], names=[COLUMN])
    if counted is not None and first - begin != counted[_own_number()]:
        raise ClusterError(CHANGED)


def _own_number() -> int:
    """Return the index of this task's partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    number: int = context.partitionId()
    return number


def survey(number: int, blobs: Iterable[bytes]) -> Iterator[tuple[int, Part]]:
    """Yield the metadata of a partition."""
    digest, n_rows = begin_digest(), 0
    for blob in blobs:
        digest.update(blob)
        n_rows += len(read_rows(blob)[0])
    yield number, Part(n_rows, digest.digest())


def distribute(
    parts: Sequence[Part], firsts: Sequence[int], number: int, blobs: Iterable[bytes]
) -> Iterator[tuple[int, tuple[int, int, bytes]]]:
    """Distribute a partition's rows by the names of their units; rows without one are left out."""
    for place, blob in enumerate(_unchanged(blobs, parts[number])):
        rows, units = read_rows(blob)
        assert units is not None
        owner = share_of_units(units, len(parts))
        moved = _shifted(rows, firsts[number])
        for part in np.unique(owner[owner >= 0]):
            own = np.flatnonzero(owner == part)
            yield int(part), (number, place, write_rows(moved.take(own), units.take(pa.array(own))))


def bound(
    loaders: Sequence[bytes], distributed: Iterable[tuple[int, tuple[int, int, bytes]]]
) -> Iterator[bytes]:
    """Bound the rows of some units that `distribute` sent here, in the order of their tables.

    `loaders` has the loader of each partition that rows were distributed from.
    """
    known: list[pa.Array] = []  # units of an earlier table are left out
    for loader, own in groupby(sorted(distributed), lambda each: loaders[each[1][0]]):
        read, rule = [read_rows(blob) for _, (_, _, blob) in own], read_loader(loader).unit
        assert rule is not None
        units: list[Any] = [names for _, names in read]
        (kept,) = bound_rows([join(rows for rows, _ in read)], units, rule, known)
        for block in split(kept, BLOCK_ROWS):
            yield write_rows(block)


def answer(request: Request, surveyed: Iterable[tuple[int, Part]]) -> Iterator[tuple[int, Any]]:
    """Answer for some partitions from the shards of this process; None without a shard."""
    # Read all input: Spark would otherwise end this process, and lose its shards.
    partitions = list(surveyed)
    _keep(request.open_runs)
    for number, part in partitions:
        if part != request.parts[number]:
            raise ClusterError(CHANGED)
        held = _HELD.pop((request.run, number), None)
        yield number, None if held is None else _answer(held, request, number)


def load_and_answer(
    request: Request, number: int, blobs: Iterable[bytes]
) -> Iterator[tuple[int, Any]]:
    """Make the shard from the partition's coded rows, apply all updates, and answer."""
    check_version(request.version)
    first = request.firsts[number]
    blocks = [_shifted(read_rows(b)[0], first) for b in _unchanged(blobs, request.parts[number])]
    yield number, _answer(_HeldShard(blocks), request, number)


def forget(open_runs: frozenset[str], seats: Iterable[int]) -> Iterator[int]:
    """Release all shards except those of runs that are still open."""
    yield from seats
    _keep(open_runs)


def _keep(open_runs: frozenset[str]) -> None:
    for key in [key for key in _HELD if key[0] not in open_runs]:
        del _HELD[key]


def _answer(held: _HeldShard, request: Request, number: int) -> Any:
    answer = held.answer(request)
    # Only now: a shard that failed halfway through the updates is not kept.
    _HELD[request.run, number] = held
    return answer


def _unchanged(blobs: Iterable[bytes], part: Part) -> Iterator[bytes]:
    """Yield bytes; raise at the end if their digest has changed."""
    digest = begin_digest()
    for blob in blobs:
        digest.update(blob)
        yield blob
    if digest.digest() != part.digest:
        raise ClusterError(CHANGED)


def _shifted(rows: Rows, first: int) -> Rows:
    """Number rows from the table's first row."""
    if rows.ids is None or not first or not len(rows):
        return rows
    if isinstance(rows.ids, range):
        return replace(rows, ids=range(rows.ids.start + first, rows.ids.stop + first))
    need_ids_below(first + int(rows.ids.max()) + 1)
    return replace(rows, ids=rows.ids + np.uint32(first))
