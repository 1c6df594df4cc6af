"""`model_card`: a model, its report and its evaluations, for people to read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from privboost.cards.blocks import Page
from privboost.cards.html import to_html
from privboost.cards.markdown import to_markdown
from privboost.cards.prices import evaluation_section
from privboost.cards.promise import promise_section, statement_sections
from privboost.cards.spending import assumption_section, spending_section
from privboost.cards.subject import (
    domain_section,
    finding_section,
    making_section,
    model_section,
)
from privboost.estimators.base import PrivateEstimator
from privboost.evaluation.plan import digest_of
from privboost.evaluation.result import Evaluation
from privboost.files import write_file
from privboost.forms import is_writable
from privboost.models.files import model_bytes, read_model
from privboost.models.model import Model
from privboost.reports.report import PrivacyReport


@dataclass(frozen=True)
class ModelCard:
    """A card, to be written as HTML or Markdown; `model_card` makes one.

    Attributes
    ----------
    page : Page
        What it shows.
    """

    page: Page

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the card as one HTML file without external resources, written to `path` if any."""
        return _written(to_html(self.page), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the card as Markdown, and write it to `path` if one is given."""
        return _written(to_markdown(self.page), path)

    def __str__(self) -> str:
        return self.to_markdown()

    def __repr__(self) -> str:
        return f"ModelCard({self.page.title!r})"


def model_card(
    model: Any,
    *,
    name: str = "",
    evaluations: Sequence[Evaluation] = (),
    rendered: date | None = None,
) -> ModelCard:
    """Show what a model promises, what it is, how it was made and how good it is.

    Parameters
    ----------
    model : fitted estimator, Model, or path of a model file
        What the card is about. Of a file the card names the hash of its bytes; else of those that
        `save` would write.
    name : str
        What people call the model.
    evaluations : sequence of Evaluation
        What `evaluate` found, with what it cost; `Evaluation.from_json` reads a file.
    rendered : date, optional
        The day on the card; today by default. No model knows when it was made.

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
    Costs nothing: it shows released values and public facts alone, all of which are in the model's
    file and in the evaluations.

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
        promise_section(report),
        model_section(own, name),
        finding_section(own),
        evaluation_section(report, evaluations),
        *statement_sections(report),
        spending_section(report),
        assumption_section(report),
        domain_section(own.domain, report),
        making_section(report, digest, rendered or date.today()),
    )
    title = name or f"A model of {own.domain.target.name}"
    return ModelCard(Page(title, f"Model card: {report.guarantee}", sections))


def report_card(report: PrivacyReport) -> ModelCard:
    """Show a report by itself: of a domain, an evaluation, a search, or several runs."""
    sections = (
        promise_section(report),
        *statement_sections(report),
        spending_section(report),
        assumption_section(report),
        making_section(report, "", date.today()),
    )
    about = f" of {report.what}" if report.what else ""
    return ModelCard(Page(f"Privacy report{about}", report.guarantee, sections))


def _read(model: Any) -> tuple[Model, str]:
    """Return a model, and SHA-256 of its file."""
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


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_file(path, text.encode())
    return text
