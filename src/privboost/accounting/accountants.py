"""Accountants: one class for each theory of composition, and the choice of the tightest.

dp-accounting composes losses by fast Fourier transforms, whose rounding is absolute and of either
sign. It errs in δ(ε), at any ε, by less than

- 3·10⁻¹⁶ for the loss of each release: its curve is a difference of two distribution functions, and
  an error of the curve of one release is, in a composition, an error of the same size;
- 2·10⁻¹⁶ for each release in the transform: no coefficient of a distribution exceeds 1, so its
  T-th power errs by T times what the coefficient errs by, and the transform back is a mean.

Both are measured, on losses of Gaussian and Laplace noise, against 40 and 19 digits; twice their
sum is reserved. `docs/guarantees/accounting.md` has the figures.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from privboost.accounting.bounded_range import (
    GAUSSIAN_ALLOWANCE,
    BoundedRangeCurve,
    compose_ranges,
    mixed_reach,
)
from privboost.accounting.events import Event, Planned
from privboost.accounting.formulas import gdp_delta, not_below, renyi_epsilon, smallest_epsilon
from privboost.accounting.grid_slack import Slack, discretisation_slack
from privboost.accounting.noisy_sums import GaussianRelease


@dataclass(frozen=True)
class Accountant(ABC):
    """A composition of events by one theory; without events, an accountant that can compose."""

    name: ClassVar[str]
    theory: ClassVar[str]
    """Description for model cards."""
    closed_form: ClassVar[bool] = False
    """Whether costs are fast enough to calibrate noise by root finding."""
    needs_delta: ClassVar[bool] = True
    """Whether δ must be above 0."""
    approximates: ClassVar[str] = ""
    """An exact accountant that makes this one superfluous where it applies."""
    min_epsilon: ClassVar[float] = 0.0
    """Below this ε the theory is too loose for calibration."""

    composed: tuple[Planned, ...] | None = None

    @property
    def events(self) -> tuple[Planned, ...]:
        """Composed events; an accountant that has composed none has no guarantee to state."""
        if self.composed is None:
            raise RuntimeError("compose events first: no events would cost nothing")
        return self.composed

    @abstractmethod
    def covers(self, event: Event) -> bool:
        """Whether the theory covers an event."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, δ)-DP is proved; infinity where none is."""

    def slack(self, delta: float) -> float:
        """Return the part of `epsilon(delta)` that pays for noise on an integer grid."""
        return 0.0

    @property
    def extra_delta(self) -> float:
        """Failure probabilities of thresholds, which add to δ; rounded up."""
        return math.fsum(p.count * p.event.extra_delta for p in self.events) * (1 + 1e-14)

    def supports(self, events: Sequence[Planned]) -> bool:
        """Whether the theory covers the composition of these events."""
        relations = {p.event.relation for p in events}
        return len(relations) <= 1 and all(self.covers(p.event) for p in events)

    def least_delta(self, events: Sequence[Planned]) -> float:
        """Return the smallest δ that this accountant's arithmetic resolves for these events."""
        return 0.0

    def cost(self, events: Sequence[Planned], delta: float) -> float:
        """Return ε at δ of a composition; results are cached."""
        return _cost(type(self), tuple(events), delta)

    def compose(self, events: Sequence[Planned]) -> Self:
        """Return the composition of events, adaptively chosen within the plan."""
        if len({p.event.relation for p in events}) > 1:
            raise ValueError(
                "events of different neighbouring relations do not compose: convert one guarantee "
                "with formulas.replace_one first"
            )
        for planned in events:
            if not self.covers(planned.event):
                raise ValueError(
                    f"the {self.name} accountant does not cover {planned.event.mechanism!r}"
                )
        return type(self)(tuple(planned for planned in events if planned.count))


@lru_cache(maxsize=256)
def _cost(kind: type[Accountant], events: tuple[Planned, ...], delta: float) -> float:
    return kind().compose(events).epsilon(delta)


class GridAccountant(Accountant):
    """A theory of continuous noise, to whose ε the slack of the integer grid is added."""

    @abstractmethod
    def ideal_epsilon(self, delta: float) -> float:
        """Return ε at δ for continuous noise."""

    def bound_epsilon(self, delta: float) -> float:
        """Return a fast upper bound of `ideal_epsilon`: that of Rényi accounting."""
        return RdpAccountant(self.events).noise_epsilon(delta)

    def epsilon(self, delta: float) -> float:
        if not self.events:
            return 0.0
        slack = self._slack(delta)
        return math.inf if slack is None else self.ideal_epsilon(slack.delta) + slack.epsilon

    def slack(self, delta: float) -> float:
        slack = self._slack(delta) if self.events else None
        return 0.0 if slack is None else slack.epsilon

    def _slack(self, delta: float) -> Slack | None:
        left = delta - self.extra_delta
        if left <= 0:
            return None
        slack = discretisation_slack(self.events, left, self.bound_epsilon(left / 2))
        return slack if slack.delta >= left / 2 else None


