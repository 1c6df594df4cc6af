"""Canonical names of protected units: one name for one value, whatever its type.

Two names for one person would let that person contribute twice; one name for two people only drops
some of their rows. So in doubt values are merged. Every value is first formatted as a string, and
strings are then normalised by the same rules, whatever type they come from:

- white space, null bytes and byte order marks around a string are removed, and the string is in
  Unicode's normal form C; upper and lower case differ. An empty string is no unit;
- numbers are compared by value: 7, 7.0, "007", " +7 " and "7e0" are one. Integers are exact; other
  numbers are their nearest float64, a float32 or float16 that of its own shortest decimals. A
  number beyond all floats is infinite. A float of 2⁵³ or more stands for all integers that are
  rounded to it;
- true and false, as booleans or as strings in any case, are 1 and 0;
- an instant is a string like 2024-01-05T12:30:00.5, in UTC (assumed for a time without a zone) and
  without a time at midnight, so a date is its midnight;
- raw bytes are the UTF-8 string that they hold, or else their hexadecimal digits, without null
  bytes at their end, which fixed widths add and remove. An even number of hexadecimal digits, 32 or
  more (a UUID in any spelling, a digest), is decoded to raw bytes, but decimal digits alone are a
  number, unless they are 32 and the first is not 0. So 16 raw bytes with such digits are that
  number, unless they begin with a tab: that is a string;
- any other value is its `str()`.

Normalising a name returns it unchanged, so two values have the same name exactly if the rules merge
them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Rational
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privboost._core.errors import SchemaError
from privboost.data.table import Column
from privboost.data.times import (
    CLOCK,
    STEPS,
    count_of,
    duration_of,
    format_clock,
    format_instant,
    instant_of,
    read_instant,
    since_midnight,
)
from privboost.data.values import as_arrow, is_missing, is_text

_BLANK = (
    "\0\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_CONSTANTS = {"true": "1", "false": "0", "inf": "inf", "infinity": "inf"} | {
    "+inf": "inf",
    "+infinity": "inf",
    "-inf": "-inf",
    "-infinity": "-inf",
}
_UUID = re.compile(r"(?:urn:uuid:)?\{?([0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12})\}?", re.I)
_HEX = re.compile(r"(?:[0-9a-f]{2}){16,}", re.I)
_UNIT_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HOUR = re.compile(CLOCK)

_PLAIN = (
    r"\A(?:0|-?[1-9][0-9]{0,14}"
    r"|[A-Za-z_]{1,9}[0-9_#/:.@-](?:[ -~]{0,19}[!-~])?"
    r"|[GHJ-SU-Zghj-su-z_][A-Za-z_]{0,29}"
    r"|(?:[0-9a-f]{2})*(?:c[01]|f[5-9a-f]|[cdf][0-9a-f][0-7c-f]|[0-7][0-9a-f][ab])[0-9a-f]*)\z"
)
"""Strings that are canonical names already: short integers, most strings of fewer than 32 ASCII
characters, and hexadecimal digits of bytes that are no UTF-8. It need not match all of them: others
are normalised in full."""
_DASHED = r"\A[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\z"
_PADDED = r"\A0+[1-9][0-9]{0,14}\z"

_EXACT = 2**53
_OPEN = {"arrow.uuid": "uuid", "arrow.bool8": "bool", "arrow.json": "text"}
"""Arrow's extension types that are read by their storage, and their kinds."""


