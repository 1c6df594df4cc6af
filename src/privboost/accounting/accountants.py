"""Gaussian differential privacy: exact for Gaussian releases on full batches.

Rényi differential privacy at integer orders.

Privacy loss distributions, by Google's dp-accounting: noisy sums, sampled or not.

Optimal composition of bounded-range mechanisms (selections), with noisy sums outermost.

Basic composition of pure DP: ε adds up.

The advanced composition theorem for ε-DP releases.

Registry of accountants, and the choice of the tightest that covers a composition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from privboost.accounting.accountant import (
    PER_RELEASE,
    RESOLVED,
    Accountant,
    GridProfile,
    Profile,
    less_rounding,
    unresolved,
)
from privboost.accounting.bounded_range import (
    GAUSSIAN_ALLOWANCE,
    BoundedRangeCurve,
    compose_ranges,
    mixed_reach,
)
from privboost.accounting.events import Planned
from privboost.accounting.formulas import (
    gdp_delta,
    not_below,
    renyi_epsilon,
    smallest_epsilon,
    smallest_true,
)
from privboost.accounting.noisy_sums import GaussianRelease


def total_mu(events: Sequence[Planned]) -> float:
    """Return the Gaussian-DP parameter √Σμ² of the events that have one."""
    return math.sqrt(sum(p.count * (p.event.mu or 0.0) ** 2 for p in events))


class GdpProfile(GridProfile):
    """The curve of √Σμ²-Gaussian-DP."""

    def ideal_epsilon(self, delta: float) -> float:
        """Return ε at δ for continuous noise."""
        mu = total_mu(self.events)  # the error of gdp_delta is part of the grid's slack
        return smallest_epsilon(lambda epsilon: gdp_delta(epsilon, mu), delta)

    def ideal_delta(self, epsilon: float) -> float:
        """Return δ at ε for continuous noise."""
        return gdp_delta(epsilon, total_mu(self.events))


class GdpAccountant(Accountant):
    """Gaussian differential privacy: μ² adds up."""

    name = "gdp"
    theory = "Gaussian differential privacy: exact for Gaussian noise on all rows"
    profile = GdpProfile
    closed_form = True

    def covers(self, planned: Planned) -> bool:
        """Whether an event is a Gaussian release of all rows."""
        return planned.event.mu is not None


class RdpProfile(Profile):
    """The curve of the best integer order. It holds for discrete noise without slack."""

    def rho(self, alpha: int) -> float:
        """Return the composed Rényi divergence of an order.

        It is rounded up by more than noise scales and shares lose in float64.
        """
        total = math.fsum(p.count * (p.event.rdp(alpha) or 0.0) for p in self.events)
        return total * (1 + 1e-13)

    def epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, δ)-DP is proved."""
        left = delta - self.extra_delta
        return self.noise_epsilon(left) if left > 0 else math.inf

    def noise_epsilon(self, delta: float) -> float:
        """Return ε at δ of the noise alone, without the failure probability of thresholds."""
        return renyi_epsilon(self.rho, delta) if self.events else 0.0

    def delta(self, epsilon: float) -> float:
        """Return a δ for which (ε, δ)-DP is proved."""
        if not self.events:
            return 0.0
        least, most = math.log(self.extra_delta + 1e-300), -1e-12
        holds: Callable[[float], bool] = lambda x: self.epsilon(math.exp(x)) <= epsilon  # noqa: E731
        return math.exp(smallest_true(holds, least, most, 1e-9)) if holds(most) else 1.0


class RdpAccountant(Accountant):
    """Rényi differential privacy at integer orders up to 2²⁰."""

    name = "rdp"
    theory = "Rényi divergences"
    profile = RdpProfile
    min_epsilon = 1e-5
    """About ln(1/δ) over the largest order: nearer to 0 the best order is beyond all of them."""

    def covers(self, planned: Planned) -> bool:
        """Whether an event has a Rényi divergence."""
        return planned.event.rdp(2) is not None


_CELLS = 2000
"""Grid cells within ε: rounding, which is always pessimistic, then costs a thousandth of it."""
_COARSEST = 1e-3
_MAX_LOSS = 700.0
"""Beyond it e^ε overflows float64, and losses would fill the memory: the Rényi bound is used."""
_LOSS_ROUNDING = 1 + 1e-12
"""Losses are multiples of a grid step in float64: ε is raised by far more than their error."""


