"""Features whose values have an order: numbers, dates, durations, truth values, ranks.

Each is read as a number (`number`), whose bins are its codes. What cannot be read is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from privboost.errors import DomainError
from privboost.forms import check_text, listed
from privboost.pickling import DeclaredState
from privboost.tables.domain_checks import (
    MAX_NUMERIC_BINS,
    Label,
    check_bounds,
    check_edges,
    check_labels,
    check_scale,
)
from privboost.tables.times import DAY, SECOND, read_instant, write_duration, write_instant


@dataclass(frozen=True)
class NumericFeature(DeclaredState):
    """A number with public bounds.

    Values outside the bounds are clipped to them. The bounds are cut into fine bins: equally on
    the declared scale, or at the given edges.

    Parameters
    ----------
    name : str
        The column.
    bounds : (float, float)
        Lower and upper bound, from public knowledge.
    scale : {"linear", "log"}
        How fine bins are spaced. "log" means equal steps of log x where the bounds have one sign,
        and of sign(x)·log(1 + |x|) where they include zero.
    edges : tuple of float, optional
        Cut points inside the bounds, instead of a scale.
    missing : bool
        Whether missing values are expected. They have a bin of their own in any case; only a
        declared one is given an effect by training.
    reason : str
        Where the fact comes from; repeated in privacy reports.
    """

    kind: ClassVar[str] = "numeric"
    name: str
    bounds: tuple[float, float]
    scale: str = "linear"
    edges: tuple[float, ...] | None = None
    missing: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        place = check_names(self)
        object.__setattr__(self, "bounds", check_bounds(self.bounds, f"{place}.bounds"))
        check_scale(self.scale, f"{place}.scale")
        if self.edges is not None:
            object.__setattr__(
                self, "edges", check_edges(self.edges, self.bounds, f"{place}.edges")
            )
            if self.scale != "linear":
                raise DomainError(f'{place}: give "edges" or "scale", not both')

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without what is at its default."""
        form: dict[str, Any] = {"kind": self.kind, "bounds": list(self.bounds)}
        if self.scale != "linear":
            form["scale"] = self.scale
        if self.edges is not None:
            form["edges"] = list(self.edges)
        return form | optional(self)

    @property
    def number(self) -> NumericFeature:
        """The number that its values are read as: itself."""
        return self

    def words(self, value: float) -> str:
        """Write one of its values for people."""
        return f"{value:.6g}"

    @property
    def range(self) -> str:
        """Say in words which values are told apart."""
        how = f", {len(self.edges)} edges" if self.edges is not None else ""
        return write_span(self.bounds) + (", log scale" if self.scale == "log" else how)


@dataclass(frozen=True)
class DurationFeature(NumericFeature):
    """A duration with public bounds, in seconds.

    Its column holds durations of any type, texts like "PT1H30M", "1:30:00" or "1 day, 1:30:00", or
    numbers of seconds. Its parameters are those of `NumericFeature`.
    """

    kind: ClassVar[str] = "duration"

    @property
    def range(self) -> str:
        """Say in words which values are told apart."""
        return f"seconds {super().range}"

    def words(self, value: float) -> str:
        """Write one of its values for people."""
        return write_duration(float(super().words(value)))