def read_unit_names(column: Column, name: str) -> pa.Array:
    """Return the name of each value's unit as bytes, null where there is none."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "Mm" or column.dtype.kind == "O" or column.dtype.itemsize > 8:
            return _names(column)
        column = pa.array(np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("=")))
    column = as_arrow(column)
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name in _OPEN:
        column, kind = column.storage, column.storage.type
    if pa.types.is_dictionary(kind):
        names = read_unit_names(column.dictionary, name)
        return names.take(column.indices.cast(pa.int64()))
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_nested(kind):
        raise SchemaError(f"column {name!r} holds {kind}, which cannot name a unit")
    if pa.types.is_integer(kind):
        return _read_whole(column)
    if pa.types.is_floating(kind):
        return _read_floats(column)
    if pa.types.is_boolean(kind):
        column, kind = column.cast(pa.int8()), pa.int8()
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _read_times(column, kind)
    if pa.types.is_interval(kind):
        return _names(column.to_pylist())
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return _read_strings(_hexadecimal(column))
    if not (is_text(kind) or pa.types.is_fixed_size_binary(kind)):
        column = column.cast(pa.string())
    return _read_strings(column.cast(pa.binary()).cast(pa.large_binary()))


def unit_kind(column: Column) -> str:
    """Return the type of a unit column.

    One of "number", "bool", "time", "text", "uuid" and "any" (objects, raw bytes, null).
    """
    if isinstance(column, np.ndarray):
        kinds = {"f": "number", "i": "number", "u": "number", "b": "bool", "M": "time", "m": "time"}
        return kinds.get(column.dtype.kind, "any")
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if isinstance(kind, pa.BaseExtensionType):
        return _OPEN.get(kind.extension_name, "any")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_temporal(kind):
        return "time"
    return "text" if is_text(kind) and "binary" not in str(kind) else "any"


def name_unit(value: Any) -> bytes | None:
    """Return the name of one value's unit, for a value of any type; None if it names no unit."""
    try:
        text = value if type(value) in (bytes, str) else _write(value)
        name = _name_bytes(text) if isinstance(text, bytes) else _name_text(text or "")
    except Exception:  # whatever a value may be, it must not raise
        return None
    return None if name is None else name.encode("utf-8", "surrogatepass")


def _names(values: Iterable[Any]) -> pa.Array:
    return pa.array(map(name_unit, values), pa.large_binary())


def _read_strings(column: pa.Array) -> pa.Array:
    """Normalise strings: most are names already; each distinct other string is read once."""
    if pc.any(pc.equal(pc.binary_length(column), 36)).as_py():
        column = _change(
            column, _DASHED, lambda t: pc.ascii_lower(pc.replace_substring(t, "-", ""))
        )
    if pc.any(pc.starts_with(column, b"0")).as_py():
        column = _change(column, _PADDED, lambda t: pc.ascii_ltrim(t, "0"))
    odd = pc.invert(pc.fill_null(pc.match_substring_regex(column, _PLAIN), True))
    odd = pc.or_(odd, pc.fill_null(pc.ends_with(column, b"00"), False))  # it may be a null byte
    if not pc.any(odd).as_py():
        return column
    coded = column.filter(odd).dictionary_encode()
    names = _names(coded.dictionary.to_pylist()).take(coded.indices)
    return pc.replace_with_mask(column, odd, names)


def _change(column: pa.Array, pattern: str, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Replace the strings that match a pattern, all of them ASCII."""
    found = pc.fill_null(pc.match_substring_regex(column, pattern), False)
    changed = change(column.filter(found).cast(pa.large_string()))
    return pc.replace_with_mask(column, found, changed.cast(pa.large_binary()))


def _hexadecimal(column: pa.Array) -> pa.Array:
    """Return the hexadecimal digits of raw bytes."""
    raw = pc.fill_null(column, bytes(column.type.byte_width))
    text = b"".join(raw.to_pylist()).hex().encode()
    width = 2 * column.type.byte_width
    buffers = [None, pa.py_buffer(text)]
    digits = pa.Array.from_buffers(pa.binary(width), len(column), buffers)
    return pc.if_else(column.is_valid(), digits, None).cast(pa.large_binary())


def _read_whole(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.large_string()).cast(pa.large_binary())
    ends = pc.min_max(column).as_py()
    if ends["min"] is None or (ends["min"] > -_EXACT and ends["max"] < _EXACT):
        return texts
    # An integer that a float holds exactly is formatted as that float: see `_name_number`.
    close = pc.cast(column, pa.float64(), safe=False)
    exact = pc.equal(pc.cast(close, column.type, safe=False), column)
    odd = pc.fill_null(pc.and_(exact, pc.greater_equal(pc.abs(close), float(_EXACT))), False)
    return pc.replace_with_mask(texts, odd, _names(column.filter(odd).to_pylist()))


def _read_floats(column: pa.Array) -> pa.Array:
    own = column.to_numpy(zero_copy_only=False)
    if own.dtype.kind != "f":  # a column of nulls alone
        return pa.nulls(len(column), pa.large_binary())
    values = own.astype(np.float64)
    whole = (np.floor(values) == values) & (np.abs(values) < _EXACT)
    known = pa.array(np.where(whole, values, 0).astype(np.int64), mask=~whole)
    texts = known.cast(pa.large_string()).cast(pa.large_binary())
    others = ~whole & ~np.isnan(values)
    if not others.any():
        return texts
    different, place = np.unique(own[others], return_inverse=True)
    return pc.replace_with_mask(texts, pa.array(others), _names(different).take(pa.array(place)))


def _read_times(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the names of instants, durations or times of day, in any unit of time."""
    step = STEPS[getattr(kind, "unit", "D" if kind.bit_width == 32 else "ms")]
    write: Callable[[int], str] = format_instant
    if pa.types.is_time(kind):
        write = format_clock
    elif pa.types.is_duration(kind):
        write = _format_duration
    counts = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).dictionary_encode()
    names = [write(count * step).encode() for count in counts.dictionary.to_pylist()]
    return pa.array(names, pa.large_binary()).take(counts.indices)


