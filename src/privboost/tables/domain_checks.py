"""Checks of bounds, edges and labels in a domain; errors name the place."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

from privboost.errors import DomainError
from privboost.forms import MAX_INT, check_text, given_twice

FINE_BINS = 192
"""Fine bins of a number: the grids of 2, 3, 4, … 32, 64 and 96 bins are exact parts of them."""
MAX_NUMERIC_BINS = 253
"""A numeric code is one byte; three codes are reserved for missing and unknown values."""
MAX_CATEGORIES = 2**16 - 3
MAX_CLASSES = 254

Label = str | int | float | bool


def _plain(values: Any) -> Any:
    """Convert numpy arrays and scalars to Python lists and numbers."""
    if hasattr(values, "tolist"):
        return values.tolist()
    if isinstance(values, list | tuple):
        return [value.item() if hasattr(value, "item") else value for value in values]
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain_number(value: Any) -> Any:
    """Convert large integers to the floats that they become in arrays."""
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


def check_scale(scale: Any, place: str) -> None:
    """Check the name of a scale."""
    if scale not in ("linear", "log"):
        raise DomainError(f'{place}: {scale!r} is not "linear" or "log"')


def check_edges(edges: Any, bounds: tuple[float, float], place: str) -> tuple[float, ...]:
    """Check cut points: strictly increasing, inside the bounds, and few enough for a code."""
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
    """Check a list of categories or classes: of one type, distinct, few enough for a code."""
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
