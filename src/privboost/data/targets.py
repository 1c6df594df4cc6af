"""Kinds of targets: classes, numbers and times until an event.

A target owns what depends on its kind: how labels are coded, what scores mean, how it is described
and written as JSON.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from privboost._core.checks import Hole, check_mapping, check_text, listed, read_reason
from privboost._core.errors import DomainError
from privboost._core.grid import FULL_RANGE, LABEL_STEPS
from privboost._core.pickling import DeclaredState
from privboost.data.feature_base import (
    INFERABLE,
    MAX_CLASSES,
    check_bounds,
    check_labels,
    check_scale,
    common_keys,
    count_clipped,
    format_range,
)
from privboost.data.scales import from_scale, inverse_scale_name, slope_of_scale, to_scale
from privboost.data.table import Column
from privboost.data.values import Label, code_labels, count_unlisted, read_numbers
from privboost.losses.base import UNKNOWN_LABEL

TASKS_IN_WORDS = {"classes": "classes", "number": "a number", "survival": "a survival time"}
"""What a target of each task is, for messages."""

_LEAST_WIDTH = 1e-6
_LEAST_MEAN = 1e-50
"""Least upper bound of numbers whose logarithm is a score; the largest is its inverse."""
_FAR_BELOW = 1e6
"""Largest size of their lower bound below 0, in parts of the upper one."""


class CodedLabels(NamedTuple):
    """Labels as `Rows` hold them.

    Attributes
    ----------
    label : uint8 array
        The class, or of a time whether its event was observed (0 for any other number), or
        `losses.base.UNKNOWN_LABEL`.
    minus_label : int32 array or None
        Minus the number, in `grid.LABEL_STEPS` of half the width of its bounds, on the scale on
        which errors count; None for classes.
    """

    label: np.ndarray
    minus_label: np.ndarray | None


class BaseTarget(DeclaredState, ABC):
    """What is public about the column to predict.

    Attributes
    ----------
    task : str
        "classes", "number" or "survival".
    name : str
        The column.
    reason : str
        Where the fact comes from.
    """

    task: ClassVar[str]
    name: str
    reason: str

    @property
    @abstractmethod
    def range(self) -> str:
        """The classes or bounds, as shown with a domain's features."""

    @abstractmethod
    def describe(self) -> str:
        """Describe which labels count, as privacy reports repeat it."""

    @abstractmethod
    def code(self, column: Column, event: Column | None = None) -> CodedLabels:
        """Code labels; those of survival times need the column of events as well."""

    @abstractmethod
    def count_outside(self, column: Column) -> dict[str, int]:
        """Count labels that are missing, clipped or unknown: exactly, so for public rows only."""

    @abstractmethod
    def middle_and_half(self, span: tuple[int, int] = FULL_RANGE) -> tuple[float, float]:
        """Return the intercept and slope that turn a score into a label on the declared scale.

        Scores from −1 to 1 stand for the labels in `span`, in `grid.LABEL_STEPS`.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON payload."""

    @property
    def event_column(self) -> str | None:
        """The column that tells whether a time's event was observed; None of other targets."""
        return None

    @property
    def readers(self) -> dict[str, Callable[[Column], Any]]:
        """The columns of the target, each with a function that refuses a type that does not fit."""
        return {self.name: self.code}

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 for a number."""
        return 0

    @property
    def n_outputs(self) -> int:
        """The number of scores of a row: one for each class if there are more than two."""
        return self.n_classes if self.n_classes > 2 else 1

    def _check_names(self) -> None:
        check_text(self.name, "target.name")
        check_text(self.reason, "target.reason", empty=True)


@dataclass(frozen=True)
class ClassTarget(BaseTarget):
    """A target with a public list of classes, in any order.

    A row with another label contributes nothing.
    """

    task: ClassVar[str] = "classes"
    name: str
    classes: tuple[Label, ...]
    reason: str = ""

    def __post_init__(self) -> None:
        self._check_names()
        object.__setattr__(
            self, "classes", check_labels(self.classes, "target.classes", MAX_CLASSES, least=2)
        )

    @property
    def ordered(self) -> tuple[Label, ...]:
        """The classes in the order that models and scikit-learn use: sorted."""
        return tuple(sorted(self.classes))

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def range(self) -> str:
        return f"classes {', '.join(map(repr, self.classes))}"

    def describe(self) -> str:
        few = listed(self.classes[:20]) + (" …" if len(self.classes) > 20 else "")
        return f"the classes {few}; rows of others do not count"

    def code(self, column: Column, event: Column | None = None) -> CodedLabels:
        found = code_labels(column, self.ordered, self.name, sparse=False)
        return CodedLabels(np.where(found < 0, UNKNOWN_LABEL, found).astype(np.uint8), None)

    def count_outside(self, column: Column) -> dict[str, int]:
        return count_unlisted(column, self.classes, self.name)

    def middle_and_half(self, span: tuple[int, int] = FULL_RANGE) -> tuple[float, float]:
        return 0.0, 1.0  # scores of classes stand for themselves

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "classes": list(self.classes)} | common_keys(self)


@dataclass(frozen=True)
class NumberTarget(BaseTarget):
    """A number to predict, clipped to public bounds. A row without it contributes nothing.

    Parameters
    ----------
    name : str
        The column.
    bounds : (float, float)
        Lower and upper bound, from public knowledge.
    reason : str
        Where the fact comes from.
    scale : {"linear", "log"}
        The scale on which errors count, as for `NumericFeature`. With "log" an error is a factor: a
        prediction is a geometric mean, which is the median where factors are as often above it as
        below, and lies below the mean.
    """

    task: ClassVar[str] = "number"
    name: str
    bounds: tuple[float, float]
    reason: str = ""
    scale: str = "linear"

    def __post_init__(self) -> None:
        self._check_names()
        object.__setattr__(self, "bounds", check_bounds(self.bounds, "target.bounds"))
        check_scale(self.scale, "target.scale")
        low, high = self.scaled_bounds
        if self.scale == "log" and not high - low > _LEAST_WIDTH:
            raise DomainError("target.bounds: they are too close for a log scale")

    @property
    def range(self) -> str:
        return format_range(self.bounds) + (", log scale" if self.scale == "log" else "")

    def describe(self) -> str:
        low, high = self.bounds
        how = ", on a log scale" if self.scale == "log" else ""
        return f"numbers from {low:g} to {high:g}{how}; others count as the nearer of the two"

    @property
    def scaled_bounds(self) -> tuple[float, float]:
        """The bounds on the scale on which errors count."""
        if self.scale == "linear":
            return self.bounds
        low, high = self.to_scale(np.array(self.bounds, dtype=np.float64))
        return float(low), float(high)

    def to_scale(self, values: np.ndarray) -> np.ndarray:
        """Return numbers within the bounds on the scale on which errors count."""
        return to_scale(values, self.bounds, self.scale)

    def from_scale(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers at these positions on that scale."""
        return from_scale(values, self.bounds, self.scale)

    @property
    def inverse_scale_name(self) -> str:
        """The name of the function from that scale to numbers; see `scales.inverse_scale_name`."""
        return inverse_scale_name(self.bounds, self.scale)

    def slope(self, values: np.ndarray) -> np.ndarray:
        """Return the derivative of numbers by their positions on that scale."""
        return slope_of_scale(values, self.bounds, self.scale)

    def code(self, column: Column, event: Column | None = None) -> CodedLabels:
        values = np.asarray(read_numbers(column, self.name), dtype=np.float64)
        unknown = np.isnan(values)
        middle, half = self.middle_and_half()
        with np.errstate(all="ignore"):  # no value may warn
            own = self.to_scale(np.clip(values, *self.bounds))
        scaled = np.clip((own - middle) / half, -1, 1)
        scaled[unknown] = 0
        minus_label = -np.trunc(scaled * LABEL_STEPS).astype(np.int32)
        return CodedLabels(np.where(unknown, UNKNOWN_LABEL, 0).astype(np.uint8), minus_label)

    def count_outside(self, column: Column) -> dict[str, int]:
        return count_clipped(read_numbers(column, self.name), self.bounds)

    def middle_and_half(self, span: tuple[int, int] = FULL_RANGE) -> tuple[float, float]:
        low, high = self.scaled_bounds
        middle, half = low + (high - low) / 2, (high - low) / 2
        first, last = (end / LABEL_STEPS for end in span)
        return middle + half * ((first + last) / 2), half * ((last - first) / 2)

    def to_dict(self) -> dict[str, Any]:
        payload: dict[str, Any] = {"name": self.name, "bounds": list(self.bounds)}
        scale = {} if self.scale == "linear" else {"scale": self.scale}
        return payload | scale | common_keys(self)


