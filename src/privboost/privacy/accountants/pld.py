"""Privacy loss distributions, by Google's dp-accounting: noisy sums, sampled or not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from privboost.privacy.accountants.base import Accountant, GridProfile
from privboost.privacy.accountants.rdp import RdpProfile
from privboost.privacy.events import Planned
from privboost.privacy.sum_events import GaussianRelease

_CELLS = 2000
"""Grid cells within ε: rounding, which is always pessimistic, then costs a thousandth of it."""
_COARSEST = 1e-3
_LEAST_DELTA = 1e-13
"""dp-accounting cuts tails of mass 1e-15; below this its answers are not trusted."""


class PldProfile(GridProfile):
    """A curve from a distribution that is built on the grid which an answer needs."""

    def bound_epsilon(self, delta: float) -> float:
        """Return the Rényi bound."""
        return RdpProfile(self.events).noise_epsilon(delta)

    def ideal_epsilon(self, delta: float) -> float:
        """Return ε at δ for continuous noise; never above the Rényi bound."""
        if delta < _LEAST_DELTA:
            raise ValueError(f"delta is below what pld can resolve ({_LEAST_DELTA:g}): use rdp")
        bound = self.bound_epsilon(delta)
        if bound == 0:
            return 0.0
        answer = float(self.composed(bound).get_epsilon_for_delta(delta))
        if not (math.isfinite(answer) and answer >= 0):
            raise ValueError("dp-accounting gave no usable epsilon: use rdp")
        return min(answer, bound)

    def ideal_delta(self, epsilon: float) -> float:
        """Return δ at ε for continuous noise."""
        found = float(self.composed(max(epsilon, 1e-3)).get_delta_for_epsilon(epsilon))
        return found + _LEAST_DELTA

    def composed(self, epsilon: float) -> Any:
        """Return the composed distribution, on a grid fine enough for answers near ε."""
        return compose_losses(self.events, min(_COARSEST, epsilon / _CELLS))


class PldAccountant(Accountant):
    """Privacy loss distributions: nearly exact, for noisy sums."""

    name = "pld"

    def covers(self, planned: Planned) -> bool:
        """Say whether an event has a privacy loss distribution."""
        return planned.event.has_pld

    def profile(self, events: tuple[Planned, ...]) -> PldProfile:
        """Return the curve."""
        return PldProfile(events)


def compose_losses(events: tuple[Planned, ...], grid: float) -> Any:
    """Compose the privacy losses of events; full-batch Gaussians become one first, exactly."""
    parts = [p.event.pld(grid).self_compose(p.count) for p in _merged(events)]
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total


def _merged(events: tuple[Planned, ...]) -> list[Planned]:
    """Join what composes in closed form, and equal events."""
    exact = [p for p in events if p.event.mu is not None]
    rest: dict[tuple[Any, ...], Planned] = {}
    for planned in events:
        if planned.event.mu is None:
            event = planned.event
            key = (event.kind, event.noise, getattr(event, "sampling_rate", 1.0))
            before = rest.get(key, replace(planned, count=0))
            rest[key] = replace(planned, count=before.count + planned.count)
    merged = list(rest.values())
    if exact:
        mu = math.sqrt(sum(p.count * (p.event.mu or 0.0) ** 2 for p in exact))
        one = GaussianRelease("all full-batch Gaussian releases", 1 / mu, 1, 1, 1, (1.0,))
        merged.append(Planned(one, 1))
    return merged
