"""Tables: columns by name, in batches of rows, and the tables that are held in memory.

A piece of a table is read by any thread, independently of other pieces. Columns of a data frame
keep the types that the frame declares; columns of an array are the domain's features, in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeAlias

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow as pa

from privboost._core.errors import SchemaError

Column: TypeAlias = Any
"""A pyarrow array, or a numpy array of numbers or of Python objects."""
Batch = Mapping[str, Column]
"""Some rows of a table, column by column."""
Vector: TypeAlias = Any
"""A column of which `slice_vector` returns any rows: an array, or a series of narwhals."""
Watch = Callable[[int], None]
"""Progress callback: the number of bytes read, called from any thread."""

_DENSE_VALUES = 2**22
"""Largest number of values of a sparse matrix that are made dense at once."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive rows of a table, which any thread can read.

    Attributes
    ----------
    first, rows : int
        The index of the first row in the table, and the number of rows.
    batches : callable
        Reads the rows, batch by batch.
    """

    first: int
    rows: int
    batches: Callable[[], Iterable[Batch]]


class Table(ABC):
    """Columns by name, in batches of rows.

    Attributes
    ----------
    columns : tuple of str
        The names of the columns.
    is_text : bool
        Whether it is a text file, whose values are all strings.
    """

    columns: tuple[str, ...]
    is_text: bool = False

    @property
    def length_is_known(self) -> bool:
        """Whether the number of rows is known without reading them."""
        return not self.is_text

    @abstractmethod
    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time.

        The first batch has no rows: it shows the columns' types, which no value can change.
        """

    def no_rows(self, names: Sequence[str]) -> Batch:
        """Return the named columns without rows, with their types. No row is read."""
        return next(self.batches(names, 1))

    @abstractmethod
    def count_rows(self) -> int:
        """Return the number of rows; private unless declared public."""

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield the table in pieces whose batches have at most `rows` rows, in order.

        By default a piece is a batch: one thread reads them all, any thread codes them.
        """
        first = 0
        for batch in self.batches(names, rows):
            size = len(batch[names[0]])
            yield Piece(first, size, partial(iter, [batch]))
            first += size


class RemoteTable(Table):
    """A table of which only the schema is in this process: a cluster's workers load its rows.

    Attributes
    ----------
    place : str
        A description of where the rows are.
    """

    place: str

    @abstractmethod
    def no_rows(self, names: Sequence[str]) -> Batch:
        """Return the named columns without rows, with their types. No row is read."""

    @abstractmethod
    def open_backend(self, loads: Sequence[Any]) -> Any:
        """Make the workers load the rows; return their backend."""

    def preparation(self, estimator: Any) -> Any:
        """Return the class that prepares a run of an estimator; None for the default."""
        return None

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        yield self.no_rows(names)

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        raise_remote_rows()


def raise_remote_rows() -> NoReturn:
    """Raise SchemaError: rows of a cluster are needed in this process."""
    raise SchemaError(
        "a cluster's workers hold the rows of this table: labels and weights must be columns of it"
    )


def raise_mixed_stream() -> NoReturn:
    """Raise SchemaError: batches of a stream are in several places."""
    raise SchemaError(
        "a stream stays where it began: all of its batches are on this machine, or all with Dask, "
        "or all with Spark"
    )


class MemoryTable(Table):
    """A table in memory, of which any rows can be read."""

    @abstractmethod
    def _slice(self, names: Sequence[str], start: int, stop: int) -> Batch:
        """Return the named columns of some rows."""

    def _most_rows(self, rows: int) -> int:
        """Return the largest number of rows of a batch, if `rows` are asked for."""
        return rows

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        yield self._slice(names, 0, 0)
        yield from self._read(names, rows, 0, self.count_rows())

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        for start in range(0, self.count_rows(), rows):
            stop = min(start + rows, self.count_rows())
            yield Piece(start, stop - start, partial(self._read, names, rows, start, stop))

    def _read(self, names: Sequence[str], rows: int, first: int, last: int) -> Iterator[Batch]:
        step = self._most_rows(rows)
        for start in range(first, last, step):
            yield self._slice(names, start, min(start + step, last))


class FrameTable(MemoryTable):
    """A data frame that narwhals supports: pandas, polars, pyarrow and others."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.columns = unique([str(name) for name in frame.columns])
        self._open: dict[str, Vector] = {}

    def _slice(self, names: Sequence[str], start: int, stop: int) -> Batch:
        for name in names:
            if name not in self._open:
                own = self._frame.columns[self.columns.index(name)]
                self._open[name] = open_series(self._frame.get_column(own))
        return {name: slice_vector(self._open[name], start, stop) for name in names}

    def count_rows(self) -> int:
        return len(self._frame)


