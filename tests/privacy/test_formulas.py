import math

import pytest

from privboost.privacy.formulas import gdp_delta, gdp_epsilon, gdp_mu

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
    ],
)
def test_bad_input(call):
    with pytest.raises(ValueError, match="must"):
        call()
