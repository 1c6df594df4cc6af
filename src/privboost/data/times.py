"""Instants and durations as exact counts, from values of any type; no value can raise.

Both are integers of nanoseconds; instants count from the beginning of 1970 in UTC. A time without a
zone is taken to be in UTC, a date is its midnight in UTC, and a time with a zone is converted to
UTC. The machine's own zone is never used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from privboost._core.errors import SchemaError
from privboost.data.table import Column
from privboost.data.values import (
    as_arrow,
    by_distinct_value,
    bytes_like,
    is_missing,
    is_text,
    number_or_nan,
    read_numbers,
)

SECOND = 10**9
DAY = 86_400 * SECOND
STEPS = {
    "D": DAY,
    "h": 3600 * SECOND,
    "m": 60 * SECOND,
    "s": SECOND,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}
"""Units of time of arrow and numpy, in nanoseconds."""

CLOCK = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|([+-])([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?))?"
_INSTANT = re.compile(
    rf"([+-]?[0-9]{{4,9}})-([0-9]{{2}})(?:-([0-9]{{2}})(?:[Tt ]{CLOCK}{_ZONE})?)?", re.I
)
_NUMBER = r"([+-]?[0-9]{1,15}(?:[.,][0-9]{1,15})?)"
_ISO_DURATION = re.compile(
    rf"([+-]?)P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?",
    re.I,
)
_DAYS_DURATION = re.compile(
    r"(?:([+-]?[0-9]{1,12}) days?)?(?:(?:^|,? +)([+-]?)([0-9]{1,9}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]{1,15}))?)?",
    re.I,
)
_AWARE = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE = datetime(1970, 1, 1)
_FIRST_DAY = _NAIVE.toordinal()
_MICROSECOND = 1000
_MINUTE, _AGES = 60, 10**12
_NEAR = 2**33
"""Seconds below which microseconds are exact in float64."""


def read_dates(column: Column, name: str, step: int) -> np.ndarray:
    """Return a column of dates or times as whole steps (`SECOND` or `DAY`) since 1970, in float64.

    Fractions of a step are cut off. NaN for missing values, and for values that are no dates.
    """
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "MO":
            return _each(column, lambda value: _steps_of(value, step))
        raise SchemaError(f"column {name!r} holds {column.dtype}, but the domain says dates")
    column = as_arrow(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return by_distinct_value(column, lambda distinct: read_dates(distinct, name, step))
    if is_text(kind):
        return _each_text(column, lambda value: _steps_of(value, step))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        counts, missing = _counts(column)
        own = STEPS[getattr(kind, "unit", "D" if kind.bit_width == 32 else "ms")]
        whole = counts // (step // own) if own <= step else counts * (own // step)
        return np.where(missing, math.nan, whole.astype(np.float64))
    if pa.types.is_null(kind):
        return np.full(len(column), math.nan)
    raise SchemaError(f"column {name!r} holds {kind}, but the domain says dates")


def read_durations(column: Column, name: str) -> np.ndarray:
    """Return a column of durations as seconds, in float64; numbers are seconds already.

    Typed durations, and strings that are durations, are rounded down to microseconds, beyond 2³³
    seconds to seconds. NaN for missing values, and for values that are no durations.
    """
    if isinstance(column, np.ndarray):
        return (
            _each(column, _seconds_of) if column.dtype.kind in "mO" else read_numbers(column, name)
        )
    column = as_arrow(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return by_distinct_value(column, lambda distinct: read_durations(distinct, name))
    if is_text(kind):
        return _each_text(column, _seconds_of)
    if pa.types.is_duration(kind):
        counts, missing = _counts(column)
        own = STEPS[kind.unit]
        whole = counts // (SECOND // own)
        rest = (counts - whole * (SECOND // own)) * own // _MICROSECOND
        near = (whole > -_NEAR) & (whole < _NEAR)  # the least integer has no opposite
        exact = (np.where(near, whole, 0) * 10**6 + rest) / 1e6
        return np.where(missing, math.nan, np.where(near, exact, whole.astype(np.float64)))
    return read_numbers(column, name)


def instant_of(value: Any) -> int | None:
    """Return an instant in nanoseconds, from a value of any type; None if it is none."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return read_instant(str.strip(value))
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else count_of(value)
    if not isinstance(value, date) or is_missing(value):  # pandas' NaT is a date, too
        return None
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    since = value - (_NAIVE if value.tzinfo is None else _AWARE)
    return nanoseconds(since) + getattr(value, "nanosecond", 0)


def duration_of(value: Any) -> int | None:
    """Return a duration in nanoseconds, from a value of any type; None if it is none."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return _read_duration(str.strip(value))
    if isinstance(value, np.timedelta64):
        return None if np.isnat(value) else count_of(value)
    if not isinstance(value, timedelta) or is_missing(value):
        return None
    return nanoseconds(value) + getattr(value, "nanoseconds", 0)


def count_of(value: np.datetime64 | np.timedelta64) -> int | None:
    """Return a numpy instant or duration in nanoseconds; None for months."""
    measure, step = np.datetime_data(value.dtype)
    if isinstance(value, np.datetime64) and measure in ("W", "M", "Y"):
        value, measure, step = value.astype("datetime64[D]"), "D", 1
    if isinstance(value, np.timedelta64) and measure == "W":
        measure, step = "D", 7 * step
    count = int(value.astype(np.int64)) * step
    if measure in STEPS:
        return count * STEPS[measure]
    finer = {"ps": 10**3, "fs": 10**6, "as": 10**9}
    return count // finer[measure] if measure in finer else None


def read_instant(text: str) -> int | None:
    """Parse a date, or a date and a time, in ISO 8601; None if a string is neither."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    year, month, day, *clock, sign, hours, minutes, seconds = match.groups()
    try:
        days = _count_days(year, month, day or "01")
    except ValueError:
        return None
    since = since_midnight(*clock) if clock[0] else 0
    ahead = since_midnight(hours, minutes or "0", seconds) if sign else 0
    if since is None or ahead is None:
        return None
    return days * DAY + since - (ahead if sign != "-" else -ahead)


