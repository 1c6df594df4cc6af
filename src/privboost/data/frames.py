"""Data frames as tables, and series as columns with the types that the frame declares.

Dense and sparse arrays as tables; their columns are the domain's features, in order.

Lazy frames and arrow datasets as tables.

Their own error messages may quote values, so none is repeated.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NoReturn

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow as pa
import pyarrow.dataset

from privboost._core.errors import SchemaError
from privboost.data.files import unique
from privboost.data.table import Batch, Column, MemoryTable, Table


class FrameTable(MemoryTable):
    """A data frame that narwhals supports: pandas, polars, pyarrow and others."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.columns = unique([str(name) for name in frame.columns])
        self._held: dict[str, Callable[[int, int], Column]] = {}

    def _slice(self, names: Sequence[str], start: int, stop: int) -> Batch:
        for name in names:
            if name not in self._held:
                series = self._frame.get_column(self._frame.columns[self.columns.index(name)])
                self._held[name] = _slicer(series)
        return {name: self._held[name](start, stop) for name in names}

    def count_rows(self) -> int:
        """Return the number of rows."""
        return len(self._frame)


def _slicer(series: Any) -> Callable[[int, int], Column]:
    """Return a function that slices a series; plain numbers are not copied."""
    native = series.to_native()
    if isinstance(native, pa.ChunkedArray):
        return lambda start, stop: _in_one(native.slice(start, stop - start))
    kind = getattr(native, "dtype", None)
    of_pandas = nw.dependencies.is_pandas_series(native)
    if of_pandas and isinstance(kind, np.dtype) and kind.kind in "fiubO":
        whole = np.asarray(native)  # no method of a value is called
        return lambda start, stop: whole[start:stop]
    return lambda start, stop: column_of(series[start:stop])