class PldProfile(GridProfile):
    """A curve from a distribution on a grid as fine as the result needs."""

    def bound_epsilon(self, delta: float) -> float:
        """Return the Rényi bound."""
        return RdpProfile(self.events).noise_epsilon(delta)

    def ideal_epsilon(self, delta: float) -> float:
        """Return ε at δ for continuous noise; never above the Rényi bound."""
        left = less_rounding(delta, losses_rounding(self.events), "pld")
        bound = self.bound_epsilon(left)
        if bound == 0 or bound > _MAX_LOSS:
            return bound
        composed = self._composed(bound)
        epsilon = float(composed.get_epsilon_for_delta(left))
        if not (math.isfinite(epsilon) and epsilon >= 0):
            raise ValueError("dp-accounting gave no usable epsilon: use accountant='rdp'")
        # Its search takes differences of long sums; its curve adds up positive terms.
        epsilon = not_below(epsilon, lambda e: composed.get_delta_for_epsilon(e) <= left)
        return min(epsilon * _LOSS_ROUNDING, bound)

    def ideal_delta(self, epsilon: float) -> float:
        """Return δ at ε for continuous noise."""
        composed = self._composed(max(epsilon, 1e-3))
        found = float(composed.get_delta_for_epsilon(epsilon / _LOSS_ROUNDING))
        return found + losses_rounding(self.events)

    def _composed(self, epsilon: float) -> Any:
        """Return the composed distribution on a grid that is fine enough near ε."""
        return compose_losses(self.events, min(_COARSEST, epsilon / _CELLS))


class PldAccountant(Accountant):
    """Privacy loss distributions: nearly exact, for noisy sums."""

    name = "pld"
    theory = "privacy loss distributions"
    profile = PldProfile
    approximates = "gdp"

    def covers(self, planned: Planned) -> bool:
        """Whether an event has a privacy loss distribution."""
        return planned.event.has_pld

    def least_delta(self, events: Sequence[Planned]) -> float:
        """Return the smallest δ well above rounding, half of it left for the grid."""
        extra = sum(p.count * p.event.extra_delta for p in events)
        return extra + 2 * RESOLVED * losses_rounding(tuple(events))


def losses_rounding(events: tuple[Planned, ...]) -> float:
    """Return a bound on how much the composed losses of events understate δ."""
    merged = _merged(tuple(p for p in events if p.count))
    return PER_RELEASE * (sum(p.count for p in merged) + len(merged))


def compose_losses(events: tuple[Planned, ...], grid: float) -> Any:
    """Compose the privacy losses of events; full-batch Gaussians become one first, exactly."""
    parts = [p.event.pld(grid).self_compose(p.count) for p in _merged(events)]
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total


def _merged(events: tuple[Planned, ...]) -> list[Planned]:
    """Merge Gaussian releases, which compose in closed form, and equal events."""
    exact = [p for p in events if p.event.mu is not None]
    rest: dict[tuple[Any, ...], Planned] = {}
    for planned in events:
        if planned.event.mu is None:
            event = planned.event
            key = (event.kind, event.noise, event.rate)
            before = rest.get(key, replace(planned, count=0))
            rest[key] = replace(planned, count=before.count + planned.count)
    merged = list(rest.values())
    if exact:
        noise = 1 / total_mu(exact)
        one = GaussianRelease("all full-batch Gaussian releases", noise, 1, 1, 1, (1.0,))
        merged.append(Planned(one, 1))
    return merged


_LOSS_CELLS = 1000
_MAX_EPSILON = 300.0
"""Beyond this e^ε is too large for the recursion, and the Rényi bound is used."""


