"""What is promised: in a sentence for anybody, exactly for engineers, and as a curve."""

from __future__ import annotations

import math

from privboost.cards.blocks import Block, Plot, Section, Table, Text, Tone
from privboost.cards.odds import Point, best_guess, curve_points, most_hits, proved_points
from privboost.privacy.accountants.choice import ACCOUNTANTS
from privboost.privacy.events.event import Relation
from privboost.reports.report import PrivacyReport, round_up

_THEORIES = {
    "gdp": "Gaussian differential privacy: exact for Gaussian noise on all rows",
    "game": "an exact game of bounded ranges: choices, and noise beside them",
    "pld": "privacy loss distributions",
    "rdp": "Rényi divergences",
    "pure": "the epsilons of all releases, added up",
    "advanced": "the advanced composition theorem",
    "sum": "the epsilons of several guarantees, added up",
}
_FALSE_ALARMS = {"0.1 %": 0.001, "1 %": 0.01, "10 %": 0.1}
_MOST_SHOWN = 1e4
"""An epsilon beyond this protects nobody, and no plot could show it beside others."""
_TOLD_DELTAS = tuple(10.0**-power for power in range(3, 13))


def promise_section(report: PrivacyReport) -> Section:
    """Return what a report promises, for anybody."""
    said = _nothing(report) if report.public_rows else _in_short(report, proved_points(report))
    return Section("What is promised", said)


def statement_sections(report: PrivacyReport) -> tuple[Section, ...]:
    """Return the same for engineers: exactly, at every δ, and by every theory."""
    if report.public_rows:
        return ()
    points = proved_points(report)
    then = ", were the noise secure" if report.seeded else ""
    return (
        Section(f"The exact statement{then}", (_statement(report), _attacks(points))),
        Section(f"Delta against epsilon{then}", _curve(report, points)),
        Section(f"Accountants side by side{then}", (_accountants(report),)),
    )


def _nothing(report: PrivacyReport) -> tuple[Block, ...]:
    return (
        Text(f"{report.guarantee}.", Tone.alarm),
        Text(
            "Epsilon is infinite: no noise was added. The rows were declared public by the caller; "
            "if they are not, this model leaks them."
        ),
    )


def _in_short(report: PrivacyReport, points: tuple[Point, ...]) -> tuple[Block, ...]:
    """Say what the promise means to somebody who has never heard of it."""
    if report.seeded:
        return (
            Text(
                f"{report.guarantee.capitalize()}. The noise came from a seed, and whoever knows "
                "or guesses it can take the noise away. Do not give this to anybody who must not "
                "see the rows.",
                Tone.alarm,
            ),
            Text(f"With secure noise it would be so: {_odds(report, points)}"),
        )
    return (
        Text(_odds(report, points), Tone.promise),
        Text(
            "The promise is to each one by itself. What many have in common is told, which is what "
            "a model is for, and may be true of somebody who was never in the data. The promise "
            "covers what is listed below as released, and rests on what is listed as assumed; "
            "whatever else is released about the same rows adds to it. The noise came from the "
            "operating system's secure generator."
        ),
    )


def _odds(report: PrivacyReport, points: tuple[Point, ...]) -> str:
    right = _up(best_guess(points), 1)
    return (
        "Somebody who sees what was released, knows everything about all others, and has to guess "
        f"{_question(report)}, is right at most {right} times in 100. Tossing a coin is right 50 "
        "times in 100."
    )


def _question(report: PrivacyReport) -> str:
    if report.relation == Relation.REPLACE_ONE:
        return "which of two rows was in the data"
    if report.unit is None:
        return "whether one particular row was in the data"
    return f"whether the rows of one particular {report.unit.column} were in the data"


def _up(chance: float, places: int) -> str:
    """Write a chance in hundredths, never below it."""
    tens = 10**places
    return f"{min(math.ceil(chance * 100 * tens) / tens, 100.0):g}"


def _statement(report: PrivacyReport) -> Table:
    """State the guarantee with everything that its definition asks for."""
    worth = f"({round_up(report.epsilon)}, {round_up(report.delta)})-differential privacy"
    facts = [
        ("Guarantee", f"none: seeded (else {worth})" if report.seeded else report.guarantee),
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
        worth = f"({round_up(part.epsilon)}, {round_up(part.delta)})"
        facts.append(("Part of it", f"{worth} for {part.what}"))
    if report.entry:
        facts.append(("Account", f"{report.rows}, entry {report.entry}"))
    return Table("The guarantee, in full", tuple(facts))


def _attacks(points: tuple[Point, ...]) -> Table:
    """Tell what tests of membership can reach, in the words of those who run them."""
    guess = ("Right guesses, even chances", "50 %", f"{_up(best_guess(points), 3)} %")
    found = [
        (f"Members found at {said} false alarms", said, f"{_up(most_hits(points, share), 3)} %")
        for said, share in _FALSE_ALARMS.items()
    ]
    return Table(
        "What an attack on membership can reach",
        (guess, *found),
        ("Attack", "By chance", "At most"),
        frozenset({1, 2}),
    )


def _curve(report: PrivacyReport, points: tuple[Point, ...]) -> tuple[Block, ...]:
    """Show what else is proved: the same releases at other δ."""
    if report.curve is None or report.epsilon > _MOST_SHOWN:
        return (Text("This report tells no more than the one epsilon and delta that it states."),)
    told = [
        (round_up(delta), round_up(min(known)))
        for delta in _TOLD_DELTAS
        if (known := [e for e, d in points if d <= delta * (1 + 1e-9)])
    ]
    line = [p for p in curve_points(report.curve) if p[0] <= _MOST_SHOWN and p[1] > 0]
    end = next((n for n, point in enumerate(line, 1) if point[0] <= line[-1][0]), 0)
    return (
        Plot(
            "Line: for each delta, an epsilon that holds for the same releases. Dot: what is "
            "stated",
            tuple(line[:end]),  # beyond, delta alone would grow
            (report.epsilon, report.delta),
        ),
        Table("The same in numbers", tuple(told), ("Delta", "Epsilon")),
    )


def _accountants(report: PrivacyReport) -> Table:
    """List what every theory says of the same releases."""
    others = [name for name in report.alternatives if name not in ACCOUNTANTS]
    rows = []
    for name in (*ACCOUNTANTS, *others):
        words = _THEORIES.get(name, "")
        said = round_up(report.alternatives.get(name, math.inf))
        if name == "pld" and "gdp" in report.alternatives:
            said, words = "n/a", f"{words}: not asked, since gdp is exact"
        elif name not in report.alternatives:
            said, words = "n/a", f"{words}: not for these releases, or not at this delta"
        rows.append((f"{name} (used)" if name == report.accountant else name, said, words))
    return Table(
        f"Epsilon of the same releases at delta {round_up(report.delta)}",
        tuple(rows),
        ("Accountant", "Epsilon", "What it adds up"),
        frozenset({1}),
    )
