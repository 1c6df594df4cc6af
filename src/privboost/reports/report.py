"""What a model's training leaked at most: the statement that goes with the model."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import MISSING, asdict, dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

from privboost.files import write_file
from privboost.forms import MAX_INT, is_writable
from privboost.reports.curve import Curve
from privboost.unit import Unit, describe_unit

SEEDED = "no privacy guarantee: seeded"
WEIGHTED = "sample weights are clipped to"
PUBLIC = "NO PRIVACY: the caller declared all rows public, and nothing is protected"

_DERIVED = ("guarantee", "protects")
_MOST = sys.float_info.max
_LISTED = 20
"""How many releases and reasons the text form lists; the other forms have all."""


@dataclass(frozen=True)
class Release:
    """A kind of release, how it was made, how often, and its share of what was spent.

    The share is of all of them together; None where it is not told, or another release pays.
    """

    what: str
    count: int
    mechanism: str
    share: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON; a share that is not told is left out."""
        form = asdict(self)
        if self.share is None:
            del form["share"]
        return form


@dataclass(frozen=True)
class Part:
    """One of the guarantees that add up to a report's, and what it is worth there."""

    what: str
    epsilon: float
    delta: float


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
    unit : Unit or None
        Who is protected; None is one row.
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
    parts : tuple of Part
        The guarantees whose sum this is, if there are several: a domain learned from the same
        rows, and training.
    public_rows : bool
        Whether the caller declared all rows public: nothing is protected, epsilon is infinite
        (null in JSON) and delta 1.
    curve : Curve or None
        What it adds up by with other reports; None where it does not.
    rows : str
        The account of the rows, where one was charged: reports of other rows do not add up.
    entry : str
        The account's name for what was charged.
    what : str
        What spent it, in a word: the estimator's name, or "evaluate"; empty where that is not told.
    share_of : str
        What shares of releases are shares of; empty where there are none.
    """

    epsilon: float
    delta: float
    relation: str
    unit: Unit | None
    accountant: str
    alternatives: dict[str, float]
    slack: float
    releases: tuple[Release, ...]
    assumptions: tuple[str, ...]
    seeded: bool
    parameters: dict[str, Any]
    plan: str
    software: str
    parts: tuple[Part, ...] = ()
    public_rows: bool = False
    curve: Curve | None = None
    rows: str = ""
    entry: str = ""
    what: str = ""
    share_of: str = ""

    @property
    def guarantee(self) -> str:
        """The statement in one line."""
        if self.public_rows:
            return PUBLIC
        if self.seeded:
            return SEEDED
        if self.delta == 0:
            return f"{round_up(self.epsilon)}-differential privacy (pure)"
        return f"({round_up(self.epsilon)}, {round_up(self.delta)})-differential privacy"

    @property
    def protects(self) -> str:
        """Who is protected, in words."""
        return "nobody" if self.public_rows else describe_unit(self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON, which has no infinite number; what is not told is left out."""
        own = asdict(self)
        for name in ("what", "share_of"):
            if not own[name]:
                del own[name]
        if not own.pop("public_rows"):
            return own | self._written_parts()
        return own | self._written_parts() | {"epsilon": None, "public_rows": True}

    def _written_parts(self) -> dict[str, Any]:
        return {
            "guarantee": self.guarantee,
            "protects": self.protects,
            "unit": None if self.unit is None else self.unit.to_dict(),
            "releases": [release.to_dict() for release in self.releases],
            "assumptions": list(self.assumptions),
            "parts": [asdict(part) for part in self.parts],
            "curve": None if self.curve is None else self.curve.to_dict(),
        }

    @classmethod
    def from_dict(cls, form: dict[str, Any]) -> PrivacyReport:
        """Read what `to_dict` gave; raise ValueError for what cannot be a statement."""
        names = {each.name for each in fields(cls)}
        needed = {each.name for each in fields(cls) if each.default is MISSING} | set(_DERIVED)
        if not isinstance(form, dict) or not needed <= set(form) <= names | needed:
            raise ValueError("a report has these parts: " + ", ".join(sorted(names)))
        own = {name: form[name] for name in names if name in form}
        own["unit"] = None if form["unit"] is None else Unit.from_dict(form["unit"])
        own["releases"] = tuple(Release(**release) for release in form["releases"])
        own["assumptions"] = tuple(form["assumptions"])
        own["parts"] = tuple(Part(**part) for part in form.get("parts", ()))
        if form.get("curve") is not None:
            own["curve"] = Curve.from_dict(form["curve"])
        if own.get("public_rows") is True and own["epsilon"] is None:
            own["epsilon"] = math.inf
        report = cls(**own)
        report._check()
        if report.curve is not None:
            from privboost.privacy.statements import check_curve

            check_curve(report)
        return report

    def _check(self) -> None:
        """Refuse what cannot be a statement; it may come from anywhere."""
        spent: list[PrivacyReport | Part] = [self, *self.parts]
        texts = [self.relation, self.accountant, self.plan, self.software, *self.assumptions]
        texts += [text for each in self.releases for text in (each.what, each.mechanism)]
        texts += [self.rows, self.entry, self.what, self.share_of]
        texts += [*(part.what for part in self.parts), *self.alternatives, *self.parameters]
        if self.public_rows is True:
            self._check_public()
            spent = []
        epsilons = [*(each.epsilon for each in spent), self.slack]
        epsilons += [value for value in self.alternatives.values() if value != math.inf]
        counts = [each.count for each in self.releases]
        rules = {
            "texts": all(map(is_writable, texts)),
            "epsilon": all(_is_number(value) and 0 <= value <= _MOST for value in epsilons),
            "delta": all(_is_number(each.delta) and 0 <= each.delta <= 1 for each in spent),
            "counts": all(type(count) is int and 0 <= count <= MAX_INT for count in counts),
            "shares": all(_is_share(each.share) for each in self.releases),
            "seeded": isinstance(self.seeded, bool),
            "public_rows": isinstance(self.public_rows, bool),
            "parameters": all(_is_plain(value) for value in self.parameters.values()),
        }
        for part, holds in rules.items():
            if not holds:
                raise ValueError(f"{part}: not what a report has there")

    def _check_public(self) -> None:
        """Refuse a promise where there is none."""
        nothing = not (self.unit or self.parts or self.alternatives or self.curve or self.entry)
        if not (nothing and self.epsilon == math.inf and self.delta == 1 and self.slack == 0):
            raise ValueError("public_rows: such a report promises nothing")

    def __add__(self, other: PrivacyReport) -> PrivacyReport:
        """State what two runs on the same rows cost together.

        Raises
        ------
        BudgetError
            If they are about other rows, units or neighbours, or promise nothing.
        """
        from privboost.privacy.statements import add_reports

        return add_reports(self, other)

    def __radd__(self, other: int) -> PrivacyReport:
        """Let `sum` begin with 0: nothing is spent before the first run."""
        return self if type(other) is int and other == 0 else NotImplemented

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the report as JSON, and write it to `path` if one is given."""
        return _written(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the report as a page that stands alone, and write it to `path` if one is given."""
        from privboost.cards.card import report_card

        return report_card(self).to_html(path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the report as Markdown, and write it to `path` if one is given."""
        from privboost.cards.card import report_card

        return report_card(self).to_markdown(path)

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own: its style must not reach the notebook's."""
        page = escape(self.to_html())
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 32rem; border: 0"></iframe>'

    def __str__(self) -> str:
        lines = [f"Privacy: {self.guarantee}"]
        lines += self._told_as_public() if self.public_rows else self._promised()
        if self.entry:
            lines.append(f"  account     {self.rows}, entry {self.entry}")
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

    def _told_as_public(self) -> list[str]:
        return [
            "  epsilon     infinite: no noise was added",
            "  rows        declared public by the caller; if they are not, this model leaks them",
        ]

    def _promised(self) -> list[str]:
        lines = [
            f"  neighbours  {self.relation}",
            f"  unit        {self.protects}",
            f"  accountant  {self.accountant}; discretisation slack {self.slack:.2g} of epsilon",
        ]
        others = [
            f"{n} {round_up(e)}" for n, e in self.alternatives.items() if n != self.accountant
        ]
        if others:
            lines.append(f"  otherwise   epsilon by {', '.join(others)}")
        for number, part in enumerate(self.parts):
            worth = f"({round_up(part.epsilon)}, {round_up(part.delta)}) for {part.what}"
            lines.append(f"  {'' if number else 'sum of':<10}  {worth}")
        if self.seeded:
            same = f"({round_up(self.epsilon)}, {round_up(self.delta)})"
            lines.append(f"  note        with secure noise the same run would be {same}-DP")
        return lines


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_file(path, text.encode())
    return text


def round_up(value: float) -> str:
    """Write a number in six digits, never below its value."""
    text, more = f"{value:.6g}", value
    while float(text) < value:
        # The smallest numbers are further apart than a part of themselves.
        more = max(more + abs(value) * 1e-6, math.nextafter(more, math.inf))
        text = f"{more:.6g}"
    return text


def _few(lines: list[str]) -> list[str]:
    if len(lines) <= _LISTED:
        return lines
    return [*lines[:_LISTED], f"    … and {len(lines) - _LISTED} more, in to_json() and to_html()"]


def _is_plain(value: Any, depth: int = 2) -> bool:
    """Say whether a parameter is a number, a text, true, false, nothing, or a list of such."""
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_plain(each, depth - 1) for each in value)
    if isinstance(value, str):
        return is_writable(value)
    return (
        value is None
        or isinstance(value, float)
        or (isinstance(value, int) and abs(value) <= MAX_INT)
    )


def _is_share(value: Any) -> bool:
    return value is None or (_is_number(value) and 0 <= value <= 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