class BoundedRangeProfile(GridProfile):
    """Curve of selections, by the recursion, and of all other events, by their losses."""

    def bound_epsilon(self, delta: float) -> float:
        """Return the Rényi bound."""
        return RdpProfile(self.events).noise_epsilon(delta)

    def ideal_epsilon(self, delta: float) -> float:
        """Return ε at δ for continuous noise; never above the Rényi bound."""
        bound = self.bound_epsilon(delta)
        if bound == 0:
            return 0.0
        if bound > _MAX_EPSILON:
            return bound
        left = less_rounding(delta, self._rounding, "game")
        curve = self._curve(bound)
        found = smallest_epsilon(lambda e: self._delta(curve, e, bound), left)
        return min(found, bound)

    def ideal_delta(self, epsilon: float) -> float:
        """Return δ at ε for continuous noise."""
        found = self._delta(self._curve(epsilon), epsilon, max(epsilon, 1e-3))
        return found + self._rounding

    @cached_property
    def _rounding(self) -> float:
        return _losses_rounding(self.events)

    @cached_property
    def _ranges(self) -> list[float]:
        ranged = [p for p in self.events if p.event.range_epsilon is not None]
        return [p.event.range_epsilon or 0.0 for p in ranged for _ in range(p.count)]

    @cached_property
    def _others(self) -> tuple[Planned, ...]:
        return _outermost(self.events)

    def _curve(self, epsilon: float) -> BoundedRangeCurve:
        spread = math.sqrt(sum((p.event.rdp(2) or 0.0) * p.count for p in self._others))
        return compose_ranges(self._ranges, mixed_reach(epsilon, spread))

    def _delta(self, curve: BoundedRangeCurve, epsilon: float, near: float) -> float:
        if not self._others:
            return curve.delta(epsilon)
        if _all_gaussian(self._others):
            return curve.delta_with_gaussian(epsilon, total_mu(self._others))
        return max(curve.delta_with_losses(epsilon, *losses) for losses in self._losses(near))

    def _losses(self, near: float) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """Return the losses of all but selections, both ways: values, probabilities, mass at ∞."""
        grid = min(1e-3, near / _LOSS_CELLS)
        if grid not in self._built:
            composed = compose_losses(self._others, grid)
            self._built[grid] = [
                (
                    (np.arange(len(pmf._probs)) + pmf._lower_loss) * pmf._discretization,
                    np.asarray(pmf._probs),
                    float(pmf._infinity_mass),
                )
                for pmf in (composed._pmf_remove.to_dense_pmf(), composed._pmf_add.to_dense_pmf())
            ]
        return self._built[grid]

    @cached_property
    def _built(self) -> dict[float, list[tuple[np.ndarray, np.ndarray, float]]]:
        return {}


class BoundedRangeAccountant(Accountant):
    """Selections exactly; everything else outermost, which bounds every order of events."""

    name = "game"
    theory = "optimal composition of bounded-range mechanisms, with noisy sums"
    profile = BoundedRangeProfile

    def covers(self, planned: Planned) -> bool:
        """Whether an event is a selection or a noisy sum."""
        event = planned.event
        return event.range_epsilon is not None or event.mu is not None or event.has_pld

    def supports(self, events: Sequence[Planned]) -> bool:
        """Whether there is a selection, and every event is covered."""
        return super().supports(events) and any(p.event.range_epsilon for p in events)

    def least_delta(self, events: Sequence[Planned]) -> float:
        """Return the smallest δ well above rounding, half of it left for the grid."""
        extra = sum(p.count * p.event.extra_delta for p in events)
        mixed = any(p.event.range_epsilon is None for p in events)
        kept = GAUSSIAN_ALLOWANCE if mixed else 0.0
        return extra + 2 * RESOLVED * (kept + _losses_rounding(tuple(events)))


def _outermost(events: tuple[Planned, ...]) -> tuple[Planned, ...]:
    """Return all events but selections."""
    return tuple(p for p in events if p.event.range_epsilon is None)


def _all_gaussian(events: tuple[Planned, ...]) -> bool:
    return all(p.event.mu is not None for p in events)


def _losses_rounding(events: tuple[Planned, ...]) -> float:
    """Return the part of δ that rounding of composed losses needs; Gaussians need none."""
    others = _outermost(events)
    return 0.0 if _all_gaussian(others) else losses_rounding(others)


