"""Features and targets of a domain, and how they are read from JSON.

Kinds of features are classes, listed in `FEATURE_KINDS`; see `feature_base.BaseFeature` for what a
kind must define.

Scales of numbers and their inverses, with the same bits on every machine.

Libraries compute logarithms differently from processor to processor, and a label must not depend on
the machine that holds its row. So these functions use additions, products and quotients only, which
every machine rounds alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privboost._core.checks import Hole, check_mapping, check_text, listed, read_reason
from privboost._core.errors import DomainError
from privboost._core.grid import FULL_RANGE, LABEL_STEPS
from privboost._core.pickling import DeclaredState
from privboost.data.feature_base import (
    MAX_CATEGORIES,
    MAX_CLASSES,
    MISSING_LABEL,
    BaseFeature,
    Label,
    check_bounds,
    check_labels,
    check_scale,
    common_keys,
    count_clipped,
)
from privboost.data.ordered_features import (
    BooleanFeature,
    DateFeature,
    DurationFeature,
    NumericFeature,
    OrderedFeature,
    OrdinalFeature,
    format_range,
)
from privboost.data.table import Column
from privboost.data.values import code_labels, count_unlisted, read_numbers
from privboost.losses.base import UNKNOWN_LABEL

if TYPE_CHECKING:
    from privboost.data.binning import Bins


_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""The logarithm of 2 in two parts; products of the first with small integers are exact."""
_LOG_TERMS = 13
_EXP_TERMS = 16


def to_scale(values: np.ndarray, bounds: tuple[float, float], scale: str) -> np.ndarray:
    """Return numbers within bounds on their scale.

    Parameters
    ----------
    values : float64 array
        The numbers.
    bounds : (float, float)
        Their bounds.
    scale : {"linear", "log"}
        "log" is log x where the bounds have one sign, sign(x)·log(1 + |x|) where they include zero.
    """
    if scale == "linear":
        return values
    size = np.abs(values)
    logs: np.ndarray = np.sign(values) * _log(1 + size) if _has_zero(bounds) else _log(size)
    return -logs if bounds[1] < 0 else logs


def from_scale(values: np.ndarray, bounds: tuple[float, float], scale: str) -> np.ndarray:
    """Return the numbers at these positions on their scale."""
    if scale == "linear":
        return values
    if _has_zero(bounds):
        sizes: np.ndarray = np.sign(values) * (_exp(np.abs(values)) - 1)
        return sizes
    return -_exp(-values) if bounds[1] < 0 else _exp(values)


def inverse_scale_name(bounds: tuple[float, float], scale: str) -> str:
    """Return the name of the function that `from_scale` applies, for exports.

    "same" is the identity; of z, "exp" is exp(z), "mirrored" −exp(−z), "signed"
    sign(z)·(exp|z| − 1).
    """
    if scale == "linear":
        return "same"
    if _has_zero(bounds):
        return "signed"
    return "mirrored" if bounds[1] < 0 else "exp"


def slope_of_scale(values: np.ndarray, bounds: tuple[float, float], scale: str) -> np.ndarray:
    """Return the derivative of numbers by their positions on the scale."""
    if scale == "linear":
        return np.ones_like(values)
    slopes: np.ndarray = np.abs(values) + (1 if _has_zero(bounds) else 0)
    return slopes


def _has_zero(bounds: tuple[float, float]) -> bool:
    return bounds[0] <= 0 <= bounds[1]


def _log(values: np.ndarray) -> np.ndarray:
    """Return logarithms of positive numbers: of a power of two, and of a remainder near 1."""
    rest, power = np.frexp(values)
    small = rest < np.sqrt(0.5)
    rest, power = np.where(small, 2 * rest, rest), power - small
    part = (rest - 1) / (rest + 1)
    square = part * part
    series = np.zeros_like(part)
    for k in range(_LOG_TERMS, 0, -1):  # artanh
        series = (series + 1 / (2 * k + 1)) * square
    logs: np.ndarray = power * _LN2_HIGH + (2 * part * (1 + series) + power * _LN2_LOW)
    return logs


