"""Privacy reports: written from a ledger, added up, and rendered.

Reports of a ledger, of public rows, of several guarantees together, of a stream.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from privboost import __version__
from privboost._core.errors import BudgetError, DomainError
from privboost._core.files import write_file
from privboost._core.unit import Unit, column_of, describe_unit
from privboost.accounting.accountants import compare_accountants
from privboost.accounting.composition import (
    BY_PART,
    MU_SQUARED,
    Curve,
    curve_epsilons,
    curve_of,
    event_shares,
)
from privboost.accounting.events import Event, Planned, Relation
from privboost.accounting.formulas import replace_one
from privboost.accounting.ledger import Ledger
from privboost.reports.record import Part, Release, ReportRecord
from privboost.reports.sections import report_document

WEIGHTED = "sample weights are clipped to"


class PrivacyReport(ReportRecord):
    """The privacy guarantee of a run: its cost, its releases and its assumptions.

    Attributes are those of `ReportRecord`. ``report_a + report_b`` is the report of two runs on
    the same rows.
    """

    def __add__(self, other: PrivacyReport) -> PrivacyReport:
        """Return the report of two runs on the same rows.

        The curves of both compose at the larger δ where both have one; else ε and δ add up. Where
        one δ is 0, the smaller of both results is stated. A seeded run leaves no guarantee.

        Raises
        ------
        BudgetError
            If the reports are about other rows, units or neighbours, or have no guarantee.
        """
        if not isinstance(other, PrivacyReport):
            raise TypeError("a report adds up with a report")
        check_private(self, other)
        if column_of(self.unit) != column_of(other.unit):
            raise BudgetError(
                f"one report protects {self.protects}, the other {other.protects}: they do not add "
                "up"
            )
        if self.relation != other.relation:
            raise BudgetError("reports about different neighbours do not add up")
        if self.rows and other.rows and self.rows != other.rows:
            raise BudgetError("the reports are about different rows: each holds for its own")
        if self.entry and self.entry == other.entry:
            raise BudgetError("both reports are about the same run: it is charged once")
        curve = added_curve(self, other)
        delta = max(self.delta, other.delta)
        found = {} if curve is None or delta == 0 else curve_epsilons(curve, delta)
        if not found and delta:
            curve = None  # thresholds use δ up; at the sum of both it would imply less than ε
        if not found or 0 in (self.delta, other.delta):  # then the sum of both δ is the larger one
            found["sum"] = self.epsilon + other.epsilon
            delta = min(1.0, self.delta + other.delta)
        accountant = min(found, key=lambda name: found[name])
        releases, share_of = pool_releases(*_costs(self, other, accountant))
        added = (
            "the budgets of all runs were fixed beforehand, and all are about the same rows",
            f"together: {self.guarantee}, and {other.guarantee}",
        )
        return replace(
            self,
            epsilon=found[accountant],
            delta=delta,
            accountant=accountant,
            alternatives=found,
            slack=self.slack + other.slack,
            releases=releases,
            assumptions=(*dict.fromkeys((*self.assumptions, *other.assumptions)), *added),
            seeded=self.seeded or other.seeded,
            parameters={},
            plan=hashlib.sha256((self.plan + other.plan).encode()).hexdigest(),
            parts=(),
            curve=curve,
            rows=self.rows or other.rows,
            entry="",
            what="",
            share_of=share_of,
        )

    def __radd__(self, other: int) -> PrivacyReport:
        """Support `sum`, which starts with 0."""
        return self if type(other) is int and other == 0 else NotImplemented

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the report as JSON; write it to `path`."""
        return write_text(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the report as a stand-alone HTML page; write it to `path`."""
        return write_text(report_document(self).to_html(), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the report as Markdown; write it to `path`."""
        return write_text(report_document(self).to_markdown(), path)

    def _repr_html_(self) -> str:
        """Return the page in an iframe, so that its style does not reach the notebook's."""
        page = escape(self.to_html())
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 32rem; border: 0"></iframe>'


def check_private(*reports: PrivacyReport) -> None:
    """Refuse to compose reports without a guarantee."""
    if any(report.public_rows for report in reports):
        raise BudgetError("a report about rows that were declared public has no guarantee to add")


def added_curve(one: PrivacyReport, other: PrivacyReport) -> Curve | None:
    """Return the composed curve of two guarantees about the same neighbours, if both have one."""
    if one.curve is None or other.curve is None or one.relation != other.relation:
        return None
    return one.curve + other.curve


def _costs(
    one: PrivacyReport, other: PrivacyReport, accountant: str
) -> tuple[list[tuple[PrivacyReport, float]], str]:
    """Return the additive cost of each of two reports, and the name of the quantity."""
    if accountant == "sum":
        return [(one, one.epsilon), (other, other.epsilon)], BY_PART
    curves = [report.curve for report in (one, other)]
    costs = [0.0 if curve is None else curve.mu_squared or 0.0 for curve in curves]
    gaussian = accountant == "gdp" and {one.share_of, other.share_of} == {MU_SQUARED}
    return list(zip((one, other), costs, strict=True)), MU_SQUARED if gaussian else ""


def pool_releases(
    parts: Sequence[tuple[PrivacyReport, float]], of: str
) -> tuple[tuple[Release, ...], str]:
    """Return the releases of several reports with shares of the whole, and the quantity shared.

    Parameters
    ----------
    parts : sequence of (PrivacyReport, float)
        Each report with its additive cost.
    of : str
        Name of the additive quantity; empty where there is none: then shares are left out.
    """
    total = math.fsum(cost for _, cost in parts)
    known = bool(of) and 0 < total < math.inf and all(report.share_of for report, _ in parts)
    releases = tuple(
        replace(
            release,
            share=release.share * cost / total if known and release.share is not None else None,
        )
        for report, cost in parts
        for release in report.releases
    )
    return releases, of if known else ""


def write_text(text: str, path: str | Path | None) -> str:
    """Return a text, after writing it to a file if there is a path."""
    if path is not None:
        write_file(path, text.encode())
    return text


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
    replace-one. Seeded inference leaves no guarantee.

    Parameters
    ----------
    inference : PrivacyReport
        Report of the domain inference; it protects the same unit.
    report : PrivacyReport
        Report of the run.
    what : str
        Description of the run.
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
    """Return the report of a stream whose batches have disjoint units.

    The guarantee of a unit is that of its own batch, so the stream has the largest ε and δ.

    Parameters
    ----------
    reports : sequence of PrivacyReport
        Reports of the batches, in order.
    assumption : str
        Reason why no unit is in two batches.
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
