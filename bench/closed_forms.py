"""Formulas of continuous theory without grid slack, to compare with papers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from privboost.accounting.accountants import PldAccountant, choose_accountant
from privboost.accounting.bounded_range import compose_ranges, mixed_reach
from privboost.accounting.events import Planned
from privboost.accounting.formulas import (
    check_finite,
    check_positive,
    check_probability,
    check_sampling_rate,
    gdp_epsilon,
    gdp_mu,
    renyi_epsilon,
    safe_root,
    smallest_epsilon,
    subsampled_gaussian_rdp,
)
from privboost.accounting.noisy_sums import GaussianRelease


def pld_epsilon(noise_multiplier: float, sampling_rate: float, rounds: int, delta: float) -> float:
    """Return ε at δ of Poisson-subsampled Gaussian releases by their privacy loss distribution.

    Examples
    --------
    >>> 1.8232 < pld_epsilon(1.0, 0.01, 1000, 1e-5) < 1.8332
    True
    """
    check_positive("noise_multiplier", noise_multiplier)
    check_sampling_rate(sampling_rate)
    check_probability("delta", delta)
    events = _equal_gaussians(noise_multiplier, sampling_rate, rounds)
    return PldAccountant(events).ideal_epsilon(delta)


def calibrate_gaussian(
    epsilon: float,
    delta: float,
    rounds: int,
    sampling_rate: float = 1.0,
    accountant: str = "auto",
) -> float:
    """Return the noise multiplier z with which equal Gaussian releases cost (ε, δ).

    The scale of a leaf release, σ_leaf, is √2 · z.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    rounds : int
        Number of releases.
    sampling_rate : float
        Probability of a row to be in the sample of a round.
    accountant : {"auto", "gdp", "rdp", "pld"}
        "auto" is exact for full batches ("gdp"), and uses "pld" for samples, or "rdp" where δ is
        below what "pld" can resolve.

    Examples
    --------
    >>> round(2**0.5 * calibrate_gaussian(1.0, 1e-5, 100), 6)
    52.759099
    """
    check_positive("epsilon", epsilon)
    check_probability("delta", delta)
    check_sampling_rate(sampling_rate)
    if rounds < 1 or rounds != int(rounds):
        raise ValueError("rounds must be a whole number of at least 1")
    if accountant == "auto":
        equal = _equal_gaussians(1.0, sampling_rate, rounds)
        accountant = choose_accountant("auto", equal, delta).name
    full = math.sqrt(rounds) / gdp_mu(epsilon, delta)
    if accountant == "gdp":
        if sampling_rate != 1:
            raise ValueError("the gdp accountant covers full batches only: use rdp or pld")
        return full
    if accountant == "rdp":
        cost = partial(_rdp_cost, sampling_rate, rounds, delta)
    elif accountant == "pld":
        cost = partial(_pld_cost, sampling_rate, rounds, delta)
    else:
        raise ValueError(f"accountant must be auto, gdp, rdp or pld; {accountant!r} is not")
    return _smallest_multiplier(cost, epsilon, max(0.5 * sampling_rate * full, 0.3), 2 * full)


def _rdp_cost(sampling_rate: float, rounds: int, delta: float, noise_multiplier: float) -> float:
    return renyi_epsilon(
        lambda alpha: rounds * subsampled_gaussian_rdp(alpha, sampling_rate, noise_multiplier),
        delta,
    )


def _equal_gaussians(
    noise_multiplier: float, sampling_rate: float, rounds: int
) -> tuple[Planned, ...]:
    one = GaussianRelease("sums", noise_multiplier, 1, 1, 1, (1.0,), sampling_rate)
    return (Planned(one, rounds),)


def _pld_cost(sampling_rate: float, rounds: int, delta: float, noise_multiplier: float) -> float:
    return pld_epsilon(noise_multiplier, sampling_rate, rounds, delta)


def _smallest_multiplier(
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


def bounded_range_delta(epsilon: float, range_epsilon: float) -> float:
    """Return δ(ε) of one bounded-range mechanism.

    Examples
    --------
    >>> round(bounded_range_delta(0.5, 1.0), 10)
    0.0774046863
    """
    check_finite("epsilon", epsilon)
    check_positive("range_epsilon", range_epsilon)
    if epsilon >= range_epsilon:
        return 0.0
    if epsilon <= -range_epsilon:
        return -math.expm1(epsilon)
    return math.expm1((epsilon - range_epsilon) / 2) ** 2 / -math.expm1(-range_epsilon)


def composed_range_delta(epsilon: float, range_epsilons: Sequence[float], mu: float = 0.0) -> float:
    """Return δ(ε) of adaptively composed bounded-range mechanisms and μ-GDP releases.

    Examples
    --------
    >>> composed_range_delta(0.72, [0.05] * 60) < 1e-5 < composed_range_delta(0.68, [0.05] * 60)
    True
    """
    check_finite("epsilon", epsilon)
    curve = compose_ranges(range_epsilons, mixed_reach(epsilon, mu))
    return curve.delta_with_gaussian(epsilon, mu) if mu > 0 else curve.delta(epsilon)


def composed_range_epsilon(delta: float, range_epsilons: Sequence[float], mu: float = 0.0) -> float:
    """Return ε at δ of the same composition as `composed_range_delta`.

    Examples
    --------
    >>> abs(composed_range_epsilon(1e-5, [0.05] * 60) - 0.701) < 0.0025
    True
    """
    check_probability("delta", delta)
    spread = math.sqrt(sum(r * r for r in range_epsilons) / 4 + mu * mu)
    guess = gdp_epsilon(max(spread, 1e-9), delta)
    reach = mixed_reach(1.5 * guess + max(range_epsilons, default=0.0), mu)
    curve = compose_ranges(range_epsilons, reach)
    return smallest_epsilon(
        lambda e: curve.delta_with_gaussian(e, mu) if mu > 0 else curve.delta(e), delta
    )
