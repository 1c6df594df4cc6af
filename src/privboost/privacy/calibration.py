"""From (ε, δ) and a plan of releases to noise scales."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.optimize import brentq

from privboost.privacy.accountants.base import Accountant
from privboost.privacy.events import Planned

_CLOSE = 1e-7
"""How much of ε may be left unspent, relatively, so that rounding never overspends."""


def calibrate(
    events: Sequence[Planned], epsilon: float, delta: float, accountant: Accountant
) -> tuple[Planned, ...]:
    """Multiply all noise by one factor, the smallest with which the plan costs at most (ε, δ).

    Parameters
    ----------
    events : sequence of Planned
        The plan; its noise multipliers matter only relative to each other.
    epsilon, delta : float
        The budget.
    accountant : Accountant
        Who computes the cost.

    Returns
    -------
    tuple of Planned
        The same plan with calibrated noise.
    """
    target = epsilon * (1 - _CLOSE)

    def excess(log_factor: float) -> float:
        cost = _cost(events, math.exp(log_factor), delta, accountant)
        return min(cost, 1e300) - target

    low, high = -1.0, 1.0
    while excess(high) > 0:
        low, high = high, high + 2
        if high > 60:
            raise ValueError("no amount of noise reaches this epsilon and delta")
    while excess(low) < 0:
        low, high = low - 2, low
    factor = math.exp(brentq(excess, low, high, xtol=1e-12, rtol=1e-12))
    while _cost(events, factor, delta, accountant) > epsilon:
        factor *= 1 + 1e-9
    return tuple(planned.scaled(factor) for planned in events)


def _cost(events: Sequence[Planned], factor: float, delta: float, accountant: Accountant) -> float:
    return accountant.compose([planned.scaled(factor) for planned in events]).epsilon(delta)
