"""What was evaluated, how it came out, and at what price."""

from __future__ import annotations

from collections.abc import Sequence

from privboost.cards.blocks import Block, Section, Table, Text, Tone
from privboost.errors import BudgetError
from privboost.evaluation.result import NO_ROWS, Evaluation, Measures
from privboost.reports.report import PrivacyReport


def evaluation_section(training: PrivacyReport, evaluations: Sequence[Evaluation]) -> Section:
    """Return the evaluations of a model, each with its price."""
    if not evaluations:
        return Section("What was evaluated", (Text("Nothing that this card was told of."),))
    blocks: list[Block] = []
    for number, evaluation in enumerate(evaluations, 1):
        which = f"Evaluation {number}" if len(evaluations) > 1 else "Evaluation"
        said = f"{which} of {evaluation.target}"
        if evaluation.privacy.seeded or evaluation.privacy.public_rows:
            blocks.append(Text(f"{said}: {evaluation.privacy.guarantee}.", Tone.alarm))
        blocks.append(Table(f"{said}: its price", _price(training, evaluation.privacy)))
        blocks += _measures(said, evaluation)
    return Section("What was evaluated", tuple(blocks))


def _price(training: PrivacyReport, spent: PrivacyReport) -> tuple[tuple[str, str], ...]:
    return (
        ("Price", spent.guarantee),
        ("Protected unit", spent.protects),
        ("Neighbours", spent.relation),
        ("With training, if of the same rows", _together(training, spent)),
        ("SHA-256 of its plan", spent.plan),
    )


def _together(training: PrivacyReport, spent: PrivacyReport) -> str:
    """Say what both cost whoever is in both."""
    try:
        return (training + spent).guarantee
    except BudgetError as error:
        return f"n/a: {error}"


def _measures(said: str, evaluation: Evaluation) -> list[Block]:
    whole = evaluation.measures
    rows = [(name.replace("_", " "), whole.text(name) or NO_ROWS) for name in whole.values]
    found: list[Block] = [
        Table(f"{said}: all rows", tuple(rows), ("Measure", "Value ± standard error"))
    ]
    if evaluation.groups:
        groups = [(f"{g.feature}: {g.value}", _in_line(g.measures)) for g in evaluation.groups]
        found.append(
            Table(f"{said}: by group", tuple(groups), ("Group", "Values ± standard errors"))
        )
    if evaluation.residuals is not None and str(evaluation.residuals):
        found.append(Text(f"{said}: {evaluation.residuals}."))
    if evaluation.reliability:
        bins = [
            (f"{b.of}: {b.low:.3g} to {b.high:.3g}", f"{b.predicted:.3g}", str(b.observed))
            for b in evaluation.reliability
        ]
        head = ("Probabilities of", "Promised", "Came true")
        found.append(Table(f"{said}: reliability", tuple(bins), head, frozenset({1, 2})))
    return found


def _in_line(measures: Measures) -> str:
    names = [name for name in measures.values if measures.text(name)]
    said = [f"{name.replace('_', ' ')} {measures[name]}" for name in names]
    return "; ".join(said if measures.tells else [*said, NO_ROWS])
