"""Sections about a privacy report: guarantee, curve, accountants, releases, provenance."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

from privboost import __version__
from privboost.privacy.accountants.choice import ACCOUNTANTS
from privboost.privacy.events.event import Relation
from privboost.privacy.searches import round_up
from privboost.reports.document import (
    MAX_PARTS,
    Block,
    BulletList,
    Document,
    PrivacyCurvePlot,
    Section,
    StackedBar,
    Table,
    Text,
    Tone,
)
from privboost.reports.membership import (
    Point,
    best_guess,
    curve_points,
    max_true_positive_rate,
    proved_points,
)
from privboost.reports.record import ReportRecord

_FALSE_POSITIVE_RATES = {"0.1 %": 0.001, "1 %": 0.01, "10 %": 0.1}
_MAX_PLOTTED = 1e4
"""A larger ε protects nobody, and would squeeze the plot."""
_TABLE_DELTAS = tuple(10.0**-power for power in range(3, 13))


def report_document(report: ReportRecord) -> Document:
    """Return a document about a report alone."""
    sections = (
        guarantee_section(report),
        *detail_sections(report),
        release_section(report),
        assumption_section(report),
        provenance_section(report, "", date.today()),
    )
    about = f" of {report.what}" if report.what else ""
    return Document(f"Privacy report{about}", report.guarantee, sections)


def guarantee_section(report: ReportRecord) -> Section:
    """Return the guarantee for readers without a background in differential privacy."""
    if report.public_rows:
        blocks: tuple[Block, ...] = (
            Text(f"{report.guarantee}.", Tone.warning),
            Text(
                "Epsilon is infinite: no noise was added. The rows were declared public by the "
                "caller; if they are not, this model leaks them."
            ),
        )
    elif report.seeded:
        blocks = (
            Text(
                f"{report.guarantee.capitalize()}. The noise came from a seed, and anybody who "
                "knows or guesses the seed can subtract the noise. Keep this model from everybody "
                "who must not see the rows.",
                Tone.warning,
            ),
            Text(f"With secure noise: {_guessing(report)}"),
        )
    else:
        blocks = (
            Text(_guessing(report), Tone.guarantee),
            Text(
                "The guarantee holds for each protected unit by itself. Facts that many units "
                "share are released, which is the purpose of a model, and may be true of somebody "
                "who was never in the data. The guarantee covers the releases listed below and "
                "rests on the assumptions listed below; whatever else is released about the same "
                "rows adds to it. The noise came from the operating system's secure generator."
            ),
        )
    return Section("Guarantee", blocks)


def _guessing(report: ReportRecord) -> str:
    right = _percent_up(best_guess(proved_points(report)), 1)
    if report.relation == Relation.REPLACE_ONE:
        membership = "which of two rows was in the data"
    elif report.unit is None:
        membership = "whether one particular row was in the data"
    else:
        membership = f"whether the rows of one particular {report.unit.column} were in the data"
    return (
        "Somebody who sees all releases, knows everything about all other units, and has to guess "
        f"{membership}, is right at most {right} times in 100. A coin toss is right 50 times in "
        "100."
    )


def _percent_up(probability: float, places: int) -> str:
    """Format a probability in per cent, rounded up."""
    tens = 10**places
    return f"{min(math.ceil(probability * 100 * tens) / tens, 100.0):g}"


def detail_sections(report: ReportRecord) -> tuple[Section, ...]:
    """Return the exact guarantee, at every δ and by every accountant."""
    if report.public_rows:
        return ()
    points = proved_points(report)
    suffix = ", were the noise secure" if report.seeded else ""
    return (
        Section(f"Exact guarantee{suffix}", (_guarantee_table(report), _attack_table(points))),
        Section(f"Delta against epsilon{suffix}", _curve_blocks(report, points)),
        Section(f"Comparison of accountants{suffix}", (_accountant_table(report),)),
    )


def _guarantee_table(report: ReportRecord) -> Table:
    cost = f"({round_up(report.epsilon)}, {round_up(report.delta)})-differential privacy"
    facts = [
        ("Guarantee", f"none: seeded (else {cost})" if report.seeded else report.guarantee),
        ("Epsilon", round_up(report.epsilon)),
        ("Delta", round_up(report.delta)),
        ("Neighbours", report.relation),
        ("Protected unit", report.protects),
        ("Accountant", report.accountant),
        ("For the integer grid", f"{report.slack:.2g}, within epsilon"),
        ("Mechanisms", "; ".join(dict.fromkeys(each.mechanism for each in report.releases))),
        ("Noise", "from a seed" if report.seeded else "from the operating system's generator"),
    ]
    for part in report.parts:
        cost = f"({round_up(part.epsilon)}, {round_up(part.delta)})"
        facts.append(("Part", f"{cost} for {part.what}"))
    if report.entry:
        facts.append(("Account", f"{report.rows}, entry {report.entry}"))
    return Table("The guarantee in full", tuple(facts))


def _attack_table(points: tuple[Point, ...]) -> Table:
    guess = ("Right guesses, even odds", "50 %", f"{_percent_up(best_guess(points), 3)} %")
    found = [
        (
            f"True-positive rate at a false-positive rate of {text}",
            text,
            f"{_percent_up(max_true_positive_rate(points, rate), 3)} %",
        )
        for text, rate in _FALSE_POSITIVE_RATES.items()
    ]
    return Table(
        "Bounds on membership inference",
        (guess, *found),
        ("Attack", "By chance", "At most"),
        frozenset({1, 2}),
    )


def _curve_blocks(report: ReportRecord, points: tuple[Point, ...]) -> tuple[Block, ...]:
    if report.curve is None or report.epsilon > _MAX_PLOTTED:
        return (Text("This report has no more than the one epsilon and delta that it states."),)
    rows = [
        (round_up(delta), round_up(min(known)))
        for delta in _TABLE_DELTAS
        if (known := [e for e, d in points if d <= delta * (1 + 1e-9)])
    ]
    line = [p for p in curve_points(report.curve) if p[0] <= _MAX_PLOTTED and p[1] > 0]
    end = next((n for n, point in enumerate(line, 1) if point[0] <= line[-1][0]), 0)
    return (
        PrivacyCurvePlot(
            "Line: for each delta, an epsilon that holds for the same releases. Dot: the stated "
            "guarantee",
            tuple(line[:end]),  # beyond, delta alone would grow
            (report.epsilon, report.delta),
        ),
        Table("The same in numbers", tuple(rows), ("Delta", "Epsilon")),
    )


def _accountant_table(report: ReportRecord) -> Table:
    """Tabulate the ε of every accountant for the same releases."""
    theories = {name: kind.theory for name, kind in ACCOUNTANTS.items()}
    theories["sum"] = "the epsilons of several guarantees, added up"
    others = [name for name in report.alternatives if name not in ACCOUNTANTS]
    rows = []
    for name in (*ACCOUNTANTS, *others):
        theory = theories.get(name, "")
        epsilon = round_up(report.alternatives.get(name, math.inf))
        exact = ACCOUNTANTS[name].approximates if name in ACCOUNTANTS else ""
        if exact and exact in report.alternatives:
            epsilon, theory = "n/a", f"{theory}: left out, since {exact} is exact"
        elif name not in report.alternatives:
            epsilon, theory = "n/a", f"{theory}: not for these releases, or not at this delta"
        rows.append((f"{name} (used)" if name == report.accountant else name, epsilon, theory))
    return Table(
        f"Epsilon of the same releases at delta {round_up(report.delta)}",
        tuple(rows),
        ("Accountant", "Epsilon", "Theory"),
        frozenset({1}),
    )


def release_section(report: ReportRecord) -> Section:
    """Return the releases as a table, and their shares of the budget as a bar."""
    if not report.releases:
        return Section("Releases", (Text("None."),))
    blocks: list[Block] = []
    if report.share_of:
        blocks.append(
            StackedBar(f"Where the budget went: shares of {report.share_of}", _shares(report))
        )
    head = ("Release and mechanism", "Count", "Share")[: 3 if report.share_of else 2]
    rows = tuple(
        (
            f"{each.what}: {each.mechanism}",
            str(each.count),
            "paid above" if each.share is None else f"{each.share:.1%}".replace("%", " %"),
        )[: len(head)]
        for each in report.releases
    )
    blocks.append(Table("Every kind of release", rows, head, frozenset({1, 2})))
    return Section("Releases", tuple(blocks))


def _shares(report: ReportRecord) -> tuple[tuple[str, float], ...]:
    """Return names with shares, the largest first, small ones merged."""
    shares: dict[str, float] = {}
    for each in report.releases:
        if each.share is not None:
            shares[each.what] = shares.get(each.what, 0.0) + each.share
    parts = sorted(shares.items(), key=lambda part: -part[1])
    if len(parts) > MAX_PARTS:
        rest = parts[MAX_PARTS - 1 :]
        parts = [*parts[: MAX_PARTS - 1], (f"{len(rest)} others", sum(s for _, s in rest))]
    return tuple(parts)


def assumption_section(report: ReportRecord) -> Section:
    """Return the assumptions of the guarantee."""
    assumed = report.assumptions
    return Section("Assumptions", (BulletList(assumed) if assumed else Text("None."),))


def provenance_section(report: ReportRecord, digest: str, rendered: date) -> Section:
    """Return parameters, hashes and versions.

    Parameters
    ----------
    report : PrivacyReport
        Report of the training.
    digest : str
        SHA-256 of the model file; empty without a model.
    rendered : date
        Date of the document; models carry none.
    """
    facts = [
        ("Trained with" if digest else "Made with", report.software),
        ("Rendered by", f"privboost {__version__}, on {rendered.isoformat()}"),
        ("SHA-256 of the plan", report.plan),
    ]
    if digest:
        facts.append(("SHA-256 of the model file", digest))
    blocks = [Table("Versions and hashes", tuple(facts))]
    if report.parameters:
        rows = tuple((name, format_value(value)) for name, value in report.parameters.items())
        blocks.append(Table("Parameters", rows, ("Parameter", "Value")))
    return Section("Provenance", tuple(blocks))


def format_value(value: Any) -> str:
    """Format a parameter: lists with commas, floats in six digits."""
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
