"""Exact accounting of Gaussian releases: μ² adds up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privboost.privacy.accountants.discretisation import discretisation_slack
from privboost.privacy.events import GaussianRelease, Planned
from privboost.privacy.formulas import gdp_epsilon


@dataclass(frozen=True)
class GdpProfile:
    """The curve of √Σ(1/z²)-Gaussian-DP, with the slack of the integer grid added."""

    events: tuple[Planned, ...]

    @property
    def mu(self) -> float:
        """The composed Gaussian-DP parameter."""
        return math.sqrt(sum(p.count * p.event.mu**2 for p in self.events))

    def epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, δ)-DP is proved."""
        if not self.events:
            return 0.0
        bound = gdp_epsilon(self.mu, delta / 2)
        slack = discretisation_slack(self.events, delta, bound)
        if slack.delta < delta / 2:
            return math.inf
        return gdp_epsilon(self.mu, slack.delta) + slack.epsilon

    def delta(self, epsilon: float) -> float:
        """Return a δ for which (ε, δ)-DP is proved."""
        if not self.events:
            return 0.0
        # The slack depends on δ only through a tail far below it: bracket, then bisect.
        low, high = 1e-300, 1.0 - 1e-12
        if self.epsilon(high) > epsilon:
            return 1.0
        for _ in range(200):
            middle = math.sqrt(low * high)
            if self.epsilon(middle) <= epsilon:
                high = middle
            else:
                low = middle
            if high <= low * (1 + 1e-12):
                break
        return high

    def slack(self, delta: float) -> float:
        """Return the part of `epsilon(delta)` that pays for noise on an integer grid."""
        if not self.events:
            return 0.0
        return self.epsilon(delta) - gdp_epsilon(self.mu, delta)


class GdpAccountant:
    """Gaussian differential privacy: exact for full-batch Gaussian releases."""

    name = "gdp"

    def supports(self, events: Sequence[Planned]) -> bool:
        """Say whether all events are Gaussian releases."""
        return all(isinstance(p.event, GaussianRelease) for p in events)

    def compose(self, events: Sequence[Planned]) -> GdpProfile:
        """Compose the events."""
        if not self.supports(events):
            raise ValueError("the gdp accountant covers Gaussian releases only")
        return GdpProfile(tuple(events))
