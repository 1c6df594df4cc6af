"""Gaussian differential privacy: exact for Gaussian releases on full batches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from privboost.privacy.accountants.base import Accountant, GridProfile
from privboost.privacy.events.event import Planned
from privboost.privacy.formulas import gdp_delta
from privboost.privacy.searches import smallest_epsilon


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
