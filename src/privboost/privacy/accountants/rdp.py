"""Rényi accounting at whole orders: what the papers use, for comparison and for what it covers."""

from __future__ import annotations

from collections.abc import Callable

from privboost.privacy.formulas import MOST_ORDER, rdp_to_epsilon, subsampled_gaussian_rdp


def gaussian_rdp_epsilon(
    sampling_rate: float, rounds: int, delta: float, noise_multiplier: float
) -> float:
    """Return ε at δ of subsampled Gaussian releases, at the best whole order."""
    return best_order(
        lambda alpha: rounds * subsampled_gaussian_rdp(alpha, sampling_rate, noise_multiplier),
        delta,
    )


def best_order(rho: Callable[[int], float], delta: float) -> float:
    """Minimise ε over whole orders: it falls, then rises, so the best is found by narrowing."""

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
    return min(epsilon(alpha) for alpha in range(low, high + 1))
