"""What is said before a domain is learned, and after: parts that are given, headers, warnings."""

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
from privboost.tables.encoding import Encoder
from privboost.tables.features import ClassTarget, Feature, NumberTarget, Target
from privboost.tables.pieces import Batch
from privboost.tables.times import read_durations
from privboost.tables.unit_names import read_unit_names
from privboost.tables.values import code_labels, column_kind, read_numbers
from privboost.unit import Unit

_READERS = {"number": read_numbers, "duration": read_durations, "text": column_kind}
_ANY_TARGET = NumberTarget("(target)", (0.0, 1.0))


def open_given(name: str, given: Any) -> Mapping[str, Any]:
    """Return a part of a domain's form, however it was given; `name` is the parameter's."""
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
    """Return the name of the target that a part of a domain's form gives, if it does."""
    target = given.get("target")
    name = target.get("name") if isinstance(target, Mapping) else None
    return name if isinstance(name, str) else None


def check_classes(classes: Any, task: str) -> tuple[Label, ...]:
    """Return classes that were given apart from a domain, or refuse them.

    Parameters
    ----------
    classes : sequence
        What the parameter says.
    task : str
        What the target is: "classes" or "number".
    """
    if task != "classes":
        raise ValueError("classes is for classifiers, and the target is a number")
    return check_labels(classes, "classes", MAX_CLASSES, least=2)


def need_same_classes(classes: Sequence[Label], target: ClassTarget) -> None:
    """Refuse classes that are not those of a domain; they match as labels do, in any order."""
    column = np.empty(len(classes), dtype=object)
    column[:] = classes
    places = code_labels(column, target.classes, target.name)
    if sorted(places.tolist()) != list(range(len(target.classes))):
        raise DomainError("classes must be those of the domain; give one of the two")


def with_classes(given: Mapping[str, Any], classes: Sequence[Label] | None) -> Mapping[str, Any]:
    """Return a part of a domain's form with the target's classes, where it leaves them open."""
    said = given.get("target") or {}
    if classes is None or not isinstance(said, Mapping):
        return given
    if said.get("classes") is not None or said.get("bounds") is not None:
        return given
    return {**given, "target": {**said, "classes": list(classes)}}


def check_columns(
    batch: Batch,
    known: Mapping[str, Feature],
    kinds: Mapping[str, str],
    target: Target | None,
    unit: Unit | None,
) -> None:
    """Refuse columns that cannot be what was given of them, by their types: before it costs."""
    for name, kind in kinds.items():
        _READERS[kind](batch[name], name)
    if known:
        Encoder.of(Domain(tuple(known.values()), _ANY_TARGET)).code(batch)
    if target is not None and target.name in batch:
        target.code(batch[target.name])
    if unit is not None:
        read_unit_names(batch[unit.column], unit.column)


def words_without_delta(words: Sequence[str], kinds: Mapping[str, str], target: str) -> str:
    """Say which words must be given under pure DP; a text file's columns are not named."""
    features = [name for name in words if name != target and kinds[name] != "untyped"]
    needed = [f"the categories of {_listed(features)}"] if features else []
    if "untyped" in kinds.values():
        needed.append("the kinds and categories of the text file's columns")
    if target in words:
        needed.append(f"the classes of the target {target!r}")
    return (
        "delta = 0: which words occur in a table can be told only with a delta above 0. Under "
        f"pure DP bounds of numbers are learned, and {' and '.join(needed)} must be given "
        "(domain_given of an estimator, --domain-given, `given` in Domain.learn); or choose a "
        "delta above 0, or write a domain. A column of numbers without a type is said to be "
        '{"kind": "numeric"}'
    )


def nothing_to_learn() -> str:
    """Say that all that could be learned was given."""
    return (
        "given: every column is known, so there is nothing to learn at delta = 0: write it as a "
        "domain, which costs nothing"
    )


def too_few_classes(ledger: Ledger) -> str:
    """Say what a lesson without classes has spent, and what to do."""
    epsilon = ledger.accountant.compose(ledger.spent).epsilon(ledger.delta)
    return (
        "target: at most one class stood out from the noise, so there is nothing to learn to "
        f"tell apart. Learning the domain has spent epsilon = {round_up(epsilon)} at delta = "
        f"{round_up(ledger.delta)}, and training did not begin. Give the classes, which costs "
        "nothing: classes=[0, 1] of an estimator, --classes 0,1, a domain, or `given` in "
        "Domain.learn. Or spend more on learning: a larger epsilon, or domain_share"
    )


def warn_of_objects(names: Sequence[str]) -> None:
    """Warn of columns without a type, if there are any."""
    if names:
        warn(
            f"columns of Python objects have no type and are learned as words: {_listed(names)} "
            "(classes become numbers or truth values if all that stand out can be read so). Where "
            "they hold numbers, give them a type (astype(float)), or say so "
            '(given={"features": {name: {"kind": "numeric"}}} in Domain.learn)',
        )


def warn_of_untyped(there: bool) -> None:
    """Warn that a text file's columns are learned as words, if there are any; none is named."""
    if there:
        warn(
            "the cells of a text file are learned as words, numbers too: say which columns hold "
            'numbers (given={"features": {name: {"kind": "numeric"}}} in Domain.learn), write a '
            "domain, or pass a Parquet file",
        )


def warn_of_silence(names: Sequence[str]) -> None:
    """Warn of columns of which nothing was told, if there are any."""
    if names:
        warn_last(
            f"no value stood out from the noise in {_listed(names)}: a model can learn nothing "
            "from such a column. Give its bounds or categories, leave it out, or spend more",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (" …" if len(names) > 10 else "")
