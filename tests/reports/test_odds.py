import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from privboost.accounting.composition import ORDERS, Curve, curve_of
from privboost.accounting.events import Planned, Selection
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease, ThresholdRelease
from privboost.reports.report import PrivacyReport
from privboost.reports.sections import (
    best_guess,
    curve_points,
    max_true_positive_rate,
    proved_points,
)

STEPS = 2**16
REPORT = PrivacyReport(
    math.inf, 1e-6, "", None, "", {}, 0.0, (), (), False, {}, "", "", curve=None
)  # what it states is no help: all comes from its curve


def gaussian(mu, kind=GaussianRelease, **more):
    return kind("sums", 1 / mu, STEPS, 1, 1, (1.0,), **more)


def points_of(*events):
    return curve_points(curve_of([Planned(event, 1) for event in events]))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.05])
def test_bounds_are_reached_by_the_worst_mechanism(epsilon, delta):
    """It tells all with chance δ, and otherwise answers truly with odds of e^ε."""
    truly = (1 - delta) / (1 + math.exp(-epsilon))
    one = np.array([delta, truly, 1 - delta - truly, 0.0])
    other = one[::-1]
    guess = np.maximum(one, other).sum() / 2
    assert best_guess([(epsilon, delta)]) == pytest.approx(guess, abs=1e-8)
    # The best tests accuse by the likelihood ratio: these are the corners of the curve.
    for accused in (2, 3):
        alarms, hits = other[:accused].sum(), one[:accused].sum()
        assert max_true_positive_rate([(epsilon, delta)], alarms) == pytest.approx(hits, abs=1e-8)


@pytest.mark.parametrize("mu", [0.01, 0.2, 1.0, 3.0])
def test_of_gaussian_noise_the_odds_are_exact(mu):
    points = points_of(gaussian(mu / math.sqrt(2)), gaussian(mu / math.sqrt(2)))
    assert 0 <= best_guess(points) - norm.cdf(mu / 2) < 1e-4 * mu + 1e-7
    for alarms in (1e-3, 0.01, 0.1):
        exact = norm.cdf(norm.ppf(alarms) + mu)
        assert exact <= max_true_positive_rate(points, alarms) <= exact * 1.02


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 2.0])
def test_other_noise_stays_below_its_bounds(epsilon):
    laplace = LaplaceRelease("sums", 1 / epsilon, STEPS, 1, 1, (1.0,))
    stated = [(epsilon, 0.0)]
    points = [*points_of(laplace), *stated]
    exact = (1 + -math.expm1(-epsilon / 2)) / 2
    assert exact <= best_guess(points) <= best_guess(stated)
    if epsilon <= 1:
        assert best_guess(points) < exact + 0.05


def test_choices_have_a_curve_too():
    stated = [(2.0, 0.0)]
    points = points_of(*[Selection(f"choice {k}", 20.0) for k in range(40)])
    assert best_guess([*points, *stated]) < 0.6 < best_guess(stated)


def test_a_threshold_is_added():
    threshold = gaussian(0.2, ThresholdRelease, delta_of_threshold=0.01)
    with_it, without = best_guess(points_of(threshold)), best_guess(points_of(gaussian(0.2)))
    assert 0.004 < with_it - without < 0.006
    assert min(delta for _, delta in points_of(threshold)) > 0.01


def test_points_fall_and_what_is_stated_is_one():
    report = replace(REPORT, epsilon=0.3, delta=1e-4, curve=curve_of([Planned(gaussian(0.2), 1)]))
    points = proved_points(report)
    assert all(a[1] <= b[1] and a[0] >= b[0] for a, b in pairwise(points))
    assert (0.3, 1e-4) in points
    assert proved_points(replace(report, curve=None)) == ((0.3, 1e-4),)


@pytest.mark.parametrize("mu_squared", [None, 0.0, 1e-300, 1.0, 1e9, 1e308])
@pytest.mark.parametrize("rho", [None, 0.0, 1e-300, 1.0, 1e308])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e300])
def test_no_numbers_of_a_curve_can_raise(mu_squared, rho, delta):
    curve = Curve(mu_squared, 1e300 if mu_squared else 0.0, (rho,) * len(ORDERS), delta)
    for epsilon in (0.0, 1e-320, 1.0, 1e5, 1.7e308):
        points = proved_points(replace(REPORT, epsilon=epsilon, curve=curve))
        assert 0.5 <= best_guess(points) <= 1
        assert 0 <= max_true_positive_rate(points, 0.01) <= 1
