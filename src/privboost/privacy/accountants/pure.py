"""Basic composition of pure DP: ε adds up."""

from __future__ import annotations

import math

from privboost.privacy.accountants.base import Accountant, Profile
from privboost.privacy.events.event import Planned


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
