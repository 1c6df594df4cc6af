"""What runs in Spark's Python workers: rows are coded, brought together by unit, held and asked.

A worker process keeps the shards that it made, and catches up with what was released since it was
last asked. Spark may ask any process about any partition: one that does not hold it says so, and
is given the coded rows. So what a process holds saves time, and changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from privboost import __version__
from privboost.clusters.parts import CHANGED, begin_digest, deal_units, other_version
from privboost.clusters.rows_bytes import read_rows, write_rows
from privboost.engine.queries import Query
from privboost.engine.shard import Shard
from privboost.engine.updates import Update
from privboost.errors import ClusterError
from privboost.grid import BLOCK_ROWS
from privboost.tables.loader import Loader
from privboost.tables.loading import bound_units, code_piece, number_units, read_loader, without
from privboost.tables.pieces import Piece
from privboost.tables.rows import Rows, join

COLUMN = "rows"
"""The one column of coded rows, a block in each row."""


class Part(NamedTuple):
    """What the driver knows of a partition of coded rows.

    Attributes
    ----------
    n_rows : int
        How many rows it has.
    digest : bytes
        Of its bytes: rows that are made again must be the same.
    """

    n_rows: int
    digest: bytes


class Chunk(NamedTuple):
    """Some updates in a row: from which number to which, and a broadcast of their bytes."""

    first: int
    stop: int
    messages: Any


@dataclass(frozen=True, eq=False, repr=False)
class Question:
    """What every partition is asked, and what it must have been told before.

    Attributes
    ----------
    run : str
        Names the run, at random.
    open_runs : frozenset of str
        The runs whose rows are held: several fits may share an application.
    version : str
        The driver's version of privboost.
    parts : sequence of Part
        The partitions.
    firsts : sequence of int
        The place of each partition's first row in its own table.
    chunks : tuple of Chunk
        All updates but the newest.
    newest : tuple of bytes
        The newest.
    query : bytes or None
        What is asked; None for the tally.
    """

    run: str
    open_runs: frozenset[str]
    version: str
    parts: Sequence[Part]
    firsts: Sequence[int]
    chunks: tuple[Chunk, ...]
    newest: tuple[bytes, ...]
    query: bytes | None

    def news(self, seen: int) -> list[bytes]:
        """Return the updates after the first so many."""
        out: list[bytes] = []
        for chunk in self.chunks:
            if seen < chunk.stop:  # what is not needed is not fetched
                out += chunk.messages.value[max(0, seen - chunk.first) :]
        stop = self.chunks[-1].stop if self.chunks else 0
        return [*out, *self.newest[max(0, seen - stop) :]]


class _Held:
    """A shard, and how many updates it has followed."""

    def __init__(self, blocks: Sequence[Rows]) -> None:
        self._shard, self._seen = Shard(blocks), 0

    def answer(self, question: Question) -> Any:
        for message in question.news(self._seen):
            self._shard.apply(Update.from_bytes(message))
            self._seen += 1
        if question.query is None:
            return self._shard.tally()
        return self._shard.sum(Query.from_bytes(question.query))


_HELD: dict[tuple[str, int], _Held] = {}
"""What this process holds: by run and partition."""


def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say how many rows this partition has."""
    n_rows = sum(batch.num_rows for batch in batches)
    numbers = (pa.array([_own_number()], pa.int32()), pa.array([n_rows], pa.int64()))
    yield pa.record_batch(list(numbers), names=["part", "n_rows"])