class PureProfile(Profile):
    """The curve of an ε-DP mechanism."""

    @property
    def total(self) -> float:
        """The sum of all ε, rounded up by more than scales, shares and ε lose in float64."""
        parts = [p.count * (p.event.pure or 0.0) for p in self.events]
        return math.fsum(parts) * (1 + 1e-14)

    def epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, δ)-DP is proved; δ may be 0."""
        if not 0 <= delta < 1:
            raise ValueError("delta must lie between 0 and 1")
        # δ(e) ≤ (e^total − e^e)/(e^total + 1), attained by randomised response.
        lowered = math.log1p(-delta * (1 + math.exp(-self.total)))
        return max(self.total + lowered, 0.0) if delta * (1 + math.exp(-self.total)) < 1 else 0.0

    def delta(self, epsilon: float) -> float:
        """Return a δ for which (ε, δ)-DP is proved."""
        if epsilon >= self.total:
            return 0.0
        return -math.expm1(epsilon - self.total) / (1 + math.exp(-self.total))


class PureAccountant(Accountant):
    """Basic composition, the only one with δ = 0."""

    name = "pure"
    theory = "the epsilons of all releases, added up"
    profile = PureProfile
    closed_form = True
    needs_delta = False

    def covers(self, planned: Planned) -> bool:
        """Whether an event is ε-DP."""
        return planned.event.pure is not None


class AdvancedProfile(Profile):
    """ε(δ) = √(2 ln(1/δ) Σ ε_i²) + Σ ε_i (e^{ε_i} − 1), or the plain sum where that is less."""

    def epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, δ)-DP is proved."""
        if not 0 < delta < 1:
            raise ValueError("delta must lie strictly between 0 and 1")
        parts = [(p.count, p.event.pure or 0.0) for p in self.events]
        squares = math.fsum(count * e * e for count, e in parts)
        drift = math.fsum(count * e * math.expm1(min(e, 700.0)) for count, e in parts)
        bound = math.sqrt(2 * math.log(1 / delta) * squares) + drift
        return min(bound, math.fsum(count * e for count, e in parts)) * (1 + 1e-14)

    def delta(self, epsilon: float) -> float:
        """Return a δ for which (ε, δ)-DP is proved."""
        low, high = 1e-300, 1.0 - 1e-16
        if self.epsilon(low) <= epsilon:
            return low
        if self.epsilon(high) > epsilon:
            return 1.0
        while high / low > 1 + 1e-9:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.epsilon(middle) <= epsilon else (middle, high)
        return high


class AdvancedAccountant(Accountant):
    """Advanced composition, for comparison: other theories are far tighter."""

    name = "advanced"
    theory = "the advanced composition theorem"
    profile = AdvancedProfile

    def covers(self, planned: Planned) -> bool:
        """Whether an event is ε-DP."""
        return planned.event.pure is not None


ACCOUNTANTS: dict[str, type[Accountant]] = {
    kind.name: kind
    for kind in (
        GdpAccountant,
        BoundedRangeAccountant,
        PldAccountant,
        RdpAccountant,
        PureAccountant,
        AdvancedAccountant,
    )
}
"""All accountants, from the tightest to the loosest where several cover the same events."""


def choose_accountant(name: str, events: Sequence[Planned], delta: float) -> Accountant:
    """Return an accountant by name; "auto" is the tightest that covers events and resolves δ.

    Raises
    ------
    ValueError
        If the name is unknown, the accountant does not cover the events, δ is below its
        resolution, or δ is 0 and the events are not pure.
    """
    known = ", ".join(map(repr, ["auto", *ACCOUNTANTS]))
    if not isinstance(name, str):
        raise ValueError(f"accountant must be one of {known}; a {type(name).__name__} is not")
    if name not in ("auto", *ACCOUNTANTS):
        raise ValueError(f"accountant must be one of {known}; {name!r} is not")
    kinds = [kind for kind in ACCOUNTANTS.values() if delta > 0 or not kind.needs_delta]
    if delta == 0 and not any(kind().supports(events) for kind in kinds):
        raise ValueError(
            "delta = 0 (pure DP) is impossible with Gaussian noise or thresholds; the recipes "
            "privboost (PrivBoostClassifier, PrivBoostRegressor), sarus (SarusXGBClassifier, "
            "SarusXGBRegressor) and lazybb (LazyBBClassifier) can be pure"
        )
    if name != "auto":
        if delta == 0 and ACCOUNTANTS[name].needs_delta:
            raise ValueError(f"the {name} accountant needs delta above 0; with 0 there is pure")
        kinds = [ACCOUNTANTS[name]]
    covering = [accountant for kind in kinds if (accountant := kind()).supports(events)]
    for accountant in covering:
        if delta >= accountant.least_delta(events):
            return accountant
    if covering:
        raise ValueError(unresolved(covering[0].name, covering[0].least_delta(events)))
    able = [each for each, kind in ACCOUNTANTS.items() if kind().supports(events)]
    raise ValueError(f"the {name} accountant does not cover this plan; {', '.join(able)} would")


def compare_accountants(events: Sequence[Planned], delta: float) -> dict[str, float]:
    """Return ε at δ by every accountant that covers the events and resolves δ.

    An accountant that approximates an exact one is left out where that applies.
    """
    found: dict[str, float] = {}
    for name, kind in ACCOUNTANTS.items():
        accountant = kind()
        superfluous = kind.approximates in found or (delta == 0 and kind.needs_delta)
        if superfluous or not accountant.supports(events):
            continue
        try:
            if delta >= accountant.least_delta(events):
                found[name] = accountant.cost(events, delta)
        except ValueError:  # the composition is too large for this accountant
            continue
    return found
