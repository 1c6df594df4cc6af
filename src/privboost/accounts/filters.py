"""Privacy filters: composition of runs whose budgets are chosen adaptively.

Budgets that are spent on a data set over days depend on earlier releases. Two theories then hold
as they do for one plan: Gaussian DP, where μ² adds up, and Rényi divergences of one order that is
fixed beforehand. `docs/guarantees/accounts.md` has the proofs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import ClassVar

from privboost._core.errors import BudgetError
from privboost.accounting.composition import Curve, gaussian_epsilon, gaussian_sizes
from privboost.accounting.events import Event, Planned, Relation
from privboost.accounting.formulas import rdp_to_epsilon
from privboost.accounting.grid_slack import EXCHANGE_ROOM

_MAX_ORDER = 1024
_ROUNDING = 1 + 1e-12
_KEPT = 5e-4
"""Relative part of a run's ε that its plan leaves unused: an account rounds up by more."""


@dataclass(frozen=True)
class Price:
    """Cost of a run in an account's filter."""

    size: float = 0.0  # the additive quantity: Σμ², or a Rényi divergence
    grid: float = 0.0  # Σ coordinates/σ², the slack of the integer grid: see `gaussian_epsilon`
    delta: float = 0.0  # of thresholds
    far_delta: float = 0.0  # of thresholds of add/remove runs in a replace-one account

    def __add__(self, other: Price) -> Price:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Price(*((one + two) * _ROUNDING for one, two in pairs))

    def joined(self, other: Price) -> Price:
        """Return the maximum of both: the price for units that are in one of two runs."""
        return Price(*map(max, astuple(self), astuple(other)))

    def covers(self, other: Price) -> bool:
        """Whether no component of another price exceeds this one's, up to rounding."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return all(theirs <= own * (1 + 1e-9) for own, theirs in pairs)

    def threshold_delta(self, epsilon: float) -> float:
        """Return the δ of thresholds where the total cost is at most ε.

        Replacing a unit is two add/remove steps, whose δ adds up to d + e^ε d.
        """
        far = self.far_delta * far_factor(epsilon) if self.far_delta else 0.0
        return self.delta + far


def far_factor(epsilon: float) -> float:
    """Return the factor of δ from add/remove to replace-one neighbours."""
    return 1 + math.exp(epsilon) if epsilon < 700 else math.inf


class Filter(ABC):
    """A privacy filter: an additive cost of runs, and its conversion to ε.

    A plan or a curve that the filter does not cover has no price, but raises `BudgetError`.
    """

    name: ClassVar[str]
    additive: ClassVar[str]
    """The quantity that adds up, for display."""
    note: ClassVar[str] = ""
    """A remark on the filter's figures, for display."""

    @abstractmethod
    def price(self, plan: Sequence[Planned], relation: Relation) -> Price:
        """Return the price of a plan in an account with this neighbouring relation."""

    @abstractmethod
    def price_of(self, curve: Curve, near: bool) -> Price:
        """Return the price of a report's curve; `near` if its neighbours are the account's."""

    @abstractmethod
    def epsilon(self, spent: Price, delta: float) -> float:
        """Return the ε of a total price, at the δ for noise."""

    @abstractmethod
    def headroom(self, epsilon: float, delta: float) -> float:
        """Return the largest size within a limit."""

    @abstractmethod
    def as_gaussian(self, size: float, delta: float) -> float:
        """Return the ε at δ of Gaussian noise of this size."""

    def kept(self, epsilon: float) -> float:
        """Return the ε that the plan of a run of ε may use."""
        return epsilon


@dataclass(frozen=True)
class GaussianFilter(Filter):
    """Additive μ²: exact, for runs whose every release is Gaussian and of all rows."""

    name = "gaussian"
    additive = "mu squared"

    def price(self, plan: Sequence[Planned], relation: Relation) -> Price:
        for planned in plan:
            event = planned.event
            if event.mu is None:
                raise BudgetError(
                    "this account was opened for Gaussian noise on all rows, and "
                    f"{event.what!r} is released with {event.mechanism}: searches, samples, a "
                    "delta of 0 and the recipes dpxgb, sarus and lazybb need an account with the "
                    "filter 'renyi'; ask the owner of the data (a second account of the same "
                    "people adds its limit to this one's)"
                )
        sizes = gaussian_sizes(plan)
        if sizes is None:
            raise BudgetError(
                "the noise is too fine for an account's Gaussian filter: use a smaller epsilon, or "
                "an account with the filter 'renyi'"
            )
        delta = math.fsum(planned.count * planned.event.extra_delta for planned in plan)
        return _gaussian_price(*sizes, delta, _is_near(plan, relation))

    def price_of(self, curve: Curve, near: bool) -> Price:
        if curve.mu_squared is None:
            raise BudgetError("this account adds up Gaussian noise only, and its report has no μ")
        return _gaussian_price(curve.mu_squared, curve.grid, curve.extra_delta, near)

    def epsilon(self, spent: Price, delta: float) -> float:
        return gaussian_epsilon(spent.size, spent.grid, delta)

    def headroom(self, epsilon: float, delta: float) -> float:
        return _largest(lambda size: self.epsilon(Price(size), delta) <= epsilon)

    def as_gaussian(self, size: float, delta: float) -> float:
        return gaussian_epsilon(size, 0.0, delta)

    def kept(self, epsilon: float) -> float:
        """Leave a little of ε unused: the account allows for any grid, and for exchanges."""
        return epsilon * (1 - _KEPT)


