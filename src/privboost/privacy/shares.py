"""Shares of events in the cost of a plan, in a theory with additive costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from privboost.privacy.events.event import Event, Planned
from privboost.privacy.formulas import rdp_to_epsilon
from privboost.reports.curve import ORDERS

MU_SQUARED = "mu squared (Gaussian DP)"
PURE = "epsilon (pure DP)"
BY_PART = "epsilon by part, and within a part of what its own accountant adds up"


@dataclass(frozen=True)
class Shares:
    """Share of each event in the cost of a plan.

    Attributes
    ----------
    of : str
        Name of the additive quantity; empty where there is none.
    by_event : mapping
        Share of all releases of an event together.
    """

    of: str = ""
    by_event: Mapping[Event, float] = field(default_factory=dict)

    @classmethod
    def within(cls, plan: Sequence[Planned], delta: float) -> Shares:
        """Return the shares of a plan's events.

        The quantity is ε where δ is 0, μ² where all events are Gaussian, else the Rényi divergence
        of the best order at δ: costs by bounded-range composition and privacy loss distributions
        are not additive.
        """
        events = [planned.event for planned in plan if planned.count]
        if delta == 0:
            return cls._by(PURE, plan, lambda event: event.pure)
        if all(event.mu is not None for event in events):
            return cls._by(MU_SQUARED, plan, lambda event: (event.mu or 0.0) ** 2)
        order = _best_order(plan, delta)
        if order is None:
            return cls()
        name = f"Rényi divergence of order {order}"
        return cls._by(name, plan, lambda event: event.rdp(order))

    @classmethod
    def _by(
        cls, name: str, plan: Sequence[Planned], cost: Callable[[Event], float | None]
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
        return cls(name, {event: own / total for event, own in spent.items()})


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
