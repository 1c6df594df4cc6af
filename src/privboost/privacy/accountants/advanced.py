"""The advanced composition theorem for ε-DP releases."""

from __future__ import annotations

import math

from privboost.privacy.accountants.base import Accountant, Profile
from privboost.privacy.events.event import Planned


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