@dataclass(frozen=True)
class RenyiFilter(Filter):
    """Additive Rényi divergence of one order, fixed at the opening, for nearly every plan."""

    order: int
    name = "renyi"
    additive = "Rényi divergences"
    note = (
        ": the first run costs an epsilon of its own, whatever it is; shares say how much is left"
    )

    def __post_init__(self) -> None:
        order = self.order
        if not isinstance(order, int) or isinstance(order, bool) or not 2 <= order <= _MAX_ORDER:
            raise BudgetError(f"order must be a whole number from 2 to {_MAX_ORDER}")

    @classmethod
    def of_limit(cls, epsilon: float, delta: float) -> RenyiFilter:
        """Return the filter whose order has most room for Gaussian noise at a limit."""
        orders = [k for k in range(2, _MAX_ORDER + 1) if cls(k).headroom(epsilon, delta) > 0]
        if not orders:
            raise BudgetError("the limit is too small for a Rényi filter: raise epsilon or delta")
        return cls(max(orders, key=lambda k: cls(k).headroom(epsilon, delta) / k))

    def price(self, plan: Sequence[Planned], relation: Relation) -> Price:
        """Return the divergence of this order, with the allowance for exchanges."""
        near = _is_near(plan, relation)
        total = delta = 0.0
        for planned in plan:
            total += planned.count * self._divergence(planned.event, near)
            delta += planned.count * planned.event.extra_delta
        return _price(total * EXCHANGE_ROOM, delta, near)

    def price_of(self, curve: Curve, near: bool) -> Price:
        """Return the divergence of a report's curve, at this order or the next above."""
        if near or curve.mu_squared is not None:
            size = curve.rho_at(self.order) * (1 if near else 4)
        else:
            size = _replaced(curve.rho_at, self.order)
        if not math.isfinite(size):
            raise BudgetError(f"its report has no Rényi divergence of order {self.order}")
        return _price(size, curve.extra_delta, near)

    def _divergence(self, event: Event, near: bool) -> float:
        known = self._own(event, self.order)
        if not near:  # two add/remove steps; Gaussian noise: twice the distance
            known = (
                4 * known
                if event.mu is not None
                else _replaced(lambda order: self._own(event, order), self.order)
            )
        if not math.isfinite(known):
            raise BudgetError(
                f"{event.what!r} has no Rényi divergence of this account's order {self.order}"
                + ("" if near else " for replacing a unit")
                + f" ({event.mechanism})"
            )
        return known

    def _own(self, event: Event, order: int) -> float:
        known = event.rdp(order)
        return math.inf if known is None else known

    def epsilon(self, spent: Price, delta: float) -> float:
        """Return ε of the order."""
        return rdp_to_epsilon(self.order, spent.size, delta) if spent.size else 0.0

    def headroom(self, epsilon: float, delta: float) -> float:
        nothing = rdp_to_epsilon(self.order, 0.0, delta)
        return max(0.0, (epsilon - nothing) * (1 - 1e-12) - 1e-12) if nothing > 0 else 0.0

    def as_gaussian(self, size: float, delta: float) -> float:
        """Return the ε of Gaussian noise with this divergence: αμ²/2."""
        return gaussian_epsilon(2 * size / self.order, 0.0, delta)


def filter_of(name: str, order: int | None) -> Filter:
    """Return a filter by its stored name and order."""
    return GaussianFilter() if name == GaussianFilter.name else RenyiFilter(order or 0)


FILTERS = (GaussianFilter.name, RenyiFilter.name)


def _gaussian_price(mu_squared: float, grid: float, delta: float, near: bool) -> Price:
    """Return a price; replacing a unit is twice the distance, in twice the coordinates."""
    far = replace(_price(4 * mu_squared, delta, near), grid=2 * grid)
    return Price(mu_squared, grid, delta) if near else far


def _price(size: float, delta: float, near: bool) -> Price:
    return Price(size, delta=delta) if near else Price(size, far_delta=delta)


def _replaced(rho: Callable[[int], float], order: int) -> float:
    """Return the divergence between two neighbours of a common table."""
    far = (order - 0.5) / (order - 1) * rho(2 * order)
    return (far + rho(2 * order - 1)) * _ROUNDING


def _is_near(plan: Sequence[Planned], relation: Relation) -> bool:
    """Whether a plan has an account's own relation; see `are_near`."""
    return are_near({planned.event.relation for planned in plan}, relation)


def are_near(own: set[Relation], relation: Relation) -> bool:
    """Whether relations are the account's own; refuse those that cannot be converted."""
    if own <= {relation}:
        return True
    if relation == Relation.REPLACE_ONE and own == {Relation.ADD_REMOVE}:
        return False
    raise BudgetError(
        f"this account is about neighbours that {relation.value}; a run about {own.pop().value} "
        "does not add up with them: open an account about replacing a unit"
    )


def _largest(holds: Callable[[float], bool]) -> float:
    """Return the largest size that holds, by bisection."""
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
