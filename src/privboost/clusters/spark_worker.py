"""What runs in Spark's Python workers: rows are coded, brought together by unit, held and asked.

A worker process keeps the shards that it made, and catches up with what was released since it was
last asked. Spark may ask any process about any partition: one that does not hold it says so, and
is given the coded rows. So what a process holds saves time, and changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from privboost import __version__
from privboost.clusters.rows_bytes import read_rows, write_rows
from privboost.engine.commands import from_bytes
from privboost.engine.shard import Shard
from privboost.errors import ClusterError
from privboost.grid import BLOCK_ROWS
from privboost.tables.loader import Loader
from privboost.tables.loading import bound_units, code_piece, number_units, read_loader
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
    version : str
        The driver's version of privboost.
    parts : sequence of Part
        The partitions.
    firsts : sequence of int
        The place in the table of each partition's first row.
    chunks : tuple of Chunk
        All updates but the newest.
    newest : tuple of bytes
        The newest.
    query : bytes or None
        What is asked; None for the tally.
    """

    run: str
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
            self._shard.apply(from_bytes(message))
            self._seen += 1
        if question.query is None:
            return self._shard.tally()
        return self._shard.sum(from_bytes(question.query))


_HELD: dict[tuple[str, int], _Held] = {}
"""What this process holds: by run and partition."""


def code(
    version: str, loader: bytes, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Code a partition; places count from its own first row."""
    _check_version(version)
    own, first = read_loader(loader), 0
    for batch in batches:
        for at in range(0, batch.num_rows, BLOCK_ROWS):
            rows, units = _code_block(own, batch.slice(at, BLOCK_ROWS), first)
            first += len(rows)
            blob = pa.array([write_rows(rows, units)], pa.binary())
            yield pa.record_batch([blob], names=[COLUMN])


def _code_block(loader: Loader, batch: pa.RecordBatch, first: int) -> tuple[Rows, pa.Array | None]:
    columns = dict(zip(loader.columns, batch.columns, strict=True))
    (coded,) = code_piece(loader, Piece(first, batch.num_rows, lambda: [columns]))
    return coded.rows, coded.units


def survey(blobs: Iterable[bytes]) -> Iterator[Part]:
    """Say how many rows a partition has, and what their bytes are."""
    digest, n_rows = _digest(), 0
    for blob in blobs:
        digest.update(blob)
        n_rows += len(read_rows(blob)[0])
    yield Part(n_rows, digest.digest())


def deal(
    parts: Sequence[Part], firsts: Sequence[int], number: int, blobs: Iterable[bytes]
) -> Iterator[tuple[int, tuple[int, int, bytes]]]:
    """Deal a partition's rows out by the names of their units; rows without one are left out."""
    for place, blob in enumerate(_same(blobs, parts[number])):
        rows, units = read_rows(blob)
        assert units is not None
        owner = _owners(units, len(parts))
        moved = _move(rows, firsts[number])
        for part in np.unique(owner[owner >= 0]):
            own = np.flatnonzero(owner == part)
            yield int(part), (number, place, write_rows(moved.take(own), units.take(pa.array(own))))


def bound(loader: bytes, dealt: Iterable[tuple[int, tuple[int, int, bytes]]]) -> Iterator[bytes]:
    """Bound all rows of some units, in the order of the table."""
    read = [read_rows(blob) for _, (_, _, blob) in sorted(dealt)]
    rule = read_loader(loader).unit
    if not read or rule is None:
        return
    unit, _ = number_units([units for _, units in read])
    (kept,) = bound_units([join(rows for rows, _ in read)], unit, rule)
    for at in range(0, len(kept), BLOCK_ROWS):
        yield write_rows(kept.take(np.arange(at, min(at + BLOCK_ROWS, len(kept)))))


def ask(question: Question, number: int, surveyed: Iterable[Part]) -> Iterator[tuple[int, Any]]:
    """Answer from what this process holds; None where it does not hold the partition."""
    # All input is read, or else Spark would end this process with all that it holds.
    if list(surveyed) != [question.parts[number]]:
        _refuse_changed()
    forget_others(question.run)
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


def forget_others(run: str | None = None) -> None:
    """Let go of everything but one run's."""
    for key in [key for key in _HELD if key[0] != run]:
        del _HELD[key]


def forget(seats: Iterable[int]) -> Iterator[int]:
    """Let go of everything."""
    yield from seats
    forget_others()


def _answer(held: _Held, question: Question, number: int) -> Any:
    answer = held.answer(question)
    # Only now: a shard that failed halfway through the updates is not held on to.
    _HELD[question.run, number] = held
    return answer


def _same(blobs: Iterable[bytes], part: Part) -> Iterator[bytes]:
    """Pass bytes on; in the end refuse them, unless they are what was surveyed."""
    digest = _digest()
    for blob in blobs:
        digest.update(blob)
        yield blob
    if digest.digest() != part.digest:
        _refuse_changed()


def _refuse_changed() -> None:
    raise ClusterError(
        "a partition that was lost has other rows now: the frame's rows must be the same whenever "
        "Spark computes them (write them to a table first)"
    )


def _check_version(version: str) -> None:
    if version != __version__:
        raise ClusterError(
            f"a worker has privboost {__version__}, the driver {version}: they must be the same"
        )


def _move(rows: Rows, first: int) -> Rows:
    """Count places from the table's first row."""
    if rows.ids is None or not first:
        return rows
    if isinstance(rows.ids, range):
        return replace(rows, ids=range(rows.ids.start + first, rows.ids.stop + first))
    return replace(rows, ids=rows.ids + np.uint32(first))


def _owners(units: pa.Array, n_parts: int) -> np.ndarray:
    """Return the partition that has all rows of each row's unit; −1 where there is no unit."""
    unit, names = number_units([units])
    owners = [int.from_bytes(_digest(name).digest(), "big") % n_parts for name in names.to_pylist()]
    of_rows: np.ndarray = np.array([*owners, -1], dtype=np.int64)[unit]
    return of_rows


def _digest(data: bytes = b"") -> Any:
    return blake2b(data, digest_size=16)
