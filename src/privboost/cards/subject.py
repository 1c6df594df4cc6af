"""What a card is about: the model, what is public about its table, and how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from privboost import __version__
from privboost.cards.blocks import Listing, Section, Table, Text
from privboost.forms import listed
from privboost.models.model import Model
from privboost.reports.report import PrivacyReport
from privboost.tables.domain import Domain
from privboost.tables.features import ClassTarget

_LISTED = 8
"""So many categories or edges are written out."""


def model_section(model: Model, name: str) -> Section:
    """Return what the model is."""
    target = model.domain.target
    task = "classes" if isinstance(target, ClassTarget) else "a number"
    facts = [
        ("Name", name or "none given"),
        ("Recipe", model.privacy.what or "not told by this file"),
        ("Predicts", f"{target.name} ({task})"),
        ("Kind of scores", model.scores.kind),
        ("Features", str(len(model.domain.features))),
    ]
    return Section("The model", (Table("What it is", tuple(facts)),))


def finding_section(model: Model) -> Section:
    """Return what is worth a look, as far as the model's file tells."""
    found = tuple(each.text for each in model.findings())
    return Section(
        "What to look at", (Listing(found) if found else Text("Nothing that its file tells of."),)
    )


def domain_section(domain: Domain, report: PrivacyReport) -> Section:
    """Return what was taken to be public about the table, and who of it is protected."""
    target = domain.target
    if isinstance(target, ClassTarget):
        public = f"classes {_some(target.classes)}"
    else:
        public = f"from {_plain(target.bounds[0])} to {_plain(target.bounds[1])}"
        public += "; scale log" if target.scale == "log" else ""
    rows = [(f"{target.name} (target)", public, target.reason or "not said")]
    rows += [(each.name, _public(each), each.reason or "not said") for each in domain.features]
    facts = [("Protected unit", report.protects)]
    if domain.privacy is not None:
        facts.append(("Learned at", domain.privacy.guarantee))
    return Section(
        "What is public about the table",
        (
            Table("The table", tuple(facts)),
            Table("Columns", tuple(rows), ("Column", "Public", "Known from")),
        ),
    )


def making_section(report: PrivacyReport, digest: str, rendered: date) -> Section:
    """Return parameters, hashes and versions.

    Parameters
    ----------
    report : PrivacyReport
        What training left.
    digest : str
        SHA-256 of the model's file; empty where there is no model.
    rendered : date
        The day of the card, which no model knows.
    """
    facts = [
        ("Trained with" if digest else "Made with", report.software),
        ("Shown by", f"privboost {__version__}, on {rendered.isoformat()}"),
        ("SHA-256 of the plan", report.plan),
    ]
    if digest:
        facts.append(("SHA-256 of the model file", digest))
    blocks = [Table("Versions and hashes", tuple(facts))]
    if report.parameters:
        rows = tuple((name, _plain(value)) for name, value in report.parameters.items())
        blocks.append(Table("Parameters", rows, ("Parameter", "Value")))
    return Section("How it was made", tuple(blocks))


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _public(feature: Any) -> str:
    """Say what a feature's form says, whatever kind it is."""
    form = feature.to_dict()
    said = [form.pop("kind")]
    form.pop("reason", None)
    for name, value in form.items():
        if name == "bounds":
            said.append(f"from {_plain(value[0])} to {_plain(value[1])}")
        elif isinstance(value, list):
            said.append(f"{name} {_some(value)}")
        else:
            said.append("may be missing" if name == "missing" else f"{name} {_plain(value)}")
    return "; ".join(said)


def _some(values: Sequence[Any]) -> str:
    told = listed(map(_plain, values[:_LISTED]))
    more = len(values) - _LISTED
    return f"{told} and {more} more" if more > 0 else told
