"""Data frames as tables, and their series as columns, whose types are what the frame declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow as pa

from privboost.tables.pieces import Batch, Column, Piece
from privboost.tables.text_sources import unique


class FrameTable:
    """A data frame that narwhals knows: pandas, polars, pyarrow and others."""

    is_text = False

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.columns = unique([str(name) for name in frame.columns])

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        positions = {name: self._frame.columns[self.columns.index(name)] for name in names}
        for start, stop in spans(len(self._frame), rows):
            part = self._frame[start:stop]
            yield {name: column_of(part.get_column(own)) for name, own in positions.items()}

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield slices of the frame."""
        for start in range(0, len(self._frame), rows):
            part = FrameTable(self._frame[start : start + rows])
            yield Piece(start, part.count_rows(), partial(part.batches, names, rows))

    def count_rows(self) -> int:
        """Return the number of rows."""
        return len(self._frame)


def spans(count: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield where batches begin and end; the first has no rows."""
    yield 0, 0
    for start in range(0, count, rows):
        yield start, min(start + rows, count)


def column_of(series: Any) -> Column:
    """Return a series as an arrow array, or as Python objects where it has no type of its own."""
    native = series.to_native()
    if isinstance(native, pa.ChunkedArray) and pa.types.is_decimal(native.type):
        return native.combine_chunks()  # narwhals knows no negative scale
    kind = getattr(native, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "fiubO":
        return np.asarray(native)  # as it lies in memory: nobody asks a value anything
    if series.dtype == nw.Object or _untyped(native):  # arrow would show objects' addresses
        return objects(series.to_list())
    if series.dtype == nw.String:
        return arrow_or_bytes(series.to_arrow, series.to_list)
    return _arrow_or_objects(series.to_arrow, series.to_list)


def _untyped(native: Any) -> bool:
    """Whether a series holds objects, or categories that are: its type was read off its values."""
    kind = getattr(native, "dtype", None)
    values = getattr(getattr(kind, "categories", None), "dtype", kind)
    if kind is not values and not isinstance(values, np.dtype):
        return str(values) != "str"
    return isinstance(values, np.dtype) and values.kind == "O"


def _arrow_or_objects(arrow: Callable[[], Column], values: Callable[[], list[Any]]) -> Column:
    """Prefer arrow; values that it cannot hold must not raise, so they go on as Python objects."""
    try:
        return arrow()
    except Exception:
        return objects(values())


def arrow_or_bytes(arrow: Callable[[], Column], values: Callable[[], list[Any]]) -> Column:
    """The same for texts, which stay texts: none must change the kind of the column."""
    try:
        return arrow()
    except Exception:
        return pa.array([_to_bytes(value) for value in values()], pa.large_binary())


def _to_bytes(value: Any) -> bytes | None:
    if isinstance(value, str):
        return str.encode(value, "utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else None


def objects(values: list[Any]) -> np.ndarray:
    """Return values as an array of Python objects, whatever they are."""
    return np.fromiter(values, dtype=object, count=len(values))
