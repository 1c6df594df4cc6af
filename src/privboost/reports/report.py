"""`PrivacyReport`: the guarantee of a run; its validation, its JSON and text, and its sums."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from privboost._core.checks import MAX_INT, is_number, is_writable
from privboost._core.errors import BudgetError
from privboost._core.files import write_file
from privboost._core.hooks import resolve
from privboost._core.unit import Unit, column_of, describe_unit
from privboost.accounting.composition import BY_PART, MU_SQUARED, Curve, curve_epsilons
from privboost.accounting.formulas import round_up

WEIGHTED = "sample weights are clipped to"
SEEDED = "no privacy guarantee: seeded"
PUBLIC = "NO PRIVACY: the caller declared all rows public, and nothing is protected"

_DERIVED = ("guarantee", "protects")
_MAX_FLOAT = sys.float_info.max
_MAX_LINES = 20
"""Releases and assumptions that the text lists; JSON and HTML have all of them."""
_TOLERANCE = 1e-6
"""Relative difference between the ε of a curve and the stated ε: machines round differently."""


@dataclass(frozen=True)
class Release:
    """A kind of release, its mechanism and count, and its share of the whole cost.

    The share is None where it is unknown, or where another release pays.
    """

    what: str
    count: int
    mechanism: str
    share: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible dict; an unknown share is left out."""
        out = asdict(self)
        if self.share is None:
            del out["share"]
        return out


@dataclass(frozen=True)
class Part:
    """One of several guarantees whose ε and δ add up to those of a report."""

    what: str
    epsilon: float
    delta: float


