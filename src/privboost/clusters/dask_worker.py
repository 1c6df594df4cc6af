"""What runs on Dask's workers: parts are coded, dealt out by unit, and held by one actor each.

Nothing here raises: Dask writes the arguments of a task that failed into its logs, and rows are
among them. What went wrong is returned instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow as pa

from privboost.clusters.parts import CHANGED, begin_digest, deal_units, other_version
from privboost.clusters.rows_bytes import write_rows
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import Query
from privboost.engine.updates import Update
from privboost.errors import SchemaError
from privboost.tables.cutting import block_rows, even_block
from privboost.tables.frames import FrameTable
from privboost.tables.loading import (
    bound_units,
    code_piece,
    number_units,
    read_loader,
    without,
)
from privboost.tables.rows import Rows, join

_T = TypeVar("_T")


@dataclass(frozen=True)
class Failure:
    """What went wrong on a worker, in words that name no value.

    Attributes
    ----------
    reason : str
        The words.
    of_schema : bool
        Whether a part has other columns than its frame declares.
    """

    reason: str
    of_schema: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Order:
    """What every worker is told before it loads a frame.

    Attributes
    ----------
    loader : bytes
        How rows are coded.
    declared : pandas.DataFrame
        The columns without rows: what parts are said to hold.
    version : str
        The driver's version of privboost.
    threads : int
        How many threads work on the rows of one party.
    """

    loader: bytes
    declared: Any
    version: str
    threads: int


@dataclass(frozen=True, eq=False, repr=False)
class CodedPart:
    """Coded rows of a part.

    Attributes
    ----------
    blocks : tuple of Rows
        The rows.
    units : tuple of pyarrow arrays
        The names of their units, block by block, where there are units.
    digest : bytes
        Of all rows of the part: whenever it is computed, they must be the same.
    """

    blocks: tuple[Rows, ...]
    units: tuple[pa.Array, ...]
    digest: bytes


def own_version() -> str:
    """Return the version of privboost that is installed here."""
    from privboost import __version__

    return __version__


def count_part(frame: Any) -> int:
    """Return the number of rows of a part."""
    return len(frame)


def code_part(frame: Any, order: Order, first: int, rows: int) -> CodedPart | Failure:
    """Code a part, whose first row has this place in the whole table.

    A part must have as many rows as were counted before: rows are sampled by their places, and two
    rows must never share one.
    """
    if len(frame) != rows:
        return Failure(CHANGED)
    return _tell(lambda: _code(frame, order, first))


def _code(frame: Any, order: Order, first: int) -> CodedPart | Failure:
    if own_version() != order.version:
        return Failure(other_version(own_version(), order.version))
    loader = read_loader(order.loader)
    frame = _as_declared(frame, order.declared)
    if loader.unit is not None:
        frame = _with_even_units(frame, order.declared, loader.unit.column)
    table = FrameTable(nw.from_native(frame, eager_only=True))
    coded = [
        each
        for piece in table.pieces(loader.columns, block_rows(table, order.threads))
        for each in code_piece(loader, replace(piece, first=first + piece.first))
    ]
    blocks = tuple(each.rows for each in coded)
    units = tuple(each.units for each in coded if each.units is not None)
    return CodedPart(blocks, units, _digest(blocks, units))


def _digest(blocks: Sequence[Rows], units: Sequence[pa.Array]) -> bytes:
    """Tell rows apart, however they were cut into blocks."""
    names = pa.concat_arrays(units) if units else None
    digest: bytes = begin_digest(write_rows(join(blocks), names) if blocks else b"").digest()
    return digest


def _as_declared(frame: Any, declared: Any) -> Any:
    """Have the columns of a part read value by value where they are not what the frame declares.

    What a part's column holds may follow from its values (nothing but missing ones, say), so it
    must not raise.
    """
    odd = [
        name for name, kind in declared.dtypes.items() if not _are_alike(frame.dtypes[name], kind)
    ]
    return frame.astype(dict.fromkeys(odd, object))


def _with_even_units(frame: Any, declared: Any, column: str) -> Any:
    """Have whole numbers that name units read alike in all parts.

    pandas makes floats of them in a part where one is missing, which cannot tell the largest apart:
    so nowhere are they told apart, lest a unit have two names.
    """
    (name,) = [own for own in declared.columns if str(own) == column]
    kind = declared.dtypes[name]
    if not (isinstance(kind, np.dtype) and kind.kind in "fiu"):
        return frame
    return frame.astype({name: np.float64}) if frame.dtypes[name].kind in "iu" else frame


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two types of columns differ at most in what numbers or categories they can hold."""
    if all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in (one, other)):
        return True
    values = [getattr(getattr(kind, "categories", None), "dtype", None) for kind in (one, other)]
    return bool(one == other or (values[0] is not None and values[0] == values[1]))


