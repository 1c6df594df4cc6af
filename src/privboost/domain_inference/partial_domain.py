"""The public part of a domain whose rest is inferred, and messages about what is not declared.

The part may be a skeleton, in which null stands for what is inferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privboost._core.checks import check_mapping, check_path, read_names
from privboost._core.errors import DomainError
from privboost._core.grid import WEIGHT_STEPS
from privboost._core.unit import UNITS, Unit, column_of
from privboost._core.warnings import warn, warn_after_spending
from privboost.accounting.formulas import round_up
from privboost.accounting.ledger import Ledger
from privboost.data.domain import Domain
from privboost.data.domain_json import read_json
from privboost.data.feature_base import MAX_CLASSES, check_labels, check_scale
from privboost.data.features import FEATURE_KINDS, OPEN_KIND, Feature
from privboost.data.table import Batch
from privboost.data.targets import TASKS_IN_WORDS, ClassTarget, Target
from privboost.data.times import read_durations
from privboost.data.unit_names import read_unit_names
from privboost.data.values import Label, code_labels, column_kind, read_numbers

_KEYS = ("features", "target", "unit", "leave_out")


@dataclass(frozen=True)
class PartialDomain:
    """The public part of a domain.

    Attributes
    ----------
    features, target
        What is declared completely.
    kinds : dict
        Column types ("number", "text" or "duration") of features of which only the kind is
        declared.
    task : str or None
        "classes" or "number", if that is all that is declared of the target.
    scale : str
        The scale of a number to predict whose bounds are inferred.
    leave_out : tuple of str
        Columns that are no features.
    unit_is_open : bool
        Whether `max_rows` of the unit is inferred; `unit` then has the largest there is.
    """

    features: dict[str, Feature]
    kinds: dict[str, str]
    target: Target | None
    task: str | None
    scale: str
    unit: Unit | None
    leave_out: tuple[str, ...]
    unit_is_open: bool = False


def read_partial_domain(given: Mapping[str, Any], target: str) -> PartialDomain:
    """Read a part of a domain's JSON payload by completing it; see `given` of `Domain.learn`."""
    given = {key: part for key, part in given.items() if key not in ("version", "privacy")}
    for key in given:
        if key not in _KEYS:
            raise DomainError(f"given: unknown key {key!r} (known: {', '.join(_KEYS)})")
    features = given.get("features") or {}
    kinds: dict[str, str] = {}
    if isinstance(features, Mapping):
        features, kinds = _sort(features)
    payload: dict[str, Any] = {"version": 1, "features": features or _SPARE}
    declared = given.get("target") or {}
    if not isinstance(declared, Mapping):
        raise DomainError('given: target: a mapping with "classes" or "bounds" is needed')
    if declared.get("name", target) != target:
        raise DomainError(f"given: the target is {declared['name']!r}, not {target!r}")
    task, scale, whole_target = _read_target(declared)
    payload["target"] = {"name": target} | (dict(declared) if whole_target else {"bounds": [0, 1]})
    unit_is_open = False
    if given.get("unit"):
        payload["unit"], unit_is_open = _read_unit(given["unit"])
    domain = Domain.from_dict(payload)
    known = {f.name: f for f in domain.features} if features else {}
    left = read_names(given.get("leave_out") or [], "given: leave_out")
    named = {*known, *kinds, target, column_of(domain.unit)}
    for name in left:
        if name in named:
            raise DomainError(f"given: leave_out: {name!r} is given too")
    own = domain.target if whole_target else None
    return PartialDomain(known, kinds, own, task, scale, domain.unit, left, unit_is_open)


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


def _read_unit(declared: Any) -> tuple[Any, bool]:
    """Return a unit to read, and whether its `max_rows` is left open."""
    if not isinstance(declared, Mapping) or declared.get("max_rows", 0) is not None:
        return declared, False
    if declared.get("weighting") != UNITS:
        raise DomainError(
            'given: unit.max_rows is learned where "weighting" is "units". Where rows weigh one, '
            "noise grows in proportion to it, and more than 1 brings more noise than rows: give it"
        )
    return {**declared, "max_rows": WEIGHT_STEPS}, True


def _read_target(declared: Mapping[str, Any]) -> tuple[str | None, str, bool]:
    """Return a target's task and scale, and whether it is declared completely."""
    filled = _filled(declared)
    if "event" in filled and "bounds" not in filled:
        raise DomainError(
            "given: target.bounds: those of times until an event are not inferred; give them, from "
            "public knowledge"
        )
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


NOTHING_TO_INFER = (
    "given: every column is known, so there is nothing to learn at delta = 0: write it as a "
    "domain, which costs nothing"
)
_READERS = {"number": read_numbers, "duration": read_durations, "text": column_kind}


def load_partial_domain(name: str, given: Any) -> Mapping[str, Any]:
    """Return a part of a domain's JSON payload, from a mapping, a Domain or a path."""
    if given is None:
        return {}
    if isinstance(given, Domain):
        return given.to_dict()
    if isinstance(given, str | Path):
        check_path(name, given)
        given = read_json(given)
    if not isinstance(given, Mapping):
        raise TypeError(
            f'{name} must be a mapping with "features", "target", "unit" or "leave_out", the path '
            "of a JSON file that holds one, or None"
        )
    return given


