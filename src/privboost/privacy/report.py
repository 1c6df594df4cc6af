"""What a model's training leaked at most: the statement that goes with the model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from privboost.privacy.ledger import Ledger

RELATION = "add or remove one protected unit"
SEEDED = "no privacy guarantee: seeded"


@dataclass(frozen=True)
class Release:
    """A kind of release, in words, and how often it was made."""

    what: str
    count: int
    mu: float


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
    slack : float
        The part of epsilon that pays for noise on an integer grid.
    releases : tuple of Release
        Every release, in words.
    assumptions : tuple of str
        What was taken to be public, and what else the guarantee rests on.
    seeded : bool
        Whether the noise came from a seed; then there is no guarantee.
    plan : str
        SHA-256 of the public plan.
    """

    epsilon: float
    delta: float
    relation: str
    unit: str
    accountant: str
    slack: float
    releases: tuple[Release, ...]
    assumptions: tuple[str, ...]
    seeded: bool
    plan: str

    @property
    def guarantee(self) -> str:
        """The statement in one line."""
        if self.seeded:
            return SEEDED
        return f"({_up(self.epsilon)}, {_up(self.delta)})-differential privacy"

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
        if self.seeded:
            same = f"({_up(self.epsilon)}, {_up(self.delta)})"
            lines.append(f"  note        with secure noise the same run would be {same}-DP")
        lines.append("  releases")
        lines += [f"    {release.count} × {release.what}" for release in self.releases]
        lines.append("  assumed")
        lines += [f"    {assumption}" for assumption in self.assumptions]
        lines.append(f"  plan        sha256 {self.plan}")
        return "\n".join(lines)

    __repr__ = __str__


def _up(value: float) -> str:
    """Write a number in six digits, never below its value."""
    text = f"{value:.6g}"
    while float(text) < value:
        value += abs(value) * 1e-6
        text = f"{value:.6g}"
    return text


def write_report(
    ledger: Ledger, unit: str, assumptions: tuple[str, ...], seeded: bool, plan: str
) -> PrivacyReport:
    """State what a ledger's reservations guarantee."""
    profile = ledger.profile
    return PrivacyReport(
        epsilon=profile.epsilon(ledger.delta),
        delta=ledger.delta,
        relation=RELATION,
        unit=unit,
        accountant=ledger.accountant.name,
        slack=profile.slack(ledger.delta),
        releases=tuple(
            Release(planned.event.describe(), planned.count, planned.event.mu)
            for planned in ledger.reserved
        ),
        assumptions=assumptions,
        seeded=seeded,
        plan=plan,
    )
