"""The interface that every kind of feature implements, and checks of what a domain declares.

A feature states what is public about one column. Its class, the feature's kind, owns everything
that depends on the kind: how values are read and coded, how codes are described, how the
declaration is written as JSON, and what exports need to know. The kinds are in `features`.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from privboost._core.checks import MAX_INT, check_text, first_duplicate
from privboost._core.errors import DomainError
from privboost._core.pickling import DeclaredState
from privboost.data.binning import Bins
from privboost.data.table import Column
from privboost.data.values import Label

FINE_BINS = 192
"""Fine bins of a number: the grids of 2, 3, 4, … 32, 64 and 96 bins are exact parts of them."""
MAX_NUMERIC_BINS = 253
"""A numeric code is one byte; three codes are reserved for missing and unknown values."""
MAX_CATEGORIES = 2**16 - 3
MAX_CLASSES = 254
MISSING_LABEL = "missing"
INFERABLE = "privboost domain learn, or Domain.learn, learns it privately"
"""Hint for a part that private domain inference can fill in."""


class BaseFeature(DeclaredState, ABC):
    """What is public about one column.

    Attributes
    ----------
    kind : str
        Name of the kind in JSON.
    ordered : bool
        Whether codes follow the order of values, so that models split along it.
    required : mapping from str to str
        JSON keys that must be filled in, each with a hint for the error message.
    optional : tuple of str
        JSON keys besides "missing" and "reason" that have a default.
    example : str
        What to write for a feature of this kind, shown with a skeleton.
    column_type : str
        Column type (see `values.column_kind`) for which a skeleton proposes this kind; empty if
        none.
    inferable : bool
        Whether private domain inference can fill in the required keys.
    reads_plain_numbers : bool
        Whether a plain numeric column holds the values to be binned as they are.
    name : str
        The column.
    missing : bool
        Whether missing values are expected.
    reason : str
        Where the fact comes from.
    """

    kind: ClassVar[str]
    ordered: ClassVar[bool]
    required: ClassVar[Mapping[str, str]] = {}
    optional: ClassVar[tuple[str, ...]] = ()
    example: ClassVar[str]
    column_type: ClassVar[str] = ""
    inferable: ClassVar[bool] = False
    reads_plain_numbers: ClassVar[bool] = False

    name: str
    missing: bool
    reason: str

    @property
    @abstractmethod
    def range(self) -> str:
        """The distinguished values, as shown in tables of features."""

    @property
    def labels(self) -> tuple[Label, ...]:
        """The listed values in the order of their codes; empty if codes are bins of a range."""
        return ()

    @abstractmethod
    def read(self, column: Column) -> np.ndarray:
        """Return each value of a column as a number; raise SchemaError for a wrong column type."""

    @abstractmethod
    def encode(self, column: Column, bins: Bins, out: np.ndarray) -> None:
        """Write the code of each value of a column to `out`."""

    @abstractmethod
    def fine_edges(self) -> np.ndarray:
        """Return the upper edges of all bins but the last; empty without an order."""

    @abstractmethod
    def count_codes(self, edges: np.ndarray) -> int:
        """Return the number of codes, "missing" and "other" included."""

    @abstractmethod
    def describe_codes(self, values: np.ndarray, edges: np.ndarray) -> Iterator[tuple[str, int]]:
        """Yield a description and the first code of each run of codes with the same value.

        There is one value for each code. Neighbouring bins with equal values are described
        together.
        """

    @abstractmethod
    def count_outside(self, column: Column) -> dict[str, int]:
        """Count values that are missing, clipped or unknown: exactly, so for public rows only."""

    def with_bins(self, count: int) -> Any:
        """Return the feature with at most `count` bins, equal on its scale.

        Features with edges or labels of their own are returned unchanged.
        """
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON payload, without keys that are at their default."""
        payload: dict[str, Any] = {"kind": self.kind}
        for key in (*self.required, *self.optional):
            value = getattr(self, key)
            if key in self.required or value != getattr(type(self), key):
                payload[key] = list(value) if isinstance(value, tuple) else value
        return payload | common_keys(self)

    @classmethod
    def skeleton(cls) -> dict[str, Any]:
        """Return the JSON payload with null for each key that must be filled in."""
        return {"kind": cls.kind} | dict.fromkeys(cls.required) | {"missing": False}

    def _check_names(self) -> str:
        """Check the strings that every feature has; return the feature's place in the JSON."""
        place = f"features.{check_text(self.name, 'features, the name of one')}"
        check_text(self.reason, f"{place}.reason", empty=True)
        return place


def common_keys(part: Any) -> dict[str, Any]:
    """Return the JSON keys that features and targets share, without those at their default."""
    payload: dict[str, Any] = {}
    if getattr(part, "missing", False):
        payload["missing"] = True
    if part.reason:
        payload["reason"] = part.reason
    return payload


def count_clipped(values: np.ndarray, bounds: tuple[float, float]) -> dict[str, int]:
    """Count numbers that are missing (NaN), or that are clipped to a bound."""
    low, high = bounds
    return {
        "missing": int(np.isnan(values).sum()),
        "below": int((values < low).sum()),
        "above": int((values > high).sum()),
    }


def format_range(bounds: tuple[float, float]) -> str:
    """Format a pair of bounds."""
    return f"{bounds[0]:g} … {bounds[1]:g}"


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
    twice = first_duplicate([label if text else float(label) for label in labels])
    if twice is not None:
        label = next(label for label in labels if label == twice)
        raise DomainError(f"{place}: {label!r} is given twice")
    return tuple(labels)


def faults(
    features: Sequence[str], target: str | None, unit: str | None, event: str | None = None
) -> Iterator[str]:
    """Yield what is wrong with the columns: no features, or a column with two roles."""
    if not features:
        yield "features: at least one feature is needed"
    twice = first_duplicate(features)
    if twice is not None:
        yield f"features.{twice}: declared twice"
    if target is not None and target in features:
        yield f"target.name: {target!r} is a feature too"
    if event is not None and event in features:
        yield f"target.event: {event!r} is a feature too"
    if unit is not None and unit in (*features, target, event):
        yield f"unit.column: {unit!r} is a feature or the target too"
