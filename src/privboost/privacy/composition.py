"""Composition of runs: the additive curve of a plan, and ε of sums of curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from privboost.privacy.accountants.discretisation import EXCHANGE_ROOM, grid_allowed
from privboost.privacy.accountants.gdp import GdpAccountant
from privboost.privacy.budgets.life import GaussianBudget
from privboost.privacy.events.event import Event, Planned
from privboost.privacy.formulas import rdp_to_epsilon
from privboost.reports.curve import ORDERS, Curve

_COORDINATES = 2**62
"""Bound on the coordinates of all releases of all runs."""
_MIN_GRID = 2.0**-20
_ROUNDING = 1 + 1e-12


def curve_of(plan: Sequence[Planned]) -> Curve:
    """Return the additive curve of a plan, with the allowance for exchanges."""
    events = [(planned.event, planned.count) for planned in plan if planned.count]
    delta = math.fsum(count * event.extra_delta for event, count in events) * _ROUNDING
    mu = gaussian_sizes(plan)
    return Curve(
        None if mu is None else mu[0],
        0.0 if mu is None else mu[1],
        tuple(_rho(events, order) for order in ORDERS),
        delta,
    )


def gaussian_sizes(plan: Sequence[Planned]) -> tuple[float, float] | None:
    """Return Σμ² and Σ coordinates/σ² of a plan, with the allowance for exchanges.

    None if an event is not Gaussian, or if σ is too small for the slack of the grid.
    """
    if not all(planned.event.mu is not None for planned in plan):
        return None
    grid = grid_allowed(plan)
    mu_squared = math.fsum(planned.count * (planned.event.mu or 0.0) ** 2 for planned in plan)
    return (mu_squared * EXCHANGE_ROOM, grid * EXCHANGE_ROOM) if grid < math.inf else None


def _rho(events: Sequence[tuple[Event, int]], order: int) -> float | None:
    total = 0.0
    for event, count in events:
        known = event.rdp(order)
        if known is None:
            return None
        total += count * known
    return total * EXCHANGE_ROOM if math.isfinite(total) else None


def gaussian_epsilon(mu_squared: float, grid: float, delta: float) -> float:
    """Return ε at δ of any number of Gaussian releases.

    Parameters
    ----------
    mu_squared : float
        Σμ².
    grid : float
        Σ coordinates/σ², which determines the slack of the integer grid; it depends on their
        number only through its logarithm.
    delta : float
        δ.
    """
    if mu_squared == 0:
        return 0.0
    sigma = math.sqrt(_COORDINATES / max(grid, _MIN_GRID * mu_squared))
    together = GaussianBudget(
        "all runs", 1 / math.sqrt(mu_squared), _COORDINATES, touched=1, least_sigma=sigma
    )
    return GdpAccountant().cost([Planned(together, 1)], delta)


def curve_epsilons(curve: Curve, delta: float) -> dict[str, float]:
    """Return ε at δ by each theory of a curve; empty where thresholds use δ up."""
    left = delta - curve.extra_delta * _ROUNDING
    found = {}
    if left > 0 and curve.mu_squared is not None:
        found["gdp"] = gaussian_epsilon(curve.mu_squared * _ROUNDING, curve.grid * _ROUNDING, left)
    if left > 0 and any(rho is not None for rho in curve.rho):
        pairs = [(o, r) for o, r in zip(ORDERS, curve.rho, strict=True) if r is not None]
        found["rdp"] = min(rdp_to_epsilon(order, rho * _ROUNDING, left) for order, rho in pairs)
    return found
