"""What is public about one column: features with bounds or categories, and the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privboost.errors import DomainError
from privboost.forms import Hole, check_mapping, check_text, listed, read_reason
from privboost.pickling import DeclaredState
from privboost.tables.domain_checks import (
    MAX_CATEGORIES,
    MAX_CLASSES,
    Label,
    check_bounds,
    check_labels,
    check_scale,
)
from privboost.tables.ordered_features import BooleanFeature as BooleanFeature
from privboost.tables.ordered_features import DateFeature as DateFeature
from privboost.tables.ordered_features import DurationFeature as DurationFeature
from privboost.tables.ordered_features import NumericFeature as NumericFeature
from privboost.tables.ordered_features import OrderedFeature as OrderedFeature
from privboost.tables.ordered_features import OrdinalFeature as OrdinalFeature
from privboost.tables.ordered_features import check_names, optional
from privboost.tables.scales import from_scale, slope_of_scale, to_scale, way_back

LEARNED = "learned privately from the rows, in lesson "
"""The reason of what was learned begins so and ends with the lesson, whose price it belongs to."""


@dataclass(frozen=True)
class CategoricalFeature(DeclaredState):
    """A feature with a public list of categories.

    A value outside the list goes to an "other" bin. Categories are all text or all numbers.

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
    name: str
    categories: tuple[Label, ...]
    missing: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        place = f"{check_names(self)}.categories"
        object.__setattr__(self, "categories", check_labels(self.categories, place, MAX_CATEGORIES))

    @property
    def range(self) -> str:
        """Say in words which values are told apart."""
        return f"{len(self.categories)} categor{'y' if len(self.categories) == 1 else 'ies'}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without what is at its default."""
        return {"kind": self.kind, "categories": list(self.categories)} | optional(self)


Feature = OrderedFeature | CategoricalFeature


@dataclass(frozen=True)
class ClassTarget(DeclaredState):
    """A target with a public list of classes, in any order.

    A row with another label contributes nothing.
    """

    name: str
    classes: tuple[Label, ...]
    reason: str = ""

    def __post_init__(self) -> None:
        check_names(self, "target")
        object.__setattr__(
            self, "classes", check_labels(self.classes, "target.classes", MAX_CLASSES, least=2)
        )

    @property
    def ordered(self) -> tuple[Label, ...]:
        """The classes in the order that models use, which is scikit-learn's: sorted."""
        return tuple(sorted(self.classes))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"name": self.name, "classes": list(self.classes)} | optional(self)


