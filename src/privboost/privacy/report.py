"""What a model's training leaked at most: the statement that goes with the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from privboost import __version__
from privboost.privacy.accountants.choice import compare_accountants
from privboost.privacy.events import ADD_REMOVE, REPLACE_ONE, Event, Planned
from privboost.privacy.formulas import replace_one
from privboost.privacy.ledger import Ledger

SEEDED = "no privacy guarantee: seeded"


_LISTED = 20
"""How many releases and reasons the text form lists; the other forms have all."""


@dataclass(frozen=True)
class Release:
    """A kind of release, how it was made, and how often."""

    what: str
    count: int
    mechanism: str


@dataclass(frozen=True)
class PrivacyReport:
    """What was spent, on what, and under which assumptions.

    Attributes
    ----------
    epsilon, delta : float
        The proved guarantee: (ε, δ)-differential privacy of everything that left the data. With
        `seeded`, the guarantee that the same run would have had with secure noise.
    relation : str
        Which tables count as neighbours.
    unit : str
        Who is protected.
    accountant : str
        The theory that composed the releases.
    alternatives : dict
        The ε that every accountant which covers the releases would state at this δ.
    slack : float
        The part of epsilon that pays for noise on an integer grid.
    releases : tuple of Release
        Every release, in words.
    assumptions : tuple of str
        What was taken to be public, and what else the guarantee rests on.
    seeded : bool
        Whether the noise came from a seed; then there is no guarantee.
    parameters : dict
        The parameters of the plan.
    plan : str
        SHA-256 of the public plan.
    software : str
        The package and its version.
    """

    epsilon: float
    delta: float
    relation: str
    unit: str
    accountant: str
    alternatives: dict[str, float]
    slack: float
    releases: tuple[Release, ...]
    assumptions: tuple[str, ...]
    seeded: bool
    parameters: dict[str, Any]
    plan: str
    software: str

    @property
    def guarantee(self) -> str:
        """The statement in one line."""
        if self.seeded:
            return SEEDED
        if self.delta == 0:
            return f"{round_up(self.epsilon)}-differential privacy (pure)"
        return f"({round_up(self.epsilon)}, {round_up(self.delta)})-differential privacy"

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON."""
        form = asdict(self) | {"guarantee": self.guarantee}
        return form | {
            "releases": [asdict(release) for release in self.releases],
            "assumptions": list(self.assumptions),
        }

    @classmethod
    def from_dict(cls, form: dict[str, Any]) -> PrivacyReport:
        """Read what `to_dict` gave."""
        fields = {name: value for name, value in form.items() if name != "guarantee"}
        fields["releases"] = tuple(Release(**release) for release in form["releases"])
        fields["assumptions"] = tuple(form["assumptions"])
        return cls(**fields)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False)

    def to_html(self) -> str:
        """Return the report as a page that stands alone."""
        from privboost.report import privacy_page

        return privacy_page(self)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        lines = [
            f"Privacy: {self.guarantee}",
            f"  neighbours  {self.relation}",
            f"  unit        {self.unit}",
            f"  accountant  {self.accountant}; discretisation slack {self.slack:.2g} of epsilon",
        ]
        others = [
            f"{n} {round_up(e)}" for n, e in self.alternatives.items() if n != self.accountant
        ]
        if others:
            lines.append(f"  otherwise   epsilon by {', '.join(others)}")
        if self.seeded:
            same = f"({round_up(self.epsilon)}, {round_up(self.delta)})"
            lines.append(f"  note        with secure noise the same run would be {same}-DP")
        for mechanism in dict.fromkeys(release.mechanism for release in self.releases):
            lines.append(f"  released with {mechanism}")
            made = [r for r in self.releases if r.mechanism == mechanism]
            lines += _few([f"    {release.count} × {release.what}" for release in made])
        lines.append("  assumed")
        lines += _few([f"    {assumption}" for assumption in self.assumptions])
        lines.append("  parameters  " + ", ".join(f"{k}={v}" for k, v in self.parameters.items()))
        lines.append(f"  made by     {self.software}, plan sha256 {self.plan}")
        return "\n".join(lines)

    __repr__ = __str__


def add_reports(first: PrivacyReport, second: PrivacyReport) -> PrivacyReport:
    """State what two guarantees about the same rows are worth together: ε and δ add up.

    A guarantee about adding or removing a unit is converted first where the second is about
    replacing one.
    """
    if (first.relation, second.relation) == (ADD_REMOVE, REPLACE_ONE):
        epsilon, delta = replace_one(first.epsilon, first.delta)
        first = replace(first, epsilon=epsilon, delta=delta, relation=REPLACE_ONE)
    if first.relation != second.relation:
        raise ValueError("guarantees of different neighbouring relations do not add up")
    return replace(
        second,
        epsilon=first.epsilon + second.epsilon,
        delta=first.delta + second.delta,
        alternatives={
            name: first.epsilon + epsilon for name, epsilon in second.alternatives.items()
        },
        slack=first.slack + second.slack,
        releases=(*first.releases, *second.releases),
    )


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
    worst = max(reports, key=lambda report: report.epsilon)
    if len(reports) == 1:
        return worst
    shared = set.intersection(*(set(report.alternatives) for report in reports))
    return replace(
        worst,
        delta=max(report.delta for report in reports),
        alternatives={
            name: max(report.alternatives[name] for report in reports)
            for name in worst.alternatives
            if name in shared
        },
        slack=max(report.slack for report in reports),
        releases=tuple(
            replace(release, what=f"batch {number}: {release.what}")
            for number, report in enumerate(reports, 1)
            for release in report.releases
        ),
        assumptions=(
            *dict.fromkeys(said for report in reports for said in report.assumptions),
            assumption,
        ),
        seeded=any(report.seeded for report in reports),
        parameters=reports[-1].parameters,
        plan=hashlib.sha256("".join(report.plan for report in reports).encode()).hexdigest(),
    )


def round_up(value: float) -> str:
    """Write a number in six digits, never below its value."""
    text, more = f"{value:.6g}", value
    while float(text) < value:
        more += abs(value) * 1e-6
        text = f"{more:.6g}"
    return text


def _few(lines: list[str]) -> list[str]:
    if len(lines) <= _LISTED:
        return lines
    return [*lines[:_LISTED], f"    … and {len(lines) - _LISTED} more, in to_json() and to_html()"]


def _listed(plan: Sequence[Planned]) -> list[Release]:
    """Return releases in words; those that are made in several places of a plan are one."""
    counts: dict[Event, int] = {}
    for planned in plan:
        counts[planned.event] = counts.get(planned.event, 0) + planned.count
    return [Release(event.what, count, event.mechanism) for event, count in counts.items()]


def write_report(
    ledger: Ledger,
    unit: str,
    assumptions: tuple[str, ...],
    seeded: bool,
    parameters: dict[str, Any],
    plan: str,
) -> PrivacyReport:
    """State what a ledger's reservations guarantee."""
    profile = ledger.profile
    return PrivacyReport(
        epsilon=ledger.accountant.cost(ledger.reserved, ledger.delta),
        delta=ledger.delta,
        relation=ledger.reserved[0].event.relation if ledger.reserved else ADD_REMOVE,
        unit=unit,
        accountant=ledger.accountant.name,
        alternatives=compare_accountants(ledger.reserved, ledger.delta),
        slack=profile.slack(ledger.delta),
        releases=(
            *_listed(ledger.reserved),
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
    )
