"""Resolution of δ in composed privacy losses, and the part of δ that covers rounding.

dp-accounting composes losses by fast Fourier transforms, whose rounding is absolute and of either
sign. It errs in δ(ε), at any ε, by less than

- 3·10⁻¹⁶ for the loss of each release: its curve is a difference of two distribution functions, and
  an error of the curve of one release is, in a composition, an error of the same size;
- 2·10⁻¹⁶ for each release in the transform: no coefficient of a distribution exceeds 1, so its
  T-th power errs by T times what the coefficient errs by, and the transform back is a mean.

Both are measured, on losses of Gaussian and Laplace noise, against 40 and 19 digits; twice their
sum is reserved. `docs/guarantees/accounting.md` has the figures.

Slack of theories for continuous noise when noise is drawn on an integer grid.

Let P_d be a discrete Gaussian of scale σ and P_r a continuous one rounded to integers. For every
integer k, P_d(k) ≤ e^a P_r(k) with a = 1/(24σ²) + ν, and for |k| ≤ zσ also P_r(k) ≤ e^b P_d(k)
with b = z²/(24σ²) · e^{z²/8σ²} + ν, where ν = 3 e^{−2π²σ²} covers the two normalisers. For
Laplace noise of scale s the same holds for all k with a = 1/(2s) and b = 1/(8s²). Replacing one by
the other in all coordinates that a unit can touch, first under one table and then under its
neighbour, turns (ε, δ) into (ε + Σa + Σb, e^{Σa}(δ + e^ε τ)), where τ bounds the probability that
one of the Gaussian coordinates exceeds z. `docs/guarantees/gaussian_release.md` has the proof.

Accountants: from planned events to a privacy curve, each by one theory of composition.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from privboost.accounting.events import Planned

PER_RELEASE = 1e-15
"""Part of δ kept for each release, and for each composition of two kinds of releases."""
RESOLVED = 1000
"""Least ratio of δ to its rounding."""


def less_rounding(delta: float, rounding: float, name: str) -> float:
    """Return δ less its rounding.

    Raises
    ------
    ValueError
        If δ is below `RESOLVED` times the rounding.
    """
    if delta < RESOLVED * rounding:
        raise ValueError(unresolved(name, RESOLVED * rounding))
    return delta - rounding


def unresolved(name: str, least: float) -> str:
    """Return the message for a δ that is too small for an accountant."""
    return (
        f"delta is below what {name} can resolve for these releases ({least:.3g}); "
        "choose a larger delta or accountant='rdp'"
    )


EXCHANGE_ROOM = 1 + 1e-4
"""Factor by which releases may exceed the μ² of the reservation that they replace: calibrations
are rounded."""
_TAIL = 1e-9
"""e^ε τ relative to δ; a larger z costs more ε, a smaller one more δ."""
_ROUNDING = 1e-9
"""Relative part of δ kept for float64 rounding in the formulas."""
_GRID_BY_MU = 2.0**-20
"""Least Σ coordinates/σ² relative to μ² that is allowed for."""
_MIN_SIGMA = 2.0**10


def grid_size(plan: Sequence[Planned], least: float = 0.0) -> float:
    """Return Σ coordinates/σ² of Gaussian releases, which determines the slack of their grid.

    The result is infinite where σ is too small for that. `least` times its μ² is a lower bound for
    each release.
    """
    total = 0.0
    for planned in plan:
        grid, mu = planned.event.gaussian_grid, planned.event.mu
        if grid is None or mu is None or not planned.count:
            continue
        if grid[1] < _MIN_SIGMA:
            return math.inf
        total += planned.count * max(1.01 * grid[0] / grid[1] ** 2, least * mu**2)
    return total


def grid_allowed(plan: Sequence[Planned]) -> float:
    """Return an upper bound of `grid_size` for everything that may replace parts of a plan."""
    return grid_size(plan, _GRID_BY_MU)


@dataclass(frozen=True)
class Slack:
    """Slack of the grid for one composition."""

    epsilon: float
    """Σa + Σb, to be added to the continuous ε."""
    delta: float
    """The δ at which the continuous ε is taken: at most e^{−Σa} δ − e^ε τ."""


def discretisation_slack(events: Sequence[Planned], delta: float, epsilon: float) -> Slack:
    """Return the slack of noisy sums; selections have none.

    Parameters
    ----------
    events : sequence of Planned
        The releases.
    delta : float
        δ of the final guarantee.
    epsilon : float
        Upper bound of the continuous ε.
    """
    forward = backward = 0.0
    gaussian = [
        (planned.count * grid[0], grid[1])
        for planned in events
        if (grid := planned.event.gaussian_grid) is not None
    ]
    if gaussian:
        touched = sum(count for count, _ in gaussian)
        # A rounded Gaussian beyond zσ was beyond zσ − ½ before: τ ≤ touched · 2Φ(−(z − 1/2σ)). As
        # 2Φ(−x) ≤ 2 exp(−x²/2), this z has e^ε τ ≤ _TAIL · δ.
        log_odds = math.log(2 * touched) - math.log(_TAIL) - math.log(delta) + epsilon
        z = math.sqrt(2 * log_odds) + 1 / (2 * min(s for _, s in gaussian))
        forward += sum(count * (1 / (24 * s * s) + _normaliser(s)) for count, s in gaussian)
        backward += sum(count * (_ratio(z / s) + _normaliser(s)) for count, s in gaussian)
    for planned in events:
        grid = planned.event.laplace_grid
        if grid is not None:
            count, s = planned.count * grid[0], grid[1]
            forward += count / (2 * s)
            backward += count / (8 * s * s)
    return Slack(forward + backward, delta * (math.exp(-forward) - _TAIL - _ROUNDING))


def _ratio(step: float) -> float:
    return step**2 / 24 * math.exp(min(step**2 / 8, 700.0))


def _normaliser(sigma: float) -> float:
    return 3 * math.exp(-2 * math.pi**2 * sigma**2)


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
