"""What is public about one column: features with bounds or categories, and the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from privboost.errors import DomainError
from privboost.forms import check_mapping, check_text, read_reason
from privboost.tables.domain_checks import (
    MAX_CATEGORIES,
    MAX_CLASSES,
    Label,
    check_bounds,
    check_edges,
    check_labels,
)

LEARNED = "learned privately from the rows, in lesson "
"""The reason of what was learned begins so and ends with the lesson, whose price it belongs to."""


@dataclass(frozen=True)
class NumericFeature:
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
        place = _check_names(self)
        object.__setattr__(self, "bounds", check_bounds(self.bounds, f"{place}.bounds"))
        if self.scale not in ("linear", "log"):
            raise DomainError(f'{place}.scale: {self.scale!r} is not "linear" or "log"')
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
        return form | _optional(self)


@dataclass(frozen=True)
class CategoricalFeature:
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
        place = f"{_check_names(self)}.categories"
        object.__setattr__(self, "categories", check_labels(self.categories, place, MAX_CATEGORIES))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without what is at its default."""
        return {"kind": self.kind, "categories": list(self.categories)} | _optional(self)


Feature = NumericFeature | CategoricalFeature


@dataclass(frozen=True)
class ClassTarget:
    """A target with a public list of classes, in any order.

    A row with another label contributes nothing.
    """

    name: str
    classes: tuple[Label, ...]
    reason: str = ""

    def __post_init__(self) -> None:
        _check_names(self)
        object.__setattr__(
            self, "classes", check_labels(self.classes, "target.classes", MAX_CLASSES, least=2)
        )

    @property
    def ordered(self) -> tuple[Label, ...]:
        """The classes in the order that models use, which is scikit-learn's: sorted."""
        return tuple(sorted(self.classes))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"name": self.name, "classes": list(self.classes)} | _optional(self)


@dataclass(frozen=True)
class NumberTarget:
    """A number to predict, clipped to public bounds. A row without it contributes nothing."""

    name: str
    bounds: tuple[float, float]
    reason: str = ""

    def __post_init__(self) -> None:
        _check_names(self)
        object.__setattr__(self, "bounds", check_bounds(self.bounds, "target.bounds"))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"name": self.name, "bounds": list(self.bounds)} | _optional(self)


Target = ClassTarget | NumberTarget


def read_feature(name: Any, form: Any) -> Feature:
    """Read the JSON form of a feature; errors name the place."""
    place = f"features.{check_text(name, 'features, the name of one')}"
    if not isinstance(form, Mapping):
        raise DomainError(f"{place}: a mapping is needed")
    kind = form.get("kind")
    common = {"missing", "reason"}
    if kind == "numeric":
        form = check_mapping(form, place, {"kind", "bounds"}, {"scale", "edges"} | common)
    elif kind == "categorical":
        form = check_mapping(form, place, {"kind", "categories"}, common)
    else:
        said = "is missing; it is" if kind is None else f"{kind!r} is not"
        raise DomainError(f'{place}.kind: {said} "numeric" or "categorical"')
    missing = form.get("missing", False)
    if not isinstance(missing, bool):
        raise DomainError(f"{place}.missing: true or false is needed")
    reason = read_reason(form, place)
    if kind == "categorical":
        return CategoricalFeature(name, form["categories"], missing, reason)
    scale = form.get("scale", "linear")
    return NumericFeature(name, form["bounds"], scale, form.get("edges"), missing, reason)


def read_target(form: Any) -> Target:
    """Read the JSON form of a target; errors name the place."""
    form = check_mapping(form, "target", {"name"}, {"classes", "bounds", "reason"})
    name = check_text(form["name"], "target.name")
    if ("classes" in form) == ("bounds" in form):
        raise DomainError(
            'target: give "classes" (to classify) or "bounds" (a number), one of them'
        )
    if "classes" in form:
        return ClassTarget(name, form["classes"], read_reason(form, "target"))
    return NumberTarget(name, form["bounds"], read_reason(form, "target"))


def describe_target(target: Target) -> str:
    """Say in words what a target may be; labels that are no class count for nothing."""
    if isinstance(target, NumberTarget):
        low, high = target.bounds
        return f"numbers from {low:g} to {high:g}; others count as the nearer of the two"
    few = ", ".join(map(str, target.classes[:20])) + (" …" if len(target.classes) > 20 else "")
    return f"the classes {few}; rows of others do not count"


def lessons_of(parts: Iterable[Feature | Target]) -> frozenset[str]:
    """Return the lessons in which parts of a domain were learned."""
    learned = (part.reason for part in parts if part.reason.startswith(LEARNED.split(",")[0]))
    return frozenset(reason.removeprefix(LEARNED) for reason in learned)


def _optional(part: Any) -> dict[str, Any]:
    form: dict[str, Any] = {}
    if getattr(part, "missing", False):
        form["missing"] = True
    if part.reason:
        form["reason"] = part.reason
    return form


def _check_names(part: Feature | Target) -> str:
    """Check the texts of a feature or the target; return its place in the form."""
    if isinstance(part, ClassTarget | NumberTarget):
        place = "target"
        check_text(part.name, "target.name")
    else:
        place = f"features.{check_text(part.name, 'features, the name of one')}"
    check_text(part.reason, f"{place}.reason", empty=True)
    return place
