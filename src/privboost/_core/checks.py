"""Checks of what users write: parameters, and the keys and strings of JSON payloads.

Each returns a value as plain Python, or raises an error that names the parameter or the place.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from privboost._core.errors import DomainError

LEAST_SIZE, MOST_SIZE = 1e-50, 1e50
"""Limits of a size: a clip, a learning rate, a bound of weights."""
LEAST_SHARE = 1e-6
"""Smallest share of a budget: its noise is a thousand times that of the whole."""
MOST_COUNT = 10**6
"""Most rounds, trees, or other counts."""
_LEAST_PART = 1e-9
_MOST_SHOWN = 100


def keep_checked(settings: Any, **checks: Callable[[str, Any], Any]) -> None:
    """Replace each named field of a frozen dataclass by the result of its check.

    The results are plain Python, so that every plan can be serialised and hashed.
    """
    for name, check in checks.items():
        object.__setattr__(settings, name, check(name, getattr(settings, name)))


def shown(value: Any) -> str:
    """Return a parameter's value for an error message, shortened where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of so many digits
        return "a number of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def check_choice(name: str, value: Any, choices: tuple[str, ...], *others: str) -> str:
    """Return one of a few strings, or raise; `others` are further possibilities to mention."""
    if not isinstance(value, str) or value not in choices:
        listed = " or ".join([*(f'"{choice}"' for choice in choices), *others])
        raise ValueError(f"{name} must be {listed}; {shown(value)} is not")
    return str(value)


def check_choice_or_count(name: str, value: Any, choices: tuple[str, ...]) -> str | int:
    """Return one of a few strings, or a whole number, or raise."""
    if isinstance(value, str):
        return check_choice(name, value, choices, "a whole number")
    return check_count(name, value)


def check_flag(name: str, value: Any) -> bool:
    """Return a boolean, or raise where the value is none."""
    try:
        return bool(value)
    except (ValueError, TypeError):  # an array has none
        raise ValueError(f"{name} must be True or False; {shown(value)} is not") from None


def check_path(name: str, value: str | Path) -> None:
    """Raise if a value cannot be a path."""
    text = str(value)
    if value == "" or "\0" in text:
        raise ValueError(f"{name} must be the path of a file; {shown(text)} is none")


def check_file(name: str, value: str | Path) -> None:
    """Raise if a value cannot be the path of a file, or is a folder."""
    check_path(name, value)
    if Path(value).is_dir():
        raise ValueError(f"{name} must be the path of a file; {shown(str(value))} is a folder")


def is_number(value: Any) -> bool:
    """Whether a value is a number of Python or numpy; a boolean is none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_number(name: str, value: Any, above: float = -math.inf, below: float = math.inf) -> float:
    """Return a finite float strictly between two others, or raise."""
    number = as_float(value)
    if not math.isfinite(number) or not above < number < below:
        limits = [f"above {above:g}"] if above > -math.inf else []
        limits += [f"below {below:g}"] if below < math.inf else []
        rule = " ".join(["a finite number", " and ".join(limits)]).rstrip()
        raise ValueError(f"{name} must be {rule}; {shown(value)} is not")
    return number


def check_size(name: str, value: Any, below: float = MOST_SIZE) -> float:
    """Return a number above 0, or raise.

    Within these limits no product or quotient of a few sizes leaves float64.
    """
    if not as_float(value) > 0:
        return check_number(name, value, above=0)
    return check_number(name, value, above=LEAST_SIZE, below=below)


def check_part(name: str, value: Any, or_else: int) -> float:
    """Return a number strictly between 0 and 1, or the one of them that is allowed, or raise."""
    number = as_float(value)
    if not (_LEAST_PART <= number < 1 or number == or_else):
        raise ValueError(
            f"{name} must lie between 0 and 1 (from {_LEAST_PART:g} on), or be {or_else}; "
            f"{shown(value)} does not"
        )
    return number


def check_share(name: str, value: Any, or_else: int | None = None) -> float:
    """Return a share of a budget, or raise: a release with less than a millionth is all noise."""
    number = as_float(value)
    if not (LEAST_SHARE <= number <= 1 - LEAST_SHARE or number == or_else):
        other = "" if or_else is None else f", or be {or_else}"
        raise ValueError(
            f"{name} must lie strictly between 0 and 1 (at least {LEAST_SHARE:g} from "
            f"both){other}; {shown(value)} does not"
        )
    return number


def check_count(name: str, value: Any, least: int = 1, most: int = MOST_COUNT) -> int:
    """Return a whole number between two others, or raise."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(
            f"{name} must be a whole number of at least {least}; {shown(value)} is not"
        )
    if value > most:
        raise ValueError(f"{name} must be at most {most}; {shown(value)} is not")
    return int(value)


