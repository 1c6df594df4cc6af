"""Data frames as tables, and series as columns with the types that the frame declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow as pa

from privboost.tables.pieces import Batch, Column, MemoryTable
from privboost.tables.text_sources import unique


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
