"""How dates and durations are read with Python alone, as `tables.times` reads them.

Its text is copied into exported modules whose model looks at any.
"""

from privboost.export.standalone import READERS, is_missing, read_number

# isort: split
# --- copied from here on ---
import re
from datetime import UTC, date, datetime, timedelta

STEPS = {
    "W": 604_800 * 10**9,
    "D": 86_400 * 10**9,
    "h": 3600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}
FINER = {"ps": 10**3, "fs": 10**6, "as": 10**9}
INSTANT = re.compile(
    r"([+-]?[0-9]{4,9})-([0-9]{2})(?:-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?"
    r"(?: ?(?:Z|UTC|GMT|([+-])([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?))?)?)?",
    re.I,
)
AMOUNT = r"([+-]?[0-9]{1,15}(?:[.,][0-9]{1,15})?)"
ISO_SPAN = re.compile(
    rf"([+-]?)P(?:{AMOUNT}W)?(?:{AMOUNT}D)?(?:T(?:{AMOUNT}H)?(?:{AMOUNT}M)?(?:{AMOUNT}S)?)?", re.I
)
DAYS_SPAN = re.compile(
    r"(?:([+-]?[0-9]{1,12}) days?)?(?:(?:^|,? +)([+-]?)([0-9]{1,9}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]{1,15}))?)?",
    re.I,
)


def numpy_count(value):
    """Return what numpy counts in nanoseconds; None for what is missing, and for months."""
    if str(value.dtype)[-2:] in ("M]", "Y]") and type(value).__name__ == "datetime64":
        value = value.astype("datetime64[D]")
    counted = str(value.dtype).split("[")[1].rstrip("]")
    measure = counted.lstrip("0123456789")
    count = int(value.astype("int64"))
    if count == -(2**63):
        return None
    count *= int(counted.removesuffix(measure) or 1)
    if measure in STEPS:
        return count * STEPS[measure]
    return count // FINER[measure] if measure in FINER else None


def days_since_1970(year, month, day):
    """Return the days from 1970 to a day of Gregory's calendar, which has a year 0."""
    shifted = year % 400 + 400  # a year that Python has, with the same days
    days = date(shifted, month, day).toordinal() - date(1970, 1, 1).toordinal()
    return days + (year - shifted) // 400 * 146_097


def clock(hours, minutes, seconds, fraction=None):
    """Return a time of day in nanoseconds since midnight; None if there is no such time."""
    hours, minutes, seconds = int(hours), int(minutes or 0), int(seconds or 0)
    if hours > 23 or max(minutes, seconds) > 59:
        return None
    return (hours * 3600 + minutes * 60 + seconds) * 10**9 + fraction_of(fraction)


def fraction_of(digits):
    """Return a part of a second in nanoseconds."""
    return int((digits or "0")[:9].ljust(9, "0"))


def read_instant(text):
    """Read a date, or a date and a time, as ISO 8601 writes them; None if a text is none."""
    match = INSTANT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hours, minutes, seconds, fraction, sign, *zone = match.groups()
    days = days_since_1970(int(year), int(month), int(day or 1))
    since = clock(hours, minutes, seconds, fraction) if hours else 0
    ahead = clock(*zone) if sign else 0
    if since is None or ahead is None:
        return None
    return days * STEPS["D"] + since - (-ahead if sign == "-" else ahead)


def read_span(text):
    """Read PT1H30M, 1:30:00, or 1 day, 1:30:00 and the like; None if a text is none."""
    if match := ISO_SPAN.fullmatch(text):
        sign, *parts = match.groups()
        if not any(parts):
            return None
        sizes = [STEPS[measure] for measure in ("W", "D", "h", "m", "s")]
        count = sum(times(part, size) for part, size in zip(parts, sizes, strict=True) if part)
        return -count if sign == "-" else count
    match = DAYS_SPAN.fullmatch(text)
    if match is None or not text:
        return None
    days, sign, hours, minutes, seconds, fraction = match.groups()
    if hours is None:
        return int(days) * STEPS["D"]
    if max(int(minutes), int(seconds)) > 59:
        return None
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    since = whole * 10**9 + fraction_of(fraction)
    return int(days or 0) * STEPS["D"] + (-since if sign == "-" else since)


def times(text, size):
    """Return a size as often as a text says."""
    whole, _, rest = text.lstrip("+-").replace(",", ".").partition(".")
    count = int(whole) * size + (int(rest) * size // 10 ** len(rest) if rest else 0)
    return -count if text[0] == "-" else count


def nanoseconds(span):
    """Return a duration of Python's in nanoseconds."""
    return (span.days * 86_400 + span.seconds) * 10**9 + span.microseconds * 1000


def instant_of(value):
    """Return an instant in nanoseconds since 1970 in UTC, whatever carries it; None if none."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return read_instant(str.strip(value))
    if type(value).__name__ == "datetime64":
        return numpy_count(value)
    if not isinstance(value, date) or is_missing(value):
        return None
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    since = value - datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else UTC)
    return nanoseconds(since) + getattr(value, "nanosecond", 0)


def duration_of(value):
    """Return a duration in nanoseconds, whatever carries it; None if a value is none."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return read_span(str.strip(value))
    if type(value).__name__ == "timedelta64":
        return numpy_count(value)
    if not isinstance(value, timedelta) or is_missing(value):
        return None
    return nanoseconds(value) + getattr(value, "nanoseconds", 0)


def read_steps(value, step):
    """Read a date as whole steps since 1970; None where it is none."""
    try:
        count = instant_of(value)
    except Exception:  # whatever a value may be, it must not raise
        return None
    return None if count is None else float(count // step)


def read_seconds(value):
    """Read a duration, or a number of seconds; None where it is neither."""
    try:
        count = duration_of(value)
    except Exception:  # whatever a value may be, it must not raise
        return None
    if count is None:
        return None if type(value).__name__ == "timedelta64" else read_number(value)
    whole = count // 10**9
    return count // 1000 / 1e6 if abs(whole) < 2**33 else float(whole)


READERS["days"] = lambda value: read_steps(value, STEPS["D"])
READERS["seconds"] = lambda value: read_steps(value, STEPS["s"])
READERS["durations"] = read_seconds
