"""`Sweep`: models trained at several ε, compared as text, plot and file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from statistics import fmean
from typing import Any

from privboost._core.checks import is_number, is_writable
from privboost._core.errors import BudgetError
from privboost.accounting.formulas import round_up
from privboost.evaluation.evaluate import model_of
from privboost.evaluation.plan import digest_of
from privboost.evaluation.result import Evaluation
from privboost.explanations.plots import draw_privacy_utility
from privboost.reports.report import PrivacyReport, write_text

_VERSION = 1
_MAIN = ("auc", "accuracy", "rmse")
"""Default measure: the first of these that exists."""


@dataclass(frozen=True)
class Point:
    """A model of a sweep.

    Attributes
    ----------
    training : PrivacyReport
        Report of its training.
    evaluation : Evaluation
        Its evaluation, on private rows at a price, or on public ones.
    """

    training: PrivacyReport
    evaluation: Evaluation


class Sweep:
    """Utility against ε: models trained at several ε, with their evaluations.

    Attributes
    ----------
    points : tuple of Point
        The models, by increasing ε. A model trained on rows declared public has an infinite ε,
        and is drawn as a line.
    references : mapping from str to mapping
        Values to compare the models with: measures by name.

    Privacy
    -------
    It computes nothing from rows, and may be shown to anybody who may see all of its models.
    `to_text` adds up their costs; a model that is left out of a sweep was paid for all the same.

    Examples
    --------
    >>> from privboost import PrivBoostClassifier, Sweep, evaluate
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> sweep = Sweep()
    >>> for epsilon in (0.5, 1.0):
    ...     clf = PrivBoostClassifier(epsilon, 1e-6, adult.domain, n_estimators=28)
    ...     sweep.add(clf.fit(adult.train), evaluate(clf, adult.test, epsilon=0.5))
    >>> sweep.refer("boosting without privacy", auc=0.927)
    >>> again = Sweep.from_dict(sweep.to_dict())  # to_json(path) keeps it, from_json reads it
    >>> [round(point.training.epsilon, 3) for point in again.points]
    [0.5, 1.0]
    >>> round(again.training_cost().epsilon, 2)
    1.14
    """

    def __init__(self) -> None:
        self.points: tuple[Point, ...] = ()
        self.references: dict[str, dict[str, float]] = {}

    def add(self, model: Any, evaluation: Evaluation) -> None:
        """Add a model.

        Parameters
        ----------
        model : fitted estimator, Model or PrivacyReport
            The model, or the report of its training.
        evaluation : Evaluation
            Result of `evaluate`, or of `Evaluation.from_json`.
        """
        if not isinstance(evaluation, Evaluation):
            raise TypeError("evaluation must be what privboost.evaluate returns")
        training = model if isinstance(model, PrivacyReport) else _training(model, evaluation)
        known = [(own.target, list(own.measures.values)) for own in self._evaluations[:1]]
        target, measures = evaluation.target, list(evaluation.measures.values)
        if known and (target, sorted(measures)) != (known[0][0], sorted(known[0][1])):
            raise ValueError(
                f"the models of this sweep have to predict {known[0][0]}, and to be measured by "
                f"{', '.join(known[0][1])}; this evaluation is of {target}, by "
                f"{', '.join(measures)}"
            )
        points = (*self.points, Point(training, evaluation))
        self.points = tuple(sorted(points, key=lambda point: point.training.epsilon))

    def refer(self, name: str, **values: float) -> None:
        """Add values to compare the models with, such as those of a model without privacy.

        Parameters
        ----------
        name : str
            Label.
        **values
            Values by measure: `auc=0.92`. They have to be public.
        """
        if not is_writable(name) or not name:
            raise ValueError("name must be a text of one line")
        if not all(is_number(value) and math.isfinite(value) for value in values.values()):
            raise ValueError("a reference needs a finite number for each measure")
        own = {measure: float(value) for measure, value in values.items()}
        self.references[name] = self.references.get(name, {}) | own

    def training_cost(self) -> PrivacyReport:
        """Return the cost of training all models, if they used the same rows.

        Models that were trained on rows declared public cost nothing.

        Raises
        ------
        BudgetError
            If reports cannot be added: other units, neighbours or rows.
        """
        return _sum(point.training for point in self.points)

    def evaluation_cost(self) -> PrivacyReport:
        """Return the cost of all evaluations, if they used the same rows."""
        return _sum(point.evaluation.privacy for point in self.points)

    def to_text(self, measure: str | None = None) -> str:
        """Return a line for each model, and the total cost.

        Parameters
        ----------
        measure : str, optional
            A measure of the evaluations; by default "auc", else "accuracy", else "rmse".
        """
        measure = self._measure(measure)
        lines = [("ε of training", measure.replace("_", " "), "measured on")]
        for point in self.points:
            spent = point.evaluation.privacy
            rows = "public rows" if spent.public_rows else f"private rows, {spent.guarantee}"
            lines.append((_trained(point.training), str(point.evaluation[measure]), rows))
        lines += [(name, f"{value:.4g}", "") for name, value in self._lines(measure).items()]
        first, second = (max(len(line[k]) for line in lines) for k in range(2))
        aligned = [f"{a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in lines]
        return "\n".join(
            [
                f"What each ε buys: {self.points[0].evaluation.target}",
                *aligned,
                f"Models of the same rows cost them together: {_total(self.training_cost)}",
                f"Evaluations on the same rows likewise: {_total(self.evaluation_cost)}",
            ]
        )

    def plot(self, measure: str | None = None, ax: Any = None) -> Any:
        """Draw a measure against ε; return the axes.

        Bars are one standard error, and the whole interval where residuals were clipped.

        Parameters
        ----------
        measure : str, optional
            As for `to_text`.
        ax : matplotlib axes, optional
            Axes to draw on; new ones by default.
        """
        measure = self._measure(measure)
        values = [(point.training, point.evaluation[measure]) for point in self.points]
        points = [
            (training.epsilon, value.value, value.bars)
            for training, value in values
            if not training.public_rows
        ]
        if not points:
            raise ValueError("no model of this sweep has a finite ε: there is nothing to draw")
        return draw_privacy_utility(points, measure.replace("_", " "), self._lines(measure), ax)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        points = [
            {"training": point.training.to_dict(), "evaluation": point.evaluation.to_dict()}
            for point in self.points
        ]
        return {"version": _VERSION, "points": points, "references": self.references}

    @classmethod
    def from_dict(cls, document: Any) -> Sweep:
        """Read what `to_dict` gave; raises ValueError if it cannot."""
        keys = {"version", "points", "references"}
        if not isinstance(document, Mapping) or set(document) != keys:
            raise ValueError("a sweep has version, points and references")
        if document["version"] != _VERSION:
            raise ValueError(f"its version is not {_VERSION}, the one that is known here")
        found = cls()
        try:
            for point in document["points"]:
                training = PrivacyReport.from_dict(point["training"])
                found.add(training, Evaluation.from_dict(point["evaluation"]))
            for name, values in document["references"].items():
                found.refer(name, **values)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError("a point or a reference is not as it was written") from None
        return found

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the sweep as JSON, and write it to `path` if one is given."""
        return write_text(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), path)

    @classmethod
    def from_json(cls, path: str | Path) -> Sweep:
        """Read the file that `to_json` wrote; its errors name the path."""
        try:
            return cls.from_dict(json.loads(Path(path).read_bytes()))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} holds no sweep as Sweep.to_json writes it: {error}") from None

    def __str__(self) -> str:
        return self.to_text() if self.points else "Sweep without models; add(model, evaluation)"

    __repr__ = __str__

    @property
    def _evaluations(self) -> list[Evaluation]:
        return [point.evaluation for point in self.points]

    def _measure(self, measure: str | None) -> str:
        """Return the measure, or the default one; refuse one that does not exist."""
        if not self.points:
            raise ValueError("the sweep has no models yet: add(model, evaluation)")
        measures = self.points[0].evaluation.measures
        measure = measure or next(name for name in _MAIN if name in measures.values)
        measures[measure]  # raises, and says which there are
        return measure

    def _lines(self, measure: str) -> dict[str, float]:
        """Return the values to compare a measure with, by name."""
        lines = {}
        if measure == "auc":
            lines["majority class"] = 0.5
        elif measure == "accuracy":
            lines["majority class"] = fmean(map(_largest_share, self._evaluations))
        exact = [p.evaluation[measure].value for p in self.points if p.training.public_rows]
        if exact:
            lines["without noise"] = fmean(exact)
        given = self.references.items()
        return lines | {name: values[measure] for name, values in given if measure in values}


