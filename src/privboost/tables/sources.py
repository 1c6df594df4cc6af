"""Any table as batches of columns: data frames, arrays, lists, and files (`file_sources`).

Only a table's schema can raise here. What a value holds cannot, and no value changes how another is
read: a column's type is what its table declares, and a column without a type of its own (Python
objects, lists) stays a column of objects whose values are read one by one. A list has no schema at
all: in training its rows are cut or filled up with missing values to the domain's features. For
predictions, where no private row is at stake, such rows are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow as pa

from privboost.errors import SchemaError
from privboost.tables.file_sources import FilesTable, ParquetTable, are_files, open_file, open_files
from privboost.tables.pieces import Batch, Column, Piece
from privboost.tables.remote import RemoteTable
from privboost.tables.text_sources import CsvTable, unique


class Table(Protocol):
    """Columns by name, in batches of rows."""

    columns: tuple[str, ...]

    @property
    def is_text(self) -> bool:
        """Whether it is a text file, of which every value is text."""

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time.

        The first batch has no rows: it shows the columns' kinds, which no value can change.
        """

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield the table in pieces whose batches have at most `rows` rows, in order."""

    def count_rows(self) -> int:
        """Return the number of rows: as private as they are, but for whom it is public."""


class FrameTable:
    """A data frame that narwhals knows: pandas, polars, pyarrow and others."""

    is_text = False

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.columns = unique([str(name) for name in frame.columns])

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        positions = {name: self._frame.columns[self.columns.index(name)] for name in names}
        for start, stop in _spans(len(self._frame), rows):
            part = self._frame[start:stop]
            yield {name: _column(part.get_column(own)) for name, own in positions.items()}

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield slices of the frame."""
        for start in range(0, len(self._frame), rows):
            part = FrameTable(self._frame[start : start + rows])
            yield Piece(start, part.count_rows(), partial(part.batches, names, rows))

    def count_rows(self) -> int:
        """Return the number of rows."""
        return len(self._frame)


class ArrayTable:
    """A two-dimensional numpy array whose columns have the domain's names, in its order."""

    is_text = False

    def __init__(self, array: np.ndarray, names: Sequence[str]) -> None:
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
        self._array = array
        self.columns = tuple(names)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        places = {name: self.columns.index(name) for name in names}
        for start, stop in _spans(len(self._array), rows):
            part = self._array[start:stop]
            yield {name: _plain(part[:, place]) for name, place in places.items()}

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield slices of the array."""
        for start in range(0, len(self._array), rows):
            part = ArrayTable(self._array[start : start + rows], self.columns)
            yield Piece(start, part.count_rows(), partial(part.batches, names, rows))

    def count_rows(self) -> int:
        """Return the number of rows."""
        return len(self._array)


def open_table(data: Any, names: Sequence[str], every_line: bool = False) -> Table:
    """Recognise a table.

    Parameters
    ----------
    data : data frame, two-dimensional array, list of rows, or Parquet or CSV files
        The table: files as the path of one, a list of paths, or a folder (see `open_file`).
    names : sequence of str
        The domain's features, which name the columns of an array or a list.
    every_line : bool
        Whether a text file's malformed lines (see `CsvTable`), and a list's rows that do not fit
        the features, are refused.
    """
    if isinstance(data, ParquetTable | CsvTable | FilesTable | RemoteTable):
        return data
    if isinstance(data, str | Path):
        return open_file(data, every_line=every_line)
    if are_files(data):
        return open_files(data, every_line=every_line)
    try:
        frame = nw.from_native(data, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            raise TypeError("the frame is lazy: collect it first, or pass the path of a file")
        if isinstance(frame, nw.DataFrame):
            return FrameTable(frame)
    except nw.exceptions.DuplicateError:
        raise SchemaError("two columns have the same name") from None
    if hasattr(data, "toarray"):
        raise TypeError("sparse matrices are not supported: pass a dense array or a data frame")
    if isinstance(data, list | tuple):
        if every_line:
            _check_rows(data, names)
        return ArrayTable(_values(data, names), names)
    return ArrayTable(_array(data), names)


def count_rows(data: Any) -> int:
    """Return the number of rows of any table. Only where neighbours have the same number of them.

    Parameters
    ----------
    data : as for `open_table`
        The table.
    """
    if isinstance(data, str | Path):
        data = open_file(data)
    elif are_files(data):
        data = open_files(data)
    if isinstance(data, ParquetTable | CsvTable | FilesTable | RemoteTable):
        return data.count_rows()
    return len(data if hasattr(data, "__len__") else _array(data))


def open_vector(data: Any, name: str) -> Any:
    """Recognise one column (labels, weights) given apart from its table.

    An array of one column will do, too (see `is_column_vector`).
    """
    series = nw.from_native(data, series_only=True, pass_through=True)
    if isinstance(series, nw.Series) or isinstance(data, pa.Array | pa.ChunkedArray):
        return series
    if not hasattr(data, "__iter__") and not hasattr(data, "__array__"):
        raise SchemaError(f"{name} must be a column: a series, an array, a list, or a name as text")
    array = _array(data) if hasattr(data, "__array__") else _objects(list(data))
    if is_column_vector(array):
        array = array[:, 0]
    if array.ndim != 1:
        raise SchemaError(f"{name} must have one dimension")
    return array


def is_column_vector(data: Any) -> bool:
    """Whether labels or weights have a second dimension that they do not need."""
    shape: tuple[int, ...] = getattr(data, "shape", ())
    return len(shape) == 2 and shape[1] == 1


def slice_vector(vector: Any, start: int, stop: int) -> Column:
    """Take some rows of a column that `open_vector` gave."""
    part = vector[start:stop]
    if isinstance(part, nw.Series):
        return _column(part)
    return part if isinstance(part, pa.Array | pa.ChunkedArray) else _plain(part)


def _spans(count: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield where batches begin and end; the first has no rows."""
    yield 0, 0
    for start in range(0, count, rows):
        yield start, min(start + rows, count)