def target_name_of(given: Mapping[str, Any]) -> str | None:
    """Return the name of the target in a part of a domain's JSON payload, or None."""
    target = given.get("target")
    name = target.get("name") if isinstance(target, Mapping) else None
    return name if isinstance(name, str) else None


def check_classes(classes: Any, task: str) -> tuple[Label, ...]:
    """Check the parameter `classes`, which declares classes without a domain."""
    if task != "classes":
        raise ValueError(f"classes is for classifiers, and the target is {TASKS_IN_WORDS[task]}")
    return check_labels(classes, "classes", MAX_CLASSES, least=2)


def check_same_classes(classes: Sequence[Label], target: ClassTarget) -> None:
    """Raise DomainError unless classes are those of a domain, in any order."""
    column = np.empty(len(classes), dtype=object)
    column[:] = classes
    places = code_labels(column, target.classes, target.name)
    if sorted(places.tolist()) != list(range(len(target.classes))):
        raise DomainError("classes must be those of the domain; give one of the two")


def with_classes(given: Mapping[str, Any], classes: Sequence[Label] | None) -> Mapping[str, Any]:
    """Return a part of a domain's JSON payload with classes added, if its target has none."""
    declared = given.get("target") or {}
    if classes is None or not isinstance(declared, Mapping):
        return given
    if declared.get("classes") is not None or declared.get("bounds") is not None:
        return given
    return {**given, "target": {**declared, "classes": list(classes)}}


def check_columns(
    batch: Batch,
    known: Mapping[str, Feature],
    kinds: Mapping[str, str],
    target: Target | None,
    unit: Unit | None,
) -> None:
    """Raise SchemaError if a column's type contradicts its declaration; nothing is spent."""
    for name, kind in kinds.items():
        _READERS[kind](batch[name], name)
    for feature in known.values():
        feature.read(batch[feature.name])
    for name, read in ({} if target is None else target.readers).items():
        if name in batch:
            read(batch[name])
    if unit is not None:
        read_unit_names(batch[unit.column], unit.column)


def categories_without_delta(strings: Sequence[str], kinds: Mapping[str, str], target: str) -> str:
    """Return the error for categories that are not given under pure DP; no text column is named."""
    features = [name for name in strings if name != target and kinds[name] != "untyped"]
    needed = [f"the categories of {_listed(features)}"] if features else []
    if "untyped" in kinds.values():
        needed.append("the kinds and categories of the text file's columns")
    if target in strings:
        needed.append(f"the classes of the target {target!r}")
    return (
        "delta = 0: categories that occur in a table can be released only with a delta above 0. "
        f"Under pure DP bounds of numbers are learned, and {' and '.join(needed)} must be given "
        "(domain_given of an estimator, --domain-given, `given` in Domain.learn); or choose a "
        "delta above 0, or write a domain. Declare a column of numbers without a type as "
        '{"kind": "numeric"}'
    )


def too_few_classes(ledger: Ledger) -> str:
    """Return the error for an inference that found fewer than two classes, with its cost."""
    epsilon = ledger.accountant.compose(ledger.spent).epsilon(ledger.delta)
    return (
        "target: at most one class stood out from the noise, so there is nothing to learn to "
        f"tell apart. Learning the domain has spent epsilon = {round_up(epsilon)} at delta = "
        f"{round_up(ledger.delta)}, and training did not begin. Give the classes, which costs "
        "nothing: classes=[0, 1] of an estimator, --classes 0,1, a domain, or `given` in "
        "Domain.learn. Or spend more on learning: a larger epsilon, or domain_share"
    )


def warn_of_objects(names: Sequence[str]) -> None:
    """Warn of columns of Python objects, if there are any."""
    if names:
        warn(
            f"columns of Python objects have no type and are learned as strings: {_listed(names)} "
            "(classes become numbers or booleans if all that stand out can be read so). Where "
            "they hold numbers, give them a type (astype(float)), or declare them "
            '(given={"features": {name: {"kind": "numeric"}}} in Domain.learn)',
        )


def warn_of_untyped(there: bool) -> None:
    """Warn that columns of a text file are inferred as strings, if there are any; none is named."""
    if there:
        warn(
            "the cells of a text file are learned as strings, numbers too: say which columns hold "
            'numbers (given={"features": {name: {"kind": "numeric"}}} in Domain.learn), write a '
            "domain, or pass a Parquet file",
        )


def warn_of_empty_columns(names: Sequence[str]) -> None:
    """Warn of columns of which nothing exceeded the noise, if there are any."""
    if names:
        warn_after_spending(
            f"no value stood out from the noise in {_listed(names)}: a model can learn nothing "
            "from such a column. Give its bounds or categories, leave it out, or spend more",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (" …" if len(names) > 10 else "")
