"""Arguments of private domain inference, and its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privboost.boosting.checks import check_path
from privboost.cautions import warn, warn_last
from privboost.errors import DomainError
from privboost.privacy.ledger import Ledger
from privboost.reports.report import round_up
from privboost.tables.domain import Domain, read_json
from privboost.tables.domain_checks import MAX_CLASSES, Label, check_labels
from privboost.tables.features import ClassTarget, Feature, Target
from privboost.tables.pieces import Batch
from privboost.tables.times import read_durations
from privboost.tables.unit_names import read_unit_names
from privboost.tables.values import code_labels, column_kind, read_numbers
from privboost.unit import Unit

NOTHING_TO_INFER = (
    "given: every column is known, so there is nothing to learn at delta = 0: write it as a "
    "domain, which costs nothing"
)
_READERS = {"number": read_numbers, "duration": read_durations, "text": column_kind}


def open_given(name: str, given: Any) -> Mapping[str, Any]:
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


def named_target(given: Mapping[str, Any]) -> str | None:
    """Return the name of the target in a part of a domain's JSON payload, or None."""
    target = given.get("target")
    name = target.get("name") if isinstance(target, Mapping) else None
    return name if isinstance(name, str) else None


def check_classes(classes: Any, task: str) -> tuple[Label, ...]:
    """Check the parameter `classes`, which declares classes without a domain.

    Parameters
    ----------
    classes : sequence
        The parameter.
    task : str
        What the target is: "classes" or "number".
    """
    if task != "classes":
        raise ValueError("classes is for classifiers, and the target is a number")
    return check_labels(classes, "classes", MAX_CLASSES, least=2)


def need_same_classes(classes: Sequence[Label], target: ClassTarget) -> None:
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
    if target is not None and target.name in batch:
        target.code(batch[target.name])
    if unit is not None:
        read_unit_names(batch[unit.column], unit.column)


def words_without_delta(strings: Sequence[str], kinds: Mapping[str, str], target: str) -> str:
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


def warn_of_silence(names: Sequence[str]) -> None:
    """Warn of columns of which nothing exceeded the noise, if there are any."""
    if names:
        warn_last(
            f"no value stood out from the noise in {_listed(names)}: a model can learn nothing "
            "from such a column. Give its bounds or categories, leave it out, or spend more",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (" …" if len(names) > 10 else "")
