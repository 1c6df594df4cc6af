"""What was released and what each release took, and what the promise rests on."""

from __future__ import annotations

from privboost.cards.blocks import Bar, Block, Listing, Section, Table, Text
from privboost.reports.report import PrivacyReport, Release

_MOST_PARTS = 7
"""So many parts of a bar can be told apart."""


def spending_section(report: PrivacyReport) -> Section:
    """Return the releases as a table, and where the budget went as a bar."""
    blocks: list[Block] = []
    if report.share_of:
        blocks.append(Bar(f"Where the budget went: shares of {report.share_of}", _parts(report)))
    if not report.releases:
        return Section("What was released", (Text("Nothing."),))
    head = ("Release, and how it was made", "Times", "Share")[: 3 if report.share_of else 2]
    rows = tuple(
        (f"{each.what}: {each.mechanism}", str(each.count), _share(each))[: len(head)]
        for each in report.releases
    )
    blocks.append(Table("Every kind of release", rows, head, frozenset({1, 2})))
    return Section("What was released", tuple(blocks))


def assumption_section(report: PrivacyReport) -> Section:
    """Return what the promise rests on."""
    said = report.assumptions
    return Section("What was assumed", (Listing(said) if said else Text("Nothing."),))


def _share(release: Release) -> str:
    return "paid above" if release.share is None else f"{release.share:.1%}".replace("%", " %")


def _parts(report: PrivacyReport) -> tuple[tuple[str, float], ...]:
    """Return names with shares, the largest first, small ones joined."""
    shares: dict[str, float] = {}
    for each in report.releases:
        if each.share is not None:
            shares[each.what] = shares.get(each.what, 0.0) + each.share
    parts = sorted(shares.items(), key=lambda part: -part[1])
    if len(parts) > _MOST_PARTS:
        rest = parts[_MOST_PARTS - 1 :]
        parts = [*parts[: _MOST_PARTS - 1], (f"{len(rest)} others", sum(s for _, s in rest))]
    return tuple(parts)
