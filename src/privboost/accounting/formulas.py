"""Formulas of differential privacy as plain functions, and roots rounded to the safe side.

Results are upper bounds in float64: the rounding error of each term is added to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, gammaln, log_ndtr, logsumexp


def safe_root(
    excess: Callable[[float], float],
    bracket: tuple[float, float],
    holds: Callable[[float], bool],
    nudge: Callable[[float], float],
    **tolerances: float,
) -> float:
    """Return a root within a bracket, nudged to the safe side until a condition holds.

    The condition is checked independently of the root finder, `scipy.optimize.brentq`, which takes
    the tolerances.
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


def gdp_delta(epsilon: float, mu: float) -> float:
    """Return δ(ε) of a μ-Gaussian-DP mechanism: Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2).

    Examples
    --------
    >>> round(gdp_delta(1.0, 1.0), 10)
    0.1269367375
    """
    check_finite("epsilon", epsilon)
    check_positive("mu", mu)
    if mu < _SMALL_MU:
        return _small_gdp_delta(epsilon, mu)
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
    check_positive("mu", mu)
    check_probability("delta", delta)
    return smallest_epsilon(lambda e: gdp_delta(e, mu), delta * (1 - _GDP_ROUNDING))


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ for which μ-Gaussian-DP implies (ε, δ)-DP.

    Examples
    --------
    >>> round(gdp_mu(1.0, 1e-6), 10)
    0.2367043807
    """
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ValueError("epsilon must be a finite number, at least 0")
    check_probability("delta", delta)
    delta *= 1 - _GDP_ROUNDING
    low, high = 1e-9, 1.0
    if gdp_delta(epsilon, low) > delta:
        raise ValueError("delta is too small for this epsilon: no noise of this kind reaches it")
    while gdp_delta(epsilon, high) <= delta:
        high *= 2
    return safe_root(
        lambda mu: log_or_floor(gdp_delta(epsilon, mu)) - math.log(delta),
        (low, high),
        holds=lambda mu: gdp_delta(epsilon, mu) <= delta,
        nudge=lambda mu: mu * (1 - 1e-14),
        xtol=1e-15,
    )


def subsampled_gaussian_rdp(
    alpha: int, sampling_rate: float, noise_multiplier: float, share: float = 1.0
) -> float:
    """Return the Rényi divergence of order α of a Poisson-subsampled Gaussian release.

    Parameters
    ----------
    alpha : int
        The order, at least 2 (any real number above 1 if `sampling_rate` is 1).
    sampling_rate : float
        γ, the sampling rate.
    noise_multiplier : float
        z, the noise over the sensitivity.
    share : float
        Fraction of the squared sensitivity that a row uses; for one row of a leaf-balanced
        release s = r₁h²/h*² + r₂g²/g*².

    Examples
    --------
    >>> round(subsampled_gaussian_rdp(10, 0.01, 1.0), 8)
    0.03827042
    """
    check_sampling_rate(sampling_rate)
    check_positive("noise_multiplier", noise_multiplier)
    if not 0 <= share <= 1:
        raise ValueError("share must lie between 0 and 1")
    t = share / (2 * noise_multiplier**2)
    if sampling_rate == 1:
        _above_one(alpha)
        return alpha * t * _UP
    if alpha != int(alpha) or alpha < 2:
        raise ValueError("alpha must be a whole number of at least 2 for a subsampled release")
    if alpha > MOST_ORDER:
        raise ValueError(f"alpha must be at most {MOST_ORDER}")
    if t == 0:
        return 0.0
    # In logarithms: the terms overflow float64 from orders of a few hundred on. The terms without
    # e^{l(l−1)t} add up to 1, so only what exceeds them counts: no cancellation.
    order = np.arange(2, int(alpha) + 1, dtype=np.float64)
    grow = order * (order - 1) * t
    logs, size = _sum_up(
        np.full(len(order), gammaln(alpha + 1)),
        -gammaln(order + 1),
        -gammaln(alpha - order + 1),
        (alpha - order) * math.log1p(-sampling_rate),
        order * math.log(sampling_rate),
        grow,
        np.log(-np.expm1(-grow)),
    )
    excess = float(logsumexp(logs + _TERM * (size + 8)))
    excess += _TERM * (abs(excess) + 8)  # the sum of the terms, and its logarithm
    return float(np.logaddexp(0.0, excess)) / (alpha - 1) * _UP


def rdp_to_epsilon(alpha: float, rho: float, delta: float) -> float:
    """Return ε at δ of a mechanism with Rényi divergence ρ of order α.

    Examples
    --------
    >>> round(rdp_to_epsilon(241, 0.04705, 5e-8), 9)
    0.090085514
    """
    _above_one(alpha)
    if not rho >= 0:
        raise ValueError("rho must be a number, at least 0")
    check_probability("delta", delta)
    bound = rho + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)
    size = rho + (2 - math.log(delta) + math.log(alpha)) / (alpha - 1)
    return max(bound + _TERM * size, 0.0)


def laplace_rdp(alpha: float, epsilon: float) -> float:
    """Return the Rényi divergence of order α of a Laplace release that is ε-DP.

    Examples
    --------
    >>> round(laplace_rdp(2, 1.0), 8)
    0.61912363
    """
    check_positive("epsilon", epsilon)
    general = alpha * epsilon**2 / 2 * _UP
    if alpha == 1:
        return min(epsilon + math.expm1(-epsilon) + _TERM * epsilon, general, epsilon)
    _above_one(alpha)
    if math.isinf(alpha):
        return epsilon
    if (alpha - 1) * epsilon > 30:
        up = math.log(alpha / (2 * alpha - 1)) + (alpha - 1) * epsilon
        down = math.log((alpha - 1) / (2 * alpha - 1)) - alpha * epsilon
        return min(float(np.logaddexp(up, down)) / (alpha - 1) * _UP, epsilon)
    # The excess over 1: near zero its first-order terms cancel, at a relative error of 10⁻¹⁶/ε.
    excess = alpha * math.expm1((alpha - 1) * epsilon) + (alpha - 1) * math.expm1(-alpha * epsilon)
    exact = math.log1p(excess / (2 * alpha - 1)) / (alpha - 1)
    return min(exact * (1 + 1e-14 / epsilon + 1e-14), general, epsilon)


def bounded_range_rdp(alpha: float, epsilon: float) -> float:
    """Return the Rényi divergence of order α of an ε-bounded-range mechanism.

    Examples
    --------
    >>> round(bounded_range_rdp(10, 1.0), 10)
    0.6898335732
    """
    check_positive("epsilon", epsilon)
    hoeffding = alpha * epsilon**2 / 8 * _UP
    if alpha == 1:
        ratio = epsilon / math.expm1(epsilon)
        exact = ratio - 1 - math.log(ratio)
        return min(exact + _TERM * (1 - math.log(ratio)), hoeffding, epsilon)
    _above_one(alpha)
    if math.isinf(alpha):
        return epsilon
    if alpha * epsilon < 1e-3:  # the closed form cancels; this bound exceeds it by 10⁻⁷ of it
        return hoeffding
    total, size = _sum_up(
        (alpha - 1) * math.log(alpha - 1),
        -alpha * math.log(alpha),
        alpha * _log_one_minus_exp(alpha * epsilon),
        -_log_one_minus_exp(epsilon),
        (alpha - 1) * epsilon,
        -(alpha - 1) * _log_one_minus_exp((alpha - 1) * epsilon),
    )
    # A rounded argument of a logarithm errs by 2⁻⁵³, α times.
    rounding = _TERM * (size + alpha + 8)
    return min(float(total + rounding) / (alpha - 1), hoeffding, epsilon)


_TERM = 2e-15
"""Relative rounding error of a sum of a few terms.

