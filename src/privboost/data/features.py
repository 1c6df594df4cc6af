"""Kinds of features: numbers, durations, dates, booleans, ordinals, categories.

A new kind is one class, listed in `FEATURE_KINDS`; `feature_base.BaseFeature` says what it must
define.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from privboost._core.checks import Hole, check_mapping, check_text, listed, read_reason
from privboost._core.errors import DomainError
from privboost.data.binning import Bins
from privboost.data.feature_base import (
    FINE_BINS,
    INFERABLE,
    MAX_CATEGORIES,
    MAX_NUMERIC_BINS,
    MISSING_LABEL,
    BaseFeature,
    check_bounds,
    check_edges,
    check_labels,
    check_scale,
    count_clipped,
    format_range,
)
from privboost.data.table import Column
from privboost.data.times import (
    DAY,
    SECOND,
    format_duration,
    format_instant,
    read_dates,
    read_durations,
    read_instant,
)
from privboost.data.values import (
    Label,
    code_labels,
    count_unlisted,
    read_numbers,
)


class OrderedFeature(BaseFeature):
    """A feature whose values are read as numbers, which are binned."""

    ordered: ClassVar[bool] = True

    @property
    def counted_in(self) -> str:
        """What bin edges count.

        One of "numbers", "days" and "seconds" (since 1970), and "durations" (in seconds).
        """
        return "numbers"

    @property
    @abstractmethod
    def number(self) -> NumericFeature:
        """The number that values are read as."""

    @abstractmethod
    def format_value(self, value: float) -> str:
        """Format one of the numbers that values are read as."""

    @property
    def names(self) -> tuple[str, ...]:
        """The labels as strings."""
        return tuple(map(str, self.labels))

    def encode(self, column: Column, bins: Bins, out: np.ndarray) -> None:
        bins.code(self.read(column), out)

    def fine_edges(self) -> np.ndarray:
        return self.number.fine_edges()

    def count_codes(self, edges: np.ndarray) -> int:
        return len(edges) + 2  # bins and "missing"

    def describe_codes(self, values: np.ndarray, edges: np.ndarray) -> Iterator[tuple[str, int]]:
        changes = np.flatnonzero(np.diff(values[:-1]))
        for first, last in zip([0, *(changes + 1)], [*changes, len(edges)], strict=True):
            yield self._describe_run(int(first), int(last), edges), int(first)
        yield MISSING_LABEL, len(values) - 1

    def _describe_run(self, first: int, last: int, edges: np.ndarray) -> str:
        if first == 0 and last == len(edges):
            return "any"
        if names := self.names:
            return names[first] if first == last else f"{names[first]} to {names[last]}"
        low = "" if first == 0 else f"{self.format_value(float(edges[first - 1]))} < "
        high = "" if last == len(edges) else f" ≤ {self.format_value(float(edges[last]))}"
        return f"{low}x{high}"

    def count_outside(self, column: Column) -> dict[str, int]:
        return count_clipped(self.read(column), self.number.bounds)

    def _equal_bins(self, count: int) -> list[float]:
        """Return the fine edges that divide the feature into at most `count` equal bins."""
        fine = self.fine_edges()
        indices = np.arange(1, count) * (len(fine) + 1) // count - 1
        return [float(fine[index]) for index in np.unique(indices) if index >= 0]


@dataclass(frozen=True)
class NumericFeature(OrderedFeature):
    """A number with public bounds.

    Values outside the bounds are clipped to them. The bounds are divided into fine bins: equal ones
    on the declared scale, or at the declared edges.

    Parameters
    ----------
    name : str
        The column.
    bounds : (float, float)
        Lower and upper bound, from public knowledge.
    scale : {"linear", "log"}
        Spacing of the fine bins. "log" means equal steps of log x where the bounds have one sign,
        and of sign(x)·log(1 + |x|) where they include zero.
    edges : tuple of float, optional
        Cut points inside the bounds, instead of a scale.
    missing : bool
        Whether missing values are expected. They have a bin of their own in any case; training
        gives it an effect only if they are expected.
    reason : str
        Where the fact comes from; repeated in privacy reports.
    """

    kind: ClassVar[str] = "numeric"
    required: ClassVar[Mapping[str, str]] = {"bounds": "[lowest, highest]"}
    optional: ClassVar[tuple[str, ...]] = ("scale", "edges")
    example: ClassVar[str] = (
        '"bounds": [0, 110], a number each; "scale": "log" if it is off by factors'
    )
    column_type: ClassVar[str] = "number"
    inferable: ClassVar[bool] = True
    reads_plain_numbers: ClassVar[bool] = True
    name: str
    bounds: tuple[float, float]
    scale: str = "linear"
    edges: tuple[float, ...] | None = None
    missing: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        place = self._check_names()
        object.__setattr__(self, "bounds", check_bounds(self.bounds, f"{place}.bounds"))
        check_scale(self.scale, f"{place}.scale")
        if self.edges is not None:
            edges = check_edges(self.edges, self.bounds, f"{place}.edges")
            object.__setattr__(self, "edges", edges)
            if self.scale != "linear":
                raise DomainError(f'{place}: give "edges" or "scale", not both')

    @property
    def number(self) -> NumericFeature:
        return self

    @property
    def range(self) -> str:
        how = f", {len(self.edges)} edges" if self.edges is not None else ""
        return format_range(self.bounds) + (", log scale" if self.scale == "log" else how)

    def read(self, column: Column) -> np.ndarray:
        return read_numbers(column, self.name)

    def format_value(self, value: float) -> str:
        return f"{value:.6g}"

    def fine_edges(self) -> np.ndarray:
        if self.edges is not None:
            return np.array(self.edges, dtype=np.float64)
        low, high = self.bounds
        steps = np.arange(1, FINE_BINS) / FINE_BINS
        if self.scale == "linear":
            edges = low + (high - low) * steps
        elif low > 0:
            edges = np.exp(math.log(low) + (math.log(high) - math.log(low)) * steps)
        elif high < 0:
            edges = -np.exp(math.log(-low) + (math.log(-high) - math.log(-low)) * steps)
        else:
            ends = [math.copysign(math.log1p(abs(end)), end) for end in (low, high)]
            scaled = ends[0] + (ends[1] - ends[0]) * steps
            edges = np.copysign(np.expm1(np.abs(scaled)), scaled)
        return np.unique(edges)

    def with_bins(self, count: int) -> NumericFeature:
        if self.edges is not None:
            return self
        return replace(self, scale="linear", edges=tuple(self._equal_bins(count)))


@dataclass(frozen=True)
class DurationFeature(NumericFeature):
    """A duration with public bounds, in seconds.

    Its column holds durations of any type, strings like "PT1H30M", "1:30:00" or "1 day, 1:30:00",
    or numbers of seconds. Its parameters are those of `NumericFeature`.
    """

    kind: ClassVar[str] = "duration"
    example: ClassVar[str] = '"bounds": [0, 2592000], in seconds'
    column_type: ClassVar[str] = "duration"

    @property
    def counted_in(self) -> str:
        return "durations"

    @property
    def range(self) -> str:
        return f"seconds {super().range}"

    def read(self, column: Column) -> np.ndarray:
        return read_durations(column, self.name)

    def format_value(self, value: float) -> str:
        return format_duration(float(super().format_value(value)))


@dataclass(frozen=True)
class DateFeature(OrderedFeature):
    """A date or an instant, with public bounds.

    Its column holds dates or times of any type, or strings in ISO 8601. If all bounds and edges are
    dates, the feature counts days, else seconds. All is in UTC, which is also assumed for a time
    without a zone. Values outside the bounds are clipped to them.

    Parameters
    ----------
    name : str
        The column.
    bounds : (str, str)
        The first and the last, in ISO 8601: "2015-01-01", "2024-12-31T23:59:59".
    edges : tuple of str, optional
        Cut points inside the bounds: each ends a bin. By default each day (or second) has a bin of
        its own if there are few, else bins are equal.
    missing : bool
        Whether missing values are expected (see `NumericFeature`).
    reason : str
        Where the fact comes from.
    """

    kind: ClassVar[str] = "date"
    required: ClassVar[Mapping[str, str]] = {"bounds": '["2015-01-01", "2024-12-31"]'}
    optional: ClassVar[tuple[str, ...]] = ("edges",)
    example: ClassVar[str] = '"bounds": ["2015-01-01", "2024-12-31"]'
    column_type: ClassVar[str] = "date"
    name: str
    bounds: tuple[str, str]
    edges: tuple[str, ...] | None = None
    missing: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        place = self._check_names()
        if not isinstance(self.bounds, list | tuple) or len(self.bounds) != 2:
            raise DomainError(f"{place}.bounds: a pair of dates is needed")
        if not isinstance(self.edges, list | tuple | None):
            raise DomainError(f"{place}.edges: a list of dates is needed")
        for key, texts in (("bounds", self.bounds), ("edges", self.edges or ())):
            if not all(map(_is_date, texts)):
                raise DomainError(
                    f'{place}.{key}: dates are written as "2024-12-31" or "2024-12-31T23:59:59", '
                    "as strings"
                )
        object.__setattr__(self, "bounds", tuple(self.bounds))
        if self.edges is not None:
            object.__setattr__(self, "edges", tuple(self.edges))
        first, last = map(self._count, self.bounds)
        if not first < last:
            raise DomainError(f"{place}.bounds: the first date is not before the last")
        assert self.number  # it checks the edges

    @property
    def step(self) -> int:
        """The counted unit of time in nanoseconds: a day or a second."""
        texts = (*self.bounds, *(self.edges or ()))
        return DAY if all(len(text) <= _DATE for text in texts) else SECOND

    @property
    def counted_in(self) -> str:
        return "days" if self.step == DAY else "seconds"

    @cached_property
    def number(self) -> NumericFeature:
        first, last = map(self._count, self.bounds)
        if self.edges is not None:
            edges = tuple(map(self._count, self.edges))
            return NumericFeature(self.name, (first, last), "linear", edges, self.missing)
        if last - first < MAX_NUMERIC_BINS:
            return _whole_number(self.name, first, last, self.missing)
        return NumericFeature(self.name, (first, last), missing=self.missing)

    @property
    def range(self) -> str:
        how = f", {len(self.edges)} edges" if self.edges is not None else ""
        return " … ".join(self.bounds) + how

    def read(self, column: Column) -> np.ndarray:
        return read_dates(column, self.name, self.step)

    def format_value(self, value: float) -> str:
        return format_instant(math.floor(value) * self.step)

    def with_bins(self, count: int) -> DateFeature:
        if self.edges is not None:
            return self
        dates = dict.fromkeys(map(self.format_value, self._equal_bins(count)))
        return replace(self, edges=tuple(date for date in dates if date != self.bounds[0]))

    def _count(self, text: str) -> int:
        count = read_instant(text)
        assert count is not None
        return count // self.step


@dataclass(frozen=True)
class BooleanFeature(OrderedFeature):
    """A boolean: true or false in any case, or 1 or 0. Anything else is missing.

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
    example: ClassVar[str] = "nothing more"
    column_type: ClassVar[str] = "bool"
    labels: ClassVar[tuple[Label, ...]] = (0, 1)
    names: ClassVar[tuple[str, ...]] = ("false", "true")
    range: ClassVar[str] = "false, true"
    name: str
    missing: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        self._check_names()

    @cached_property
    def number(self) -> NumericFeature:
        return _whole_number(self.name, 0, 1, self.missing)

    def read(self, column: Column) -> np.ndarray:
        numbers = read_numbers(column, self.name)
        return np.where((numbers == 0) | (numbers == 1), numbers, math.nan)

    def format_value(self, value: float) -> str:
        return self.names[math.floor(value)]