@dataclass(frozen=True)
class DateFeature(DeclaredState):
    """A date or an instant, with public bounds.

    Its column holds dates or times of any type, or texts as ISO 8601 writes them. Where bounds and
    edges are dates alone, days count; else seconds do. All is in UTC, where a time without a zone
    is taken to be. Values outside the bounds are clipped to them.

    Parameters
    ----------
    name : str
        The column.
    bounds : (str, str)
        The first and the last, as ISO 8601 writes them: "2015-01-01", "2024-12-31T23:59:59".
    edges : tuple of str, optional
        Cut points inside the bounds: each ends a bin. By default each day (or second) has a bin of
        its own if there are few, else bins are equal.
    missing : bool
        Whether missing values are expected (see `NumericFeature`).
    reason : str
        Where the fact comes from.
    """

    kind: ClassVar[str] = "date"
    name: str
    bounds: tuple[str, str]
    edges: tuple[str, ...] | None = None
    missing: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        place = check_names(self)
        if not isinstance(self.bounds, list | tuple) or len(self.bounds) != 2:
            raise DomainError(f"{place}.bounds: a pair of dates is needed")
        if not isinstance(self.edges, list | tuple | None):
            raise DomainError(f"{place}.edges: a list of dates is needed")
        _check_dates(self.bounds, f"{place}.bounds")
        _check_dates(self.edges or (), f"{place}.edges")
        object.__setattr__(self, "bounds", tuple(self.bounds))
        if self.edges is not None:
            object.__setattr__(self, "edges", tuple(self.edges))
        first, last = map(self._count, self.bounds)
        if not first < last:
            raise DomainError(f"{place}.bounds: the first date is not before the last")
        assert self.number  # it checks the edges

    @property
    def step(self) -> int:
        """What counts, in nanoseconds: a day or a second."""
        return (
            DAY
            if all(len(text) <= _DATE for text in (*self.bounds, *(self.edges or ())))
            else SECOND
        )

    @cached_property
    def number(self) -> NumericFeature:
        """The number that its values are read as: days or seconds since 1970."""
        first, last = map(self._count, self.bounds)
        if self.edges is not None:
            edges = tuple(map(self._count, self.edges))
            return NumericFeature(self.name, (first, last), "linear", edges, self.missing)
        if last - first < MAX_NUMERIC_BINS:
            return whole_number(self.name, first, last, self.missing)
        return NumericFeature(self.name, (first, last), missing=self.missing)

    def words(self, value: float) -> str:
        """Write one of its values for people."""
        return write_instant(math.floor(value) * self.step)

    @property
    def range(self) -> str:
        """Say in words which values are told apart."""
        how = f", {len(self.edges)} edges" if self.edges is not None else ""
        return " … ".join(self.bounds) + how

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without what is at its default."""
        form: dict[str, Any] = {"kind": self.kind, "bounds": list(self.bounds)}
        return form | ({} if self.edges is None else {"edges": list(self.edges)}) | optional(self)

    def _count(self, text: str) -> int:
        count = read_instant(text)
        assert count is not None
        return count // self.step


@dataclass(frozen=True)
class BooleanFeature(DeclaredState):
    """A truth value: true or false, in any case, or 1 or 0. Anything else is missing.

    Parameters
    ----------
    name : str
        The column.
    missing : bool
        Whether missing values are expected (see `NumericFeature`).
    reason : str
        Where the fact comes from.
    """

    kind: ClassVar[str] = "boolean"
    names: ClassVar[tuple[str, ...]] = ("false", "true")
    range: ClassVar[str] = "false, true"
    name: str
    missing: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        check_names(self)

    @cached_property
    def number(self) -> NumericFeature:
        """The number that its values are read as: 0 or 1."""
        return whole_number(self.name, 0, 1, self.missing)

    def words(self, value: float) -> str:
        """Write one of its values for people."""
        return self.names[math.floor(value)]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without what is at its default."""
        return {"kind": self.kind} | optional(self)


@dataclass(frozen=True)
class OrdinalFeature(DeclaredState):
    """A feature with a public list of categories in an order, from the least to the most.

    Models split it along the order, as they do numbers. A value outside the list is missing: it has
    no place in the order.

    Parameters
    ----------
    name : str
        The column.
    categories : tuple
        The public list, in order: two to 253 texts, or numbers.
    missing : bool
        Whether missing values are expected (see `NumericFeature`).
    reason : str
        Where the fact comes from.
    """

    kind: ClassVar[str] = "ordinal"
    name: str
    categories: tuple[Label, ...]
    missing: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        place = f"{check_names(self)}.categories"
        checked = check_labels(self.categories, place, MAX_NUMERIC_BINS, least=2)
        object.__setattr__(self, "categories", checked)

    @property
    def names(self) -> tuple[str, ...]:
        """The categories in words."""
        return tuple(map(str, self.categories))

    @cached_property
    def number(self) -> NumericFeature:
        """The number that its values are read as: their places, from 0."""
        return whole_number(self.name, 0, len(self.categories) - 1, self.missing)

    def words(self, value: float) -> str:
        """Write one of its values for people."""
        return str(self.categories[math.floor(value)])

    @property
    def range(self) -> str:
        """Say in words which values are told apart."""
        few = (
            self.names
            if len(self.names) <= _FEW
            else (*self.names[: _FEW - 1], "…", self.names[-1])
        )
        return listed(few, " < ", "<,;")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without what is at its default."""
        return {"kind": self.kind, "categories": list(self.categories)} | optional(self)


OrderedFeature = NumericFeature | DurationFeature | DateFeature | BooleanFeature | OrdinalFeature

_DATE = len("2024-12-31")
_FEW = 5


def whole_number(name: str, low: int, high: int, missing: bool) -> NumericFeature:
    """Return a number of which each whole value has a bin of its own, in the middle of it."""
    edges = tuple(value + 0.5 for value in range(low, high))
    return NumericFeature(name, (low - 0.5, high + 0.5), "linear", edges, missing)


def write_span(bounds: tuple[float, float]) -> str:
    """Write bounds for people."""
    return f"{bounds[0]:g} … {bounds[1]:g}"


def check_names(part: Any, place: str | None = None) -> str:
    """Check the texts of a feature, or of what has another place; return its place in the form."""
    if place is None:
        place = f"features.{check_text(part.name, 'features, the name of one')}"
    else:
        check_text(part.name, f"{place}.name")
    check_text(part.reason, f"{place}.reason", empty=True)
    return place


def optional(part: Any) -> dict[str, Any]:
    """Return what all parts of the form may have, without what is at its default."""
    form: dict[str, Any] = {}
    if getattr(part, "missing", False):
        form["missing"] = True
    if part.reason:
        form["reason"] = part.reason
    return form


def _check_dates(texts: Any, place: str) -> None:
    for text in texts:
        if not isinstance(text, str) or len(text) < _DATE or read_instant(text) is None:
            raise DomainError(
                f'{place}: dates are written as "2024-12-31" or "2024-12-31T23:59:59", as texts'
            )
