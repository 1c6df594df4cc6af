"""Tasks and actors of Dask's workers: they code partitions, select rows by unit, and answer.

No task raises: Dask logs the arguments of a failed task, which contain rows. A `Failure` is
returned instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow as pa

from privboost._core.errors import ClusterError, SchemaError
from privboost.data.encoding import even_block_rows, rows_per_block
from privboost.data.loading import code_piece, read_loader
from privboost.data.rows import Rows, join
from privboost.data.table import FrameTable
from privboost.distributed.partitions import (
    CHANGED,
    begin_digest,
    bound_rows,
    check_version,
    share_of_units,
    split,
    write_rows,
)
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import Query
from privboost.engine.updates import Update

_T = TypeVar("_T")


@dataclass(frozen=True)
class Failure:
    """An error on a worker, without any value of the data; perhaps of a partition's columns."""

    reason: str
    of_schema: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class LoadSpec:
    """How workers load a frame."""

    loader: bytes
    declared: Any  # the columns without rows (pandas), as the frame declares them
    version: str  # of the driver
    threads: int  # of one actor


@dataclass(frozen=True, eq=False, repr=False)
class CodedPart:
    """Coded rows of a partition, or some of them."""

    blocks: tuple[Rows, ...]
    units: tuple[pa.Array, ...]  # names of the units, block by block, if there are units
    digest: bytes  # of the whole partition: the same whenever it is computed


def count_part(frame: Any) -> int:
    """Return the number of rows of a partition."""
    return len(frame)


def code_part(frame: Any, spec: LoadSpec, first: int, rows: int) -> CodedPart | Failure:
    """Code a partition, whose first row has this index in the whole table.

    A partition must have as many rows as were counted before: rows are sampled by their index,
    which must be unique.
    """
    return _guarded(lambda: _code(frame, spec, first, rows))


def _code(frame: Any, spec: LoadSpec, first: int, rows: int) -> CodedPart:
    if len(frame) != rows:
        raise ClusterError(CHANGED)
    check_version(spec.version)
    loader = read_loader(spec.loader)
    frame = _as_declared(frame, spec.declared)
    if loader.unit is not None:
        frame = _with_even_units(frame, spec.declared, loader.unit.column)
    table = FrameTable(nw.from_native(frame, eager_only=True))
    coded = [
        each
        for piece in table.pieces(loader.columns, rows_per_block(table, spec.threads))
        for each in code_piece(loader, replace(piece, first=first + piece.first))
    ]
    blocks = tuple(each.rows for each in coded)
    units = tuple(each.units for each in coded if each.units is not None)
    # Bytes of all rows: the digest does not depend on their blocks.
    whole = write_rows(join(blocks), pa.concat_arrays(units) if units else None) if blocks else b""
    return CodedPart(blocks, units, begin_digest(whole).digest())


def _as_declared(frame: Any, declared: Any) -> Any:
    """Convert columns whose type is not the declared one to objects, which are read one by one.

    The type of a partition's column may depend on its values (all missing, say), so it must not
    raise.
    """
    odd = [
        name for name, kind in declared.dtypes.items() if not _are_alike(frame.dtypes[name], kind)
    ]
    return frame.astype(dict.fromkeys(odd, object))


