"""Rényi differential privacy at integer orders."""

from __future__ import annotations

import math
from collections.abc import Callable

from privboost.privacy.accountants.base import Accountant, Profile
from privboost.privacy.events.event import Planned
from privboost.privacy.formulas import renyi_epsilon
from privboost.privacy.searches import smallest_true


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
