"""`model_card`: a document about a model, its privacy report and its evaluations."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from privboost._core.checks import is_writable, listed
from privboost._core.errors import BudgetError
from privboost.data.domain import Domain
from privboost.data.targets import ClassTarget, SurvivalTarget
from privboost.estimators.base import PrivateEstimator
from privboost.evaluation.plan import digest_of
from privboost.evaluation.result import NO_ROWS, Evaluation, Measures
from privboost.models.model import Model, model_bytes, read_model
from privboost.reports.document import Block, BulletList, Document, Section, Table, Text, Tone
from privboost.reports.report import PrivacyReport, write_text
from privboost.reports.sections import (
    assumption_section,
    detail_sections,
    format_value,
    guarantee_section,
    provenance_section,
    release_section,
)

_MAX_VALUES = 8
"""Categories or edges that are written out."""


@dataclass(frozen=True)
class ModelCard:
    """A model card that can be written as HTML or Markdown; see `model_card`.

    Attributes
    ----------
    document : Document
        Content of the card.
    """

    document: Document

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the card as one HTML file without external resources; write it to `path`."""
        return write_text(self.document.to_html(), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the card as Markdown; write it to `path`."""
        return write_text(self.document.to_markdown(), path)

    def __str__(self) -> str:
        return self.to_markdown()

    def __repr__(self) -> str:
        return f"ModelCard({self.document.title!r})"


def model_card(
    model: Any,
    *,
    name: str = "",
    evaluations: Sequence[Evaluation] = (),
    rendered: date | None = None,
) -> ModelCard:
    """Return the model card of a model: its guarantee, content, provenance and quality.

    Parameters
    ----------
    model : fitted estimator, Model, or path of a model file
        The model. The card names the SHA-256 of the file; for an estimator or a Model, that of the
        file that `save` would write.
    name : str
        Name of the model.
    evaluations : sequence of Evaluation
        Results of `evaluate`, shown with their privacy cost; `Evaluation.from_json` reads a file.
    rendered : date, optional
        Date on the card; today by default. Models carry none.

    Returns
    -------
    ModelCard
        With `to_html` and `to_markdown`.

    Raises
    ------
    ValueError
        If an evaluation names the hash of another model.

    Privacy
    -------
    Costs nothing: the card shows released values and public facts alone, all of which are in the
    model's file and in the evaluations.

    Examples
    --------
    >>> from privboost import PrivBoostClassifier, model_card
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = PrivBoostClassifier(epsilon=1.0, delta=1e-6, domain=adult.domain).fit(adult.train)
    >>> card = model_card(clf, name="Income")
    >>> "is right at most 54.8 times in 100" in card.to_markdown()
    True
    """
    if not is_writable(name):
        raise ValueError("name must be a text without control characters")
    evaluations = tuple(evaluations)
    if not all(isinstance(each, Evaluation) for each in evaluations):
        raise TypeError("evaluations must be a list of Evaluation, as `evaluate` returns them")
    own, digest = _read(model)
    for each in evaluations:
        if each.privacy.parameters.get("model") not in (digest, digest_of(own)):
            raise ValueError(
                f"evaluations: that of {each.target} names the hash of another model; evaluate the "
                "one that the card is about"
            )
    report = own.privacy
    sections = (
        guarantee_section(report),
        model_section(own, name),
        finding_section(own),
        evaluation_section(report, evaluations),
        *detail_sections(report),
        release_section(report),
        assumption_section(report),
        domain_section(own.domain, report),
        provenance_section(report, digest, rendered or date.today()),
    )
    title = name or f"A model of {own.domain.target.name}"
    return ModelCard(Document(title, f"Model card: {report.guarantee}", sections))


def _read(model: Any) -> tuple[Model, str]:
    """Return a model and the SHA-256 of its file."""
    if isinstance(model, str | Path):
        content = Path(model).read_bytes()
        own = read_model(content, str(model))
    elif isinstance(model, PrivateEstimator | Model):
        own = model._fitted() if isinstance(model, PrivateEstimator) else model
        content = model_bytes(own)
    else:
        raise TypeError(
            "model must be a fitted estimator of privboost, a Model, or the path of a model file; "
            f"a {type(model).__name__} is neither"
        )
    return own, hashlib.sha256(content).hexdigest()


def model_section(model: Model, name: str) -> Section:
    """Return recipe, target and kind of the model."""
    target = model.domain.target
    task = {"classes": "classes", "number": "a number", "survival": "survival times"}[target.task]
    facts = [
        ("Name", name or "none"),
        ("Recipe", model.privacy.what or "not in this file"),
        ("Predicts", f"{target.name} ({task})"),
        ("Kind of scores", model.scores.kind),
        ("Features", str(len(model.domain.features))),
    ]
    if isinstance(target, SurvivalTarget):
        facts.append(("Scale s of log times around their median", f"{model.scale_:.4g}"))
    return Section("Model", (Table("Model", tuple(facts)),))


def finding_section(model: Model) -> Section:
    """Return the model's findings."""
    found = tuple(each.text for each in model.findings())
    return Section("Findings", (BulletList(found) if found else Text("None."),))


def evaluation_section(training: PrivacyReport, evaluations: Sequence[Evaluation]) -> Section:
    """Return evaluations with their privacy cost."""
    if not evaluations:
        return Section("Evaluations", (Text("None on this card."),))
    blocks: list[Block] = []
    for number, evaluation in enumerate(evaluations, 1):
        which = f"Evaluation {number}" if len(evaluations) > 1 else "Evaluation"
        title = f"{which} of {evaluation.target}"
        if evaluation.privacy.seeded or evaluation.privacy.public_rows:
            blocks.append(Text(f"{title}: {evaluation.privacy.guarantee}.", Tone.warning))
        blocks.append(_cost_table(title, training, evaluation.privacy))
        blocks += _measure_blocks(title, evaluation)
    return Section("Evaluations", tuple(blocks))


def _cost_table(title: str, training: PrivacyReport, spent: PrivacyReport) -> Table:
    try:
        together = (training + spent).guarantee
    except BudgetError as error:
        together = f"n/a: {error}"
    facts = (
        ("Guarantee", spent.guarantee),
        ("Protected unit", spent.protects),
        ("Neighbours", spent.relation),
        ("With training, if on the same rows", together),
        ("SHA-256 of its plan", spent.plan),
    )
    return Table(f"{title}: privacy cost", facts)


def _measure_blocks(title: str, evaluation: Evaluation) -> list[Block]:
    whole = evaluation.measures
    rows = [(evaluation.label(name), whole.text(name) or NO_ROWS) for name in whole.values]
    blocks: list[Block] = [
        Table(f"{title}: all rows", tuple(rows), ("Measure", "Value ± standard error"))
    ]
    if evaluation.groups:
        groups = [
            (f"{g.feature}: {g.value}", _group_text(evaluation, g.measures))
            for g in evaluation.groups
        ]
        columns = ("Group", "Values ± standard errors")
        blocks.append(Table(f"{title}: by group", tuple(groups), columns))
    if evaluation.note:
        blocks.append(Text(f"{title}: {evaluation.note}."))
    if evaluation.reliability:
        bins = [
            (f"{b.of}: {b.low:.3g} to {b.high:.3g}", f"{b.predicted:.3g}", str(b.observed))
            for b in evaluation.reliability
        ]
        head = ("Predicted probabilities of", "Mean predicted probability", "Observed rate")
        blocks.append(Table(f"{title}: reliability", tuple(bins), head, frozenset({1, 2})))
    if evaluation.calibration:
        tenths = [
            (f"{t.low:.6g} to {t.high:.6g}", f"{t.predicted:.6g}", str(t.observed), str(t.residual))
            if t.known
            else (f"{t.low:.6g} to {t.high:.6g}", f"{t.predicted:.6g}", NO_ROWS, "")
            for t in evaluation.calibration
        ]
        names = ("Predictions", "Mean prediction", "Mean label", "Mean residual")
        title = f"{title}: calibration by tenths of the prediction"
        blocks.append(Table(title, tuple(tenths), names, frozenset({1, 2, 3})))
    return blocks


def _group_text(evaluation: Evaluation, measures: Measures) -> str:
    names = [name for name in measures.values if measures.text(name)]
    found = [f"{evaluation.label(name)} {measures[name]}" for name in names]
    return "; ".join(found if measures.known else [*found, NO_ROWS])


def domain_section(domain: Domain, report: PrivacyReport) -> Section:
    """Return the public facts about the table, and its protected unit."""
    target = domain.target
    if isinstance(target, ClassTarget):
        public = f"classes {_shortened(target.classes)}"
    else:
        public = f"from {format_value(target.bounds[0])} to {format_value(target.bounds[1])}"
        public += "; scale log" if target.scale == "log" else ""
    rows = [(f"{target.name} (target)", public, target.reason or "no reason")]
    rows += [
        (each.name, _public_facts(each), each.reason or "no reason") for each in domain.features
    ]
    if target.event_column is not None:
        rows.append((f"{target.event_column} (event)", "false, true", target.reason or "no reason"))
    facts = [("Protected unit", report.protects)]
    if domain.privacy is not None:
        facts.append(("Private domain inference", domain.privacy.guarantee))
    return Section(
        "Public facts about the table",
        (
            Table("Table", tuple(facts)),
            Table("Columns", tuple(rows), ("Column", "Public", "Reason")),
        ),
    )


def _public_facts(feature: Any) -> str:
    """Format the entries of a feature's dict, whatever its kind."""
    form = feature.to_dict()
    facts = [form.pop("kind")]
    form.pop("reason", None)
    for name, value in form.items():
        if name == "bounds":
            facts.append(f"from {format_value(value[0])} to {format_value(value[1])}")
        elif isinstance(value, list):
            facts.append(f"{name} {_shortened(value)}")
        else:
            facts.append("may be missing" if name == "missing" else f"{name} {format_value(value)}")
    return "; ".join(facts)


def _shortened(values: Sequence[Any]) -> str:
    text = listed(map(format_value, values[:_MAX_VALUES]))
    more = len(values) - _MAX_VALUES
    return f"{text} and {more} more" if more > 0 else text
