"""JSON payload of a domain: read part by part, with all open and wrong places, and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from privboost.errors import DomainError
from privboost.forms import Hole, check_mapping, given_twice, read_names
from privboost.reports.report import PrivacyReport
from privboost.tables.features import Feature, Target, read_feature, read_target
from privboost.unit import Unit

VERSION = 1


@dataclass
class Parts:
    """The parts of a domain's JSON payload that can be read.

    Attributes
    ----------
    columns : tuple of str
        The named columns: features, the target, the unit.
    features : tuple of features
        The features that can be read.
    target, unit, privacy
        The other parts, or None.
    holes : list of Hole
        Places to be filled in.
    wrong : list of str
        One message for each wrong place.
    """

    columns: tuple[str, ...] = ()
    features: tuple[Feature, ...] = ()
    target: Target | None = None
    unit: Unit | None = None
    privacy: PrivacyReport | None = None
    holes: list[Hole] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def take(self, read: Callable[..., Any], *form: Any) -> Any:
        """Read a part, or record why it cannot be read."""
        try:
            return read(*form)
        except Hole as hole:
            self.holes.append(hole)
        except DomainError as error:
            self.wrong.append(str(error))
        return None


def read_parts(form: Mapping[str, Any]) -> Parts:
    """Read a domain's JSON payload, and record all places that are open or wrong."""
    allowed = {"unit", "privacy", "leave_out"}
    form = check_mapping(form, "domain", {"version", "features", "target"}, allowed)
    if form["version"] != VERSION:
        raise DomainError(f"version: {form['version']!r} is not {VERSION}")
    if not isinstance(form["features"], Mapping):
        raise DomainError("features: a mapping from column name to feature is needed")
    parts = Parts()
    read = [parts.take(read_feature, *entry) for entry in form["features"].items()]
    parts.features = tuple(feature for feature in read if feature is not None)
    left_out = parts.take(read_names, form.get("leave_out", ()), "leave_out")
    parts.target = parts.take(read_target, form["target"])
    if form.get("unit") is not None:
        parts.unit = parts.take(Unit.from_dict, form["unit"])
    if form.get("privacy") is not None:
        parts.privacy = parts.take(read_privacy, form["privacy"])
    target, unit = _text(form["target"], "name"), _text(form.get("unit"), "column")
    features = [name for name in form["features"] if isinstance(name, str)]
    parts.wrong += faults(features, target, unit)
    parts.wrong += _kept(left_out or (), features, target, unit)
    parts.columns = tuple(dict.fromkeys(n for n in (*features, target, unit) if n is not None))
    return parts


def faults(features: Sequence[str], target: str | None, unit: str | None) -> Iterator[str]:
    """Yield what is wrong with the columns: no features, or a column with two roles."""
    if not features:
        yield "features: at least one feature is needed"
    twice = given_twice(features)
    if twice is not None:
        yield f"features.{twice}: declared twice"
    if target is not None and target in features:
        yield f"target.name: {target!r} is a feature too"
    if unit is not None and unit in (*features, target):
        yield f"unit.column: {unit!r} is a feature or the target too"


def _kept(
    left_out: Sequence[str], features: Sequence[str], target: str | None, unit: str | None
) -> Iterator[str]:
    """Yield what is wrong with columns that are left out: a role as well."""
    roles = dict.fromkeys(features, "a feature") | {target: "the target", unit: "the unit"}
    for name in left_out:
        if name in roles:
            yield f"leave_out: {name!r} is {roles[name]} too"


def _text(form: Any, key: str) -> str | None:
    """Return a string in a part of the payload, or None."""
    own = form.get(key) if isinstance(form, Mapping) else None
    return own if isinstance(own, str) else None


def read_privacy(form: Any) -> PrivacyReport:
    """Read the privacy report of an inferred domain."""
    try:
        return PrivacyReport.from_dict(form)
    except ValueError as error:  # a message of our own
        raise DomainError(
            f"privacy: not the report of a learned domain, or altered ({error})"
        ) from None
    except (TypeError, KeyError, AttributeError):
        raise DomainError("privacy: not the report of a learned domain, or altered") from None


def form_text(form: Mapping[str, Any]) -> str:
    """Return a domain's payload as JSON text, one feature a line."""
    lines = ",\n".join(
        f"    {_line(name)}: {_line(entry)}" for name, entry in form["features"].items()
    )
    rest = "".join(
        f',\n  "{key}": {_line(form[key])}'
        for key in ("target", "unit", "leave_out", "privacy")
        if key in form
    )
    return f'{{\n  "version": {VERSION},\n  "features": {{\n{lines}\n  }}{rest}\n}}\n'


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