@dataclass(frozen=True)
class OrdinalFeature(OrderedFeature):
    """A feature with a public list of categories in order, from the least to the most.

    Models split it along the order, as they do numbers. A value outside the list is missing: it has
    no position in the order.

    Parameters
    ----------
    name : str
        The column.
    categories : tuple
        The public list, in order: two to 253 strings, or numbers.
    missing : bool
        Whether missing values are expected (see `NumericFeature`).
    reason : str
        Where the fact comes from.
    """

    kind: ClassVar[str] = "ordinal"
    required: ClassVar[Mapping[str, str]] = {"categories": "a list"}
    example: ClassVar[str] = '"categories": ["none", "mild", "severe"], from the least to the most'
    name: str
    categories: tuple[Label, ...]
    missing: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        place = f"{self._check_names()}.categories"
        checked = check_labels(self.categories, place, MAX_NUMERIC_BINS, least=2)
        object.__setattr__(self, "categories", checked)

    @property
    def labels(self) -> tuple[Label, ...]:
        return self.categories

    @cached_property
    def number(self) -> NumericFeature:
        return _whole_number(self.name, 0, len(self.categories) - 1, self.missing)

    @property
    def range(self) -> str:
        names = self.names
        few = names if len(names) <= _FEW else (*names[: _FEW - 1], "…", names[-1])
        return listed(few, " < ", "<,;")

    def read(self, column: Column) -> np.ndarray:
        places = code_labels(column, self.categories, self.name)
        return np.where(places < 0, math.nan, places.astype(np.float64))

    def format_value(self, value: float) -> str:
        return str(self.categories[math.floor(value)])

    def count_outside(self, column: Column) -> dict[str, int]:
        return count_unlisted(column, self.categories, self.name)


