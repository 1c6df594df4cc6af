"""Privacy loss distributions, by Google's dp-accounting: noisy sums, sampled or not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from privboost.privacy.accountants.base import Accountant, GridProfile
from privboost.privacy.accountants.gdp import total_mu
from privboost.privacy.accountants.rdp import RdpProfile
from privboost.privacy.accountants.resolution import PER_RELEASE, RESOLVED, less_rounding
from privboost.privacy.events.event import Planned
from privboost.privacy.events.sums import GaussianRelease
from privboost.privacy.searches import not_below

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