@dataclass(frozen=True)
class NumberTarget(DeclaredState):
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
        The scale on which errors count, as `NumericFeature` has it. With "log" an error is a
        factor: a prediction is a geometric mean, which is the median where factors are as often
        above it as below, and lies below the mean.
    """

    name: str
    bounds: tuple[float, float]
    reason: str = ""
    scale: str = "linear"

    def __post_init__(self) -> None:
        check_names(self, "target")
        object.__setattr__(self, "bounds", check_bounds(self.bounds, "target.bounds"))
        check_scale(self.scale, "target.scale")
        low, high = self.scaled_bounds
        if self.scale == "log" and not high - low > _LEAST_WIDTH:
            raise DomainError("target.bounds: they are too close for a log scale")

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
        """Return numbers, given where they are on that scale."""
        return from_scale(values, self.bounds, self.scale)

    @property
    def way_back(self) -> str:
        """What leads from that scale to numbers; see `scales.way_back`."""
        return way_back(self.bounds, self.scale)

    def slope(self, values: np.ndarray) -> np.ndarray:
        """Return how much numbers change by each 1 on that scale."""
        return slope_of_scale(values, self.bounds, self.scale)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        form: dict[str, Any] = {"name": self.name, "bounds": list(self.bounds)}
        return form | ({} if self.scale == "linear" else {"scale": self.scale}) | optional(self)


Target = ClassTarget | NumberTarget

_LEAST_WIDTH = 1e-6
_KINDS: dict[str, tuple[Any, set[str], set[str]]] = {
    "numeric": (NumericFeature, {"bounds"}, {"scale", "edges"}),
    "categorical": (CategoricalFeature, {"categories"}, set()),
    "ordinal": (OrdinalFeature, {"categories"}, set()),
    "boolean": (BooleanFeature, set(), set()),
    "date": (DateFeature, {"bounds"}, {"edges"}),
    "duration": (DurationFeature, {"bounds"}, {"scale", "edges"}),
}
"""The class of each kind, what its form needs, and what it may have beside."""
_ASKED = {"bounds": "[lowest, highest]", "categories": "a list"}
_LEARNABLE = "privboost domain learn, or Domain.learn, learns it privately"

OPEN_KIND = " | ".join(_KINDS)
"""What a skeleton writes for a kind that nobody said: all of them, of which one is to stay."""


def read_feature(name: Any, form: Any) -> Feature:
    """Read the JSON form of a feature; errors name the place."""
    place = f"features.{check_text(name, 'features, the name of one')}"
    if not isinstance(form, Mapping):
        raise DomainError(f"{place}: a mapping is needed")
    kind = form.get("kind", "")
    *most, last = (f'"{known}"' for known in _KINDS)
    if kind is None or kind == OPEN_KIND:
        raise Hole(f"{place}.kind", f"one of {', '.join(most)} or {last}")
    if not isinstance(kind, str) or kind not in _KINDS:
        said = "is missing; it is" if kind == "" else f"{kind!r} is not"
        raise DomainError(f"{place}.kind: {said} {', '.join(most)} or {last}")
    made, needed, allowed = _KINDS[kind]
    # What other kinds would need may stay open.
    form = {
        key: own
        for key, own in form.items()
        if own is not None or key not in _ASKED.keys() - needed
    }
    form = check_mapping(form, place, {"kind"} | needed, allowed | {"missing", "reason"})
    for key in sorted(needed):
        if form[key] is None:
            how = '["2015-01-01", "2024-12-31"]' if kind == "date" else _ASKED[key]
            learned = "" if kind in ("date", "ordinal") else f" ({_LEARNABLE})"
            raise Hole(f"{place}.{key}", how + learned)
    if not isinstance(form.get("missing", False), bool):
        raise DomainError(f"{place}.missing: true or false is needed")
    read_reason(form, place)
    feature: Feature = made(name=name, **{key: form[key] for key in form if key != "kind"})
    return feature


def read_target(form: Any) -> Target:
    """Read the JSON form of a target; errors name the place."""
    form = check_mapping(form, "target", {"name"}, {"classes", "bounds", "scale", "reason"})
    name = check_text(form["name"], "target.name")
    form = _chosen(form)
    if ("classes" in form) == ("bounds" in form):
        raise DomainError(
            'target: give "classes" (to classify) or "bounds" (a number), one of them'
        )
    if "classes" in form:
        if "scale" in form:
            raise DomainError("target.scale: classes have none")
        return ClassTarget(name, form["classes"], read_reason(form, "target"))
    scale = form.get("scale", "linear")
    return NumberTarget(name, form["bounds"], read_reason(form, "target"), scale)


def _chosen(form: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse a target of which nothing was filled in; one of two placeholders may stay."""
    empty = [key for key in ("classes", "bounds") if key in form and form[key] is None]
    chosen = {key: value for key, value in form.items() if key not in empty}
    if empty and not {"classes", "bounds"} & set(chosen):
        asked = {"classes": 'a list such as ["no", "yes"]', "bounds": "[lowest, highest]"}
        hint = ", or ".join(f"{key}: {asked[key]}" for key in empty)
        raise Hole(f"target.{' or '.join(empty)}", f"{hint} ({_LEARNABLE})")
    return chosen


def describe_target(target: Target) -> str:
    """Say in words what a target may be; labels that are no class count for nothing."""
    if isinstance(target, NumberTarget):
        low, high = target.bounds
        how = ", on a log scale" if target.scale == "log" else ""
        return f"numbers from {low:g} to {high:g}{how}; others count as the nearer of the two"
    few = listed(target.classes[:20]) + (" …" if len(target.classes) > 20 else "")
    return f"the classes {few}; rows of others do not count"


def lessons_of(parts: Iterable[Feature | Target]) -> frozenset[str]:
    """Return the lessons in which parts of a domain were learned."""
    learned = (part.reason for part in parts if part.reason.startswith(LEARNED.split(",")[0]))
    return frozenset(reason.removeprefix(LEARNED) for reason in learned)
