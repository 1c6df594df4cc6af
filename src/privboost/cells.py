"""From the cells of one column to numbers, labels and names, whatever the cells hold.

Each cell is read by itself: none can raise, and none can change how another is read. Only a
column of the wrong kind raises, which is a matter of the schema.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privboost.domain_checks import Label
from privboost.errors import SchemaError
from privboost.tables import Column

MISSING = -2
OTHER = -1


def read_numbers(column: Column, name: str) -> np.ndarray:
    """Return a column as float64; what is missing or no number is NaN."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "fiub":
            return np.ascontiguousarray(column, dtype=np.float64)
        if column.dtype.kind == "O":
            return _parse(column)
        raise SchemaError(f"column {name!r} holds {column.dtype}, but the domain says numbers")
    column = _arrow(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if _is_text(kind):
        try:
            return _floats(column.cast(pa.float64()))
        except pa.ArrowInvalid:
            # Some cell is no number. Both ways read each readable cell alike.
            return _parse(column.cast(_bytes_like(kind)).to_pylist())
    if _is_scalar(kind):
        return _floats(column)
    raise SchemaError(f"column {name!r} holds {kind}, but the domain says numbers")


def code_labels(column: Column, labels: Sequence[Label], name: str) -> np.ndarray:
    """Return the place of each cell among the labels; −1 for another value, −2 for missing."""
    places = _Places(labels)
    if isinstance(column, np.ndarray) and column.dtype.kind == "O":
        return np.fromiter(map(places.find, column), dtype=np.int32, count=len(column))
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "fiub":
            raise SchemaError(f"column {name!r} holds {column.dtype}, but the domain says labels")
        column = pa.array(np.ascontiguousarray(column))
    column = _arrow(column)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_text(kind) or _is_scalar(kind)):
        raise SchemaError(f"column {name!r} holds {kind}, but the domain says labels")
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    words = column.dictionary.cast(_bytes_like(kind)) if _is_text(kind) else column.dictionary
    found = np.array([*map(places.find, words.to_pylist()), MISSING], dtype=np.int32)
    return found[pc.fill_null(column.indices.cast(pa.int64()), len(words)).to_numpy()]


def read_unit_names(column: Column, name: str) -> pa.Array:
    """Return the units of a batch as bytes, null where there is none."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "O":
            names = [None if _is_missing(cell) else _unit_name(cell) for cell in column]
            return pa.array(names, pa.large_binary())
        column = pa.array(np.ascontiguousarray(column))
    column = _arrow(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_nested(column.type):
        raise SchemaError(f"column {name!r} holds {column.type}, which cannot name a unit")
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    if not _is_text(column.type):
        column = column.cast(pa.string())
    return column.cast(_bytes_like(column.type)).cast(pa.large_binary())


class _Places:
    """Finds cells among labels: texts as they are written, numbers by value."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self._text = isinstance(labels[0], str)
        self._place: dict[Any, int] = {}
        for place, label in enumerate(labels):
            if isinstance(label, str):
                self._place[label.encode()] = place
            else:
                self._place[float(label)] = place

    def find(self, cell: Any) -> int:
        """Return a cell's place, `OTHER` or `MISSING`."""
        if _is_missing(cell):
            return MISSING
        key = _as_text(cell) if self._text else _as_number(cell)
        return self._place.get(key, OTHER)


def _is_missing(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float | np.floating) and math.isnan(cell)


def _as_text(cell: Any) -> bytes | None:
    if isinstance(cell, bytes):
        return cell
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).encode()
    if isinstance(cell, float | np.floating) and math.isfinite(cell) and cell == int(cell):
        cell = int(cell)  # a whole number that pandas keeps as float beside missing cells
    if isinstance(cell, str | int | float | np.number):
        return str(cell).encode(errors="surrogatepass")
    return None


def _as_number(cell: Any) -> float | None:
    word: Any = cell.decode(errors="replace") if isinstance(cell, bytes) else cell
    if isinstance(word, str) and word.lower() in ("true", "false"):
        return float(word.lower() == "true")
    try:
        return float(word)
    except OverflowError:  # a whole number beyond all floats
        return math.inf if word > 0 else -math.inf
    except Exception:  # whatever a cell may be, it must not raise
        return None


def _parse(cells: Any) -> np.ndarray:
    """Read cells of any kind as numbers; what is no number is NaN."""
    numbers = (_as_number(cell) for cell in cells)
    return np.fromiter((math.nan if x is None else x for x in numbers), np.float64, len(cells))


def _arrow(column: Column) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _floats(column: pa.Array) -> np.ndarray:
    column = pc.fill_null(pc.cast(column, pa.float64(), safe=False), math.nan)
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False))


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _is_scalar(kind: pa.DataType) -> bool:
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    )


def _bytes_like(kind: pa.DataType) -> pa.DataType:
    """Texts are compared as bytes: they need not be valid UTF-8."""
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return pa.large_binary() if large else pa.binary()


def _unit_name(cell: Any) -> bytes:
    return cell if isinstance(cell, bytes) else str(cell).encode(errors="surrogatepass")