def code(
    version: str, loader: bytes, counted: Sequence[int] | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Code a partition.

    Places count from its own first row; or, where rows were counted before, from the table's.
    """
    _check_version(version)
    own = read_loader(loader)
    begin = 0 if counted is None else sum(counted[: _own_number()])
    first = begin
    for batch in batches:
        for at in range(0, batch.num_rows, BLOCK_ROWS):
            block = batch.slice(at, BLOCK_ROWS)
            rows, units = _code_block(own, block, first)
            first += block.num_rows
            blob = pa.array([write_rows(rows, units)], pa.binary())
            yield pa.record_batch([blob], names=[COLUMN])
    if counted is not None and first - begin != counted[_own_number()]:
        _refuse_changed()


def _own_number() -> int:
    """Return which partition this task is of."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    number: int = context.partitionId()
    return number


def _code_block(loader: Loader, batch: pa.RecordBatch, first: int) -> tuple[Rows, pa.Array | None]:
    columns = dict(zip(loader.columns, batch.columns, strict=True))
    (coded,) = code_piece(loader, Piece(first, batch.num_rows, lambda: [columns]))
    return coded.rows, coded.units


def survey(number: int, blobs: Iterable[bytes]) -> Iterator[tuple[int, Part]]:
    """Say of a partition how many rows it has, and what their bytes are."""
    digest, n_rows = begin_digest(), 0
    for blob in blobs:
        digest.update(blob)
        n_rows += len(read_rows(blob)[0])
    yield number, Part(n_rows, digest.digest())


def deal(
    parts: Sequence[Part], firsts: Sequence[int], number: int, blobs: Iterable[bytes]
) -> Iterator[tuple[int, tuple[int, int, bytes]]]:
    """Deal a partition's rows out by the names of their units; rows without one are left out."""
    for place, blob in enumerate(_same(blobs, parts[number])):
        rows, units = read_rows(blob)
        assert units is not None
        owner = deal_units(units, len(parts))
        moved = _move(rows, firsts[number])
        for part in np.unique(owner[owner >= 0]):
            own = np.flatnonzero(owner == part)
            yield int(part), (number, place, write_rows(moved.take(own), units.take(pa.array(own))))


def bound(
    loaders: Sequence[bytes], dealt: Iterable[tuple[int, tuple[int, int, bytes]]]
) -> Iterator[bytes]:
    """Bound all rows of some units, in the order of their tables.

    Parameters
    ----------
    loaders : sequence of bytes
        Of each partition that rows were dealt from: those of one table have the same.
    dealt : iterable
        What `deal` gave this partition.
    """
    known: list[pa.Array] = []  # who came with an earlier table is left out
    for loader, own in groupby(sorted(dealt), lambda each: loaders[each[1][0]]):
        read, rule = [read_rows(blob) for _, (_, _, blob) in own], read_loader(loader).unit
        assert rule is not None
        unit, names = number_units([units for _, units in read])
        unit = without(unit, names, known)
        (kept,) = bound_units([join(rows for rows, _ in read)], unit, names, rule)
        known.append(names)
        for at in range(0, len(kept), BLOCK_ROWS):
            yield write_rows(kept.take(np.arange(at, min(at + BLOCK_ROWS, len(kept)))))


def ask(question: Question, surveyed: Iterable[tuple[int, Part]]) -> Iterator[tuple[int, Any]]:
    """Answer for some partitions from what this process holds; None where it does not hold one."""
    # All input is read, or else Spark would end this process with all that it holds.
    asked = list(surveyed)
    _keep(question.open_runs)
    for number, part in asked:
        if part != question.parts[number]:
            _refuse_changed()
        held = _HELD.pop((question.run, number), None)
        yield number, None if held is None else _answer(held, question, number)


def load_and_ask(
    question: Question, number: int, blobs: Iterable[bytes]
) -> Iterator[tuple[int, Any]]:
    """Make the shard from the partition's coded rows, tell it all updates, and answer."""
    _check_version(question.version)
    first = question.firsts[number]
    blocks = [_move(read_rows(b)[0], first) for b in _same(blobs, question.parts[number])]
    yield number, _answer(_Held(blocks), question, number)


def forget(open_runs: frozenset[str], seats: Iterable[int]) -> Iterator[int]:
    """Let go of everything but what runs hold that are still open."""
    yield from seats
    _keep(open_runs)


def _keep(open_runs: frozenset[str]) -> None:
    for key in [key for key in _HELD if key[0] not in open_runs]:
        del _HELD[key]


def _answer(held: _Held, question: Question, number: int) -> Any:
    answer = held.answer(question)
    # Only now: a shard that failed halfway through the updates is not held on to.
    _HELD[question.run, number] = held
    return answer


def _same(blobs: Iterable[bytes], part: Part) -> Iterator[bytes]:
    """Pass bytes on; in the end refuse them, unless they are what was surveyed."""
    digest = begin_digest()
    for blob in blobs:
        digest.update(blob)
        yield blob
    if digest.digest() != part.digest:
        _refuse_changed()


def _refuse_changed() -> None:
    raise ClusterError(CHANGED)


def _check_version(version: str) -> None:
    if version != __version__:
        raise ClusterError(other_version(__version__, version))


def _move(rows: Rows, first: int) -> Rows:
    """Count places from the table's first row."""
    if rows.ids is None or not first:
        return rows
    if isinstance(rows.ids, range):
        return replace(rows, ids=range(rows.ids.start + first, rows.ids.stop + first))
    return replace(rows, ids=rows.ids + np.uint32(first))