def _array(data: Any) -> np.ndarray:
    """Return an array as it is; values under a mask are missing, whatever lies there."""
    if isinstance(data, np.ma.MaskedArray):
        number = data.dtype.kind in "fiub"
        with np.errstate(all="ignore"):  # no value may warn
            values = np.array(data.data, dtype=np.float64 if number else object)
        values[np.ma.getmaskarray(data)] = np.nan if number else None
        return values
    return np.asarray(data) if hasattr(data, "__array__") else np.empty(0, dtype=object)


def _values(rows: Sequence[Any], names: Sequence[str]) -> np.ndarray:
    """Return nested lists as objects: numpy would find a common type.

    A row has one value for each name: the rest of a longer one is left out, what a shorter one
    lacks is missing. A mapping has its values by name.
    """
    values = np.full((len(rows), len(names)), None, dtype=object)
    for place, row in enumerate(rows):
        for column, value in enumerate(_row(row, names)):
            values[place, column] = value
    return values


def _check_rows(rows: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse a list whose elements are not rows with a value for each name."""
    for row in rows:
        if isinstance(row, Mapping):
            if absent := [name for name in names if name not in row]:
                raise SchemaError(f"a row of the list has no key {absent[0]!r}")
        elif (width := _width(row)) is None:
            raise SchemaError(
                "a list must hold rows: lists of cells, or mappings from features to cells. "
                "Write [row] if it is one row"
            )
        elif width != len(names):
            raise SchemaError(
                f"a row of the list has {width} cells, but domain is expecting {len(names)} "
                "features as input"
            )


def _width(row: Any) -> int | None:
    """Return how many values a row has; None if it is none."""
    if isinstance(row, str | bytes):
        return None
    try:
        iter(row)
        return len(row)
    except TypeError:
        return None


def _row(row: Any, names: Sequence[str]) -> list[Any]:
    try:
        if isinstance(row, Mapping):
            return [row.get(name) for name in names]
        return [] if isinstance(row, str | bytes) else list(islice(iter(row), len(names)))
    except Exception:  # whatever a row may be, it must not raise
        return []


def _column(series: Any) -> Column:
    """Return a series as an arrow array, or as Python objects where it has no type of its own."""
    native = series.to_native()
    if isinstance(native, pa.ChunkedArray) and pa.types.is_decimal(native.type):
        return native.combine_chunks()  # narwhals knows no negative scale
    kind = getattr(native, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "fiubO":
        return np.asarray(native)  # as it lies in memory: nobody asks a value anything
    if series.dtype == nw.Object or _untyped(native):  # arrow would show objects' addresses
        return _objects(series.to_list())
    if series.dtype == nw.String:
        return _arrow_or_bytes(series.to_arrow, series.to_list)
    return _arrow_or_objects(series.to_arrow, series.to_list)


def _untyped(native: Any) -> bool:
    """Whether a series holds objects, or categories that are: its type was read off its values."""
    kind = getattr(native, "dtype", None)
    values = getattr(getattr(kind, "categories", None), "dtype", kind)
    if kind is not values and not isinstance(values, np.dtype):
        return str(values) != "str"
    return isinstance(values, np.dtype) and values.kind == "O"


def _plain(array: np.ndarray) -> Column:
    """Return texts as an arrow array; other arrays stay as they are."""
    if array.dtype.kind not in "US":
        return array
    kind = pa.large_string() if array.dtype.kind == "U" else pa.large_binary()
    # By way of a list: arrow itself ends a numpy text at its first null byte.
    return _arrow_or_bytes(lambda: pa.array(array.tolist(), kind), array.tolist)


def _arrow_or_objects(arrow: Callable[[], Column], values: Callable[[], list[Any]]) -> Column:
    """Prefer arrow; values that it cannot hold must not raise, so they go on as Python objects."""
    try:
        return arrow()
    except Exception:
        return _objects(values())


def _arrow_or_bytes(arrow: Callable[[], Column], values: Callable[[], list[Any]]) -> Column:
    """The same for texts, which stay texts: none must change the kind of the column."""
    try:
        return arrow()
    except Exception:
        return pa.array([_to_bytes(value) for value in values()], pa.large_binary())


def _to_bytes(value: Any) -> bytes | None:
    if isinstance(value, str):
        return str.encode(value, "utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else None


def _objects(values: list[Any]) -> np.ndarray:
    return np.fromiter(values, dtype=object, count=len(values))
