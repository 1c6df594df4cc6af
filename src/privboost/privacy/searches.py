"""Searches whose answers are rounded to the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq


def safe_root(
    excess: Callable[[float], float],
    bracket: tuple[float, float],
    holds: Callable[[float], bool],
    nudge: Callable[[float], float],
    **tolerances: float,
) -> float:
    """Return a root, moved until what is promised of it holds.

    Parameters
    ----------
    excess : callable
        Is zero at the root.
    bracket : (float, float)
        Where its signs differ.
    holds : callable
        The promise: checked, never taken from the root finder.
    nudge : callable
        A small step to the safe side.
    **tolerances
        Of `scipy.optimize.brentq`.
    """
    root: float = brentq(excess, *bracket, **tolerances)
    while not holds(root):
        root = nudge(root)
    return root


def smallest_epsilon(delta_of: Callable[[float], float], delta: float) -> float:
    """Return the smallest ε ≥ 0 at which a falling curve is at most δ, rounded up."""
    if delta_of(0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_of(high) > delta:
        high *= 2
        if high > 1e6:
            return math.inf
    root = brentq(lambda e: log_or_floor(delta_of(e)) - math.log(delta), 0.0, high, xtol=1e-12)
    return not_below(root, lambda e: delta_of(e) <= delta)


def smallest_true(holds: Callable[[float], bool], low: float, high: float, close: float) -> float:
    """Return the smallest x, from above, at which a condition that turns true once is true."""
    while high - low > close:
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def smallest_multiplier(
    cost: Callable[[float], float], epsilon: float, low: float, high: float
) -> float:
    """Return the smallest z with cost(z) ≤ ε, to a relative 10⁻⁸ above."""
    while cost(high) > epsilon:
        high *= 2
    while cost(low) <= epsilon:
        low /= 2
    return safe_root(
        lambda z: min(cost(z), 1e300) - epsilon,
        (low, high),
        holds=lambda z: cost(z) <= epsilon,
        nudge=lambda z: z * (1 + 1e-9),
        rtol=1e-10,
    )


def log_or_floor(value: float) -> float:
    """Return ln of a value, or of nearly nothing where it is zero."""
    return math.log(value) if value > 0 else -1e4


def not_below(root: float, good: Callable[[float], bool]) -> float:
    """Step up from a root found numerically until the promise holds: ε is never optimistic."""
    step = 1e-14 * max(1.0, root)
    while not good(root):
        root, step = root + step, step * 2
    return root