def total_mu(events: Sequence[Planned]) -> float:
    """Return the Gaussian-DP parameter √Σμ² of the events that have one."""
    return math.sqrt(sum(p.count * (p.event.mu or 0.0) ** 2 for p in events))


class GdpAccountant(GridAccountant):
    """Gaussian differential privacy: μ² adds up, for Gaussian noise on all rows."""

    name = "gdp"
    theory = "Gaussian differential privacy: exact for Gaussian noise on all rows"
    closed_form = True

    def covers(self, event: Event) -> bool:
        return event.mu is not None

    def ideal_epsilon(self, delta: float) -> float:
        mu = total_mu(self.events)  # the error of gdp_delta is part of the grid's slack
        return smallest_epsilon(lambda epsilon: gdp_delta(epsilon, mu), delta)

    def bound_epsilon(self, delta: float) -> float:
        return self.ideal_epsilon(delta)


class RdpAccountant(Accountant):
    """Rényi differential privacy at the best integer order up to 2²⁰.

    It holds for discrete noise without slack.
    """

    name = "rdp"
    theory = "Rényi divergences"
    min_epsilon = 1e-5
    """About ln(1/δ) over the largest order: nearer to 0 the best order is beyond all of them."""

    def covers(self, event: Event) -> bool:
        return event.rdp(2) is not None

    def rho(self, alpha: int) -> float:
        """Return the composed Rényi divergence of an order.

        It is rounded up by more than noise scales and shares lose in float64.
        """
        total = math.fsum(p.count * (p.event.rdp(alpha) or 0.0) for p in self.events)
        return total * (1 + 1e-13)

    def epsilon(self, delta: float) -> float:
        left = delta - self.extra_delta
        return self.noise_epsilon(left) if left > 0 else math.inf

    def noise_epsilon(self, delta: float) -> float:
        """Return ε at δ of the noise alone, without the failure probability of thresholds."""
        return renyi_epsilon(self.rho, delta) if self.events else 0.0


PER_RELEASE = 1e-15
"""Part of δ kept for rounding of each release, and of each composition of two kinds of them."""
RESOLVED = 1000
"""Least ratio of δ to its rounding."""
_CELLS = 2000
"""Grid cells within ε: rounding, which is always pessimistic, then costs a thousandth of it."""
_COARSEST = 1e-3
_MAX_LOSS = 700.0
"""Beyond it e^ε overflows float64, and losses would fill the memory: the Rényi bound is used."""
_LOSS_ROUNDING = 1 + 1e-12
"""Losses are multiples of a grid step in float64: ε is raised by far more than their error."""


class PldAccountant(GridAccountant):
    """Privacy loss distributions by Google's dp-accounting: noisy sums, sampled or not.

    The grid is as fine as the result needs; it is nearly exact.
    """

    name = "pld"
    theory = "privacy loss distributions"
    approximates = "gdp"

    def covers(self, event: Event) -> bool:
        return event.has_pld

    def least_delta(self, events: Sequence[Planned]) -> float:
        extra = sum(p.count * p.event.extra_delta for p in events)
        return extra + 2 * RESOLVED * losses_rounding(tuple(events))  # half is left for the grid

    def ideal_epsilon(self, delta: float) -> float:
        """Return ε at δ for continuous noise; never above the Rényi bound."""
        left = _less_rounding(delta, losses_rounding(self.events), "pld")
        bound = self.bound_epsilon(left)
        if bound == 0 or bound > _MAX_LOSS:
            return bound
        composed = compose_losses(self.events, min(_COARSEST, bound / _CELLS))
        epsilon = float(composed.get_epsilon_for_delta(left))
        if not (math.isfinite(epsilon) and epsilon >= 0):
            raise ValueError("dp-accounting gave no usable epsilon: use accountant='rdp'")
        # Its search takes differences of long sums; its curve adds up positive terms.
        epsilon = not_below(epsilon, lambda e: composed.get_delta_for_epsilon(e) <= left)
        return min(epsilon * _LOSS_ROUNDING, bound)


def _less_rounding(delta: float, rounding: float, name: str) -> float:
    """Return δ less its rounding; refuse a δ that is not well above it."""
    if delta < RESOLVED * rounding:
        raise ValueError(_unresolved(name, RESOLVED * rounding))
    return delta - rounding


def _unresolved(name: str, least: float) -> str:
    return (
        f"delta is below what {name} can resolve for these releases ({least:.3g}); "
        "choose a larger delta or accountant='rdp'"
    )


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
            key = (event.kind, event.noise, event.sampling_rate)
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


