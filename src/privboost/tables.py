"""Any table as batches of columns: data frames, arrays, and files that are read in a stream.

Only a table's schema can raise here. What a cell holds cannot: unreadable cells become missing
where they are coded, and errors of file readers, which quote cells, are replaced by our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from privboost.errors import SchemaError

Column: TypeAlias = Any
"""A pyarrow array, or a numpy array of numbers or of Python objects."""
Batch = Mapping[str, Column]

_CSV_BYTES = 2**22


class Table(Protocol):
    """Columns by name, in batches of rows."""

    columns: tuple[str, ...]

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""


class FrameTable:
    """A data frame that narwhals knows: pandas, polars, pyarrow and others."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.columns = tuple(map(str, frame.columns))
        if len(set(self.columns)) < len(self.columns):
            raise SchemaError("two columns have the same name")

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        positions = {name: self._frame.columns[self.columns.index(name)] for name in names}
        for start in range(0, len(self._frame), rows):
            part = self._frame[start : start + rows]
            yield {name: _column(part.get_column(own)) for name, own in positions.items()}


class ArrayTable:
    """A two-dimensional numpy array whose columns have the domain's names, in its order."""

    def __init__(self, array: np.ndarray, names: Sequence[str]) -> None:
        if array.ndim != 2:
            raise SchemaError(f"a two-dimensional array is needed, not one of {array.ndim}")
        if array.shape[1] != len(names):
            raise SchemaError(
                f"the array has {array.shape[1]} features (columns), "
                f"but the domain declares {len(names)} features"
            )
        self._array = array
        self.columns = tuple(names)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        places = {name: self.columns.index(name) for name in names}
        for start in range(0, len(self._array), rows):
            part = self._array[start : start + rows]
            yield {name: _plain(part[:, place]) for name, place in places.items()}


class ParquetTable:
    """A Parquet file, read batch by batch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with pa.parquet.ParquetFile(path) as file:
            self.columns = tuple(file.schema_arrow.names)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        # Without pre-buffering: it keeps the bytes of the whole file in memory.
        with pa.parquet.ParquetFile(self._path, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=rows, columns=list(names)):
                yield dict(zip(batch.schema.names, batch.columns, strict=True))


class CsvTable:
    """A text file with a header. Every cell is text until the domain reads it; empty is missing.

    A line with the wrong number of cells is left out. The file must be well formed: a quotation
    mark that is never closed runs into the lines after it.
    """

    def __init__(self, path: Path, missing: Sequence[str] = ()) -> None:
        self._path = path
        self._missing = ["", *missing]
        self._parse = pa.csv.ParseOptions(
            delimiter="\t" if ".tsv" in path.suffixes else ",",
            invalid_row_handler=lambda row: "skip",
        )
        try:
            self.columns = tuple(self._open([]).schema.names)
        except pa.ArrowInvalid:
            raise SchemaError("the text file has no header line") from None

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        try:
            for batch in self._open(names):
                for start in range(0, batch.num_rows, rows):
                    part = batch.slice(start, rows)
                    yield dict(zip(part.schema.names, part.columns, strict=True))
        except pa.ArrowInvalid:
            raise SchemaError("the text file is not well formed") from None

    def _open(self, names: Sequence[str]) -> Any:
        convert = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=list(names),
            null_values=self._missing,
            strings_can_be_null=True,
            check_utf8=False,
        )
        read = pa.csv.ReadOptions(block_size=_CSV_BYTES)
        return pa.csv.open_csv(self._path, read, self._parse, convert)


def open_table(data: Any, names: Sequence[str]) -> Table:
    """Recognise a table.

    Parameters
    ----------
    data : data frame, two-dimensional array, path of a Parquet or CSV file, or an open file
        The table.
    names : sequence of str
        The domain's features, which name the columns of an array.
    """
    if isinstance(data, ParquetTable | CsvTable):
        return data
    if isinstance(data, str | Path):
        return open_file(data)
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError("the frame is lazy: collect it first, or pass the path of a file")
    if isinstance(frame, nw.DataFrame):
        return FrameTable(frame)
    if hasattr(data, "toarray"):
        raise TypeError("sparse matrices are not supported: pass a dense array or a data frame")
    array = data if isinstance(data, np.ndarray) else _array(data)
    return ArrayTable(array, names)


def open_vector(data: Any, name: str) -> Any:
    """Recognise one column (labels, weights) given apart from its table."""
    series = nw.from_native(data, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return _Series(series)
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return data
    array = data if isinstance(data, np.ndarray) else _array(data)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise SchemaError(f"{name} must have one dimension")
    return array


def slice_vector(vector: Any, start: int, stop: int) -> Column:
    """Take some rows of a column that `open_vector` gave."""
    part = vector[start:stop]
    if isinstance(part, nw.Series):
        return _column(part)
    return part if isinstance(part, pa.Array | pa.ChunkedArray) else _plain(part)


class _Series:
    """A narwhals series that counts and slices by position."""

    def __init__(self, series: Any) -> None:
        self._series = series

    def __len__(self) -> int:
        return len(self._series)

    def __getitem__(self, rows: slice) -> Any:
        return self._series[rows]


def open_file(path: str | Path, missing: Sequence[str] = ()) -> Table:
    """Open a Parquet or CSV file, to be read batch by batch.

    Parameters
    ----------
    path : path
        The file; its suffix says what it is.
    missing : sequence of str
        Texts that mean a missing cell in a CSV file, besides nothing at all.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    kinds = set(path.suffixes)
    if kinds & {".parquet", ".pq"}:
        return ParquetTable(path)
    if kinds & {".csv", ".tsv"}:
        return CsvTable(path, missing)
    raise SchemaError(f"{path.name}: a .parquet, .csv or .tsv file is needed")


def _array(data: Any) -> np.ndarray:
    """Make an array of Python values; values of several kinds stay as they are."""
    if isinstance(data, Iterable) and not isinstance(data, Sequence | np.ndarray):
        data = np.asarray(data) if hasattr(data, "__array__") else list(data)
    try:
        array = np.asarray(data)
    except ValueError:
        raise SchemaError("rows of a nested list must have the same length") from None
    if array.dtype.kind in "US":  # numpy turns numbers beside a text into texts
        array = np.asarray(data, dtype=object)
    return array


def _column(series: Any) -> Column:
    """Return a series as an arrow array, or as Python objects where it has no type of its own."""
    if series.dtype == nw.Object:
        return _objects(series.to_list())
    return _arrow_or_objects(series.to_arrow, series.to_list)


def _plain(array: np.ndarray) -> Column:
    """Return texts as an arrow array; other arrays stay as they are."""
    if array.dtype.kind not in "US":
        return array
    return _arrow_or_objects(lambda: pa.array(np.ascontiguousarray(array)), array.tolist)


def _arrow_or_objects(arrow: Callable[[], Column], cells: Callable[[], list[Any]]) -> Column:
    """Prefer arrow; cells that it cannot hold must not raise, so they go on as Python objects."""
    try:
        return arrow()
    except Exception:
        return _objects(cells())


def _objects(cells: list[Any]) -> np.ndarray:
    return np.fromiter(cells, dtype=object, count=len(cells))
