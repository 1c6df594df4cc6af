"""From the cells of one column to numbers, labels and unit names, whatever the cells hold.

Each cell is read by itself: none can raise, and none changes how another is read. A column of
typed values and a column of Python objects read the same value alike. Only a column of the wrong
kind raises, which is a matter of the schema.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privboost.domain_checks import Label
from privboost.errors import SchemaError
from privboost.tables import Column

MISSING = -2
OTHER = -1

_NUMBERS = (bool, int, float, Decimal, np.bool_, np.integer, np.floating)


def read_numbers(column: Column, name: str) -> np.ndarray:
    """Return a column as float64; what is missing or no number is NaN."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "fiub":
            with np.errstate(all="ignore"):  # a long double may overflow, in silence
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
        column = pa.array(_native(column))
    column = _arrow(column)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_text(kind) or _is_scalar(kind)):
        raise SchemaError(f"column {name!r} holds {kind}, but the domain says labels")
    if pa.types.is_integer(kind) and places.only_words:
        raise SchemaError(f"column {name!r} holds {kind}, but the domain's labels are words")
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    words = column.dictionary.cast(_bytes_like(kind)) if _is_text(kind) else column.dictionary
    found = np.array([*map(places.find, words.to_pylist()), MISSING], dtype=np.int32)
    return found[pc.fill_null(column.indices.cast(pa.int64()), len(words)).to_numpy()]


def read_texts(column: Column, name: str) -> pa.Array:
    """Return each cell as the text by which labels are found, as bytes; null where it is missing.

    Numbers are written as `code_labels` compares them; what is neither text nor number is null.
    """
    if isinstance(column, np.ndarray) and column.dtype.kind == "O":
        return pa.array(map(_text_or_none, column), pa.large_binary())
    if isinstance(column, np.ndarray):
        column = pa.array(_native(column))
    column = _arrow(column)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    kind = column.type.value_type
    words = column.dictionary.cast(_bytes_like(kind)) if _is_text(kind) else column.dictionary
    texts = map(_text_or_none, words.to_pylist())
    return pa.array(texts, pa.large_binary()).take(column.indices.cast(pa.int64()))