class ArrayTable(MemoryTable):
    """A two-dimensional numpy array; its columns are the domain's features, in order."""

    def __init__(self, array: np.ndarray, names: Sequence[str]) -> None:
        _check_shape(array, names)
        self._array = array
        self.columns = tuple(names)

    def _slice(self, names: Sequence[str], start: int, stop: int) -> Batch:
        part = self._array[start:stop]
        return {name: _plain_column(part[:, self.columns.index(name)]) for name in names}

    def count_rows(self) -> int:
        return len(self._array)


class SparseTable(MemoryTable):
    """A sparse matrix of scipy, made dense a few rows at a time."""

    def __init__(self, matrix: Any, names: Sequence[str]) -> None:
        _check_shape(matrix, names)
        if matrix.dtype.kind not in "fiub":
            raise SchemaError("a sparse matrix must hold numbers")
        self._matrix = matrix.tocsr()
        self.columns = tuple(names)

    def _slice(self, names: Sequence[str], start: int, stop: int) -> Batch:
        dense = np.asfortranarray(self._matrix[start:stop].toarray())
        return {name: dense[:, self.columns.index(name)] for name in names}

    def _most_rows(self, rows: int) -> int:
        return max(1, min(rows, _DENSE_VALUES // max(len(self.columns), 1)))

    def count_rows(self) -> int:
        return int(self._matrix.shape[0])


def _check_shape(array: Any, names: Sequence[str]) -> None:
    """Raise SchemaError unless an array has the shape of a table of the domain's features."""
    if array.ndim != 2:
        raise SchemaError(
            "a table is needed: a data frame, a two-dimensional array, or the path of a file. "
            "Reshape your data if it is one row or one column"
        )
    if array.dtype.kind == "c":
        raise SchemaError("Complex data not supported")
    if array.shape[1] != len(names):
        raise SchemaError(
            f"X has {array.shape[1]} features, but domain is expecting {len(names)} features "
            "as input (an array holds features alone: target, weights and units need a frame, "
            "or are given apart)"
        )


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Return column names; raise SchemaError if two are equal."""
    if len(set(names)) < len(names):
        raise SchemaError("two columns have the same name")
    return tuple(names)


def open_series(series: Any) -> Vector:
    """Return what rows of a series of narwhals are sliced from; plain numbers are not copied."""
    native = series.to_native()
    if isinstance(native, pa.ChunkedArray):
        return native  # narwhals supports no negative scale of decimals
    kind = getattr(native, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "fiubO":
        return np.asarray(native)  # no method of a value is called
    return series


def slice_vector(vector: Vector, start: int, stop: int) -> Column:
    """Return some rows of a vector: typed as arrow arrays, untyped as Python objects."""
    part = vector[start:stop]
    if isinstance(part, pa.ChunkedArray):
        return part.chunk(0) if part.num_chunks == 1 else part.combine_chunks()
    if isinstance(part, pa.Array):
        return part
    if not isinstance(part, nw.Series):
        return _plain_column(part)
    if part.dtype == nw.Object or _is_untyped(part.to_native()):
        return objects(part.to_list())  # arrow would reveal addresses of objects
    if part.dtype == nw.String:
        return _arrow_or_bytes(part.to_arrow, part.to_list)
    try:
        return part.to_arrow()
    except Exception:  # arrow cannot hold some value
        return objects(part.to_list())


def _is_untyped(native: Any) -> bool:
    """Whether a series holds objects, or categories that are objects, so that it has no type."""
    kind = getattr(native, "dtype", None)
    values = getattr(getattr(kind, "categories", None), "dtype", kind)
    if kind is not values and not isinstance(values, np.dtype):
        return str(values) != "str"
    return isinstance(values, np.dtype) and values.kind == "O"


def _plain_column(array: np.ndarray) -> Column:
    """Return strings as an arrow array; other arrays unchanged."""
    if array.dtype.kind not in "US":
        return array
    kind = pa.large_string() if array.dtype.kind == "U" else pa.large_binary()
    # By way of a list: arrow would end a numpy string at its first null byte.
    return _arrow_or_bytes(lambda: pa.array(array.tolist(), kind), array.tolist)


def _arrow_or_bytes(arrow: Callable[[], Column], values: Callable[[], list[Any]]) -> Column:
    """Return an arrow array of strings, or of bytes: no value may change the column's type."""
    try:
        return arrow()
    except Exception:
        return pa.array([_to_bytes(value) for value in values()], pa.large_binary())


def _to_bytes(value: Any) -> bytes | None:
    if isinstance(value, str):
        return str.encode(value, "utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else None


def objects(values: list[Any]) -> np.ndarray:
    """Return values of any type as an array of Python objects."""
    return np.fromiter(values, dtype=object, count=len(values))