def _write(value: Any) -> str | bytes | None:
    """Format a value as a string, or as bytes if it is raw; None if it is missing."""
    if is_missing(value):
        return None
    if isinstance(value, str):
        return str.__str__(value)  # not str(value): a subclass may define it differently
    if isinstance(value, bytes | bytearray | memoryview):
        return memoryview(value).tobytes()
    if isinstance(value, np.void):
        return value.tobytes()
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else _write_count(value)
    if isinstance(value, Rational | np.integer):
        return _write_ratio(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, date):
        count = instant_of(value)
        return None if count is None else format_instant(count)
    if isinstance(value, time):
        return value.isoformat()
    if isinstance(value, timedelta):
        duration = duration_of(value)
        return None if duration is None else _format_duration(duration)
    if isinstance(value, Decimal):
        return None if value.is_nan() else str(value)
    if isinstance(value, Enum):
        return _write(value.value)
    return str(value)


def _write_ratio(value: Any) -> str:
    if not isinstance(value, Rational) or value.denominator == 1:
        whole = int(value)
        if whole.bit_length() <= 1024:
            return str(whole)
        return "inf" if whole > 0 else "-inf"
    return repr(float(value))


def _write_count(value: np.datetime64 | np.timedelta64) -> str:
    """Format an instant or a duration of numpy."""
    count = count_of(value)
    if count is None:
        measure, step = np.datetime_data(value.dtype)
        months = int(value.astype(np.int64)) * step * (12 if measure == "Y" else 1)
        return f"{months} months"
    return format_instant(count) if isinstance(value, np.datetime64) else _format_duration(count)


def _name_bytes(raw: bytes) -> str | None:
    if len(raw) == 16 and raw[0] < ord("\t") and raw.hex().isdigit():
        return _name_number(raw.hex())  # like the digits of a UUID, which may be a number
    try:
        return _name_text(raw.decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError:
        digits = raw.rstrip(b"\0").hex()
        return _name_number(digits) if digits.isdigit() else digits


def _name_text(text: str) -> str | None:
    text = text.strip(_BLANK)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if not text:
        return None
    word = _CONSTANTS.get(text.lower())
    if word is not None:
        return word
    if match := _UUID.fullmatch(text):
        text = match[1].replace("-", "")
    if _UNIT_NUMBER.fullmatch(text) and not _is_raw(text):
        text = _name_number(text)
    elif (instant := read_instant(text)) is not None:
        text = format_instant(instant)
    elif match := _HOUR.fullmatch(text):
        since = since_midnight(*match.groups())
        text = text if since is None else format_clock(since)
    return _name_bytes(bytes.fromhex(text)) if _is_raw(text) else text


def _is_raw(text: str) -> bool:
    """Whether a string is decoded to raw bytes."""
    if text.isascii() and text.isdigit():
        return len(text) == 32 and text[0] != "0"
    return _HEX.fullmatch(text) is not None


def _name_number(text: str) -> str:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        return repr(value)
    if abs(value) < _EXACT:
        return str(int(value)) if value == int(value) else repr(value)
    whole = int(Decimal(text))
    # An integer that a float holds exactly is formatted as that float.
    return str(int(Decimal(repr(value)))) if int(value) == whole else str(whole)


def _format_duration(nanoseconds: int) -> str:
    return f"{nanoseconds} ns"