class BoundedRangeAccountant(GridAccountant):
    """Optimal composition of bounded-range mechanisms (selections), by their recursion.

    Noisy sums are composed by their losses and stand outermost, which bounds every order of events.
    """

    name = "game"
    theory = "optimal composition of bounded-range mechanisms, with noisy sums"

    def covers(self, event: Event) -> bool:
        return event.range_epsilon is not None or event.mu is not None or event.has_pld

    def supports(self, events: Sequence[Planned]) -> bool:
        """Whether there is a selection, and every event is covered."""
        return super().supports(events) and any(p.event.range_epsilon for p in events)

    def least_delta(self, events: Sequence[Planned]) -> float:
        extra = sum(p.count * p.event.extra_delta for p in events)
        kept = _others_rounding(events)
        if any(p.event.range_epsilon is None for p in events):
            kept += GAUSSIAN_ALLOWANCE
        return extra + 2 * RESOLVED * kept  # half is left for the grid

    def ideal_epsilon(self, delta: float) -> float:
        """Return ε at δ for continuous noise; never above the Rényi bound."""
        bound = self.bound_epsilon(delta)
        if bound == 0 or bound > _MAX_EPSILON:
            return bound
        left = _less_rounding(delta, _others_rounding(self.events), self.name)
        return min(smallest_epsilon(self._deltas(bound), left), bound)

    def _deltas(self, near: float) -> Callable[[float], float]:
        """Return δ as a function of an ε that is at most about `near`."""
        others = _all_but_selections(self.events)
        curve = self._curve(near)
        if not others:
            return curve.delta
        if _all_gaussian(others):
            mu = total_mu(others)
            return lambda epsilon: curve.delta_with_gaussian(epsilon, mu)
        losses = _losses_both_ways(others, min(1e-3, near / _LOSS_CELLS))
        return lambda epsilon: max(curve.delta_with_losses(epsilon, *each) for each in losses)

    def _curve(self, epsilon: float) -> BoundedRangeCurve:
        """Return δ of the selections, as far as it matters for all events at ε."""
        ranged = [(p.event.range_epsilon, p.count) for p in self.events]
        ranges = [one for one, count in ranged if one is not None for _ in range(count)]
        others = _all_but_selections(self.events)
        spread = math.sqrt(sum((p.event.rdp(2) or 0.0) * p.count for p in others))
        return compose_ranges(ranges, mixed_reach(epsilon, spread))


def _losses_both_ways(
    events: tuple[Planned, ...], grid: float
) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """Return composed losses of removing and of adding: values, probabilities, mass at ∞."""
    composed = compose_losses(events, grid)
    return [
        (
            (np.arange(len(pmf._probs)) + pmf._lower_loss) * pmf._discretization,
            np.asarray(pmf._probs),
            float(pmf._infinity_mass),
        )
        for pmf in (composed._pmf_remove.to_dense_pmf(), composed._pmf_add.to_dense_pmf())
    ]


def _all_but_selections(events: Sequence[Planned]) -> tuple[Planned, ...]:
    return tuple(p for p in events if p.event.range_epsilon is None)


def _all_gaussian(events: tuple[Planned, ...]) -> bool:
    return all(p.event.mu is not None for p in events)


def _others_rounding(events: Sequence[Planned]) -> float:
    """Return the part of δ that rounding of composed losses needs; Gaussians need none."""
    others = _all_but_selections(events)
    return 0.0 if _all_gaussian(others) else losses_rounding(others)


class PureAccountant(Accountant):
    """Basic composition of pure DP: ε adds up. The only accountant with δ = 0."""

    name = "pure"
    theory = "the epsilons of all releases, added up"
    closed_form = True
    needs_delta = False

    def covers(self, event: Event) -> bool:
        return event.pure is not None

    def epsilon(self, delta: float) -> float:
        if not 0 <= delta < 1:
            raise ValueError("delta must lie between 0 and 1")
        # Rounded up by more than scales, shares and ε lose in float64.
        total = math.fsum(p.count * (p.event.pure or 0.0) for p in self.events) * (1 + 1e-14)
        # δ(e) ≤ (e^total − e^e)/(e^total + 1), attained by randomised response.
        lowered = math.log1p(-delta * (1 + math.exp(-total)))
        return max(total + lowered, 0.0) if delta * (1 + math.exp(-total)) < 1 else 0.0


class AdvancedAccountant(Accountant):
    """Advanced composition of ε-DP releases, for comparison: other theories are far tighter.

    ε(δ) = √(2 ln(1/δ) Σ ε_i²) + Σ ε_i (e^{ε_i} − 1), or the plain sum where that is less.
    """

    name = "advanced"
    theory = "the advanced composition theorem"

    def covers(self, event: Event) -> bool:
        return bool(event.pure)  # one of 0 is covered by others where ε add up, and only there

    def epsilon(self, delta: float) -> float:
        if not 0 < delta < 1:
            raise ValueError("delta must lie strictly between 0 and 1")
        parts = [(p.count, p.event.pure or 0.0) for p in self.events]
        squares = math.fsum(count * e * e for count, e in parts)
        drift = math.fsum(count * e * math.expm1(min(e, 700.0)) for count, e in parts)
        bound = math.sqrt(2 * math.log(1 / delta) * squares) + drift
        return min(bound, math.fsum(count * e for count, e in parts)) * (1 + 1e-14)


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
        raise ValueError(_unresolved(covering[0].name, covering[0].least_delta(events)))
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
