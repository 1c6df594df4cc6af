"""The public part of a domain whose rest is inferred.

It may be a skeleton, in which null stands for what is inferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privboost.errors import DomainError
from privboost.forms import check_mapping, read_names
from privboost.tables.domain import Domain
from privboost.tables.domain_checks import check_scale
from privboost.tables.features import FEATURE_KINDS, OPEN_KIND, Feature, Target
from privboost.unit import Unit, column_of

_KEYS = ("features", "target", "unit", "leave_out")


@dataclass(frozen=True)
class Known:
    """The public part of a domain.

    Attributes
    ----------
    features : dict from name to Feature
        Features that are declared completely.
    kinds : dict
        Column types ("number", "text" or "duration") of features of which only the kind is
        declared.
    target : Target or None
        The target, if it is declared completely.
    task : str or None
        "classes" or "number", if that is all that is declared of the target.
    scale : str
        The scale of a number to predict whose bounds are inferred.
    unit : Unit or None
        The protected unit.
    leave_out : tuple of str
        Columns that are no features.
    """

    features: dict[str, Feature]
    kinds: dict[str, str]
    target: Target | None
    task: str | None
    scale: str
    unit: Unit | None
    leave_out: tuple[str, ...]


def read_known(given: Mapping[str, Any], target: str) -> Known:
    """Read a part of a domain's JSON payload by completing it.

    Parameters
    ----------
    given : mapping
        The part: "features", "target" and "unit" as in a domain, and "leave_out", a list of
        columns. A feature may declare its kind alone.
    target : str
        The target's name.
    """
    given = {key: part for key, part in given.items() if key not in ("version", "privacy")}
    for key in given:
        if key not in _KEYS:
            raise DomainError(f"given: unknown key {key!r} (known: {', '.join(_KEYS)})")
    features = given.get("features") or {}
    kinds: dict[str, str] = {}
    if isinstance(features, Mapping):
        whole, kinds = _sort(features)
        features = whole
    payload: dict[str, Any] = {"version": 1, "features": features or _SPARE}
    declared = given.get("target") or {}
    if not isinstance(declared, Mapping):
        raise DomainError('given: target: a mapping with "classes" or "bounds" is needed')
    if declared.get("name", target) != target:
        raise DomainError(f"given: the target is {declared['name']!r}, not {target!r}")
    task, scale, whole_target = _read_target(declared)
    payload["target"] = {"name": target} | (dict(declared) if whole_target else {"bounds": [0, 1]})
    if given.get("unit"):
        payload["unit"] = given["unit"]
    domain = Domain.from_dict(payload)
    known = {f.name: f for f in domain.features} if features else {}
    left = read_names(given.get("leave_out") or [], "given: leave_out")
    named = {*known, *kinds, target, column_of(domain.unit)}
    for name in left:
        if name in named:
            raise DomainError(f"given: leave_out: {name!r} is given too")
    own = domain.target if whole_target else None
    return Known(known, kinds, own, task, scale, domain.unit, left)


_SPARE = {"a feature": {"kind": "numeric", "bounds": [0, 1]}}


def _sort(features: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Separate complete features from those with a kind alone; drop those without any."""
    whole: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for name, part in features.items():
        declared = _filled(part) if isinstance(part, Mapping) else {}
        kind = declared.get("kind")
        if kind == OPEN_KIND:
            kind = None
            del declared["kind"]
        known = FEATURE_KINDS.get(kind) if isinstance(kind, str) else None
        complete = known is not None and not known.required
        if not isinstance(part, Mapping) or set(declared) - {"kind", "missing"} or complete:
            whole[name] = part
        elif known is not None and known.inferable:
            kinds[name] = known.column_type
        elif known is not None:
            raise DomainError(
                f"features.{name}: bounds of dates, and the order of categories, are not learned: "
                "write them, or leave the column out"
            )
        elif kind is not None or "kind" not in part:
            whole[name] = part  # reading it raises the error
    return whole, kinds


def _read_target(declared: Mapping[str, Any]) -> tuple[str | None, str, bool]:
    """Return a target's task and scale, and whether it is declared completely."""
    filled = _filled(declared)
    left = {key for key in ("classes", "bounds") if key in declared and declared[key] is None}
    if {"classes", "bounds"} & set(filled) or not (left or "scale" in filled):
        return None, "linear", bool(declared)
    check_mapping(
        declared, "given: target", set(), {"name", "classes", "bounds", "scale", "reason"}
    )
    scale = filled.get("scale", "linear")
    check_scale(scale, "target.scale")
    if "scale" in filled or left == {"bounds"}:
        return "number", scale, False
    return ("classes" if left == {"classes"} else None), scale, False


def _filled(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if value is not None}
