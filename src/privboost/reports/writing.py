"""Reports that are written: of a ledger, of public rows, of several guarantees, of a stream."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from privboost import __version__
from privboost._core.errors import DomainError
from privboost._core.unit import Unit, column_of, describe_unit
from privboost.accounting.accountants import compare_accountants
from privboost.accounting.composition import BY_PART, Curve, curve_of, event_shares
from privboost.accounting.events import Event, Planned, Relation
from privboost.accounting.formulas import replace_one
from privboost.accounting.ledger import Ledger
from privboost.reports.report import (
    Part,
    PrivacyReport,
    Release,
    added_curve,
    check_private,
    pool_releases,
)


def write_report(
    ledger: Ledger,
    unit: Unit | None,
    assumptions: tuple[str, ...],
    seeded: bool,
    parameters: dict[str, Any],
    plan: str,
    what: str = "",
) -> PrivacyReport:
    """Return the report of a ledger's reservations."""
    share_of, shares = event_shares(ledger.reserved, ledger.delta)
    return PrivacyReport(
        epsilon=ledger.cost,
        delta=ledger.delta,
        relation=(
            ledger.reserved[0].event.relation if ledger.reserved else Relation.ADD_REMOVE
        ).value,
        unit=unit,
        accountant=ledger.accountant.name,
        alternatives=compare_accountants(ledger.reserved, ledger.delta),
        slack=ledger.accountant.compose(ledger.reserved).slack(ledger.delta),
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
        curve=curve_of(ledger.first_reserved) if ledger.adds_up else None,
        rows=ledger.rows,
        entry=ledger.entry,
        what=what,
        share_of=share_of,
    )


def write_public_report(
    releases: Sequence[Planned],
    assumptions: tuple[str, ...],
    seeded: bool,
    parameters: dict[str, Any],
    plan: str,
    what: str = "",
) -> PrivacyReport:
    """Return the report of exact releases about rows that were declared public."""
    return PrivacyReport(
        epsilon=math.inf,
        delta=1.0,
        relation="none: no two tables are meant to look alike",
        unit=None,
        accountant="none",
        alternatives={},
        slack=0.0,
        releases=tuple(_listed(releases, {})),
        assumptions=assumptions,
        seeded=seeded,
        parameters=parameters,
        plan=plan,
        software=f"privboost {__version__}",
        public_rows=True,
        what=what,
    )


def check_domain_inference(inference: PrivacyReport, unit: Unit | None) -> None:
    """Refuse a report of domain inference that protects another unit.

    Inference that protects rows bounds no unit's rows, so it guarantees nothing to units with many.
    """
    check_private(inference)
    if column_of(inference.unit) != column_of(unit):
        raise DomainError(
            f"domain: it was learned protecting {inference.protects}; now {describe_unit(unit)} is "
            "to be protected, and the two do not add up. Learn it with the same unit "
            "(Domain.learn takes given={'unit': …}), or write it"
        )


def add_domain_inference(
    inference: PrivacyReport, report: PrivacyReport, what: str
) -> PrivacyReport:
    """Return the report of private domain inference and a later run on the same rows.

    ε and δ add up. An add/remove guarantee of the inference is converted first where the run's is
    replace-one. Seeded inference leaves no guarantee. The inference protects the same unit; `what`
    describes the run.
    """
    check_private(report)
    check_domain_inference(inference, report.unit)
    epsilon, delta = inference.epsilon, inference.delta
    if (inference.relation, report.relation) == (Relation.ADD_REMOVE, Relation.REPLACE_ONE):
        epsilon, delta = replace_one(epsilon, delta)
    elif inference.relation != report.relation:
        raise ValueError("guarantees of different neighbouring relations do not add up")
    after = report.parts or (Part(what, report.epsilon, report.delta),)
    releases, share_of = pool_releases([(inference, epsilon), (report, report.epsilon)], BY_PART)
    return replace(
        report,
        epsilon=epsilon + report.epsilon,
        delta=min(1.0, delta + report.delta),
        alternatives={name: epsilon + other for name, other in report.alternatives.items()},
        slack=inference.slack + report.slack,
        releases=releases,
        seeded=inference.seeded or report.seeded,
        curve=added_curve(inference, report),
        parts=(Part("learning the domain", epsilon, min(1.0, delta)), *after),
        share_of=share_of,
    )


def join_reports(reports: Sequence[PrivacyReport], assumption: str) -> PrivacyReport:
    """Return the report of a stream whose batches have disjoint units, from those of its batches.

    The guarantee of a unit is that of its own batch, so the stream has the largest ε and δ. The
    assumption is the reason why no unit is in two batches.
    """
    check_private(*reports)
    worst = max(reports, key=lambda report: report.epsilon)
    if len(reports) == 1:
        return worst
    shared = set.intersection(*(set(report.alternatives) for report in reports))
    named = [
        replace(release, what=f"batch {number}: {release.what}", share=None)
        for number, report in enumerate(reports, 1)
        for release in report.releases
    ]  # a unit pays for its own batch, so there is no total to share
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
    """Return the pointwise maximum of the reports' curves; None where they differ in δ.

    The largest ε may belong to a smaller δ than the largest, at which the curve would imply less.
    """
    if len({report.delta for report in reports}) > 1:
        return None
    joined = reports[0].curve
    for report in reports[1:]:
        joined = None if joined is None or report.curve is None else joined.joined(report.curve)
    return joined


def _listed(plan: Sequence[Planned], shares: Mapping[Event, float]) -> list[Release]:
    """Return the releases of a plan; equal events in several places are one release."""
    counts: dict[Event, int] = {}
    for planned in plan:
        counts[planned.event] = counts.get(planned.event, 0) + planned.count
    return [
        Release(event.what, count, event.mechanism, shares.get(event))
        for event, count in counts.items()
    ]
