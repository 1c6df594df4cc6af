"""What a search costs: against exact divergences of the best of a random number of runs."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

from privboost.accounting.accountants import RdpAccountant
from privboost.accounting.composition import ORDERS, SearchRelease
from privboost.accounting.events import Planned
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import draw_below, draw_run_count, mean_runs, stop_chance


def divergence(p, q, alpha):
    return float(logsumexp(alpha * np.log(p) + (1 - alpha) * np.log(q))) / (alpha - 1)


def best_of(p, gamma):
    """The distribution of the largest of K draws: differences of the generating function."""
    generating = np.log1p(-(1 - gamma) * np.append(0.0, np.cumsum(p))) / math.log(gamma)
    return np.diff(generating)


def runs(epsilon, outputs):
    """Two neighbouring mechanisms whose outputs are ε-close, and ordered by their score."""
    rng = np.random.default_rng(outputs)
    one = rng.dirichlet(np.ones(outputs))
    lift = np.exp(np.where(np.arange(outputs) >= outputs // 2, epsilon, -epsilon) / 2)
    other = one * lift
    return one, other / other.sum()


@pytest.mark.parametrize("mean", [1.5, 3.0, 10.0, 100.0])
@pytest.mark.parametrize("outputs", [2, 5, 40])
def test_it_covers_the_exact_divergence_both_ways(mean, outputs):
    gamma = stop_chance(mean) / 2**64
    for epsilon in (0.1, 1.0, 3.0):
        one, other = runs(epsilon, outputs)
        for p, q in ((one, other), (other, one)):
            rho = [max(divergence(p, q, o), divergence(q, p, o)) for o in ORDERS]
            event = SearchRelease("search", 1.0, gamma, tuple(rho))
            for alpha in (2, 5, 20, 64):
                exact = divergence(best_of(p, gamma), best_of(q, gamma), alpha)
                assert exact <= event.rdp(alpha)


def test_a_twin_that_pays_for_one_run_only_is_caught():
    gamma = stop_chance(100.0) / 2**64
    one, other = runs(1.0, 40)
    alpha = 8
    own = max(divergence(one, other, alpha), divergence(other, one, alpha))
    found = divergence(best_of(one, gamma), best_of(other, gamma), alpha)
    found = max(found, divergence(best_of(other, gamma), best_of(one, gamma), alpha))
    assert found > own


@pytest.mark.parametrize("mean", [1.2, 2.0, 10.0, 500.0])
def test_the_mean_is_the_one_asked_for(mean):
    assert mean_runs(stop_chance(mean) / 2**64) == pytest.approx(mean, rel=1e-9)


def test_the_number_of_runs_is_logarithmic():
    stop, stream = stop_chance(3.0), KeyStream.seeded(1)
    drawn = np.array([draw_run_count(stop, stream) for _ in range(20_000)])
    gamma = stop / 2**64
    for k in range(1, 8):
        chance = (1 - gamma) ** k / (k * math.log(1 / gamma))
        spread = math.sqrt(chance * (1 - chance) / len(drawn))
        assert abs((drawn == k).mean() - chance) < 4 * spread
    assert drawn.mean() == pytest.approx(3.0, rel=0.05)


def test_numbers_below_a_bound_are_even():
    stream = KeyStream.seeded(2)
    drawn = np.bincount([draw_below(6, stream) for _ in range(12_000)])
    assert len(drawn) == 6
    assert abs(drawn - 2000).max() < 4 * math.sqrt(2000)


def test_noise_of_a_search_of_ten_runs_is_far_below_that_of_ten_runs():
    gamma = stop_chance(10.0) / 2**64

    def cost(mu_squared):
        rho = tuple(order * mu_squared / 2 for order in ORDERS)
        event = SearchRelease("search", 1.0, gamma, rho)
        return RdpAccountant().cost([Planned(event, 1)], 1e-6)

    one = 0.0505  # Σμ² of ε = 1 at δ = 1e-6 by Rényi divergences
    assert cost(one / 1.7**2) <= 1.0 < cost(one / 1.5**2)  # ten fits would need √10 = 3.16


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="stopping probability"):
        SearchRelease("search", 1.0, 1.0, (None,) * len(ORDERS))
    silent = SearchRelease("search", 1.0, 0.1, (None,) * len(ORDERS))
    assert silent.rdp(2) == math.inf
