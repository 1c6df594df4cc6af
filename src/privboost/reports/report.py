"""Privacy reports: written from a ledger, added up, and rendered."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from privboost.errors import BudgetError
from privboost.files import write_file
from privboost.privacy.composition import curve_epsilons
from privboost.privacy.shares import BY_PART, MU_SQUARED
from privboost.reports.curve import Curve
from privboost.reports.record import PUBLIC as PUBLIC
from privboost.reports.record import Part as Part
from privboost.reports.record import Release, ReportRecord
from privboost.reports.sections import report_document
from privboost.unit import column_of

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