@dataclass(frozen=True)
class PrivacyReport:
    """The privacy guarantee of a run: its cost, its releases and its assumptions.

    ``report_a + report_b`` is the report of two runs on the same rows.

    Attributes
    ----------
    epsilon, delta : float
        The proved guarantee: (ε, δ)-differential privacy of all releases. With `seeded`, the
        guarantee that the same run would have had with secure noise.
    relation : str
        Neighbouring relation.
    unit : Unit or None
        Protected unit; None is one row.
    accountant : str
        Accountant that composed the releases.
    alternatives : dict
        ε at this δ by every accountant that covers the releases.
    slack : float
        Part of ε that pays for noise on an integer grid.
    releases : tuple of Release
        Every kind of release.
    assumptions : tuple of str
        Facts that were taken to be public, and whatever else the guarantee rests on.
    seeded : bool
        Whether the noise came from a seed; then there is no guarantee.
    parameters : dict
        Parameters of the plan.
    plan : str
        SHA-256 of the public plan.
    software : str
        Package and version.
    parts : tuple of Part
        The guarantees whose sum this is, if there are several: domain inference on the same rows,
        and training.
    public_rows : bool
        Whether the caller declared all rows public: nothing is protected, epsilon is infinite
        (null in JSON) and delta 1.
    curve : Curve or None
        Quantities by which the report composes with others; None where it does not.
    rows : str
        Account of the rows, where one was charged: reports about other rows do not add up.
    entry : str
        Key of the account's entry.
    what : str
        What was run: the estimator's name, or "evaluate"; may be empty.
    share_of : str
        The quantity that shares of releases divide; empty where there are none.
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
        """The guarantee in one line."""
        if self.public_rows:
            return PUBLIC
        if self.seeded:
            return SEEDED
        if self.delta == 0:
            return f"{round_up(self.epsilon)}-differential privacy (pure)"
        return f"({round_up(self.epsilon)}, {round_up(self.delta)})-differential privacy"

    @property
    def protects(self) -> str:
        """Description of the protected unit."""
        return "nobody" if self.public_rows else describe_unit(self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible dict, without empty optional fields."""
        out = asdict(self)
        for name in ("what", "share_of"):
            if not out[name]:
                del out[name]
        # JSON has no infinity.
        public = {"epsilon": None, "public_rows": True} if out.pop("public_rows") else {}
        return out | {
            "guarantee": self.guarantee,
            "protects": self.protects,
            "unit": None if self.unit is None else self.unit.to_dict(),
            "releases": [release.to_dict() for release in self.releases],
            "assumptions": list(self.assumptions),
            "parts": [asdict(part) for part in self.parts],
            "curve": None if self.curve is None else self.curve.to_dict(),
            **public,
        }

    @classmethod
    def from_dict(cls, form: dict[str, Any]) -> PrivacyReport:
        """Read a dict of `to_dict`.

        Raises
        ------
        ValueError
            If a field is impossible, or the curve implies less than the stated ε.
        """
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
        report._check_curve()
        return report

    def _check(self) -> None:
        """Refuse values that no report has; a file may hold anything."""
        costs: list[PrivacyReport | Part] = [self, *self.parts]
        texts = [self.relation, self.accountant, self.plan, self.software, *self.assumptions]
        texts += [text for each in self.releases for text in (each.what, each.mechanism)]
        texts += [self.rows, self.entry, self.what, self.share_of]
        texts += [*(part.what for part in self.parts), *self.alternatives, *self.parameters]
        if self.public_rows is True:
            self._check_public()
            costs = []
        epsilons = [*(each.epsilon for each in costs), self.slack]
        epsilons += [value for value in self.alternatives.values() if value != math.inf]
        counts = [each.count for each in self.releases]
        shares = [each.share for each in self.releases if each.share is not None]
        rules = {
            "texts": all(map(is_writable, texts)),
            "epsilon": all(is_number(value) and 0 <= value <= _MAX_FLOAT for value in epsilons),
            "delta": all(is_number(each.delta) and 0 <= each.delta <= 1 for each in costs),
            "counts": all(type(count) is int and 0 <= count <= MAX_INT for count in counts),
            "shares": all(is_number(share) and 0 <= share <= 1 for share in shares),
            "seeded": isinstance(self.seeded, bool),
            "public_rows": isinstance(self.public_rows, bool),
            "parameters": all(_is_plain(value) for value in self.parameters.values()),
        }
        for part, holds in rules.items():
            if not holds:
                raise ValueError(f"{part}: not a value that a report can have")

    def _check_public(self) -> None:
        """Refuse a guarantee in a report about public rows."""
        empty = not (self.unit or self.parts or self.alternatives or self.curve or self.entry)
        if not (empty and self.epsilon == math.inf and self.delta == 1 and self.slack == 0):
            raise ValueError("public_rows: such a report has no guarantee")

    def _check_curve(self) -> None:
        """Refuse a curve that implies less than the stated ε: sums and account charges use it.

        A curve may imply less than one accountant's ε where another's is smaller, but not less
        than the smallest. With several parts the rule holds for each. Nothing is checked where δ
        is 0 or used up by thresholds: no ε follows from a curve there.
        """
        if self.curve is None:
            return
        saved = self.epsilon - min([self.epsilon, *self.alternatives.values()])
        for part in self.parts or (Part("", self.epsilon, self.delta),):
            try:
                with np.errstate(all="ignore"):  # a file may hold any numbers
                    found = curve_epsilons(self.curve, part.delta) if part.delta < 1 else {}
            except (ArithmeticError, RuntimeError):
                raise ValueError("curve: no epsilon follows from it") from None
            least = (part.epsilon - saved) * (1 - _TOLERANCE)
            if not all(epsilon >= least for epsilon in found.values()):
                raise ValueError("curve: it implies less than the stated epsilon")

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
        return write_text(resolve("report_document")(self).to_html(), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the report as Markdown; write it to `path`."""
        return write_text(resolve("report_document")(self).to_markdown(), path)

    def _repr_html_(self) -> str:
        """Return the page in an iframe, so that its style does not reach the notebook's."""
        page = escape(self.to_html())
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 32rem; border: 0"></iframe>'

    def __str__(self) -> str:
        lines = [f"Privacy: {self.guarantee}"]
        lines += self._public_lines() if self.public_rows else self._guarantee_lines()
        if self.entry:
            lines.append(f"  account     {self.rows}, entry {self.entry}")
        for mechanism in dict.fromkeys(release.mechanism for release in self.releases):
            lines.append(f"  released with {mechanism}")
            made = [r for r in self.releases if r.mechanism == mechanism]
            lines += _shortened([f"    {release.count} × {release.what}" for release in made])
        lines.append("  assumed")
        lines += _shortened([f"    {assumption}" for assumption in self.assumptions])
        lines.append("  parameters  " + ", ".join(f"{k}={v}" for k, v in self.parameters.items()))
        lines.append(f"  made by     {self.software}, plan sha256 {self.plan}")
        return "\n".join(lines)

    __repr__ = __str__

    def _public_lines(self) -> list[str]:
        return [
            "  epsilon     infinite: no noise was added",
            "  rows        declared public by the caller; if they are not, this model leaks them",
        ]

    def _guarantee_lines(self) -> list[str]:
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
            cost = f"({round_up(part.epsilon)}, {round_up(part.delta)}) for {part.what}"
            lines.append(f"  {'' if number else 'sum of':<10}  {cost}")
        if self.seeded:
            same = f"({round_up(self.epsilon)}, {round_up(self.delta)})"
            lines.append(f"  note        with secure noise the same run would be {same}-DP")
        return lines


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

    Each part is a report with its additive cost. Without the name of an additive quantity shares
    are left out.
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


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LINES:
        return lines
    more = len(lines) - _MAX_LINES
    return [*lines[:_MAX_LINES], f"    … and {more} more, in to_json() and to_html()"]


def _is_plain(value: Any, depth: int = 2) -> bool:
    """Whether a parameter is a number, a string, a boolean, None, or a list of such."""
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_plain(each, depth - 1) for each in value)
    if isinstance(value, str):
        return is_writable(value)
    return (
        value is None
        or isinstance(value, float)
        or (isinstance(value, int) and abs(value) <= MAX_INT)
    )