def _training(model: Any, evaluation: Evaluation) -> PrivacyReport:
    """Return a model's report; refuse an evaluation with the hash of another model."""
    own = model_of(model)
    if evaluation.privacy.parameters.get("model") != digest_of(own):
        raise ValueError(
            "the evaluation is of another model: call add(model, evaluate(model, …)) with both of "
            "the same fit. If they do belong together (one was written by another version), pass "
            "the model's report, its privacy, as the model"
        )
    return own.privacy


def _sum(reports: Iterable[PrivacyReport]) -> PrivacyReport:
    private = [report for report in reports if not report.public_rows]
    if not private:
        raise BudgetError("nothing: the rows were declared public")
    return reduce(add, private)


def _total(cost: Callable[[], PrivacyReport]) -> str:
    try:
        return cost().guarantee
    except BudgetError as error:
        return f"not added up ({error})"


def _trained(report: PrivacyReport) -> str:
    if report.public_rows:
        return "infinite: rows declared public"
    delta = f", δ = {round_up(report.delta)}" if report.delta else ""
    note = " (seeded: no guarantee)" if report.seeded else ""
    return f"{round_up(report.epsilon)}{delta}{note}"


def _largest_share(evaluation: Evaluation) -> float:
    """Return the released share of the most frequent class."""
    values = evaluation.measures.values
    if "prevalence" in values:
        return max(values["prevalence"].value, 1 - values["prevalence"].value)
    return max(value.value for name, value in values.items() if name.startswith("share of "))
