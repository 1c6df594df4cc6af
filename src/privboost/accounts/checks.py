"""Validation of names and limits of accounts."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

from privboost.forms import is_writable

_MAX_LENGTH = 200
"""Maximum length of a name."""
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]"
)
"""Printable characters that screens do not show: Unicode's Default_Ignorable_Code_Point, and the
empty Braille pattern."""


def check_name(parameter: str, value: Any) -> str:
    """Return a valid name, or raise ValueError."""
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_LENGTH or not value.isprintable():
        raise ValueError(f"{parameter} must be a text of 1 to {_MAX_LENGTH} printable characters")
    if not is_writable(value):
        raise ValueError(f"{parameter} must be a text that UTF-8 can encode")
    return value


def normal_name(parameter: str, value: Any) -> str:
    """Return a name as the store keeps it (`as_it_looks`); refuse invisible characters."""
    name = check_name(parameter, as_it_looks(value) if isinstance(value, str) else value)
    if _INVISIBLE.search(name):
        raise ValueError(f"{parameter} must be a text without invisible characters")
    return name


def as_it_looks(name: str) -> str:
    """Return the canonical form of a name: NFKC, single blanks, none at the ends.

    Letters of different alphabets that look alike stay distinct.
    """
    return re.sub(" +", " ", unicodedata.normalize("NFKC", name)).strip()


def check_limit(epsilon: Any, delta: Any) -> None:
    """Refuse an invalid limit."""
    for name, value, most in (("epsilon", epsilon, math.inf), ("delta", delta, 1.0)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 < value < most):
            raise ValueError(f"the limit's {name} must be a number above 0, below {most:g}")
