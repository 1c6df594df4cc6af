"""Statements of what was spent: of one ledger, of several guarantees together, of a stream."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privboost import __version__
from privboost.errors import BudgetError, DomainError
from privboost.privacy.accountants.choice import compare_accountants
from privboost.privacy.composition import curve_epsilons, curve_of
from privboost.privacy.events.event import Event, Planned, Relation
from privboost.privacy.formulas import replace_one
from privboost.privacy.ledger import Ledger
from privboost.privacy.shares import BY_PART, MU_SQUARED, Shares, pool
from privboost.reports.curve import Curve
from privboost.reports.report import Part, PrivacyReport, Release
from privboost.unit import Unit, column_of, describe_unit

_NEAR = 1e-6
"""What ε of a curve may lack, relatively: machines round differently."""


def write_report(
    ledger: Ledger,
    unit: Unit | None,
    assumptions: tuple[str, ...],
    seeded: bool,
    parameters: dict[str, Any],
    plan: str,
    what: str = "",
) -> PrivacyReport:
    """State what a ledger's reservations guarantee."""
    profile = ledger.profile
    shares = Shares.within(ledger.reserved, ledger.delta)
    return PrivacyReport(
        epsilon=ledger.cost,
        delta=ledger.delta,
        relation=(
            ledger.reserved[0].event.relation if ledger.reserved else Relation.ADD_REMOVE
        ).value,
        unit=unit,
        accountant=ledger.accountant.name,
        alternatives=compare_accountants(ledger.reserved, ledger.delta),
        slack=profile.slack(ledger.delta),
        releases=(
            *_listed(ledger.reserved, shares),
            *(
                Release(f"within: {p.event.what}", p.count, p.event.mechanism)
                for p in ledger.within
            ),
        ),
        assumptions=assumptions,
        seeded=seeded,
        parameters=parameters,
        plan=plan,
        software=f"privboost {__version__}",
        curve=curve_of(ledger.posted) if ledger.adds_up else None,
        rows=ledger.rows,
        entry=ledger.entry,
        what=what,
        share_of=shares.of,
    )


def write_public_report(
    releases: Sequence[Planned],
    assumptions: tuple[str, ...],
    seeded: bool,
    parameters: dict[str, Any],
    plan: str,
    what: str = "",
) -> PrivacyReport:
    """State that rows were declared public, and what was told of them."""
    return PrivacyReport(
        epsilon=math.inf,
        delta=1.0,
        relation="none: no two tables are meant to look alike",
        unit=None,
        accountant="none",
        alternatives={},
        slack=0.0,
        releases=tuple(_listed(releases, Shares())),
        assumptions=assumptions,
        seeded=seeded,
        parameters=parameters,
        plan=plan,
        software=f"privboost {__version__}",
        public_rows=True,
        what=what,
    )


def _check_private(*reports: PrivacyReport) -> None:
    """Refuse to make a guarantee out of none."""
    if any(report.public_rows for report in reports):
        raise BudgetError("a report about rows that were declared public has no guarantee to add")


def check_curve(report: PrivacyReport) -> None:
    """Refuse a report whose curve promises less than the report states: sums and prices go by it.

    A curve may give less than one accountant's ε where another's is smaller, but not less than the
    smallest; where several guarantees add up, that is asked of each. Nothing is asked where δ is 0,
    or used up by thresholds: no ε follows from a curve there.

    Raises
    ------
    ValueError
        It names the part.
    """
    if report.curve is None:
        return
    spared = report.epsilon - min([report.epsilon, *report.alternatives.values()])
    for part in report.parts or (Part("", report.epsilon, report.delta),):
        try:
            with np.errstate(all="ignore"):  # a file may hold any numbers
                found = curve_epsilons(report.curve, part.delta) if part.delta < 1 else {}
        except (ArithmeticError, RuntimeError):
            raise ValueError("curve: no epsilon follows from it") from None
        least = (part.epsilon - spared) * (1 - _NEAR)
        if not all(epsilon >= least for epsilon in found.values()):
            raise ValueError("curve: it promises less than the epsilon beside it")


