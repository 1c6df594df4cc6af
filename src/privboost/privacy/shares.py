"""Where a budget went: each release's share of what a plan spends, in a theory that adds up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from privboost.privacy.events.event import Event, Planned
from privboost.privacy.formulas import rdp_to_epsilon
from privboost.reports.curve import ORDERS
from privboost.reports.report import PrivacyReport, Release

MU_SQUARED = "mu squared (Gaussian DP)"
PURE = "epsilon (pure DP)"
BY_PART = "epsilon by part, and within a part of what its own accountant adds up"


@dataclass(frozen=True)
class Shares:
    """The share of each event in what a plan spends.

    Attributes
    ----------
    of : str
        What adds up, in words; empty where nothing does.
    by_event : mapping
        The share of all its releases together.
    """

    of: str = ""
    by_event: Mapping[Event, float] = field(default_factory=dict)

    @classmethod
    def within(cls, plan: Sequence[Planned], delta: float) -> Shares:
        """Share out what a plan spends.

        By μ² where all of it is Gaussian, by ε where δ is 0, else by the Rényi divergence of the
        order that says least at δ: of the game and of privacy losses no part belongs to a release.
        """
        events = [planned.event for planned in plan if planned.count]
        if delta == 0:
            return cls._by(PURE, plan, lambda event: event.pure)
        if all(event.mu is not None for event in events):
            return cls._by(MU_SQUARED, plan, lambda event: (event.mu or 0.0) ** 2)
        order = _best_order(plan, delta)
        if order is None:
            return cls()
        words = f"Rényi divergence of order {order}"
        return cls._by(words, plan, lambda event: event.rdp(order))

    @classmethod
    def _by(
        cls, words: str, plan: Sequence[Planned], cost: Callable[[Event], float | None]
    ) -> Shares:
        spent: dict[Event, float] = {}
        for planned in plan:
            if planned.count:
                own = cost(planned.event)
                more = math.inf if own is None else planned.count * own
                spent[planned.event] = spent.get(planned.event, 0.0) + more
        total = math.fsum(spent.values())
        if not 0 < total < math.inf:
            return cls()
        return cls(words, {event: own / total for event, own in spent.items()})


def _best_order(plan: Sequence[Planned], delta: float) -> int | None:
    best, found = math.inf, None
    for order in ORDERS:
        known = [(planned.count, planned.event.rdp(order)) for planned in plan if planned.count]
        if any(rho is None for _, rho in known):
            continue
        rho = math.fsum(count * (own or 0.0) for count, own in known)
        epsilon = rdp_to_epsilon(order, rho, delta)
        if epsilon < best:
            best, found = epsilon, order
    return found


def pool(parts: Sequence[tuple[PrivacyReport, float]], of: str) -> tuple[tuple[Release, ...], str]:
    """Return the releases of several reports with shares of the whole, and what those are of.

    Parameters
    ----------
    parts : sequence of (PrivacyReport, float)
        Each report, and what it takes of what adds up.
    of : str
        What adds up, in words; empty where nothing does: then shares are left out.
    """
    total = math.fsum(size for _, size in parts)
    known = bool(of) and 0 < total < math.inf and all(report.share_of for report, _ in parts)
    releases = tuple(
        replace(
            release,
            share=release.share * size / total if known and release.share is not None else None,
        )
        for report, size in parts
        for release in report.releases
    )
    return releases, of if known else ""
