"""Additive costs of plans: μ² or Rényi divergences, which add up over releases and runs.

A `Curve` has those of a run; ε of several runs follows from their sum. The event of a search is
made of the curve of one of its runs, and the shares of events divide the cost of a plan.
"""

from __future__ import annotations

import math
import operator
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from privboost.accounting.accountants import GdpAccountant
from privboost.accounting.events import Event, Planned
from privboost.accounting.formulas import rdp_to_epsilon
from privboost.accounting.grid_slack import EXCHANGE_ROOM, grid_allowed
from privboost.accounting.individual_budgets import GaussianBudget
from privboost.randomness.sampling import mean_runs

ORDERS = (*range(2, 65), 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024)
"""Rényi orders of a curve."""


@dataclass(frozen=True)
class Curve:
    """Cost of releases in theories with additive costs.

    Attributes
    ----------
    mu_squared : float or None
        Σμ² of Gaussian DP; None unless every release is Gaussian on all rows.
    grid : float
        Σ coordinates/σ², which determines the slack of the integer grid.
    rho : tuple of float or None
        Rényi divergence of each of `ORDERS`, or None.
    extra_delta : float
        Failure probability of thresholds, which adds to δ.
    """

    mu_squared: float | None
    grid: float
    rho: tuple[float | None, ...]
    extra_delta: float = 0.0

    def __add__(self, other: Curve) -> Curve:
        return self._merged(other, operator.add)

    def joined(self, other: Curve) -> Curve:
        """Return the pointwise maximum: the cost for units that are in one of two batches."""
        return self._merged(other, max)

    def _merged(self, other: Curve, merge: Callable[[float, float], float]) -> Curve:
        def optional(one: float | None, two: float | None) -> float | None:
            return None if one is None or two is None else merge(one, two)

        return Curve(
            optional(self.mu_squared, other.mu_squared),
            merge(self.grid, other.grid),
            tuple(map(optional, self.rho, other.rho)),
            merge(self.extra_delta, other.extra_delta),
        )

    def rho_at(self, order: int) -> float:
        """Return a bound on the divergence of an order: that of the next order in `ORDERS`."""
        place = bisect_left(ORDERS, order)
        known = self.rho[place] if place < len(ORDERS) else None
        return math.inf if known is None else known

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible dict."""
        return asdict(self) | {"rho": list(self.rho)}

    @classmethod
    def from_dict(cls, form: Any) -> Curve:
        """Read a dict of `to_dict`; raise ValueError if it is invalid."""
        if not isinstance(form, dict) or set(form) != _PARTS:
            raise ValueError(f"curve: {', '.join(sorted(_PARTS))} are needed")
        if not isinstance(form["rho"], list) or len(form["rho"]) != len(ORDERS):
            raise ValueError("curve: rho has a number or null for each order")
        numbers = [form["mu_squared"], *form["rho"]]
        sizes = [form["grid"], form["extra_delta"]]
        if None in sizes or not all(map(_is_size, [*sizes, *numbers])):
            raise ValueError("curve: numbers of at least 0 are needed")
        return cls(**form | {"rho": tuple(form["rho"])})


_PARTS = {"mu_squared", "grid", "rho", "extra_delta"}


def _is_size(value: Any) -> bool:
    if value is None:
        return True
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= sys.float_info.max  # integers may be larger


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
    """Return ε at δ of any number of Gaussian releases with these Σμ² and Σ coordinates/σ².

    The latter determines the slack of the integer grid, which depends on the number of releases
    only through its logarithm.
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


_UP = 1 + 1e-12


@dataclass(frozen=True)
class SearchRelease(Event):
    """The run with the best released score, of K runs with P(K = k) ∝ (1 − γ)^k / k.

    With ρ(α) the divergence of one run, that of the search is, for any order λ,
    ρ(α) + (1 − 1/λ)ρ(λ) + ln(1/γ)/λ + ln E[K]/(α − 1): the theorem of Papernot and Steinke for
    truncated negative binomial numbers of runs with η = 0.

    Attributes
    ----------
    noise : float
        1: each run has noise of its own.
    stop : float
        γ.
    rho : tuple of float or None
        Divergence of one run at each of `ORDERS`.
    """

    kind: ClassVar[str] = "search"
    plain_mu_squared: ClassVar[float] = 1.0
    stop: float
    rho: tuple[float | None, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.stop < 1:
            raise ValueError("the stopping probability must lie between 0 and 1")

    def rdp(self, alpha: int) -> float | None:
        """Return the Rényi divergence of the winner: its score, model and parameters."""
        own = Curve(None, 0.0, self.rho).rho_at(alpha)
        spread = math.log(mean_runs(self.stop)) / (alpha - 1)
        return (own + self._hidden + spread) * _UP

    @property
    def _hidden(self) -> float:
        """Cost of the hidden runs, at the order that makes it least."""
        known = [(o, r) for o, r in zip(ORDERS, self.rho, strict=True) if r is not None]
        costs = [(1 - 1 / o) * r + math.log(1 / self.stop) / o for o, r in known]
        return min(costs, default=math.inf)

    @property
    def mechanism(self) -> str:
        return (
            f"the best of about {mean_runs(self.stop):.3g} runs, whose number is random and hidden "
            "(logarithmic), each with its own noise"
        )


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
