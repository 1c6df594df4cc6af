"""Sections of a document about a privacy report, with the bounds on attacks that it proves.

Bounds on membership inference follow from proved pairs of ε and δ; `docs/guarantees/odds.md` has
the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np

from privboost import __version__
from privboost.accounting.accountants import ACCOUNTANTS
from privboost.accounting.composition import ORDERS, Curve, curve_epsilons
from privboost.accounting.events import Relation
from privboost.accounting.formulas import round_up
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
from privboost.reports.report import PrivacyReport

Point = tuple[float, float]
"""An ε and a δ for which (ε, δ)-DP is proved."""

_PER_DECADE = 4
_DECADES = 12
_UP = 1 + 1e-9
_DELTAS = (
    *(10.0 ** (-step / _PER_DECADE) for step in range(_DECADES * _PER_DECADE, 0, -1)),
    *(step / 20 for step in range(3, 20)),  # decisive for large budgets
)


def proved_points(report: PrivacyReport) -> tuple[Point, ...]:
    """Return the stated (ε, δ) and the points of the report's curve, sorted by δ."""
    curve = () if report.curve is None else curve_points(report.curve)
    return _falling([(report.epsilon, report.delta), *curve])


@lru_cache(maxsize=16)  # slow, and needed several times for one document
def curve_points(curve: Curve) -> tuple[Point, ...]:
    """Return points that a curve proves at many δ, sorted by δ."""
    deltas = (*_DELTAS, *_gaussian_distance(curve))
    found = [(_epsilon(curve, delta), delta) for delta in deltas if delta < 1]
    return _falling([*found, *_renyi_distance(curve)])


def _falling(points: Sequence[Point]) -> tuple[Point, ...]:
    """Sort points by δ and take running minima of ε: a guarantee holds at any larger δ."""
    best, fallen = math.inf, []
    for epsilon, delta in sorted(points, key=lambda point: (point[1], point[0])):
        best = min(best, epsilon)
        if best < math.inf:
            fallen.append((best, delta))
    return tuple(fallen)


def best_guess(points: Sequence[Point]) -> float:
    """Return the largest probability of guessing which of two equally likely neighbours was used.

    For (ε, δ)-DP it is (e^ε + δ)/(1 + e^ε); all points hold, so the minimum is taken.

    Examples
    --------
    >>> round(best_guess([(1.0, 0.0)]), 6)
    0.731059
    """
    return min(1.0, min(_sigmoid(e) + d * _sigmoid(-e) for e, d in points) * _UP)


def max_true_positive_rate(points: Sequence[Point], false_positive_rate: float) -> float:
    """Return the largest true-positive rate of a membership test at a false-positive rate.

    Examples
    --------
    >>> round(max_true_positive_rate([(1.0, 0.0)], 0.01), 6)
    0.027183
    """
    bounds = [1.0]
    for epsilon, delta in points:
        if epsilon < 700:  # e^ε overflows beyond
            bounds.append(math.exp(epsilon) * false_positive_rate + delta)
        bounds.append(1 - math.exp(-epsilon) * max(1 - delta - false_positive_rate, 0.0))
    return min(1.0, min(bounds) * _UP)


def _gaussian_distance(curve: Curve) -> tuple[float, ...]:
    """Return the δ at which Gaussian noise has ε near 0: its total variation distance."""
    if not curve.mu_squared:
        return ()
    distance = math.erf(math.sqrt(curve.mu_squared / 8))
    return (distance * _UP * _UP + curve.extra_delta * _UP,)


def _renyi_distance(curve: Curve) -> tuple[Point, ...]:
    """Return the δ at ε = 0 that the divergence of order 2 implies: ½·√(e^ρ − 1)."""
    rho = curve.rho[ORDERS.index(2)]
    if rho is None or rho > 1:  # the bound is vacuous from ln 5 on
        return ()
    return ((0.0, min(1.0, (math.sqrt(math.expm1(rho)) / 2 + curve.extra_delta) * _UP)),)


def _epsilon(curve: Curve, delta: float) -> float:
    """Return ε at δ; infinity where it is unknown or cannot be computed."""
    try:
        with np.errstate(all="ignore"):  # a file may hold any numbers
            found = min(curve_epsilons(curve, delta).values(), default=math.inf)
    except (ValueError, ArithmeticError, RuntimeError):
        return math.inf
    return found if found >= 0 else math.inf


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    grown = math.exp(x)
    return grown / (1 + grown)


_FALSE_POSITIVE_RATES = {"0.1 %": 0.001, "1 %": 0.01, "10 %": 0.1}
_MAX_PLOTTED = 1e4
"""A larger ε protects nobody, and would squeeze the plot."""
_TABLE_DELTAS = tuple(10.0**-power for power in range(3, 13))


def report_document(report: PrivacyReport) -> Document:
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


def guarantee_section(report: PrivacyReport) -> Section:
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


def _guessing(report: PrivacyReport) -> str:
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


def detail_sections(report: PrivacyReport) -> tuple[Section, ...]:
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


def _guarantee_table(report: PrivacyReport) -> Table:
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


def _curve_blocks(report: PrivacyReport, points: tuple[Point, ...]) -> tuple[Block, ...]:
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


def _accountant_table(report: PrivacyReport) -> Table:
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


def release_section(report: PrivacyReport) -> Section:
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


def _shares(report: PrivacyReport) -> tuple[tuple[str, float], ...]:
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


def assumption_section(report: PrivacyReport) -> Section:
    """Return the assumptions of the guarantee."""
    assumed = report.assumptions
    return Section("Assumptions", (BulletList(assumed) if assumed else Text("None."),))


def provenance_section(report: PrivacyReport, digest: str, rendered: date) -> Section:
    """Return parameters, hashes and versions.

    The digest is the SHA-256 of the model file, empty without a model. Models carry no date:
    `rendered` is that of the document.
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
    """Format a parameter: lists with commas, lists of them with semicolons, floats."""
    if isinstance(value, list | tuple):
        between = "; " if any(isinstance(each, list | tuple) for each in value) else ", "
        return between.join(map(format_value, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
