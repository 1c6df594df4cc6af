"""Optimal composition of bounded-range mechanisms (selections), with noisy sums outermost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from privboost.privacy.accountants.base import Accountant, GridProfile
from privboost.privacy.accountants.gdp import total_mu
from privboost.privacy.accountants.pld import compose_losses, losses_rounding
from privboost.privacy.accountants.rdp import RdpProfile
from privboost.privacy.accountants.resolution import RESOLVED, less_rounding
from privboost.privacy.events.event import Planned
from privboost.privacy.range_game import GAUSSIAN_ALLOWANCE, GameCurve, compose_ranges, mixed_reach
from privboost.privacy.searches import smallest_epsilon

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

    def _curve(self, epsilon: float) -> GameCurve:
        spread = math.sqrt(sum((p.event.rdp(2) or 0.0) * p.count for p in self._others))
        return compose_ranges(self._ranges, mixed_reach(epsilon, spread))

    def _delta(self, curve: GameCurve, epsilon: float, near: float) -> float:
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