@dataclass(frozen=True)
class CategoricalFeature(BaseFeature):
    """A feature with a public list of categories.

    A value outside the list goes to an "other" bin. Categories are all strings or all numbers.

    Parameters
    ----------
    name : str
        The column.
    categories : tuple
        The public list.
    missing : bool
        Whether missing values are expected (see `NumericFeature`).
    reason : str
        Where the fact comes from.
    """

    kind: ClassVar[str] = "categorical"
    ordered: ClassVar[bool] = False
    required: ClassVar[Mapping[str, str]] = {"categories": "a list"}
    example: ClassVar[str] = '"categories": ["clerk", "nurse"], all that may be known of'
    column_type: ClassVar[str] = "text"
    inferable: ClassVar[bool] = True
    name: str
    categories: tuple[Label, ...]
    missing: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        place = f"{self._check_names()}.categories"
        object.__setattr__(self, "categories", check_labels(self.categories, place, MAX_CATEGORIES))

    @property
    def labels(self) -> tuple[Label, ...]:
        return self.categories

    @property
    def range(self) -> str:
        return f"{len(self.categories)} categor{'y' if len(self.categories) == 1 else 'ies'}"

    def read(self, column: Column) -> np.ndarray:
        return code_labels(column, self.categories, self.name)

    def encode(self, column: Column, bins: Bins, out: np.ndarray) -> None:
        found = self.read(column)
        out[:] = np.where(found < 0, len(self.categories) - 1 - found, found)

    def fine_edges(self) -> np.ndarray:
        return np.empty(0)

    def count_codes(self, edges: np.ndarray) -> int:
        return len(self.categories) + 2  # categories, "other" and "missing"

    def describe_codes(self, values: np.ndarray, edges: np.ndarray) -> Iterator[tuple[str, int]]:
        names = (*map(str, self.categories), "other", MISSING_LABEL)
        return zip(names, range(len(values)), strict=True)

    def count_outside(self, column: Column) -> dict[str, int]:
        return count_unlisted(column, self.categories, self.name)