def column_kind(column: Column, name: str) -> str:
    """Say what a column holds by its type: "text", "number", "bool" or "object" (anything)."""
    if isinstance(column, np.ndarray):
        kinds = {"f": "number", "i": "number", "u": "number", "b": "bool", "O": "object"}
        if column.dtype.kind in kinds:
            return kinds[column.dtype.kind]
        raise SchemaError(f"column {name!r} holds {column.dtype}, which is neither number nor text")
    kind = column.type
    if pa.types.is_dictionary(kind) or _is_text(kind) or pa.types.is_null(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "bool"
    if _is_scalar(kind):
        return "number"
    raise SchemaError(f"column {name!r} holds {kind}, which is neither number nor text")


def read_unit_names(column: Column, name: str) -> pa.Array:
    """Return the name of each cell's unit as bytes, null where there is none.

    Cells name one unit if they are the same text, numbers of the same value, or the same instant,
    whatever type their columns have: a number names a unit by its shortest decimal text, so 7, 7.0
    and "7" are one unit, in one table and in the next. A cell of another kind names a unit by its
    text; one that has none names no unit.
    """
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "O":
            return pa.array(map(_unit_name, column), pa.large_binary())
        column = pa.array(_native(column))
    column = _arrow(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column, kind = column.storage, column.storage.type
    if pa.types.is_nested(kind):
        raise SchemaError(f"column {name!r} holds {kind}, which cannot name a unit")
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pa.array(map(_unit_name, column.to_pylist()), pa.large_binary())
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return _instants(column.cast(width).to_pylist(), kind)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.large_binary())
    if not _is_text(column.type):
        column = column.cast(pa.string())
    return column.cast(_bytes_like(column.type)).cast(pa.large_binary())


class _Places:
    """Finds cells among labels: texts as they are written, numbers by value."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self._text = isinstance(labels[0], str)
        self._place: dict[Any, int] = {}
        for place, label in enumerate(labels):
            self._place[label.encode() if isinstance(label, str) else float(label)] = place
        self.only_words = self._text and all(_as_number(label) is None for label in labels)

    def find(self, cell: Any) -> int:
        """Return a cell's place, `OTHER` or `MISSING`."""
        try:
            if _is_missing(cell):
                return MISSING
            key = _as_text(cell) if self._text else _as_number(cell)
        except Exception:  # whatever a cell may be, it must not raise
            return OTHER
        return self._place.get(key, OTHER)


def _is_missing(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    return isinstance(cell, float | np.floating) and bool(np.isnan(cell))


def _as_text(cell: Any) -> bytes | None:
    """Write a text or a number; a whole number the same way whatever its type."""
    if isinstance(cell, bytes):
        return cell
    if isinstance(cell, str):  # not str(cell): a kind of text may write itself otherwise
        return str.encode(cell, "utf-8", "surrogatepass")
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).encode()
    if not isinstance(cell, _NUMBERS):
        return None
    number = _as_number(cell)
    if number is not None and math.isfinite(number) and number == int(number):
        whole = int(cell)
        return str(whole).encode() if abs(whole) < 10**300 else None
    return repr(number).encode()


def _as_number(cell: Any) -> float | None:
    if isinstance(cell, bytes):
        cell = cell.decode(errors="replace")
    if isinstance(cell, str):
        word = str.lower(cell)
        if word in ("true", "false"):
            return float(word == "true")
        try:
            return float(word)
        except ValueError:
            return None
    if not isinstance(cell, _NUMBERS):
        return None
    try:
        return float(cell)
    except OverflowError:  # a whole number beyond all floats
        return math.inf if cell > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return None


def _unit_name(cell: Any) -> bytes | None:
    try:
        return _name_unit(cell)
    except Exception:  # whatever a cell may be, it must not raise
        return None


def _name_unit(cell: Any) -> bytes | None:
    if _is_missing(cell):
        return None
    if isinstance(cell, str | bytes):
        return _as_text(cell)
    if isinstance(cell, _NUMBERS):
        number = _as_number(cell)
        if number is None or math.isnan(number):
            return None
        if isinstance(cell, int) or (math.isfinite(number) and number == int(number)):
            whole = int(cell)
            short = abs(whole) < 10**300  # Python refuses to write longer ones
            return f"{whole}".encode() if short else f"\0number {whole:x}".encode()
        return repr(number).encode()
    if isinstance(cell, np.datetime64 | np.timedelta64):
        days, step = np.datetime_data(cell.dtype)
        return _instant(
            _KIND_OF[type(cell)], int(cell.astype(np.int64)) * step * _NANOSECONDS[days]
        )
    if isinstance(cell, date):
        if not isinstance(cell, datetime):
            cell = datetime(cell.year, cell.month, cell.day)
        zone = UTC if cell.tzinfo is None else cell.tzinfo
        since = cell.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)
        return _instant("time", _nanoseconds(since) + getattr(cell, "nanosecond", 0))
    if isinstance(cell, timedelta):
        return _instant("span", _nanoseconds(cell) + getattr(cell, "nanoseconds", 0))
    return b"\0other " + str(cell).encode("utf-8", "surrogatepass")


_NANOSECONDS = {
    "D": 86_400 * 10**9,
    "h": 3600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}
_KIND_OF = {np.datetime64: "time", np.timedelta64: "span"}


def _instants(counts: list[int | None], kind: pa.DataType) -> pa.Array:
    """Name the units of a column of instants, spans or hours, whatever it counts in."""
    step = _NANOSECONDS[getattr(kind, "unit", "D" if kind.bit_width == 32 else "ms")]
    word = "span" if pa.types.is_duration(kind) else "hour" if pa.types.is_time(kind) else "time"
    names = (None if count is None else _instant(word, count * step) for count in counts)
    return pa.array(names, pa.large_binary())


def _instant(word: str, nanoseconds: int) -> bytes:
    return f"\0{word} {nanoseconds}".encode()


def _nanoseconds(span: timedelta) -> int:
    return (span.days * 86_400 + span.seconds) * 10**9 + span.microseconds * 1000


def _parse(cells: Any) -> np.ndarray:
    """Read cells of any kind as numbers; what is no number is NaN."""
    return np.fromiter(map(_number_or_nan, cells), np.float64, len(cells))


def _number_or_nan(cell: Any) -> float:
    try:
        number = _as_number(cell)
    except Exception:  # whatever a cell may be, it must not raise
        number = None
    return math.nan if number is None else number


def _text_or_none(cell: Any) -> bytes | None:
    try:
        return None if _is_missing(cell) else _as_text(cell)
    except Exception:
        return None


def _native(column: np.ndarray) -> np.ndarray:
    """Return an array of a type that arrow knows."""
    if column.dtype.kind != "f":
        return np.ascontiguousarray(column.astype(column.dtype.newbyteorder("="), copy=False))
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(column, dtype=np.float64)


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