@dataclass(frozen=True)
class SurvivalTarget(NumberTarget):
    """A time until an event, which was observed or not: the row was censored at that time.

    Times are clipped to public bounds above 0, and their logarithms are modelled. A row without a
    time, or of which it is unknown whether the event was observed, contributes nothing.

    Parameters
    ----------
    name : str
        The column of times.
    bounds : (float, float)
        Lower and upper bound of times, above 0, from public knowledge.
    reason : str
        Where the fact comes from.
    scale : {"log"}
        The scale of times.
    event : str
        The column that tells whether the event was observed at that time: true or false, or 1 or 0.
    """

    task: ClassVar[str] = "survival"
    scale: str = "log"
    event: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self.event, "target.event")
        if self.event == self.name:
            raise DomainError(f"target.event: {self.event!r} is the time; name another column")
        if self.scale != "log":
            raise DomainError("target.scale: that of times until an event is always log")
        if not self.bounds[0] > 0:
            raise DomainError(
                "target.bounds: times until an event need a lower bound above 0, such as one day; "
                "shorter ones count as it"
            )

    @property
    def range(self) -> str:
        return f"{format_range(self.bounds)}, until {self.event}"

    def describe(self) -> str:
        low, high = self.bounds
        return (
            f"times from {low:g} to {high:g} until {self.event!r}, or until rows were censored; "
            "others count as the nearer of the two"
        )

    @property
    def event_column(self) -> str:
        return self.event

    @property
    def readers(self) -> dict[str, Callable[[Column], Any]]:
        return {name: partial(read_numbers, name=name) for name in (self.name, self.event)}

    def read(self, column: Column, event: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return times within the bounds, NaN where they or events are unknown; and events."""
        values = np.asarray(read_numbers(column, self.name), dtype=np.float64)
        happened = read_numbers(event, self.event)
        known = ((happened == 0) | (happened == 1)) & ~np.isnan(values)
        with np.errstate(all="ignore"):  # no value may warn
            times = np.where(known, np.clip(values, *self.bounds), np.nan)
        return times, happened == 1

    def code(self, column: Column, event: Column | None = None) -> CodedLabels:
        assert event is not None
        times, happened = self.read(column, event)
        label, minus_label = super().code(times)
        return CodedLabels(np.where(label == 0, happened, label).astype(np.uint8), minus_label)

    def to_dict(self) -> dict[str, Any]:
        payload = {"name": self.name, "bounds": list(self.bounds), "event": self.event}
        return payload | common_keys(self)


Target = ClassTarget | NumberTarget
"""Any target; a `SurvivalTarget` is a number."""


def has_log_bounds(target: Target) -> bool:
    """Whether a target is a number whose bounds leave room for logarithms of means."""
    if not isinstance(target, NumberTarget) or target.scale != "linear":
        return False
    low, high = target.bounds
    return _LEAST_MEAN <= high <= 1 / _LEAST_MEAN and -low <= _FAR_BELOW * high


def read_target(payload: Any) -> Target:
    """Read the JSON payload of a target; errors name the place."""
    optional = {"classes", "bounds", "scale", "event", "reason"}
    payload = check_mapping(payload, "target", {"name"}, optional)
    name = check_text(payload["name"], "target.name")
    payload = _without_placeholder(payload)
    if "event" in payload and not {"classes", "bounds"} & set(payload):
        raise DomainError("target.bounds: times until an event need them, from public knowledge")
    if ("classes" in payload) == ("bounds" in payload):
        raise DomainError(
            'target: give "classes" (to classify) or "bounds" (a number), one of them'
        )
    reason = read_reason(payload, "target")
    if "event" in payload:
        if "classes" in payload:
            raise DomainError("target.event: classes have none; give the bounds of times")
        scale = payload.get("scale", "log")
        return SurvivalTarget(name, payload["bounds"], reason, scale, payload["event"])
    if "bounds" in payload:
        return NumberTarget(name, payload["bounds"], reason, payload.get("scale", "linear"))
    if "scale" in payload:
        raise DomainError("target.scale: classes have none")
    return ClassTarget(name, payload["classes"], reason)


def _without_placeholder(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Remove "classes" or "bounds" if it is null; refuse a target with nothing filled in."""
    empty = [key for key in ("classes", "bounds") if key in payload and payload[key] is None]
    chosen = {key: value for key, value in payload.items() if key not in empty}
    if empty and not {"classes", "bounds"} & set(chosen):
        hints = {"classes": 'a list such as ["no", "yes"]', "bounds": "[lowest, highest]"}
        hint = ", or ".join(f"{key}: {hints[key]}" for key in empty)
        learned = "" if "event" in payload else f" ({INFERABLE})"
        raise Hole(f"target.{' or '.join(empty)}", f"{hint}{learned}")
    return chosen
