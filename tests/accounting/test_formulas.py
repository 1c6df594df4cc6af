import math

import pytest

from bench.closed_forms import (
    bounded_range_delta,
    calibrate_gaussian,
    composed_range_delta,
    composed_range_epsilon,
    pld_epsilon,
)
from privboost.accounting.formulas import (
    bounded_range_rdp,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    laplace_rdp,
    rdp_to_epsilon,
    subsampled_gaussian_rdp,
)

mpmath = pytest.importorskip("mpmath")


def test_golden_values():
    """Reference values, computed apart from this project."""
    assert gdp_delta(1, 1) == pytest.approx(0.1269367375, rel=1e-9)
    assert gdp_mu(1, 1e-6) == pytest.approx(0.2367043807, rel=1e-9)
    assert gdp_mu(1, 1e-5) == pytest.approx(0.2680511232, rel=1e-9)
    assert gdp_epsilon(1, 1e-5) == pytest.approx(4.377178096, rel=1e-9)
    # sigma of a leaf release: 100 full-batch rounds at (1, 1e-5)
    assert math.sqrt(2 * 100) / gdp_mu(1, 1e-5) == pytest.approx(52.75909854, rel=1e-9)
    # AdaSSP's three equal parts at (1, 1e-6)
    assert gdp_mu(1, 1e-6) / math.sqrt(3) == pytest.approx(0.1366613379, rel=1e-9)


LEAF = math.sqrt(2)
"""σ of a leaf release over its noise multiplier."""


def test_golden_renyi_values():
    rdp = subsampled_gaussian_rdp
    assert rdp(241, 0.1, 88 / LEAF) == pytest.approx(0.0003129904213, rel=1e-9)
    assert rdp(2, 0.1, 88 / LEAF) == pytest.approx(2.582974824e-06, rel=1e-9)
    assert rdp(10, 0.01, 1.0) == pytest.approx(0.03827041889, rel=1e-9)
    rho = 150 * rdp(454, 0.1, 170.361 / LEAF)
    assert rho == pytest.approx(0.02353107748, rel=1e-9)
    assert rdp_to_epsilon(454, rho, 5e-8) == pytest.approx(0.04493118292, rel=1e-9)
    assert rdp_to_epsilon(241, 0.04705, 5e-8) == pytest.approx(0.09008551443, rel=1e-9)
    assert laplace_rdp(2, 1) == pytest.approx(0.61912363, rel=1e-8)
    # One row's share: g = .03 of .1, h = 1 of 1, r₁ = .2.
    share = 0.2 + 0.8 * 0.09
    assert rdp(231, 0.1, 84 / LEAF, share) == pytest.approx(8.919281787e-05, rel=1e-9)
    assert rdp(10, 1.0, 84 / LEAF, share) == pytest.approx(0.0003854875283, rel=1e-9)


def test_golden_range_values():
    assert bounded_range_rdp(1, 1) == pytest.approx(0.1233015615, rel=1e-9)
    assert bounded_range_rdp(2, 0.1) == pytest.approx(0.002498959027, rel=1e-9)
    assert bounded_range_rdp(10, 1) == pytest.approx(0.6898335732, rel=1e-9)
    assert bounded_range_delta(0.5, 1) == pytest.approx(0.07740468632, rel=1e-9)
    assert composed_range_epsilon(1e-5, [0.05] * 60) == pytest.approx(0.701, abs=0.0025)


def test_golden_pld_and_calibration():
    assert 1.8232 <= pld_epsilon(1.0, 0.01, 1000, 1e-5) <= 1.8332
    assert 0.086879 <= pld_epsilon(60.0, 0.1, 150, 5e-8) <= 0.086909
    sigma = LEAF * calibrate_gaussian(0.0945, 5e-8, 150, 0.1, "rdp")
    assert sigma == pytest.approx(83.995333, rel=1e-7)
    assert LEAF * calibrate_gaussian(1, 1e-5, 100) == pytest.approx(52.75909854, rel=1e-9)


@pytest.mark.parametrize(
    ("rounds", "rdp", "exact"),
    [(25, 36.10, 34.00), (50, 51.05, 48.09), (100, 72.20, 68.01), (200, 102.11, 96.17)],
)
def test_what_exact_accounting_buys(rounds, rdp, exact):
    assert LEAF * calibrate_gaussian(1, 5e-8, rounds) == pytest.approx(exact, abs=0.006)
    by_rdp = LEAF * calibrate_gaussian(1, 5e-8, rounds, accountant="rdp")
    assert by_rdp == pytest.approx(rdp, abs=0.006)


def test_renyi_divergence_against_many_digits():
    for alpha, rate, z in ((7, 0.3, 0.8), (50, 0.01, 2.0), (700, 0.1, 60.0)):
        with mpmath.workdps(60):
            total = mpmath.fsum(
                mpmath.binomial(alpha, k)
                * (1 - mpmath.mpf(rate)) ** (alpha - k)
                * mpmath.mpf(rate) ** k
                * mpmath.exp(mpmath.mpf(k * (k - 1)) / (2 * mpmath.mpf(z) ** 2))
                for k in range(alpha + 1)
            )
            exact = float(mpmath.log(total) / (alpha - 1))
        assert subsampled_gaussian_rdp(alpha, rate, z) == pytest.approx(exact, rel=1e-9)
    assert math.isfinite(subsampled_gaussian_rdp(100_000, 0.005, 15.0))


