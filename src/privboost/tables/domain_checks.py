"""What a domain may say: checks whose errors name the place."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from privboost.errors import DomainError

MAX_NUMERIC_BINS = 253
"""A numeric code is one byte; three codes are kept for what is not a value."""
MAX_CATEGORIES = 2**16 - 3
MAX_CLASSES = 254
MAX_ROWS_PER_UNIT = 2**10
MAX_INT = 2**63 - 1
"""The largest whole number that arrays hold."""

Label = str | int | float | bool


def check_mapping(form: Any, place: str, needed: set[str], allowed: set[str]) -> Mapping[str, Any]:
    """Check that a part of the form has all the keys it needs and no others."""
    if not isinstance(form, Mapping):
        keys = ", ".join(sorted(needed))
        raise DomainError(f"{place}: a mapping is needed, with {keys}")
    known = ", ".join(sorted(needed | allowed))
    for key in form:
        if key not in needed | allowed:
            raise DomainError(f"{place}: unknown key {key!r} (known: {known})")
    for key in sorted(needed - set(form)):
        raise DomainError(f"{place}: {key!r} is missing")
    return form


_UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, which would act on a terminal or end a text, and halves of characters."""


def is_writable(text: Any) -> bool:
    """Say whether something is a text that any file and any terminal can hold as it is."""
    return isinstance(text, str) and _UNWRITABLE.search(text) is None


def check_text(text: Any, place: str, *, empty: bool = False) -> str:
    """Check a text that is written into files and reports."""
    if not isinstance(text, str) or not (text or empty):
        rule = "a text is needed" if empty else "a text that is not empty is needed"
        raise DomainError(f"{place}: {rule}")
    if not is_writable(text):
        raise DomainError(f"{place}: a text with control characters, or that is not Unicode")
    return text


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key given twice: JSON would silently keep the last."""
    twice = given_twice([key for key, _ in pairs])
    if twice is not None:
        name = twice if is_writable(twice) else repr(twice)
        raise DomainError(f"{name}: declared twice")
    return dict(pairs)


def given_twice(keys: Sequence[Any]) -> Any:
    """Return the first of several keys that is there again, or None."""
    counts = Counter(keys)
    return next((key for key in keys if counts[key] > 1), None)


def read_reason(form: Mapping[str, Any], place: str) -> str:
    """Return the optional reason of a part of the form."""
    return check_text(form.get("reason", ""), f"{place}.reason", empty=True)


def _plain(values: Any) -> Any:
    """Turn numpy's arrays and numbers into Python's."""
    if hasattr(values, "tolist"):
        return values.tolist()
    if isinstance(values, list | tuple):
        return [value.item() if hasattr(value, "item") else value for value in values]
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain_number(value: Any) -> Any:
    """Turn large whole numbers into the floats that they become in arrays."""
    large = isinstance(value, int) and 2**53 < abs(value) <= 1e300
    return float(value) if large else value


def check_bounds(bounds: Any, place: str) -> tuple[float, float]:
    """Check a pair of bounds."""
    bounds = _plain(bounds)
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise DomainError(f"{place}: a pair of numbers is needed")
    lower, upper = map(_plain_number, bounds)
    # Beyond 1e300 the width of the bounds would overflow; NaN is not below anything.
    if not all(_is_number(b) and abs(b) <= 1e300 for b in (lower, upper)):
        raise DomainError(f"{place}: two finite numbers are needed")
    if not lower < upper:
        raise DomainError(f"{place}: the lower bound {lower:g} is not below the upper {upper:g}")
    if upper - lower < 1e-300:
        raise DomainError(f"{place}: the bounds are too close")
    return (lower, upper)


def check_edges(edges: Any, bounds: tuple[float, float], place: str) -> tuple[float, ...]:
    """Check cut points: they increase strictly inside the bounds and fit a code."""
    edges = _plain(edges)
    if not isinstance(edges, list | tuple) or not all(_is_number(edge) for edge in edges):
        raise DomainError(f"{place}: a list of numbers is needed")
    edges = list(map(_plain_number, edges))
    if len(edges) + 1 > MAX_NUMERIC_BINS:
        raise DomainError(
            f"{place}: a code holds {MAX_NUMERIC_BINS} bins, these make {len(edges) + 1}"
        )
    steps = (bounds[0], *edges, bounds[1])
    if any(not low < high for low, high in pairwise(steps)):
        raise DomainError(f"{place}: the edges must increase, strictly inside the bounds")
    return tuple(edges)


def check_labels(labels: Any, place: str, most: int, least: int = 1) -> tuple[Label, ...]:
    """Check a list of categories or classes: of one kind, each once, not too many for a code."""
    labels = _plain(labels)
    if not isinstance(labels, list | tuple):
        raise DomainError(f"{place}: a list is needed")
    if len(labels) < least:
        raise DomainError(f"{place}: at least {least} needed, {len(labels)} given")
    if len(labels) > most:
        raise DomainError(f"{place}: a code holds {most}, {len(labels)} given")
    text = isinstance(labels[0], str)
    for label in labels:
        if isinstance(label, str) != text or not isinstance(label, str | int | float):
            raise DomainError(f"{place}: all must be texts, or all numbers")
        if text:
            check_text(label, place, empty=True)
        if isinstance(label, int) and not -MAX_INT - 1 <= label <= MAX_INT:
            raise DomainError(f"{place}: a whole number of more than 64 bits")
        if not isinstance(label, str) and not abs(label) <= sys.float_info.max:
            raise DomainError(f"{place}: a number that is not finite")
    twice = given_twice([label if text else float(label) for label in labels])
    if twice is not None:
        label = next(label for label in labels if label == twice)
        raise DomainError(f"{place}: {label!r} is given twice")
    return tuple(labels)
