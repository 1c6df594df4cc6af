"""Shares of events in the cost of a plan, in a theory with additive costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from privboost.privacy.events.event import Event, Planned
from privboost.privacy.formulas import rdp_to_epsilon
from privboost.reports.curve import ORDERS

MU_SQUARED = "mu squared (Gaussian DP)"
PURE = "epsilon (pure DP)"
BY_PART = "epsilon by part, and within a part of what its own accountant adds up"


def event_shares(plan: Sequence[Planned], delta: float) -> tuple[str, dict[Event, float]]:
    """Return the additive quantity of a plan, and the share of each event in it.

    The quantity is ε where δ is 0, μ² where all events are Gaussian, else the Rényi divergence of
    the best order at δ: costs by bounded-range composition and privacy loss distributions are not
    additive. Both results are empty where there is no such quantity.
    """
    made = [planned for planned in plan if planned.count]
    cost: Callable[[Event], float | None]
    if delta == 0:
        name, cost = PURE, lambda event: event.pure
    elif all(planned.event.mu is not None for planned in made):
        name, cost = MU_SQUARED, lambda event: (event.mu or 0.0) ** 2
    elif (order := _best_order(made, delta)) is not None:
        name, cost = f"Rényi divergence of order {order}", lambda event: event.rdp(order)
    else:
        return "", {}
    spent: dict[Event, float] = {}
    for planned in made:
        own = cost(planned.event)
        more = math.inf if own is None else planned.count * own
        spent[planned.event] = spent.get(planned.event, 0.0) + more
    total = math.fsum(spent.values())
    if not 0 < total < math.inf:
        return "", {}
    return name, {event: own / total for event, own in spent.items()}


def _best_order(plan: Sequence[Planned], delta: float) -> int | None:
    best, found = math.inf, None
    for order in ORDERS:
        known = [(planned.count, planned.event.rdp(order)) for planned in plan]
        if any(rho is None for _, rho in known):
            continue
        rho = math.fsum(count * (own or 0.0) for count, own in known)
        epsilon = rdp_to_epsilon(order, rho, delta)
        if epsilon < best:
            best, found = epsilon, order
    return found