Feature = OrderedFeature | CategoricalFeature

FEATURE_KINDS: dict[str, type[Feature]] = {
    each.kind: each
    for each in (
        NumericFeature,
        CategoricalFeature,
        OrdinalFeature,
        BooleanFeature,
        DateFeature,
        DurationFeature,
    )
}
"""All kinds of features by their names in JSON."""

OPEN_KIND = " | ".join(FEATURE_KINDS)
"""What a skeleton writes for an unknown kind: all of them, of which one is to stay."""


def read_feature(name: Any, payload: Any) -> Feature:
    """Read the JSON payload of a feature; errors name the place."""
    place = f"features.{check_text(name, 'features, the name of one')}"
    if not isinstance(payload, Mapping):
        raise DomainError(f"{place}: a mapping is needed")
    kind = _read_kind(payload.get("kind", ""), place)
    # A key that only other kinds need may stay null, as in a skeleton.
    others = {key for each in FEATURE_KINDS.values() for key in each.required} - set(kind.required)
    payload = {key: own for key, own in payload.items() if own is not None or key not in others}
    allowed = {*kind.optional, "missing", "reason"}
    payload = check_mapping(payload, place, {"kind", *kind.required}, allowed)
    for key, hint in kind.required.items():
        if payload[key] is None:
            raise Hole(f"{place}.{key}", hint + (f" ({INFERABLE})" if kind.inferable else ""))
    if not isinstance(payload.get("missing", False), bool):
        raise DomainError(f"{place}.missing: true or false is needed")
    read_reason(payload, place)
    return kind(**{"name": name} | {key: payload[key] for key in payload if key != "kind"})


def _read_kind(kind: Any, place: str) -> type[Feature]:
    *most, last = (f'"{known}"' for known in FEATURE_KINDS)
    if kind is None or kind == OPEN_KIND:
        raise Hole(f"{place}.kind", f"one of {', '.join(most)} or {last}")
    if not isinstance(kind, str) or kind not in FEATURE_KINDS:
        problem = "is missing; it is" if kind == "" else f"{kind!r} is not"
        raise DomainError(f"{place}.kind: {problem} {', '.join(most)} or {last}")
    return FEATURE_KINDS[kind]


_DATE = len("2024-12-31")
_FEW = 5


def _is_date(text: object) -> bool:
    return isinstance(text, str) and len(text) >= _DATE and read_instant(text) is not None


def _whole_number(name: str, low: int, high: int, missing: bool) -> NumericFeature:
    """Return a number with one bin for each whole value, which lies in the middle of its bin."""
    edges = tuple(value + 0.5 for value in range(low, high))
    return NumericFeature(name, (low - 0.5, high + 0.5), "linear", edges, missing)
