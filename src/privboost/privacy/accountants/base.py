"""Accountants: from planned events to a privacy curve, each by one theory of composition."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from privboost.privacy.accountants.discretisation import Slack, discretisation_slack
from privboost.privacy.events.event import Planned


@dataclass(frozen=True)
class Profile(ABC):
    """Privacy curve ε(δ) of a composition.

    Parameters
    ----------
    events : tuple of Planned
        The composition.
    """

    events: tuple[Planned, ...]

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, δ)-DP is proved; infinity where none is."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Return a δ for which (ε, δ)-DP is proved."""

    def slack(self, delta: float) -> float:
        """Return the part of `epsilon(delta)` that pays for noise on an integer grid."""
        return 0.0

    @property
    def extra_delta(self) -> float:
        """Failure probabilities of thresholds, which add to δ; rounded up."""
        return math.fsum(p.count * p.event.extra_delta for p in self.events) * (1 + 1e-14)


class GridProfile(Profile):
    """Curve of continuous noise, plus the slack of the integer grid."""

    @abstractmethod
    def ideal_epsilon(self, delta: float) -> float:
        """Return ε at δ for continuous noise."""

    @abstractmethod
    def ideal_delta(self, epsilon: float) -> float:
        """Return δ at ε for continuous noise."""

    def bound_epsilon(self, delta: float) -> float:
        """Return a fast upper bound of `ideal_epsilon`."""
        return self.ideal_epsilon(delta)

    def epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, δ)-DP is proved."""
        if not self.events:
            return 0.0
        slack = self._slack(delta)
        return math.inf if slack is None else self.ideal_epsilon(slack.delta) + slack.epsilon

    def delta(self, epsilon: float) -> float:
        """Return a δ for which (ε, δ)-DP is proved, 10⁻¹⁵ at least."""
        if not self.events:
            return 0.0
        least = 1e-15
        slack = discretisation_slack(self.events, least, epsilon)
        if slack.delta < least / 2:
            return 1.0
        ideal = max(self.ideal_delta(epsilon - slack.epsilon), 0.0)
        return min(1.0, max(ideal / (slack.delta / least), least) + self.extra_delta)

    def slack(self, delta: float) -> float:
        """Return the part of `epsilon(delta)` that pays for noise on an integer grid."""
        slack = self._slack(delta) if self.events else None
        return 0.0 if slack is None else slack.epsilon

    def _slack(self, delta: float) -> Slack | None:
        left = delta - self.extra_delta
        if left <= 0:
            return None
        slack = discretisation_slack(self.events, left, self.bound_epsilon(left / 2))
        return slack if slack.delta >= left / 2 else None


class Accountant(ABC):
    """Composes events by one theory."""

    name: ClassVar[str]
    theory: ClassVar[str]
    """Description for model cards."""
    profile: ClassVar[type[Profile]]
    """The curve of covered events."""
    closed_form: ClassVar[bool] = False
    """Whether costs are fast enough to calibrate noise by root finding."""
    needs_delta: ClassVar[bool] = True
    """Whether δ must be above 0."""
    approximates: ClassVar[str] = ""
    """An exact accountant that makes this one superfluous where it applies."""
    min_epsilon: ClassVar[float] = 0.0
    """Below this ε the theory is too loose for calibration."""

    @abstractmethod
    def covers(self, planned: Planned) -> bool:
        """Whether the theory covers an event."""

    def supports(self, events: Sequence[Planned]) -> bool:
        """Whether the theory covers the composition of these events."""
        relations = {p.event.relation for p in events}
        return len(relations) <= 1 and all(map(self.covers, events))

    def least_delta(self, events: Sequence[Planned]) -> float:
        """Return the smallest δ that this accountant's arithmetic resolves for these events."""
        return 0.0

    def cost(self, events: Sequence[Planned], delta: float) -> float:
        """Return ε at δ of a composition; results are cached."""
        return _cost(type(self), tuple(events), delta)

    def compose(self, events: Sequence[Planned]) -> Profile:
        """Return the curve of the events, adaptively chosen within the plan."""
        if len({p.event.relation for p in events}) > 1:
            raise ValueError(
                "events of different neighbouring relations do not compose: convert one guarantee "
                "with formulas.replace_one first"
            )
        for planned in events:
            if not self.covers(planned):
                raise ValueError(
                    f"the {self.name} accountant does not cover {planned.event.mechanism!r}"
                )
        return self.profile(tuple(planned for planned in events if planned.count))


@lru_cache(maxsize=256)
def _cost(kind: type[Accountant], events: tuple[Planned, ...], delta: float) -> float:
    return kind().compose(events).epsilon(delta)