def as_float(value: Any) -> float:
    """Return a number as a float; anything else, or one too large for float64, as NaN."""
    try:
        return float(value) if is_number(value) else math.nan
    except OverflowError:
        return math.nan


MAX_INT = 2**63 - 1
"""Largest integer that arrays hold."""

_TO_FILL = "to be filled in, from public knowledge, never from the rows"


class Hole(DomainError):
    """A place that still holds a skeleton's null; the hint says what belongs there."""

    def __init__(self, place: str, hint: str = "") -> None:
        super().__init__(place, hint)
        self.place, self.hint = place, hint

    def __str__(self) -> str:
        return f"{self.place}: {_TO_FILL}{self.hint and f': {self.hint}'}"


def list_problems(holes: Sequence[Hole], wrong: Sequence[str]) -> str:
    """Return one line with all open places and all errors of a dict."""
    problems = [*wrong]
    if len(holes) > 1:
        problems.append(f"{len(holes)} places are {_TO_FILL}: {', '.join(h.place for h in holes)}")
    else:
        problems += map(str, holes)
    return "; ".join(problems)


def check_mapping(
    document: Any, place: str, needed: set[str], allowed: set[str]
) -> Mapping[str, Any]:
    """Check that a dict has all keys it needs and no unknown ones."""
    if not isinstance(document, Mapping):
        keys = ", ".join(sorted(needed))
        raise DomainError(f"{place}: a mapping is needed, with {keys}")
    known = ", ".join(sorted(needed | allowed))
    for key in document:
        if key not in needed | allowed:
            raise DomainError(f"{place}: unknown key {key!r} (known: {known})")
    for key in sorted(needed - set(document)):
        raise DomainError(f"{place}: {key!r} is missing")
    return document


_MARKS = ",;"
"""Separators of labels and facts."""
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNWRITABLE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_BIDI}]")
"""Control characters, lone surrogates, and characters that change the direction of writing."""


def is_writable(text: Any) -> bool:
    """Whether something is a string that any file and terminal can show unchanged."""
    return isinstance(text, str) and _UNWRITABLE.search(text) is None


def printable(text: str) -> str:
    """Return a string without control characters other than line breaks."""
    return "\n".join(_UNWRITABLE.sub("?", line) for line in text.split("\n"))


def check_text(text: Any, place: str, *, empty: bool = False) -> str:
    """Check a string that is written into files and reports."""
    if not isinstance(text, str) or not (text or empty):
        rule = "a text is needed" if empty else "a text that is not empty is needed"
        raise DomainError(f"{place}: {rule}")
    if not is_writable(text):
        raise DomainError(f"{place}: a text with control characters, or that is not Unicode")
    return text


def read_names(names: Any, place: str) -> tuple[str, ...]:
    """Return a checked list of column names."""
    if not isinstance(names, list | tuple):
        raise DomainError(f"{place}: a list of columns is needed")
    return tuple(check_text(name, place) for name in names)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse duplicate keys, of which JSON would silently keep the last."""
    twice = first_duplicate([key for key, _ in pairs])
    if twice is not None:
        name = twice if is_writable(twice) else repr(twice)
        raise DomainError(f"{name}: declared twice")
    return dict(pairs)


def first_duplicate(keys: Sequence[Any]) -> Any:
    """Return the first duplicate key, or None."""
    counts = Counter(keys)
    return next((key for key in keys if counts[key] > 1), None)


def in_quotes(label: Any, marks: str = _MARKS) -> str:
    """Return a label, in quotes if it contains a separator or a quote, begins or ends with a space,
    or is empty.
    """
    text = str(label)
    plain = text == text.strip() != "" and not set(text) & {*marks, '"'}
    return text if plain else json.dumps(text, ensure_ascii=False)


def listed(labels: Iterable[Any], between: str = ", ", marks: str = _MARKS) -> str:
    """Return labels in one line, quoted where needed."""
    return between.join(in_quotes(label, marks) for label in labels)


_NEAR = 0.65
"""Least likeness of a suggestion: that of delta for huber_delta, say, is worse than none."""


def did_you_mean(name: Any, names: Sequence[str]) -> str:
    """Return "did you mean …?" with the nearest of several names, or ""."""
    small = {known.lower(): known for known in reversed(names)}
    own = str(name).lower()
    begun = [known for known in names if len(own) > 1 and known.lower().startswith(own)]
    near = begun or [small[word] for word in get_close_matches(own, small, n=1, cutoff=_NEAR)]
    return f"did you mean {near[0]!r}?" if near else ""


def read_reason(document: Mapping[str, Any], place: str) -> str:
    """Return the optional reason of a part of a domain."""
    return check_text(document.get("reason", ""), f"{place}.reason", empty=True)