gammaln errs by less than 7·10⁻¹⁶ of itself (of 1, where it is less than 1), every other operation
by 2⁻⁵³ = 1.1·10⁻¹⁶ or twice that; a term passes at most eight of them.
"""
_UP = 1 + 4e-15
"""Rounding up of products."""
_GDP_ROUNDING = 1e-10
"""Relative error of `gdp_delta`."""
_SMALL_MU = 0.25
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def _small_gdp_delta(epsilon: float, mu: float) -> float:
    """Return δ(ε) without cancellation.

    With a = −ε/μ + μ/2 and R = Φ/φ it is φ(a)·(R(a) − R(a − μ)), and R′(x) = 1 + x·R(x) is
    integrated over the short interval.
    """
    a = -epsilon / mu + mu / 2
    x = a - mu / 2 + mu / 2 * _NODES
    mills = math.sqrt(math.pi / 2) * erfcx(-x / math.sqrt(2))
    # Far out 1 + x·R(x) cancels; there it is the series 1/x² − 3/x⁴ + 15/x⁶ − …
    far = np.minimum(x, -30.0) ** -2.0
    series = far * (1 - far * (3 - far * (15 - far * (105 - 945 * far))))
    rise = np.where(x < -30, series, 1 + x * mills)
    log_density = -a * a / 2 - math.log(2 * math.pi) / 2
    # R grows like e^{x²/2} on the right, where φ falls: join them in logarithms.
    return float(np.exp(log_density + np.log(rise * _WEIGHTS * (mu / 2))).sum())


MOST_ORDER = 2**20
"""Largest Rényi order."""


def best_order(rho: Callable[[int], float], delta: float) -> int:
    """Return the integer order with the smallest ε.

    ε falls and then rises with the order, so ternary search finds the best one.
    """

    def epsilon(alpha: int) -> float:
        return rdp_to_epsilon(alpha, rho(alpha), delta)

    low, high = 2, 4
    while high < MOST_ORDER and epsilon(high) < epsilon(high // 2):
        low, high = high // 2, high * 2
    high = min(high, MOST_ORDER)
    while high - low > 2:
        left, right = low + (high - low) // 3, high - (high - low) // 3
        if epsilon(left) <= epsilon(right):
            high = right
        else:
            low = left
    return min(range(low, high + 1), key=epsilon)


def renyi_epsilon(rho: Callable[[int], float], delta: float) -> float:
    """Return the smallest ε over integer orders."""
    alpha = best_order(rho, delta)
    return rdp_to_epsilon(alpha, rho(alpha), delta)


def replace_one(epsilon: float, delta: float) -> tuple[float, float]:
    """Convert an add/remove guarantee into one for replacing a unit: (2ε, (1 + e^ε)δ)."""
    if delta == 0:
        return 2 * epsilon, 0.0
    grown = 1 + math.exp(epsilon) if epsilon < 700 else math.inf  # it overflows beyond
    return 2 * epsilon, min(grown * delta * _UP, 1.0)


def _log_one_minus_exp(x: float) -> float:
    """Return ln(1 − e^{−x}) for x > 0."""
    return math.log(-math.expm1(-x)) if x < 0.7 else math.log1p(-math.exp(-x))


def _sum_up(*terms: Any) -> tuple[Any, Any]:
    """Return the sum of terms, and of their absolute values."""
    return sum(terms), sum(map(abs, terms))


def _above_one(alpha: float) -> None:
    if not alpha > 1:
        raise ValueError("alpha must be above 1")


def check_sampling_rate(value: float) -> None:
    """Refuse a rate that is 0 or less, or above 1."""
    if not 0 < value <= 1:
        raise ValueError("sampling_rate must lie above 0, and be at most 1")


def check_finite(name: str, value: float) -> None:
    """Refuse infinity and NaN."""
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number")


def check_positive(name: str, value: float) -> None:
    """Refuse all but finite numbers above 0."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above 0")


def check_probability(name: str, value: float) -> None:
    """Refuse numbers that do not lie strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1")
