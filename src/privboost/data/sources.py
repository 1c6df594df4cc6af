"""Opening of tables of any kind, and of labels and weights that are passed apart from their table.

Only a table's schema can raise here. No value can raise or change how another is read: a column's
type is the one that its table declares, and a column without a type (Python objects, lists) stays a
column of objects, which are read one by one. A list has no schema at all: in training its rows are
truncated or padded with missing values to the domain's features. For predictions, where no private
row is at stake, such rows are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow as pa
import pyarrow.dataset

from privboost._core.checks import did_you_mean
from privboost._core.errors import SchemaError
from privboost.data.files import are_files, open_file, open_files
from privboost.data.lazy_tables import DatasetTable, LazyTable, StreamedTable
from privboost.data.table import (
    ArrayTable,
    Batch,
    FrameTable,
    Piece,
    RemoteTable,
    SparseTable,
    Table,
    Vector,
    objects,
    open_series,
    raise_remote_rows,
    slice_vector,
)
from privboost.data.values import column_kind, holds_text, read_numbers


def open_table(data: Any, names: Sequence[str], every_line: bool = False) -> Table:
    """Open a table of any kind.

    Parameters
    ----------
    data : data frame, array, sparse matrix, list of rows, arrow dataset, Parquet or CSV files
        The table: files as the path of one, a list of paths, or a folder (see `open_file`). A
        polars frame may be lazy: it is then evaluated batch by batch.
    names : sequence of str
        The domain's features, which name the columns of an array or a list.
    every_line : bool
        Whether a text file's malformed lines (see `CsvTable`), and a list's rows that do not fit
        the features, are refused.
    """
    if isinstance(data, Table):
        return data
    if isinstance(data, str | Path):
        return open_file(data, every_line=every_line)
    if isinstance(data, list | tuple) and are_files(data):
        return open_files(data, every_line=every_line)
    if isinstance(data, pa.dataset.Dataset):
        return DatasetTable(data)
    try:
        frame = nw.from_native(data, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            return LazyTable(data)
        if isinstance(frame, nw.DataFrame):
            return FrameTable(frame)
    except nw.exceptions.DuplicateError:
        raise SchemaError("two columns have the same name") from None
    if _is_sparse(data):
        return SparseTable(data, names)
    if isinstance(data, list | tuple):
        if every_line:
            _check_rows(data, names)
        return ArrayTable(_values(data, names), names)
    return ArrayTable(_array(data), names)


def count_rows(data: Any) -> int:
    """Return the number of rows of any table; only for use if it is public."""
    if _is_sparse(data):
        return int(data.shape[0])
    if not isinstance(data, str) and not are_files(data):
        if hasattr(data, "__len__"):
            return len(data)
        if hasattr(data, "__array__"):
            return len(_array(data))
    return open_table(data, ()).count_rows()


def open_vector(data: Any, name: str) -> Vector:
    """Open one column (labels, weights) that is passed apart from its table.

    A two-dimensional array of one column is accepted (see `is_column_vector`).
    """
    series = nw.from_native(data, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return open_series(series)
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return data
    if not hasattr(data, "__iter__") and not hasattr(data, "__array__"):
        raise SchemaError(f"{name} must be a column: a series, an array, a list, or a name as text")
    array = _array(data) if hasattr(data, "__array__") else objects(list(data))
    if is_column_vector(array):
        array = array[:, 0]
    if array.ndim != 1:
        raise SchemaError(f"{name} must have one dimension")
    return array


def split_survival(labels: Any, time: str, event: str) -> tuple[Any, Any]:
    """Return the columns of times and of events, of labels that are given apart from a table.

    Labels are a structured array, as scikit-survival has them, or a frame of two columns. Columns
    with the domain's names are taken by name, and others by their type: events are boolean, and
    times are numbers; integers that come first in a structured array, before floats, are events
    too. Only the schema can raise.
    """
    if isinstance(labels, np.ndarray) and labels.dtype.names is not None:
        columns = {str(name): labels[name] for name in labels.dtype.names}
        fields = "".join(own.dtype.kind for own in columns.values())
        if fields in ("if", "uf") and set(columns) != {time, event}:
            happened, times = columns.values()
            return times, happened
    else:
        frame = nw.from_native(labels, eager_only=True, pass_through=True)
        if not isinstance(frame, nw.DataFrame):
            raise SchemaError(_SURVIVAL_LABELS)
        columns = {str(name): frame.get_column(name).to_native() for name in frame.columns}
    if len(columns) != 2:
        raise SchemaError(_SURVIVAL_LABELS)
    if set(columns) == {time, event}:
        return columns[time], columns[event]
    kinds = {
        name: column_kind(slice_vector(open_vector(own, "y"), 0, 0), name)
        for name, own in columns.items()
    }
    names = {kind: name for name, kind in kinds.items()}
    if set(names) != {"bool", "number"}:
        raise SchemaError(_SURVIVAL_LABELS)
    return columns[names["number"]], columns[names["bool"]]


_SURVIVAL_LABELS = (
    "y of a survival model must be a structured array, or a frame, of two columns: whether the "
    "event was observed (booleans), and the time (numbers), or of the target's names. Events may "
    "be given as integers, of 0 and 1, the first field before times of floats; leave y out if X "
    "has both columns"
)


def is_column_vector(data: Any) -> bool:
    """Whether labels or weights have an unnecessary second dimension."""
    shape: tuple[int, ...] = getattr(data, "shape", ())
    return len(shape) == 2 and shape[1] == 1


def _is_sparse(data: Any) -> bool:
    """Whether this is one of scipy's sparse arrays, without importing scipy."""
    scipy_sparse = sys.modules.get("scipy.sparse")  # imported if such a matrix exists
    return scipy_sparse is not None and bool(scipy_sparse.issparse(data))