def pick_bucket(part: CodedPart | Failure, bucket: int, buckets: int) -> CodedPart | Failure:
    """Take the rows of a part whose units belong to one party; rows without a unit to nobody."""
    if isinstance(part, Failure):
        return part
    return _tell(lambda: _pick(part, bucket, buckets))


def _pick(part: CodedPart, bucket: int, buckets: int) -> CodedPart:
    blocks, units = [], []
    for block, names in zip(part.blocks, part.units, strict=True):
        mine = np.flatnonzero(deal_units(names, buckets) == bucket)
        if len(mine):
            blocks.append(block.take(mine))
            units.append(names.take(pa.array(mine)))
    return CodedPart(tuple(blocks), tuple(units), part.digest)


class Party:
    """An actor: holds the rows of some parts, follows updates and answers queries.

    Parameters
    ----------
    orders : sequence of Order
        What every worker is told, of each frame: the batches of a stream are several.
    shares : sequence of sequences of CodedPart or Failure
        The rows of each frame, in its order: rows of a unit that are coded alike are numbered
        in it.
    """

    def __init__(
        self, orders: Sequence[Order], shares: Sequence[Sequence[CodedPart | Failure]]
    ) -> None:
        parts = [part for share in shares for part in share]
        failure = next((part for part in parts if isinstance(part, Failure)), None)
        self._backend = _tell(lambda: _open(orders, shares)) if failure is None else failure
        self._digests = [part.digest for part in parts if isinstance(part, CodedPart)]
        self._followed = 0

    def digests(self) -> list[bytes] | Failure:
        """Return the digest of each part, of all its rows."""
        return self._backend if isinstance(self._backend, Failure) else self._digests

    def follow(self, followed: int, updates: list[bytes]) -> Failure | None:
        """Follow updates, of which so many were followed before."""
        return self._act(followed, updates, lambda backend: None)

    def sum(self, followed: int, updates: list[bytes], query: bytes) -> np.ndarray | Failure:
        """Follow updates; then return exact sums."""
        return self._act(followed, updates, lambda backend: backend.sum(Query.from_bytes(query)))

    def tally(self, followed: int, updates: list[bytes]) -> dict[bytes, int] | Failure:
        """Follow updates; then count texts."""
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
        return _tell(lambda: act(_told(backend, updates)))


def _told(backend: LocalBackend, updates: list[bytes]) -> LocalBackend:
    for update in updates:
        backend.apply(Update.from_bytes(update))
    return backend


def _open(orders: Sequence[Order], shares: Sequence[Sequence[Any]]) -> LocalBackend | Failure:
    if own_version() != orders[0].version:  # of a worker that came later
        return Failure(other_version(own_version(), orders[0].version))
    blocks: list[Rows] = []
    known: list[pa.Array] = []  # who came with an earlier frame is left out
    for order, parts in zip(orders, shares, strict=True):
        rule, own = (
            read_loader(order.loader).unit,
            [block for part in parts for block in part.blocks],
        )
        if rule is not None and own:
            unit, names = number_units([names for part in parts for names in part.units])
            unit = without(unit, names, known)
            own = _packed(bound_units(own, unit, names, rule), order.threads)
            known.append(names)
        blocks += own
    return LocalBackend(blocks, orders[0].threads)


def _packed(blocks: Sequence[Rows], threads: int) -> list[Rows]:
    """Join what is left of many parts, and cut it so that every thread has some."""
    whole = join(blocks)
    size = even_block(len(whole), threads)
    return [
        whole.take(np.arange(at, min(at + size, len(whole)))) for at in range(0, len(whole), size)
    ]


def predict_part(frame: Any, model: Any, method: str) -> Any:
    """Return what a model's method says of each row of a part, under the rows' own index."""
    import pandas as pd  # Dask's parts are its frames; nothing else here needs it

    said = getattr(model, method)(frame, n_jobs=1)  # a worker has threads of its own
    if said.ndim == 1:
        return pd.Series(said, index=frame.index, name=model.domain.target.name)
    return pd.DataFrame(said, index=frame.index, columns=list(model.classes))


def _tell(act: Callable[[], _T]) -> _T | Failure:
    """Return what is done, or what went wrong: a schema's words, else the kind of error alone."""
    try:
        return act()
    except SchemaError as error:
        return Failure(str(error), of_schema=True)
    except Exception as error:
        return Failure(f"a worker failed with {type(error).__name__}")