def _exp(values: np.ndarray) -> np.ndarray:
    """Return powers of e: a power of two, times a remainder near 1."""
    power = np.rint(values / (_LN2_HIGH + _LN2_LOW))
    rest = (values - power * _LN2_HIGH) - power * _LN2_LOW
    series = np.ones_like(rest)
    for k in range(_EXP_TERMS, 0, -1):
        series = 1 + rest / k * series
    powers: np.ndarray = np.ldexp(series, power.astype(np.int32))
    return powers


INFERRED_REASON = "learned privately from the rows, in lesson "
"""Prefix of the reason of an inferred part; the inference's identifier follows."""


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
        """The categories."""
        return self.categories

    @property
    def range(self) -> str:
        """The distinguished values, as shown in tables of features."""
        return f"{len(self.categories)} categor{'y' if len(self.categories) == 1 else 'ies'}"

    def read(self, column: Column) -> np.ndarray:
        """Return the position of each value in the list; see `values.code_labels`."""
        return code_labels(column, self.categories, self.name)

    def encode(self, column: Column, bins: Bins, out: np.ndarray) -> None:
        """Write the code of each value of a column to `out`."""
        found = self.read(column)
        out[:] = np.where(found < 0, len(self.categories) - 1 - found, found)

    def fine_edges(self) -> np.ndarray:
        """Return no edges: categories have no order."""
        return np.empty(0)

    def count_codes(self, edges: np.ndarray) -> int:
        """Return the number of codes: the categories, "other" and "missing"."""
        return len(self.categories) + 2

    def describe_codes(self, values: np.ndarray, edges: np.ndarray) -> Iterator[tuple[str, int]]:
        """Yield the description of each code, and the code."""
        names = (*map(str, self.categories), "other", MISSING_LABEL)
        return zip(names, range(len(values)), strict=True)

    def count_outside(self, column: Column) -> dict[str, int]:
        """Count values that are missing or not listed: exactly, so for public rows only."""
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


