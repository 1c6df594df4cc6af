"""The formulas of differential privacy, as plain functions."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr


def gdp_delta(epsilon: float, mu: float) -> float:
    """Return δ(ε) of a μ-Gaussian-DP mechanism: Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2).

    Examples
    --------
    >>> round(gdp_delta(1.0, 1.0), 10)
    0.1269367375
    """
    _finite("epsilon", epsilon)
    _positive("mu", mu)
    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    # In logarithms: e^ε Φ(…) may be a huge number times a tiny one.
    return -math.exp(first) * math.expm1(min(second - first, 0.0))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε ≥ 0 with δ(ε) ≤ δ for a μ-Gaussian-DP mechanism.

    Examples
    --------
    >>> round(gdp_epsilon(1.0, 1e-5), 6)
    4.377178
    """
    _positive("mu", mu)
    _probability("delta", delta)
    if gdp_delta(0.0, mu) <= delta:
        return 0.0
    high = max(1.0, mu)
    while gdp_delta(high, mu) > delta:
        high *= 2
    root = brentq(lambda e: _log(gdp_delta(e, mu)) - math.log(delta), 0.0, high, xtol=1e-13)
    return _not_below(root, lambda e: gdp_delta(e, mu) <= delta)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ for which μ-Gaussian-DP implies (ε, δ)-DP.

    Examples
    --------
    >>> round(gdp_mu(1.0, 1e-6), 10)
    0.2367043807
    """
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ValueError("epsilon must be a finite number, at least 0")
    _probability("delta", delta)
    low, high = 1e-9, 1.0
    if gdp_delta(epsilon, low) > delta:
        raise ValueError("delta is too small for this epsilon: no noise of this kind reaches it")
    while gdp_delta(epsilon, high) <= delta:
        high *= 2
    root: float = brentq(
        lambda mu: _log(gdp_delta(epsilon, mu)) - math.log(delta), low, high, xtol=1e-15
    )
    while gdp_delta(epsilon, root) > delta:
        root *= 1 - 1e-14
    return root


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -1e4


def _not_below(root: float, good) -> float:  # type: ignore[no-untyped-def]
    """Step up from a root found numerically until the promise holds: ε is never optimistic."""
    step = 1e-14 * max(1.0, root)
    while not good(root):
        root, step = root + step, step * 2
    return root


def _finite(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number")


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above 0")


def _probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1")
