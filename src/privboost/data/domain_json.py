"""JSON payload of a domain: read part by part, with all open and wrong places, and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from privboost._core.checks import Hole, check_mapping, read_names, unique_keys
from privboost._core.errors import DomainError
from privboost._core.unit import Unit
from privboost.data.feature_base import faults
from privboost.data.features import Feature, read_feature
from privboost.data.targets import Target, read_target
from privboost.reports.report import PrivacyReport

VERSION = 1


@dataclass
class Parts:
    """The parts of a domain's JSON payload that can be read.

    Attributes
    ----------
    columns : tuple of str
        The named columns: features, the target, the unit.
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
    target, unit = _string_at(form["target"], "name"), _string_at(form.get("unit"), "column")
    event = _string_at(form["target"], "event")
    features = [name for name in form["features"] if isinstance(name, str)]
    parts.wrong += faults(features, target, unit, event)
    roles = dict.fromkeys(features, "a feature") | {target: "the target", unit: "the unit"}
    roles[event] = "the target's event"
    parts.wrong += [
        f"leave_out: {name!r} is {roles[name]} too" for name in left_out or () if name in roles
    ]
    parts.columns = tuple(
        dict.fromkeys(n for n in (*features, target, event, unit) if n is not None)
    )
    return parts


def _string_at(form: Any, key: str) -> str | None:
    """Return a string in a part of the payload, or None."""
    own = form.get(key) if isinstance(form, Mapping) else None
    return own if isinstance(own, str) else None


def read_privacy(form: Any) -> PrivacyReport:
    """Read the privacy report of an inferred domain."""
    message = "privacy: not the report of a learned domain, or altered"
    try:
        return PrivacyReport.from_dict(form)
    except ValueError as error:  # a message of our own
        raise DomainError(f"{message} ({error})") from None
    except (TypeError, KeyError, AttributeError):
        raise DomainError(message) from None


def domain_json(form: Mapping[str, Any]) -> str:
    """Return a domain's payload as JSON text, one feature a line."""
    write = partial(json.dumps, ensure_ascii=False)
    lines = ",\n".join(
        f"    {write(name)}: {write(entry)}" for name, entry in form["features"].items()
    )
    rest = "".join(
        f',\n  "{key}": {write(form[key])}'
        for key in ("target", "unit", "leave_out", "privacy")
        if key in form
    )
    return f'{{\n  "version": {VERSION},\n  "features": {{\n{lines}\n  }}{rest}\n}}\n'


def read_json(source: str | Path) -> Any:
    """Read the payload of a domain, or of a part of one, from a JSON file or a JSON string."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        text, name = source, "the domain"
    else:
        name = str(source)
        try:
            text = Path(source).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise DomainError(f"{name} is not UTF-8 text") from None
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise DomainError(f"{name} is not JSON: {error}") from None
    except DomainError:
        raise
    except RecursionError:
        raise DomainError(f"{name} is nested too deep for a domain") from None
    except ValueError:  # Python reads no whole number of thousands of digits
        raise DomainError(f"{name} holds a number that is too long") from None