def _with_even_units(frame: Any, declared: Any, column: str) -> Any:
    """Convert integer names of units to floats in all partitions.

    pandas does so where one is missing, and floats do not distinguish the largest integers: without
    this, a unit could have two names.
    """
    (name,) = [own for own in declared.columns if str(own) == column]
    kind = declared.dtypes[name]
    if not (isinstance(kind, np.dtype) and kind.kind in "fiu"):
        return frame
    return frame.astype({name: np.float64}) if frame.dtypes[name].kind in "iu" else frame


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two types of columns differ at most in their numeric width or their categories."""
    if all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in (one, other)):
        return True
    values = [getattr(getattr(kind, "categories", None), "dtype", None) for kind in (one, other)]
    return bool(one == other or (values[0] is not None and values[0] == values[1]))


def pick_bucket(part: CodedPart | Failure, bucket: int, buckets: int) -> CodedPart | Failure:
    """Select the rows of a partition whose units belong to one actor."""
    if isinstance(part, Failure):
        return part
    return _guarded(lambda: _pick(part, bucket, buckets))


def _pick(part: CodedPart, bucket: int, buckets: int) -> CodedPart:
    blocks, units = [], []
    for block, names in zip(part.blocks, part.units, strict=True):
        mine = np.flatnonzero(share_of_units(names, buckets) == bucket)
        if len(mine):
            blocks.append(block.take(mine))
            units.append(names.take(pa.array(mine)))
    return CodedPart(tuple(blocks), tuple(units), part.digest)


class WorkerActor:
    """A Dask actor: holds the rows of some partitions, follows updates and answers queries.

    It has a share of the rows of each frame, in their order, by which equal rows of a unit are
    numbered. The batches of a stream are several frames.
    """

    def __init__(
        self, specs: Sequence[LoadSpec], shares: Sequence[Sequence[CodedPart | Failure]]
    ) -> None:
        parts = list(chain(*shares))
        failure = next((part for part in parts if isinstance(part, Failure)), None)
        self._backend = _guarded(lambda: _open(specs, shares)) if failure is None else failure
        self._digests = [part.digest for part in parts if isinstance(part, CodedPart)]
        self._followed = 0

    def digests(self) -> list[bytes] | Failure:
        """Return the digest of each partition."""
        return self._backend if isinstance(self._backend, Failure) else self._digests

    def follow(self, followed: int, updates: list[bytes]) -> Failure | None:
        """Follow updates, before which so many were followed."""
        return self._act(followed, updates, lambda backend: None)

    def sum(self, followed: int, updates: list[bytes], query: bytes) -> np.ndarray | Failure:
        """Follow updates, then return exact sums."""
        return self._act(followed, updates, lambda backend: backend.sum(Query.from_bytes(query)))

    def tally(self, followed: int, updates: list[bytes]) -> dict[bytes, int] | Failure:
        """Follow updates, then count texts."""
        return self._act(followed, updates, LocalBackend.tally)

    def _act(
        self, followed: int, updates: list[bytes], act: Callable[[LocalBackend], _T]
    ) -> _T | Failure:
        backend = self._backend
        if isinstance(backend, Failure):
            return backend
        if followed != self._followed:
            return Failure("a worker has missed an update, or would follow one twice")
        self._followed += len(updates)

        def follow_and_act() -> _T:
            for update in updates:
                backend.apply(Update.from_bytes(update))
            return act(backend)

        return _guarded(follow_and_act)


def _open(specs: Sequence[LoadSpec], shares: Sequence[Sequence[Any]]) -> LocalBackend:
    check_version(specs[0].version)  # of a worker that joined later
    blocks: list[Rows] = []
    known: list[pa.Array] = []  # units of an earlier frame are left out
    for spec, parts in zip(specs, shares, strict=True):
        rule = read_loader(spec.loader).unit
        own = [block for part in parts for block in part.blocks]
        if rule is not None and own:
            units = [names for part in parts for names in part.units]
            whole = join(bound_rows(own, units, rule, known))
            own = list(split(whole, even_block_rows(len(whole), spec.threads)))
        blocks += own
    return LocalBackend(blocks, specs[0].threads)


def predict_part(frame: Any, model: Any, method: str) -> Any:
    """Apply a model's method to a partition; the result has the index of its rows."""
    import pandas as pd  # partitions are pandas frames; nothing else here needs it

    predicted = getattr(model, method)(frame, n_jobs=1)  # a worker has threads of its own
    if predicted.ndim == 1:
        return pd.Series(predicted, index=frame.index, name=model.domain.target.name)
    return pd.DataFrame(predicted, index=frame.index, columns=list(model.classes))


def _guarded(act: Callable[[], _T]) -> _T | Failure:
    """Call a function; return a `Failure` for an error, with the message of our own errors only."""
    try:
        return act()
    except SchemaError as error:
        return Failure(str(error), of_schema=True)
    except ClusterError as error:
        return Failure(str(error))
    except Exception as error:
        return Failure(f"a worker failed with {type(error).__name__}")