def _array(data: Any) -> np.ndarray:
    """Return an array unchanged, but masked values as missing."""
    if isinstance(data, np.ma.MaskedArray):
        number = data.dtype.kind in "fiub"
        with np.errstate(all="ignore"):  # no value may warn
            values = np.array(data.data, dtype=np.float64 if number else object)
        values[np.ma.getmaskarray(data)] = np.nan if number else None
        return values
    return np.asarray(data) if hasattr(data, "__array__") else np.empty(0, dtype=object)


def _values(rows: Sequence[Any], names: Sequence[str]) -> np.ndarray:
    """Return nested lists as an array of objects: numpy would choose a common type.

    A row has one value for each name: longer rows are truncated, shorter ones padded with missing
    values. A mapping is read by name.
    """
    values = np.full((len(rows), len(names)), None, dtype=object)
    for place, row in enumerate(rows):
        for column, value in enumerate(_row(row, names)):
            values[place, column] = value
    return values


def _row(row: Any, names: Sequence[str]) -> list[Any]:
    try:
        if isinstance(row, Mapping):
            return [row.get(name) for name in names]
        return [] if isinstance(row, str | bytes) else list(islice(iter(row), len(names)))
    except Exception:  # whatever a row may be, it must not raise
        return []


def _check_rows(rows: Sequence[Any], names: Sequence[str]) -> None:
    """Raise SchemaError unless all elements of a list are rows with a value for each name."""
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
    """Return the number of values of a row; None if it is no row."""
    try:
        iter(row)
        return None if isinstance(row, str | bytes) else len(row)
    except TypeError:
        return None


def check_columns_present(table: Table, names: Sequence[str]) -> None:
    """Raise SchemaError unless a table has these columns; column names are public.

    The error does not list the columns of a text file: its first line may be a record.
    """
    absent = [name for name in names if name not in table.columns]
    if not absent:
        return
    listed = ", ".join(map(repr, absent[:10])) + (" …" if len(absent) > 10 else "")
    if isinstance(table, ArrayTable | SparseTable):
        raise SchemaError(
            f"an array has features only: pass a data frame with {listed}, or y apart"
        )
    if table.is_text:
        raise SchemaError(
            f"the table has no column {listed}: the file's header names no such column; is the "
            "separator right?"
        )
    has = ", ".join(map(repr, table.columns[:20])) + (" …" if len(table.columns) > 20 else "")
    hint = did_you_mean(absent[0], [str(own) for own in table.columns if own not in names])
    hint = f" ({hint})" if hint and len(absent) == 1 else ""
    raise SchemaError(f"the table has no column {listed}{hint}; it has {has or 'no columns'}")


class TableWithColumns(Table):
    """A table with attached columns: vectors as long as the table, by name."""

    def __init__(self, table: Table, apart: Mapping[str, Vector]) -> None:
        self._table, self._apart = table, apart
        self.columns = tuple(dict.fromkeys([*table.columns, *apart]))

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        return self._joined(0, self._table.batches(self._own(names), rows))

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        for piece in self._table.pieces(self._own(names), rows):
            yield Piece(piece.first, piece.rows, partial(self._read, piece))

    def count_rows(self) -> int:
        return self._table.count_rows()

    def _own(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self._apart]

    def _read(self, piece: Piece) -> Iterator[Batch]:
        return self._joined(piece.first, piece.batches())

    def _joined(self, first: int, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            last = first + len(next(iter(batch.values())))
            apart = {name: slice_vector(own, first, last) for name, own in self._apart.items()}
            yield {**batch, **apart}
            first = last


def attach_columns(
    table: Table, apart: Mapping[str, Any], named: Mapping[str, str]
) -> TableWithColumns:
    """Attach columns, by parameter name, to a table; `named` has the name of each in batches.

    The table needs a fixed number and order of rows: no text file, which may have malformed lines,
    and no lazy frame.
    """
    vectors = {}
    for name, values in apart.items():
        if table.is_text:
            raise SchemaError(f"{name} of a CSV file must be one of its columns")
        if isinstance(table, RemoteTable):
            raise_remote_rows()
        if isinstance(table, StreamedTable):
            raise SchemaError(
                f"{name} of a lazy frame or dataset must be one of its columns: its rows may come "
                "in another order each time"
            )
        vectors[named[name]] = vector = open_vector(values, name)
        if len(vector) != table.count_rows():
            raise SchemaError(f"X and {name} have different numbers of rows")
    return TableWithColumns(table, vectors)


def check_weight_column(table: Table, name: str) -> None:
    """Raise SchemaError if the column of weights has no numeric type.

    In text files and columns of Python objects, which have no type, a value that is no number has
    weight 0.
    """
    names = list(dict.fromkeys([table.columns[0], name]))
    column = table.no_rows(names)[name]
    read_numbers(column, "sample_weight")
    if not table.is_text and holds_text(column):
        raise SchemaError("column 'sample_weight' holds text, but weights are numbers")
