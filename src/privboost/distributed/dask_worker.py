"""Tasks on Dask's workers: they code partitions, select rows by unit, and hold shards in actors.

No function here raises: Dask logs the arguments of a failed task, which contain rows. A `Failure`
is returned instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow as pa

from privboost import __version__
from privboost._core.errors import SchemaError
from privboost.data.contribution_bound import bound_units, number_units, without
from privboost.data.encoding import even_block_rows, rows_per_block
from privboost.data.loading import code_piece, read_loader
from privboost.data.rows import Rows, join
from privboost.data.table import FrameTable
from privboost.distributed.partitions import (
    CHANGED,
    begin_digest,
    other_version,
    share_of_units,
    write_rows,
)
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import Query
from privboost.engine.updates import Update

_T = TypeVar("_T")


@dataclass(frozen=True)
class Failure:
    """An error on a worker, without any value of the data.

    Attributes
    ----------
    reason : str
        The error message.
    of_schema : bool
        Whether a partition has other columns than its frame declares.
    """

    reason: str
    of_schema: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class LoadSpec:
    """How workers load a frame.

    Attributes
    ----------
    loader : bytes
        The loader.
    declared : pandas.DataFrame
        The columns without rows, as the frame declares them.
    version : str
        The driver's version of privboost.
    threads : int
        The threads of one actor.
    """

    loader: bytes
    declared: Any
    version: str
    threads: int


@dataclass(frozen=True, eq=False, repr=False)
class CodedPart:
    """Coded rows of a partition.

    Attributes
    ----------
    blocks : tuple of Rows
        The rows.
    units : tuple of pyarrow arrays
        The names of their units, block by block, if there are units.
    digest : bytes
        The digest of all rows of the partition, which must be the same whenever it is computed.
    """

    blocks: tuple[Rows, ...]
    units: tuple[pa.Array, ...]
    digest: bytes


def own_version() -> str:
    """Return the version of privboost that is installed here."""

    return __version__


def count_part(frame: Any) -> int:
    """Return the number of rows of a partition."""
    return len(frame)


def code_part(frame: Any, spec: LoadSpec, first: int, rows: int) -> CodedPart | Failure:
    """Code a partition, whose first row has this index in the whole table.

    A partition must have as many rows as were counted before: rows are sampled by their index,
    which must be unique.
    """
    if len(frame) != rows:
        return Failure(CHANGED)
    return _guarded(lambda: _code(frame, spec, first))


def _code(frame: Any, spec: LoadSpec, first: int) -> CodedPart | Failure:
    if own_version() != spec.version:
        return Failure(other_version(own_version(), spec.version))
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
    return CodedPart(blocks, units, _digest(blocks, units))


def _digest(blocks: Sequence[Rows], units: Sequence[pa.Array]) -> bytes:
    """Return a digest of rows that does not depend on their blocks."""
    names = pa.concat_arrays(units) if units else None
    digest: bytes = begin_digest(write_rows(join(blocks), names) if blocks else b"").digest()
    return digest


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

    Parameters
    ----------
    specs : sequence of LoadSpec
        How each frame is loaded; the batches of a stream are several frames.
    shares : sequence of sequences of CodedPart or Failure
        The rows of each frame, in its order: equal rows of a unit are numbered in this order.
    """

    def __init__(
        self, specs: Sequence[LoadSpec], shares: Sequence[Sequence[CodedPart | Failure]]
    ) -> None:
        parts = [part for share in shares for part in share]
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
        return _guarded(lambda: act(_updated(backend, updates)))


def _updated(backend: LocalBackend, updates: list[bytes]) -> LocalBackend:
    for update in updates:
        backend.apply(Update.from_bytes(update))
    return backend


def _open(specs: Sequence[LoadSpec], shares: Sequence[Sequence[Any]]) -> LocalBackend | Failure:
    if own_version() != specs[0].version:  # a worker that joined later
        return Failure(other_version(own_version(), specs[0].version))
    blocks: list[Rows] = []
    known: list[pa.Array] = []  # units of an earlier frame are left out
    for spec, parts in zip(specs, shares, strict=True):
        rule, own = (
            read_loader(spec.loader).unit,
            [block for part in parts for block in part.blocks],
        )
        if rule is not None and own:
            unit, names = number_units([names for part in parts for names in part.units])
            unit = without(unit, names, known)
            own = _packed(bound_units(own, unit, names, rule), spec.threads)
            known.append(names)
        blocks += own
    return LocalBackend(blocks, specs[0].threads)


def _packed(blocks: Sequence[Rows], threads: int) -> list[Rows]:
    """Join the rows of many partitions, and split them evenly for the threads."""
    whole = join(blocks)
    size = even_block_rows(len(whole), threads)
    return [
        whole.take(np.arange(at, min(at + size, len(whole)))) for at in range(0, len(whole), size)
    ]


def predict_part(frame: Any, model: Any, method: str) -> Any:
    """Apply a model's method to a partition; the result has the index of its rows."""
    import pandas as pd  # partitions are pandas frames; nothing else here needs it

    predicted = getattr(model, method)(frame, n_jobs=1)  # a worker has threads of its own
    if predicted.ndim == 1:
        return pd.Series(predicted, index=frame.index, name=model.domain.target.name)
    return pd.DataFrame(predicted, index=frame.index, columns=list(model.classes))


def _guarded(act: Callable[[], _T]) -> _T | Failure:
    """Call a function; return a `Failure` for an error, with the message of a schema error only."""
    try:
        return act()
    except SchemaError as error:
        return Failure(str(error), of_schema=True)
    except Exception as error:
        return Failure(f"a worker failed with {type(error).__name__}")
