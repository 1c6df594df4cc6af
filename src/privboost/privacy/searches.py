"""Root finding and number formatting, with results rounded to the safe side."""

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
    """Return a root, moved to the safe side until a condition holds.

    Parameters
    ----------
    excess : callable
        Function whose root is sought.
    bracket : (float, float)
        Interval at whose ends its signs differ.
    holds : callable
        The condition, checked independently of the root finder.
    nudge : callable
        A small step to the safe side.
    **tolerances
        Tolerances of `scipy.optimize.brentq`.
    """
    root: float = brentq(excess, *bracket, **tolerances)
    while not holds(root):
        root = nudge(root)
    return root


def smallest_epsilon(delta_of: Callable[[float], float], delta: float) -> float:
    """Return the smallest ε ≥ 0 at which a decreasing curve is at most δ, rounded up."""
    if delta_of(0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_of(high) > delta:
        high *= 2
        if high > 1e6:
            return math.inf
    root = brentq(lambda e: log_or_floor(delta_of(e)) - math.log(delta), 0.0, high, xtol=1e-12)
    return not_below(root, lambda e: delta_of(e) <= delta)


def smallest_true(
    holds: Callable[[float], bool], low: float, high: float, tolerance: float
) -> float:
    """Return the smallest x for a monotone condition, by bisection from above."""
    while high - low > tolerance:
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def log_or_floor(value: float) -> float:
    """Return the logarithm of a value, or a large negative number for zero."""
    return math.log(value) if value > 0 else -1e4


def not_below(root: float, good: Callable[[float], bool]) -> float:
    """Increase a numerical root until a condition holds: ε is never optimistic."""
    step = 1e-14 * max(1.0, root)
    while not good(root):
        root, step = root + step, step * 2
    return root


def round_up(value: float) -> str:
    """Format a number in six digits, never below its value."""
    text, more = f"{value:.6g}", value
    while float(text) < value:
        # The smallest numbers are further apart than a part of themselves.
        more = max(more + abs(value) * 1e-6, math.nextafter(more, math.inf))
        text = f"{more:.6g}"
    return text
