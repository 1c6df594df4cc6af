"""Exact accounting of Gaussian releases on full batches: μ² adds up."""

from __future__ import annotations

import math

from privboost.privacy.accountants.base import Accountant, GridProfile
from privboost.privacy.events.event import Planned
from privboost.privacy.formulas import gdp_delta
from privboost.privacy.searches import smallest_epsilon


class GdpProfile(GridProfile):
    """The curve of √Σ(1/z²)-Gaussian-DP."""

    @property
    def mu(self) -> float:
        """The composed Gaussian-DP parameter."""
        return math.sqrt(sum(p.count * (p.event.mu or 0.0) ** 2 for p in self.events))

    def ideal_epsilon(self, delta: float) -> float:
        """Return ε at δ for continuous noise."""
        mu = self.mu  # what gdp_delta may be wrong by is kept with the grid's slack
        return smallest_epsilon(lambda epsilon: gdp_delta(epsilon, mu), delta)

    def ideal_delta(self, epsilon: float) -> float:
        """Return δ at ε for continuous noise."""
        return gdp_delta(epsilon, self.mu)


class GdpAccountant(Accountant):
    """Gaussian differential privacy: exact for full-batch Gaussian releases."""

    name = "gdp"

    def covers(self, planned: Planned) -> bool:
        """Say whether an event is a Gaussian release of a full batch."""
        return planned.event.mu is not None

    def profile(self, events: tuple[Planned, ...]) -> GdpProfile:
        """Return the curve."""
        return GdpProfile(events)
