"""Accountant, slack and calibration."""

import math

import numpy as np
import pytest

from privboost.accounting.accountants import GdpAccountant, total_mu
from privboost.accounting.calibration import calibrate
from privboost.accounting.events import Planned
from privboost.accounting.formulas import gdp_epsilon
from privboost.accounting.grid_slack import discretisation_slack
from privboost.accounting.noisy_sums import GaussianRelease

mpmath = pytest.importorskip("mpmath")


def release(z=1.0, steps=2**16, rows=1, shares=(0.96, 0.04), cells=1):
    return GaussianRelease("a test", z, steps, cells, rows, shares)


def test_mu_adds_up_in_squares():
    events = [Planned(release(10.0), 7), Planned(release(3.0), 2)]
    assert total_mu(events) == pytest.approx(math.sqrt(7 / 100 + 2 / 9))


def test_epsilon_is_the_exact_one_plus_the_slack():
    profile = GdpAccountant().compose([Planned(release(5.0), 20)])
    exact = gdp_epsilon(total_mu(profile.events), 1e-6)
    assert exact < profile.epsilon(1e-6) < exact + 1e-6
    assert 0 < profile.slack(1e-6) <= profile.epsilon(1e-6) - exact


def test_nothing_costs_nothing():
    profile = GdpAccountant().compose([])
    assert (profile.epsilon(1e-6), profile.slack(1e-6)) == (0, 0)


@pytest.mark.parametrize("sigma", [1.0, 1.6, 4.0, 30.0])
def test_the_ratio_of_discrete_and_rounded_gaussians(sigma):
    """The two inequalities on which the slack rests, with many digits."""
    z = 6.0
    with mpmath.workdps(50):
        s = mpmath.mpf(sigma)
        total = 2 * mpmath.nsum(lambda k: mpmath.exp(-(k**2) / (2 * s**2)), [1, mpmath.inf]) + 1
        nu = 3 * mpmath.exp(-2 * mpmath.pi**2 * s**2)
        a = 1 / (24 * s**2) + nu
        b = (z / s) ** 2 / 24 * mpmath.exp((z / s) ** 2 / 8) + nu
        for k in range(int(z * sigma) + 40):
            discrete = mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * s**2)) / total
            # Upper tails: the difference of two numbers near 1 would lose every digit.
            rounded = mpmath.erfc((k - 0.5) / s / mpmath.sqrt(2)) / 2
            rounded -= mpmath.erfc((k + 0.5) / s / mpmath.sqrt(2)) / 2
            ratio = mpmath.log(rounded / discrete)
            assert ratio >= -a
            if k <= z * sigma:
                assert ratio <= b


@pytest.mark.parametrize(("sigma", "shift"), [(2.0, 1), (6.0, 4), (40.0, 60)])
def test_the_reported_curve_covers_the_discrete_gaussian(sigma, shift):
    """δ(ε) of one discrete Gaussian release, summed exactly, lies below what is reported."""
    event = GaussianRelease("one cell", sigma / shift, shift, 1, 1, (1.0,))
    assert event.sigmas.tolist() == [sigma]
    profile = GdpAccountant().compose([Planned(event, 1)])
    k = np.arange(-60 * int(sigma), 60 * int(sigma) + 1, dtype=float)
    log_mass = -0.5 * (k / sigma) ** 2
    log_mass -= np.log(np.exp(log_mass).sum())
    shifted = -0.5 * ((k - shift) / sigma) ** 2 - np.log(np.exp(-0.5 * (k / sigma) ** 2).sum())
    for delta in (1e-3, 1e-6):
        epsilon = profile.epsilon(delta)
        gap = np.exp(log_mass) - np.exp(epsilon + shifted)
        assert np.maximum(gap, 0).sum() <= delta


def test_slack_grows_with_what_a_unit_touches_and_falls_with_the_scale():
    def slack(**kind):
        return discretisation_slack([Planned(release(**kind), 10)], 1e-6, 1.0).epsilon

    assert slack(rows=3) > slack() > slack(steps=2**20)
    assert slack() < 1e-6


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 20.0, 300.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5])
def test_calibration_spends_all_and_no_more(epsilon, delta):
    plan = [Planned(release(1.0), 300), Planned(release(4.0, shares=(0.5, 0.5)), 3)]
    made = calibrate(plan, epsilon, delta, GdpAccountant())
    spent = GdpAccountant().compose(made).epsilon(delta)
    assert 0.999 * epsilon <= spent <= epsilon
    ratio = made[1].event.noise / made[0].event.noise
    assert ratio == pytest.approx(4.0)


def test_a_broken_twin_is_seen():
    """Half the noise, or a sensitivity off by two, costs visibly more than the budget."""
    made = calibrate([Planned(release(), 50)], 1.0, 1e-6, GdpAccountant())
    halved = [planned.scaled(0.5) for planned in made]
    assert GdpAccountant().compose(halved).epsilon(1e-6) > 2.0


def test_whitened_sensitivity_is_one_over_z():
    event = release(z=37.0, steps=2**18, cells=5)
    moved = np.full(2, event.steps) / event.sigmas
    assert math.sqrt(event.cells * (moved**2).sum()) == pytest.approx(1 / 37.0)


@pytest.mark.parametrize(
    "bad", [{"z": 0}, {"z": math.inf}, {"shares": (0.5, 0.4)}, {"shares": (1.5, -0.5)}]
)
def test_bad_events(bad):
    with pytest.raises(ValueError, match=r"noise must|share"):
        release(**bad)
