"""Rényi divergences are never understated by float64: against many digits."""

import math

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from privboost.accounting.formulas import (
    bounded_range_rdp,
    laplace_rdp,
    rdp_to_epsilon,
    subsampled_gaussian_rdp,
)

mpmath = pytest.importorskip("mpmath")

SAMPLED = [
    (2, 0.1, 60.0),
    (50, 0.01, 1.0),
    (3000, 0.005, 15.0),
    (40_000, 0.05, 300.0),
    (2**18, 0.01, 600.0),
    (2**20, 0.002, 900.0),
    (2**20, 0.3, 5000.0),
]


def plain_terms(alpha, rate, z):
    """Logarithms of the terms of the sum, as float64 has them."""
    order = np.arange(alpha + 1, dtype=float)
    logs = gammaln(alpha + 1) - gammaln(order + 1) - gammaln(alpha - order + 1)
    logs += (alpha - order) * math.log1p(-rate) + order * math.log(rate)
    grow = order * (order - 1) / (2 * z**2)
    return logs[2:] + grow[2:] + np.log(-np.expm1(-grow[2:]))


def twin_rdp(alpha, rate, z):
    """The broken twin: nothing is added for rounding."""
    return float(np.logaddexp(0.0, logsumexp(plain_terms(alpha, rate, z)))) / (alpha - 1)


def exact_rdp(alpha, rate, z):
    """The same with 50 digits; terms below 10⁻²⁶ of the largest are left out."""
    logs = plain_terms(alpha, rate, z)
    kept = 2 + np.flatnonzero(logs > logs.max() - 60)
    rate, t = mpmath.mpf(rate), 1 / (2 * mpmath.mpf(z) ** 2)
    low = int(kept[0])
    term = mpmath.binomial(alpha, low) * (1 - rate) ** (alpha - low) * rate**low
    total = mpmath.mpf(0)
    for l in range(low, int(kept[-1]) + 1):  # noqa: E741
        total += term * mpmath.expm1(l * (l - 1) * t)
        term *= mpmath.mpf(alpha - l) / (l + 1) * rate / (1 - rate)
    return mpmath.log1p(total) / (alpha - 1)


def test_samples_are_never_understated_and_hardly_overstated():
    with mpmath.workdps(50):
        over, twin = [], []
        for alpha, rate, z in SAMPLED:
            exact = exact_rdp(alpha, rate, z)
            over.append(float(mpmath.mpf(subsampled_gaussian_rdp(alpha, rate, z)) / exact - 1))
            twin.append(float(mpmath.mpf(twin_rdp(alpha, rate, z)) / exact - 1))
    assert 0 <= min(over) <= max(over) < 1e-6
    assert min(twin) < 0  # what the allowance is for


@pytest.mark.parametrize("alpha", [2, 3, 17, 400, 30_000, 2**20])
@pytest.mark.parametrize("epsilon", [1e-6, 2e-3, 0.05, 1.0, 40.0])
def test_selections_and_laplace_noise_are_never_understated(alpha, epsilon):
    with mpmath.workdps(80):
        a, e = mpmath.mpf(alpha), mpmath.mpf(epsilon)
        down = [1 - mpmath.exp(-k * e) for k in (a, 1, a - 1)]
        total = (a - 1) * mpmath.log(a - 1) - a * mpmath.log(a) + a * mpmath.log(down[0])
        total -= mpmath.log(down[1]) + (a - 1) * (mpmath.log(down[2]) - e)
        assert bounded_range_rdp(alpha, epsilon) >= total / (a - 1)
        total = a * mpmath.exp((a - 1) * e) + (a - 1) * mpmath.exp(-a * e)
        assert laplace_rdp(alpha, epsilon) >= mpmath.log(total / (2 * a - 1)) / (a - 1)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-30, 1e-200])
def test_the_conversion_is_never_understated(delta):
    rng = np.random.default_rng(3)
    with mpmath.workdps(50):
        for _ in range(200):
            alpha, rho = int(2 ** rng.uniform(1, 20)), float(10 ** rng.uniform(-9, 2))
            a, d = mpmath.mpf(alpha), mpmath.mpf(delta)
            exact = rho + mpmath.log1p(-1 / a) - (mpmath.log(d) + mpmath.log(a)) / (a - 1)
            found = rdp_to_epsilon(alpha, rho, delta)
            assert exact <= found <= max(exact, 0) + 1e-12 * (1 + rho)