def _in_one(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a copy if it has one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def column_of(series: Any) -> Column:
    """Return a series as an arrow array, or as Python objects if it has no type."""
    native = series.to_native()
    if isinstance(native, pa.ChunkedArray):
        return _in_one(native)  # narwhals supports no negative scale of decimals
    kind = getattr(native, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "fiubO":
        return np.asarray(native)  # no method of a value is called
    if series.dtype == nw.Object or _untyped(native):  # arrow would reveal addresses of objects
        return objects(series.to_list())
    if series.dtype == nw.String:
        return arrow_or_bytes(series.to_arrow, series.to_list)
    return _arrow_or_objects(series.to_arrow, series.to_list)


def _untyped(native: Any) -> bool:
    """Whether a series holds objects, or categories that are objects, so that it has no type."""
    kind = getattr(native, "dtype", None)
    values = getattr(getattr(kind, "categories", None), "dtype", kind)
    if kind is not values and not isinstance(values, np.dtype):
        return str(values) != "str"
    return isinstance(values, np.dtype) and values.kind == "O"


def _arrow_or_objects(arrow: Callable[[], Column], values: Callable[[], list[Any]]) -> Column:
    """Return an arrow array, or Python objects if arrow cannot hold some value."""
    try:
        return arrow()
    except Exception:
        return objects(values())


def arrow_or_bytes(arrow: Callable[[], Column], values: Callable[[], list[Any]]) -> Column:
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


_DENSE_VALUES = 2**22
"""Largest number of values of a sparse matrix that are made dense at once."""


class ArrayTable(MemoryTable):
    """A two-dimensional numpy array; its columns are the domain's features, in order."""

    def __init__(self, array: np.ndarray, names: Sequence[str]) -> None:
        _check_shape(array, names)
        self._array = array
        self.columns = tuple(names)

    def _slice(self, names: Sequence[str], start: int, stop: int) -> Batch:
        part = self._array[start:stop]
        return {name: plain_column(part[:, self.columns.index(name)]) for name in names}

    def count_rows(self) -> int:
        """Return the number of rows."""
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
        """Return the number of rows."""
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


def plain_column(array: np.ndarray) -> Column:
    """Return strings as an arrow array; other arrays unchanged."""
    if array.dtype.kind not in "US":
        return array
    kind = pa.large_string() if array.dtype.kind == "U" else pa.large_binary()
    # By way of a list: arrow would end a numpy string at its first null byte.
    return arrow_or_bytes(lambda: pa.array(array.tolist(), kind), array.tolist)


_OWN_ENDS = (KeyboardInterrupt, MemoryError, SystemExit)
"""Exceptions that do not come from the query."""
_TEXT_FORMATS = (pa.dataset.CsvFileFormat, pa.dataset.JsonFileFormat)


class StreamedTable(Table):
    """A table that is read as a stream of batches, and whose length is unknown until then."""

    @abstractmethod
    def _no_rows(self, names: Sequence[str]) -> Batch:
        """Return the named columns without rows."""

    @abstractmethod
    def _read(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the rows; may raise any exception."""

    @abstractmethod
    def _count(self) -> int:
        """Count the rows; may raise any exception."""

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        yield self._no_rows(names)
        readable = True
        try:
            yield from self._read(names, rows)
        except GeneratorExit:  # the caller needs no more rows
            raise
        except BaseException as error:
            if isinstance(error, _OWN_ENDS):
                raise
            readable = False  # a panic of polars is no Exception
        if not readable:  # outside the handler: the error of the query quotes its values
            self._fail()

    def count_rows(self) -> int:
        """Return the number of rows, by a pass over them that is made once."""
        return self._length

    @cached_property
    def _length(self) -> int:
        counted: int | None = _attempt(self._count)
        return self._fail() if counted is None else counted

    def _fail(self) -> NoReturn:
        raise SchemaError(
            "the lazy frame or dataset could not be read to its end; what it says of the reason "
            "may quote its rows, and is not repeated here"
        )


class DatasetTable(StreamedTable):
    """A dataset of arrow: files of a format with typed columns."""

    def __init__(self, dataset: Any) -> None:
        _check_types_are_written(dataset)
        self._dataset = dataset
        self.columns = unique(dataset.schema.names)

    def _no_rows(self, names: Sequence[str]) -> Batch:
        schema = self._dataset.schema
        return {name: pa.array([], schema.field(name).type) for name in names}

    def _read(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        # Arrow's threads would read on while rows are coded, and keep what they have read.
        how: dict[str, Any] = {"use_threads": False, "batch_readahead": 1, "fragment_readahead": 1}
        if isinstance(getattr(self._dataset, "format", None), pa.dataset.ParquetFileFormat):
            options = pa.dataset.ParquetFragmentScanOptions(pre_buffer=False)
            how["fragment_scan_options"] = options  # else the bytes of a whole file are kept
        for batch in self._dataset.to_batches(columns=list(names), batch_size=rows, **how):
            yield dict(zip(batch.schema.names, batch.columns, strict=True))

    def _count(self) -> int:
        return int(self._dataset.count_rows())


class LazyTable(StreamedTable):
    """A lazy frame of polars, evaluated in batches."""

    def __init__(self, frame: Any) -> None:
        if not hasattr(frame, "collect_batches"):
            raise TypeError(
                "the frame is lazy, and does not come in batches: collect it first, or pass the "
                "path of a file (frames of polars 1.34 or later, Dask and Spark may be lazy)"
            )
        if _TEXT_SCAN.search(_attempt(lambda: frame.explain(optimized=False)) or ""):
            raise SchemaError(
                "the types of a text file's columns are guessed from its rows, so a lazy frame "
                "that scans one cannot be used: pass the file's path, or write it as Parquet"
            )
        self._frame, self._empty = frame, _schema(frame)
        self.columns = self._empty.columns

    def _no_rows(self, names: Sequence[str]) -> Batch:
        return next(self._empty.batches(names, 1))

    def _read(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        chosen = self._frame.select(names)
        for chunk in chosen.collect_batches(chunk_size=rows, maintain_order=True, lazy=True):
            yield from FrameTable(nw.from_native(chunk, eager_only=True)).batches(names, rows)

    def _count(self) -> int:
        table = self._frame.select(self.columns[:1])
        return sum(len(chunk) for chunk in table.collect_batches(lazy=True))


_TEXT_SCAN = re.compile(r"\b(csv|ndjson) scan\b", re.IGNORECASE)


def _check_types_are_written(dataset: Any) -> None:
    """Raise SchemaError if column types are inferred from rows: they would reveal values."""
    for part in getattr(dataset, "children", ()):
        _check_types_are_written(part)
    if isinstance(getattr(dataset, "format", None), _TEXT_FORMATS):
        raise SchemaError(
            "the types of a text file's columns are guessed from its rows, so a dataset of such "
            "files cannot be used: pass their paths, or write them as Parquet"
        )
    fragment = next(iter(dataset.get_fragments()), None)
    written = dataset.schema.names if fragment is None else fragment.physical_schema.names
    if not set(dataset.schema.names) <= set(written):
        raise SchemaError(
            "partitions of a dataset are columns whose types are guessed from the names of "
            "folders: write them into the files, and make the dataset without a partitioning"
        )


def _schema(frame: Any) -> FrameTable:
    """Return a frame's columns without rows."""
    found = _attempt(lambda: frame.collect_schema().to_frame())
    if found is None:
        raise SchemaError("the lazy frame's query does not fit its columns")
    return FrameTable(nw.from_native(found, eager_only=True))


def _attempt(act: Callable[[], Any]) -> Any:
    """Return the result of a call; None if it fails, for the error may quote values."""
    try:
        return act()
    except BaseException as error:  # a panic of polars is no Exception
        if isinstance(error, _OWN_ENDS):
            raise
    return None