def _count_days(year: str, month: str, day: str) -> int:
    """Return the days from 1970 to a day of the Gregorian calendar, which has a year 0."""
    if len(year) == len("2024") and year > "0000":  # the years that Python supports, far quicker
        return date(int(year), int(month), int(day)).toordinal() - _FIRST_DAY
    return int(np.datetime64(f"{year.lstrip('+')}-{month}-{day}", "D").astype(np.int64))


def since_midnight(
    hours: str, minutes: str, seconds: str | None = None, fraction: str | None = None
) -> int | None:
    """Return a time of day in nanoseconds since midnight; None if there is no such time."""
    numbers = int(hours), int(minutes), int(seconds or 0)
    if numbers[0] > 23 or max(numbers) > 59:
        return None
    whole = numbers[0] * 3600 + numbers[1] * 60 + numbers[2]
    return whole * SECOND + _fraction(fraction)


def format_instant(count: int) -> str:
    """Format an instant in nanoseconds; midnight as a date alone."""
    days, rest = divmod(count, DAY)
    day = str(np.datetime64(days, "D"))
    return f"{day}T{format_clock(rest)}" if rest else day


def format_clock(count: int) -> str:
    """Format a time of day in nanoseconds since midnight."""
    seconds, fraction = divmod(count, SECOND)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{clock}.{fraction:09}".rstrip("0") if fraction else clock


def format_duration(seconds: float) -> str:
    """Format a duration: as seconds below 60 and beyond 10¹², else as days and a clock."""
    if not _MINUTE <= abs(seconds) <= _AGES:
        return f"{seconds:.6g} s"
    days, rest = divmod(round(abs(seconds) * 1_000_000), DAY // _MICROSECOND)
    sign = "-" if seconds < 0 else ""
    parts = [f"{sign}{days} day{'' if days == 1 else 's'}"] if days else []
    if rest:
        parts.append(sign + format_clock(rest * _MICROSECOND).removeprefix("0"))
    return ", ".join(parts)


def nanoseconds(duration: timedelta) -> int:
    """Return a timedelta in nanoseconds."""
    return (duration.days * 86_400 + duration.seconds) * SECOND + duration.microseconds * 1000


def _read_duration(text: str) -> int | None:
    """Parse PT1H30M, 1:30:00, or 1 day, 1:30:00 and the like; None if a string is none."""
    if match := _ISO_DURATION.fullmatch(text):
        sign, *parts = match.groups()
        if all(part is None for part in parts):
            return None
        sizes = (7 * DAY, DAY, 3600 * SECOND, 60 * SECOND, SECOND)
        count = sum(_times(part, size) for part, size in zip(parts, sizes, strict=True) if part)
        return -count if sign == "-" else count
    match = _DAYS_DURATION.fullmatch(text)
    if match is None or not text:
        return None
    days, sign, hours, minutes, seconds, fraction = match.groups()
    if hours is None:
        return int(days) * DAY
    if int(minutes) > 59 or int(seconds) > 59:
        return None
    clock = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * SECOND + _fraction(fraction)
    return int(days or 0) * DAY + (-clock if sign == "-" else clock)


def _times(text: str, size: int) -> int:
    whole, _, rest = text.lstrip("+-").replace(",", ".").partition(".")
    count = int(whole) * size + (int(rest) * size // 10 ** len(rest) if rest else 0)
    return -count if text[0] == "-" else count


def _fraction(digits: str | None) -> int:
    """Return a fraction of a second in nanoseconds; digits after the ninth are cut off."""
    return int((digits or "0")[:9].ljust(9, "0"))


def _steps_of(value: Any, step: int) -> float:
    """Convert one value to an integer of steps since 1970."""
    count = instant_of(value)
    return math.nan if count is None else float(count // step)


def _seconds_of(value: Any) -> float:
    """Convert one value to seconds: a duration, or a number."""
    count = duration_of(value)
    if count is None:  # months and years of numpy are no durations, but it converts them to numbers
        return math.nan if isinstance(value, np.timedelta64) else number_or_nan(value)
    whole = count // SECOND
    return count // _MICROSECOND / 1e6 if abs(whole) < _NEAR else float(whole)


def _each_text(column: pa.Array, read: Callable[[Any], float]) -> np.ndarray:
    """Convert each distinct string once, as bytes: they need not be valid UTF-8."""
    kind = bytes_like(column.type)
    return by_distinct_value(column, lambda own: _each(own.cast(kind).to_pylist(), read))


def _each(values: Any, read: Callable[[Any], float]) -> np.ndarray:
    """Convert values one by one; NaN for those that cannot be read."""

    def number(value: Any) -> float:
        try:
            return read(value)
        except Exception:  # whatever a value may be, it must not raise
            return math.nan

    return np.fromiter(map(number, values), np.float64, len(values))


def _counts(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the integers of an arrow column of times, and where they are null."""
    whole = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    missing = np.asarray(whole.is_null())
    return np.asarray(whole.fill_null(0)).astype(np.int64), missing
