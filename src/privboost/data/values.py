"""Conversion of one column's values to numbers and labels, whatever the values hold.

Each value is read by itself: no value can raise, and none changes how another is read. A typed
column and a column of Python objects give the same result for the same value. Only a column of the
wrong type raises, which is a property of the schema.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privboost._core.addresses import NUMBERS
from privboost._core.errors import SchemaError
from privboost.data.table import Column

Label = str | int | float | bool
"""A category or a class."""
MISSING = -2
OTHER = -1

_ADVICE = (
    '; leave it out, or say what it is: a date is {"kind": "date", "bounds": ["2015-01-01", …]}'
)
_BOOLEANS = {"true": True, "false": False}
_NUMBERS = (bool, int, float, Decimal, np.bool_, np.integer, np.floating)


def read_numbers(column: Column, name: str) -> np.ndarray:
    """Return a column as float64; NaN for missing values and for values that are no numbers."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "fiub":
            with np.errstate(all="ignore"):  # a long double may overflow, in silence
                return np.ascontiguousarray(column, dtype=np.float64)
        if column.dtype.kind == "O":
            return _parse(column)
        raise SchemaError(f"column {name!r} holds {column.dtype}, but the domain says numbers")
    column = as_arrow(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return by_distinct_value(column, lambda distinct: read_numbers(distinct, name))
    if is_text(kind):
        try:
            return _floats(column.cast(pa.float64()))
        except pa.ArrowInvalid:
            # Some value is no number. Both ways read each readable value alike.
            return _parse(column.cast(bytes_like(kind)).to_pylist())
    if _is_scalar(kind):
        return _floats(column)
    raise SchemaError(f"column {name!r} holds {kind}, but the domain says numbers")


def plain_numbers(column: Column) -> np.ndarray | None:
    """Return a view of a column of plain numbers; None for any other column."""
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        column = column.chunk(0)
    if isinstance(column, pa.Array) and not column.null_count:
        plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        column = column.to_numpy(zero_copy_only=True) if plain else column
    if type(column) is not np.ndarray or column.ndim != 1 or column.dtype.str[1:] not in NUMBERS:
        return None
    return column if column.dtype.isnative and column.flags.aligned else None


_RECODED = (
    " (scikit-learn's voting, stacking and one-vs-rest hand on 0, 1, … instead of classes: around "
    "them, write the classes as these numbers, in the domain and in y)"
)


def code_labels(
    column: Column, labels: Sequence[Label], name: str, sparse: bool = True
) -> np.ndarray:
    """Return the position of each value among the labels; −1 for other values, −2 for missing ones.

    With `sparse`, a column of floats is accepted although all labels are strings: in pandas a
    column without any value has that type.
    """
    places = _places_among(tuple(labels), sparse)
    if isinstance(column, np.ndarray) and column.dtype.kind == "O":
        return places.find_all(column)
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "fiub":
            raise SchemaError(f"column {name!r} holds {column.dtype}, but the domain says labels")
        column = pa.array(_native(column))
    column = as_arrow(column)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (is_text(kind) or _is_scalar(kind)):
        raise SchemaError(f"column {name!r} holds {kind}, but the domain says labels")
    if not places.can_be(kind):
        raise SchemaError(
            f"column {name!r} holds {kind}, but the domain's labels are strings"
            + ("" if sparse else _RECODED)
        )
    column = _coded(column)
    distinct = column.dictionary.cast(bytes_like(kind)) if is_text(kind) else column.dictionary
    found = np.array([*map(places.find, distinct.to_pylist()), MISSING], dtype=np.int32)
    places_of_rows: np.ndarray = found[_places_of(column)]
    return places_of_rows


def count_unlisted(column: Column, labels: Sequence[Label], name: str) -> dict[str, int]:
    """Count values that are missing, or that are none of the labels."""
    places = code_labels(column, labels, name)
    return {"missing": int((places == MISSING).sum()), "other": int((places == OTHER).sum())}


def by_distinct_value(column: pa.Array, read: Callable[[pa.Array], np.ndarray]) -> np.ndarray:
    """Convert each distinct value of a column to a number once; null is NaN."""
    coded = _coded(column)
    numbers = np.append(read(coded.dictionary), math.nan)
    own: np.ndarray = numbers[_places_of(coded)]
    return own


def read_texts(column: Column, name: str) -> pa.Array:
    """Return each value as the string that labels are compared with, as bytes; null if missing.

    Numbers are written as `code_labels` compares them. Values that are neither strings nor numbers
    are null.
    """
    if isinstance(column, np.ndarray) and column.dtype.kind == "O":
        return pa.array(map(_text_or_none, column), pa.large_binary())
    if isinstance(column, np.ndarray):
        column = pa.array(_native(column))
    column = _coded(as_arrow(column))
    kind = column.type.value_type
    distinct = column.dictionary.cast(bytes_like(kind)) if is_text(kind) else column.dictionary
    texts = map(_text_or_none, distinct.to_pylist())
    return pa.array(texts, pa.large_binary()).take(column.indices.cast(pa.int64()))


def label_kind(column: Column, name: str) -> str:
    """Return the type of a column of classes; of a categorical column, that of its categories."""
    if not isinstance(column, np.ndarray) and pa.types.is_dictionary(column.type):
        return column_kind(pa.array([], column.type.value_type), name)
    return column_kind(column, name)


def column_kind(column: Column, name: str) -> str:
    """Return the type of a column.

    One of "text", "number", "duration", "bool" and "object" (anything).
    """
    if isinstance(column, np.ndarray):
        kinds = {"f": "number", "i": "number", "u": "number", "b": "bool", "O": "object"}
        kinds["m"] = "duration"
        if column.dtype.kind in kinds:
            return kinds[column.dtype.kind]
        raise SchemaError(
            f"column {name!r} holds {column.dtype}, which is neither number nor text{_ADVICE}"
        )
    kind = column.type
    if is_text(kind) or pa.types.is_null(kind):
        return "text"
    if pa.types.is_dictionary(kind) and (is_text(kind.value_type) or _is_scalar(kind.value_type)):
        return "text"  # also if the categories are numbers
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_duration(kind):
        return "duration"
    if _is_scalar(kind):
        return "number"
    raise SchemaError(f"column {name!r} holds {kind}, which is neither number nor text{_ADVICE}")


_ALIKE = {str, int, float, type(None)}
"""Types whose equal values have the same position; values of other types may not compare."""


class _Places:
    """Positions of values among labels: by their string, else by value where both are numbers.

    So the string "1.0" and the number 1 match the label "1", unless there is a label "1.0".
    """

    def __init__(self, labels: Sequence[Label], sparse: bool) -> None:
        self._text = isinstance(labels[0], str)
        self._place: dict[Any, int] = {}
        for place, label in enumerate(labels):
            self._place[label.encode() if isinstance(label, str) else float(label)] = place
        self._booleans: dict[bool, int] = {}
        self._by_value: dict[float, int] = {}
        self._numbers = not self._text
        for place, label in enumerate(labels if self._text else ()):
            boolean = _BOOLEANS.get(str(label).lower())
            if boolean is None:
                number = _as_number(label)
                if number is not None:
                    self._numbers = True
                    if math.isfinite(number):
                        self._by_value.setdefault(number, place)
            elif boolean not in self._booleans or label == str(boolean):
                self._booleans[boolean] = place
        self._floats = self._numbers or sparse

    def can_be(self, kind: pa.DataType) -> bool:
        """Whether a column of this type can hold any of the labels, or only missing values."""
        if pa.types.is_boolean(kind):
            return not self._text or bool(self._booleans)
        if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            return self._numbers
        return self._floats or not pa.types.is_floating(kind)

    def find_all(self, values: np.ndarray) -> np.ndarray:
        """Return the positions of Python objects; each distinct one is looked up once."""
        find: Callable[[Any], int] = self.find
        if set(map(type, values)) <= _ALIKE:
            find = cache(self.find)
        return np.fromiter(map(find, values), dtype=np.int32, count=len(values))

    def find(self, value: Any) -> int:
        """Return a value's position, `OTHER` or `MISSING`."""
        try:
            if is_missing(value):
                return MISSING
            if self._text and isinstance(value, bool | np.bool_):
                return self._booleans.get(bool(value), OTHER)
            if not self._text:
                return self._place.get(_as_number(value), OTHER)
            place = self._place.get(_as_text(value))
            if place is None and self._by_value:
                place = self._by_value.get(number_or_nan(value))
            return OTHER if place is None else place
        except Exception:  # whatever a value may be, it must not raise
            return OTHER


@lru_cache(maxsize=64)
def _places_among(labels: tuple[Label, ...], sparse: bool) -> _Places:
    """Cache the look-up of labels: a table is read batch by batch."""
    return _Places(labels, sparse)


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing one."""
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _as_text(value: Any) -> bytes | None:
    """Format a string or a number as bytes; equal integers alike, whatever their type."""
    if isinstance(value, bytes):
        return memoryview(value).tobytes()
    if isinstance(value, str):  # not str(value): a subclass may define it differently
        return str.encode(value, "utf-8", "surrogatepass")
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).encode()
    if not isinstance(value, _NUMBERS):
        return None
    number = _as_number(value)
    if number is not None and math.isfinite(number) and number == int(number):
        whole = int(value)
        return str(whole).encode() if abs(whole) < 10**300 else None
    return repr(number).encode()


def _as_number(value: Any) -> float | None:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        word = str.lower(value)
        if word in _BOOLEANS:
            return float(_BOOLEANS[word])
        try:
            return float(word)
        except ValueError:
            return None
    if not isinstance(value, _NUMBERS):
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all floats
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return None


def _parse(values: Any) -> np.ndarray:
    """Convert values of any type to numbers; NaN for values that are none."""
    return np.fromiter(map(number_or_nan, values), np.float64, len(values))


def number_or_nan(value: Any) -> float:
    """Convert one value of any type to a number; NaN if it is none."""
    try:
        number = _as_number(value)
    except Exception:  # whatever a value may be, it must not raise
        number = None
    return math.nan if number is None else number


def _text_or_none(value: Any) -> bytes | None:
    try:
        return None if is_missing(value) else _as_text(value)
    except Exception:
        return None


def _native(column: np.ndarray) -> np.ndarray:
    """Return an array of a type that arrow supports."""
    if column.dtype.kind != "f":
        return np.ascontiguousarray(column.astype(column.dtype.newbyteorder("="), copy=False))
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(column, dtype=np.float64)


def as_arrow(column: Column) -> pa.Array:
    """Return a typed column as one contiguous arrow array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _coded(column: pa.Array) -> pa.Array:
    """Return a column in dictionary encoding."""
    if pa.types.is_dictionary(column.type):
        return column
    if pa.types.is_decimal(column.type):  # arrow codes the wide ones only
        column = column.cast(pa.decimal256(76, column.type.scale))
    return column.dictionary_encode()


def _places_of(column: pa.Array) -> np.ndarray:
    """Return the dictionary index of each value; the length of the dictionary for a null."""
    places = pc.fill_null(column.indices.cast(pa.int64()), len(column.dictionary))
    return np.asarray(places)


def _floats(column: pa.Array) -> np.ndarray:
    column = pc.fill_null(pc.cast(column, pa.float64(), safe=False), math.nan)
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False))


_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)
_SCALARS = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_null,
)


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of arrow's strings or binaries of variable length."""
    return any(is_such(kind) for is_such in _TEXTS)


def holds_text(column: Column) -> bool:
    """Whether a column has a string type, dictionary-encoded or not."""
    if isinstance(column, np.ndarray):  # of numbers, or of objects, which may be anything
        return False
    coded = pa.types.is_dictionary(column.type)
    return is_text(column.type.value_type if coded else column.type)


def holds_floats(column: Column) -> bool:
    """Whether a column has a floating-point type; categories of floats do not count."""
    if isinstance(column, np.ndarray):
        return bool(column.dtype.kind == "f")
    return bool(pa.types.is_floating(column.type))


def _is_scalar(kind: pa.DataType) -> bool:
    return any(is_such(kind) for is_such in _SCALARS)


def bytes_like(kind: pa.DataType) -> pa.DataType:
    """Return the binary type for a string type: strings need not be valid UTF-8."""
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return pa.large_binary() if large else pa.binary()
