"""Checks of parameters: each returns a value as plain Python, or raises an error with its name."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

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
    """Return a boolean, or raise where the value has no truth value."""
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
