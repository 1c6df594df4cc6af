"""The interface of accountants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from privboost.privacy.events import Planned


class Profile(Protocol):
    """What a composition of events costs, as a curve."""

    def epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, δ)-DP is proved."""

    def delta(self, epsilon: float) -> float:
        """Return a δ for which (ε, δ)-DP is proved."""

    def slack(self, delta: float) -> float:
        """Return the part of `epsilon(delta)` that pays for noise on an integer grid."""


class Accountant(Protocol):
    """Turns events into a privacy curve."""

    name: str

    def supports(self, events: Sequence[Planned]) -> bool:
        """Say whether this theory covers all of these events."""

    def compose(self, events: Sequence[Planned]) -> Profile:
        """Compose the events, adaptively chosen within the plan."""