def check_lesson(lesson: PrivacyReport, unit: Unit | None) -> None:
    """Refuse to add a lesson about other units than those that are protected now.

    A lesson about rows bounds nobody's rows, so it says nothing about whoever has many of them.
    """
    _check_private(lesson)
    if column_of(lesson.unit) != column_of(unit):
        raise DomainError(
            f"domain: it was learned protecting {lesson.protects}; now {describe_unit(unit)} is to "
            "be protected, and the two do not add up. Learn it with the same unit "
            "(Domain.learn takes given={'unit': …}), or write it"
        )


def add_lesson(lesson: PrivacyReport, report: PrivacyReport, what: str) -> PrivacyReport:
    """State what is worth a lesson about a domain, and what was done after it, to the same rows.

    ε and δ add up. A lesson about adding or removing a unit is converted first where the second
    guarantee is about replacing one. A seeded lesson leaves no guarantee at all.

    Parameters
    ----------
    lesson : PrivacyReport
        What learning the domain spent; about the same unit.
    report : PrivacyReport
        What was spent afterwards.
    what : str
        On what, in words.
    """
    _check_private(report)
    check_lesson(lesson, report.unit)
    epsilon, delta = lesson.epsilon, lesson.delta
    if (lesson.relation, report.relation) == (Relation.ADD_REMOVE, Relation.REPLACE_ONE):
        epsilon, delta = replace_one(epsilon, delta)
    elif lesson.relation != report.relation:
        raise ValueError("guarantees of different neighbouring relations do not add up")
    after = report.parts or (Part(what, report.epsilon, report.delta),)
    releases, share_of = pool([(lesson, epsilon), (report, report.epsilon)], BY_PART)
    return replace(
        report,
        epsilon=epsilon + report.epsilon,
        delta=min(1.0, delta + report.delta),
        alternatives={name: epsilon + other for name, other in report.alternatives.items()},
        slack=lesson.slack + report.slack,
        releases=releases,
        seeded=lesson.seeded or report.seeded,
        curve=_added(lesson, report),
        parts=(Part("learning the domain", epsilon, min(1.0, delta)), *after),
        share_of=share_of,
    )


def _added(one: PrivacyReport, other: PrivacyReport) -> Curve | None:
    """Return the curve of two guarantees about the same neighbours."""
    if one.curve is None or other.curve is None or one.relation != other.relation:
        return None
    return one.curve + other.curve


def add_reports(one: PrivacyReport, other: PrivacyReport) -> PrivacyReport:
    """State what two runs on the same rows cost together.

    Where both reports carry a curve that adds up, it is composed at the larger δ; else ε and δ add
    up as they are. Where one δ is 0, what is stated is the smaller of the two. A seeded run leaves
    no guarantee at all.
    """
    if not isinstance(other, PrivacyReport):
        raise TypeError("a report adds up with a report")
    _check_private(one, other)
    if column_of(one.unit) != column_of(other.unit):
        raise BudgetError(
            f"one report protects {one.protects}, the other {other.protects}: they do not add up"
        )
    if one.relation != other.relation:
        raise BudgetError("reports about different neighbours do not add up")
    if one.rows and other.rows and one.rows != other.rows:
        raise BudgetError("the reports are about different rows: each holds for its own")
    if one.entry and one.entry == other.entry:
        raise BudgetError("both reports are about the same run: it is charged once")
    curve = _added(one, other)
    delta = max(one.delta, other.delta)
    found = {} if curve is None or delta == 0 else curve_epsilons(curve, delta)
    if not found and delta:
        curve = None  # thresholds use δ up; at the sum of both it would promise less than ε
    if not found or 0 in (one.delta, other.delta):  # then both δ together are the larger, exactly
        found["sum"], delta = one.epsilon + other.epsilon, min(1.0, one.delta + other.delta)
    accountant = min(found, key=lambda name: found[name])
    releases, share_of = pool(*_sizes(one, other, accountant))
    said = (
        "the budgets of all runs were fixed beforehand, and all are about the same rows",
        f"together: {one.guarantee}, and {other.guarantee}",
    )
    return replace(
        one,
        epsilon=found[accountant],
        delta=delta,
        unit=one.unit,
        accountant=accountant,
        alternatives=found,
        slack=one.slack + other.slack,
        releases=releases,
        assumptions=(*dict.fromkeys((*one.assumptions, *other.assumptions)), *said),
        seeded=one.seeded or other.seeded,
        parameters={},
        plan=hashlib.sha256((one.plan + other.plan).encode()).hexdigest(),
        parts=(),
        curve=curve,
        rows=one.rows or other.rows,
        entry="",
        what="",
        share_of=share_of,
    )