def test_small_ranges_do_not_cancel():
    for epsilon in (1e-7, 1e-5, 1e-3):
        assert bounded_range_rdp(3, epsilon) == pytest.approx(3 * epsilon**2 / 8, rel=1e-3)
        assert laplace_rdp(3, epsilon) == pytest.approx(3 * epsilon**2 / 2, rel=2e-3)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, 1e-3, 0.01, 0.3, 3.0, 40.0])
@pytest.mark.parametrize("alpha", [2, 3, 20, 500])
def test_renyi_formulas_are_never_below_the_truth(alpha, epsilon):
    with mpmath.workdps(80):
        a, e = mpmath.mpf(alpha), mpmath.mpf(epsilon)
        laplace = mpmath.log(
            a / (2 * a - 1) * mpmath.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * e)
        ) / (a - 1)
        top = (a - 1) ** (a - 1) * a**-a * (1 - mpmath.exp(-a * e)) ** a
        bottom = (1 - mpmath.exp(-e)) * (mpmath.exp(-e) - mpmath.exp(-a * e)) ** (a - 1)
        ranged = mpmath.log(top / bottom) / (a - 1)
    for found, exact in (
        (laplace_rdp(alpha, epsilon), laplace),
        (bounded_range_rdp(alpha, epsilon), ranged),
    ):
        assert found >= float(exact) * (1 - 1e-13)
        assert found == pytest.approx(float(exact), rel=1e-6)


def test_the_game_falls_and_adds_gaussians():
    ranges = [0.05] * 20
    deltas = [composed_range_delta(e, ranges) for e in (-0.2, 0.0, 0.2, 0.4, 1.1)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] == pytest.approx(0.0, abs=1e-12)
    assert composed_range_delta(0.4, ranges, mu=0.3) > composed_range_delta(0.4, ranges)
    assert composed_range_delta(1.0, [1e-6], mu=1.0) == pytest.approx(gdp_delta(1, 1), rel=1e-5)
    # Bounded-range mechanisms are never better than what their Gaussian limit allows.
    assert (
        composed_range_epsilon(1e-5, ranges) <= gdp_epsilon(math.sqrt(20) * 0.05 / 2, 1e-5) * 1.05
    )


@pytest.mark.parametrize("mu", [1e-3, 0.05, 1, 7, 40])
@pytest.mark.parametrize("epsilon", [0, 1e-3, 0.3, 2, 25, 400])
def test_delta_against_many_digits(epsilon, mu):
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        exact = mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)
    if exact > 1e-290:
        # The difference of two close numbers loses digits, never more than these.
        assert gdp_delta(epsilon, mu) == pytest.approx(float(exact), rel=1e-6)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1, 30])
@pytest.mark.parametrize("delta", [1e-12, 5e-8, 1e-3])
def test_the_three_are_inverse_and_never_optimistic(mu, delta):
    epsilon = gdp_epsilon(mu, delta)
    assert gdp_delta(epsilon, mu) <= delta
    if epsilon > 0:
        assert gdp_mu(epsilon, delta) == pytest.approx(mu, rel=1e-6)
        assert gdp_delta(epsilon, gdp_mu(epsilon, delta)) <= delta


@pytest.mark.parametrize(
    "call",
    [
        lambda: gdp_delta(1, 0),
        lambda: gdp_delta(math.nan, 1),
        lambda: gdp_epsilon(1, 0),
        lambda: gdp_epsilon(1, 1),
        lambda: gdp_epsilon(-1, 0.1),
        lambda: gdp_mu(-1, 0.1),
        lambda: gdp_mu(1, 0),
        lambda: subsampled_gaussian_rdp(1, 0.1, 1.0),
        lambda: subsampled_gaussian_rdp(2.5, 0.1, 1.0),
        lambda: subsampled_gaussian_rdp(2**21, 0.1, 1.0),
        lambda: subsampled_gaussian_rdp(2, 0.0, 1.0),
        lambda: subsampled_gaussian_rdp(2, 0.1, 1.0, share=2.0),
        lambda: rdp_to_epsilon(1, 0.1, 1e-5),
        lambda: rdp_to_epsilon(2, -0.1, 1e-5),
        lambda: laplace_rdp(0.5, 1.0),
        lambda: bounded_range_rdp(2, 0.0),
        lambda: composed_range_epsilon(1e-5, []),
        lambda: composed_range_delta(1.0, [0.1, -0.1]),
        lambda: calibrate_gaussian(1, 1e-5, 0),
        lambda: calibrate_gaussian(0, 1e-5, 5),
        lambda: calibrate_gaussian(1, 1e-5, 5, accountant="magic"),
    ],
)
def test_bad_input(call):
    with pytest.raises(ValueError, match="must"):
        call()