class BaseTarget(DeclaredState, ABC):
    """What is public about the column to predict.

    Attributes
    ----------
    task : str
        "classes" or "number".
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
        """The distinguished values, as shown with a domain's features."""

    @abstractmethod
    def describe(self) -> str:
        """Describe which labels count, as privacy reports repeat it."""

    @abstractmethod
    def code(self, column: Column) -> tuple[np.ndarray, np.ndarray | None]:
        """Code labels.

        Returns
        -------
        label : uint8 array
            The class (0 for any number), or `losses.UNKNOWN_LABEL`.
        start : int32 array or None
            Minus the number, in `grid.LABEL_STEPS` of half the width of its bounds, on the scale on
            which errors count; None for classes.
        """

    @abstractmethod
    def count_outside(self, column: Column) -> dict[str, int]:
        """Count labels that are missing, clipped or unknown: exactly, so for public rows only."""

    @abstractmethod
    def middle_and_half(self, span: tuple[int, int] = FULL_RANGE) -> tuple[float, float]:
        """Return the meaning of a score of 0, and of the difference of 1 between scores.

        Parameters
        ----------
        span : (int, int)
            Range of labels that scores from −1 to 1 stand for, in `grid.LABEL_STEPS`.
        """

    @property
    def n_outputs(self) -> int:
        """The number of scores of a row: one for each class if there are more than two."""
        return 1

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
    def n_outputs(self) -> int:
        """The number of scores of a row: one for each class if there are more than two."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    @property
    def range(self) -> str:
        """The classes, as shown with a domain's features."""
        return f"classes {', '.join(map(repr, self.classes))}"

    def describe(self) -> str:
        """Describe which labels count, as privacy reports repeat it."""
        few = listed(self.classes[:20]) + (" …" if len(self.classes) > 20 else "")
        return f"the classes {few}; rows of others do not count"

    def code(self, column: Column) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the class of each row, and None."""
        found = code_labels(column, self.ordered, self.name, sparse=False)
        return np.where(found < 0, UNKNOWN_LABEL, found).astype(np.uint8), None

    def count_outside(self, column: Column) -> dict[str, int]:
        """Count labels that are missing or no class: exactly, so for public rows only."""
        return count_unlisted(column, self.classes, self.name)

    def middle_and_half(self, span: tuple[int, int] = FULL_RANGE) -> tuple[float, float]:
        """Return 0 and 1: scores of classes stand for themselves."""
        return 0.0, 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON payload."""
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
        """The bounds, as shown with a domain's features."""
        return format_range(self.bounds) + (", log scale" if self.scale == "log" else "")

    def describe(self) -> str:
        """Describe which labels count, as privacy reports repeat it."""
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

    def code(self, column: Column) -> tuple[np.ndarray, np.ndarray | None]:
        """Return 0 or `losses.UNKNOWN_LABEL`, and minus the number in steps."""
        values = np.asarray(read_numbers(column, self.name), dtype=np.float64)
        unknown = np.isnan(values)
        middle, half = self.middle_and_half()
        with np.errstate(all="ignore"):  # no value may warn
            own = self.to_scale(np.clip(values, *self.bounds))
        scaled = np.clip((own - middle) / half, -1, 1)
        scaled[unknown] = 0
        below = -np.trunc(scaled * LABEL_STEPS).astype(np.int32)
        return np.where(unknown, UNKNOWN_LABEL, 0).astype(np.uint8), below

    def count_outside(self, column: Column) -> dict[str, int]:
        """Count labels that are missing or clipped: exactly, so for public rows only."""
        return count_clipped(read_numbers(column, self.name), self.bounds)

    def middle_and_half(self, span: tuple[int, int] = FULL_RANGE) -> tuple[float, float]:
        """Return the middle and half the width of a range of labels; by default the bounds.

        Both are on the scale on which errors count.
        """
        low, high = self.scaled_bounds
        middle, half = low + (high - low) / 2, (high - low) / 2
        first, last = (end / LABEL_STEPS for end in span)
        return middle + half * ((first + last) / 2), half * ((last - first) / 2)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON payload."""
        payload: dict[str, Any] = {"name": self.name, "bounds": list(self.bounds)}
        scale = {} if self.scale == "linear" else {"scale": self.scale}
        return payload | scale | common_keys(self)


Target = ClassTarget | NumberTarget

_LEAST_WIDTH = 1e-6
_INFERABLE = "privboost domain learn, or Domain.learn, learns it privately"


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
            raise Hole(f"{place}.{key}", hint + (f" ({_INFERABLE})" if kind.inferable else ""))
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


def read_target(payload: Any) -> Target:
    """Read the JSON payload of a target; errors name the place."""
    payload = check_mapping(payload, "target", {"name"}, {"classes", "bounds", "scale", "reason"})
    name = check_text(payload["name"], "target.name")
    payload = _without_placeholder(payload)
    if ("classes" in payload) == ("bounds" in payload):
        raise DomainError(
            'target: give "classes" (to classify) or "bounds" (a number), one of them'
        )
    if "classes" in payload:
        if "scale" in payload:
            raise DomainError("target.scale: classes have none")
        return ClassTarget(name, payload["classes"], read_reason(payload, "target"))
    scale = payload.get("scale", "linear")
    return NumberTarget(name, payload["bounds"], read_reason(payload, "target"), scale)


def _without_placeholder(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Remove "classes" or "bounds" if it is null; refuse a target with nothing filled in."""
    empty = [key for key in ("classes", "bounds") if key in payload and payload[key] is None]
    chosen = {key: value for key, value in payload.items() if key not in empty}
    if empty and not {"classes", "bounds"} & set(chosen):
        hints = {"classes": 'a list such as ["no", "yes"]', "bounds": "[lowest, highest]"}
        hint = ", or ".join(f"{key}: {hints[key]}" for key in empty)
        raise Hole(f"target.{' or '.join(empty)}", f"{hint} ({_INFERABLE})")
    return chosen


def inferences_of(parts: Iterable[Feature | Target]) -> frozenset[str]:
    """Return the identifiers of the private inferences that parts of a domain come from."""
    inferred = (
        part.reason for part in parts if part.reason.startswith(INFERRED_REASON.split(",")[0])
    )
    return frozenset(reason.removeprefix(INFERRED_REASON) for reason in inferred)