def _sizes(
    one: PrivacyReport, other: PrivacyReport, accountant: str
) -> tuple[list[tuple[PrivacyReport, float]], str]:
    """Return what each of two reports takes of their sum, and in what that adds up."""
    if accountant == "sum":
        return [(one, one.epsilon), (other, other.epsilon)], BY_PART
    curves = [report.curve for report in (one, other)]
    sizes = [0.0 if curve is None else curve.mu_squared or 0.0 for curve in curves]
    whole = accountant == "gdp" and {one.share_of, other.share_of} == {MU_SQUARED}
    return list(zip((one, other), sizes, strict=True)), MU_SQUARED if whole else ""


def join_reports(reports: Sequence[PrivacyReport], assumption: str) -> PrivacyReport:
    """State what holds for every unit, where each unit is in one of several batches.

    Each report is of one batch; a unit's guarantee is its own batch's, so the whole has the largest
    ε and δ.

    Parameters
    ----------
    reports : sequence of PrivacyReport
        In the order of the batches.
    assumption : str
        Why no unit is in two of them.
    """
    _check_private(*reports)
    worst = max(reports, key=lambda report: report.epsilon)
    if len(reports) == 1:
        return worst
    shared = set.intersection(*(set(report.alternatives) for report in reports))
    named = [
        replace(release, what=f"batch {number}: {release.what}", share=None)
        for number, report in enumerate(reports, 1)
        for release in report.releases
    ]  # a unit pays for its own batch, so there is no whole that all have shares of
    return replace(
        worst,
        delta=max(report.delta for report in reports),
        alternatives={
            name: max(report.alternatives[name] for report in reports)
            for name in worst.alternatives
            if name in shared
        },
        slack=max(report.slack for report in reports),
        releases=tuple(named),
        assumptions=(
            *dict.fromkeys(said for report in reports for said in report.assumptions),
            assumption,
        ),
        seeded=any(report.seeded for report in reports),
        parameters=reports[-1].parameters,
        curve=_joined(reports),
        plan=hashlib.sha256("".join(report.plan for report in reports).encode()).hexdigest(),
        share_of="",
    )


def _joined(reports: Sequence[PrivacyReport]) -> Curve | None:
    """Return a curve that covers each of several guarantees; none where they differ in δ.

    The largest ε may be of a smaller δ than the largest, at which the curve would promise less.
    """
    if len({report.delta for report in reports}) > 1:
        return None
    joined = reports[0].curve
    for report in reports[1:]:
        joined = None if joined is None or report.curve is None else joined.joined(report.curve)
    return joined


def _listed(plan: Sequence[Planned], shares: Shares) -> list[Release]:
    """Return releases in words; those that are made in several places of a plan are one."""
    counts: dict[Event, int] = {}
    for planned in plan:
        counts[planned.event] = counts.get(planned.event, 0) + planned.count
    return [
        Release(event.what, count, event.mechanism, shares.by_event.get(event))
        for event, count in counts.items()
    ]
