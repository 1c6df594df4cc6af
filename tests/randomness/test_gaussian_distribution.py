"""The noise is a discrete Gaussian of its stated scale: tests that a broken twin fails."""

import numpy as np
import pytest
from scipy import stats

from privboost.randomness.keystream import KeyStream
from privboost.randomness.noise import discrete_gaussian

DRAWS = 200_000
REJECT = 1e-6
"""Seeds are fixed, so a test that passes always passes; the level says how honest it is."""


def draw(sigma, seed, count=DRAWS):
    stream = KeyStream.seeded(seed)
    return np.concatenate(
        [
            discrete_gaussian(np.full(2000, sigma), stream.child(str(k)))
            for k in range(count // 2000)
        ]
    )


def probability_of_fit(samples, sigma):
    """Chi-square of the samples against the discrete Gaussian of scale sigma, in 40 cells or so."""
    k = np.arange(-int(12 * sigma) - 12, int(12 * sigma) + 13)
    mass = np.exp(-0.5 * (k / sigma) ** 2)
    mass /= mass.sum()
    cut = np.unique(np.quantile(samples, np.linspace(0.01, 0.99, 40)).round())
    expected = np.bincount(np.searchsorted(cut, k), mass, len(cut) + 1) * len(samples)
    seen = np.bincount(np.searchsorted(cut, samples), minlength=len(cut) + 1)
    keep = expected > 5
    statistic = ((seen[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    return stats.chi2.sf(statistic, keep.sum() - 1)


@pytest.mark.parametrize("sigma", [1.0, 1.7, 12.5, 400.0])
def test_fits_its_scale_and_no_other(sigma):
    samples = draw(sigma, seed=11)
    assert probability_of_fit(samples, sigma) > REJECT
    assert probability_of_fit(samples, sigma * 1.1) < REJECT
    assert probability_of_fit(samples, sigma / 1.1) < REJECT


@pytest.mark.parametrize("sigma", [2.0**16, 2.0**30 * 1.3, 2.0**44])
def test_fits_the_normal_law_at_large_scales(sigma):
    samples = draw(sigma, seed=12) / sigma
    assert stats.kstest(samples, "norm").pvalue > REJECT
    for wrong in (1.1, 1 / 1.1):
        assert stats.kstest(samples * wrong, "norm").pvalue < REJECT


def test_fits_opendp():
    """Against an independent sampler, which has no seed: six standard errors are allowed."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    sigma, count = 23.7, 40_000
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, scale=sigma)([0] * count))
    ours = draw(sigma, seed=13, count=count)
    assert stats.ks_2samp(ours, theirs).pvalue > REJECT
    allowed = 6 / np.sqrt(count)
    assert abs(ours.std() / theirs.std() - 1) < allowed
    for wrong in (1.1, 1 / 1.1):
        assert abs(wrong * ours.std() / theirs.std() - 1) > allowed


def test_neighbouring_draws_are_independent():
    samples = draw(50.0, seed=14)
    for lag in (1, 2, 7):
        correlation = np.corrcoef(samples[:-lag], samples[lag:])[0, 1]
        assert abs(correlation) < 5 / np.sqrt(len(samples))


def test_a_stream_used_twice_would_show():
    """The twin that repeats its noise: differences vanish."""
    again = [discrete_gaussian(np.full(100, 9.0), KeyStream.seeded(1)) for _ in range(2)]
    fresh = discrete_gaussian(np.full(100, 9.0), KeyStream.seeded(2))
    assert (again[0] == again[1]).all()
    assert (again[0] != fresh).mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1.0, 3.3, 57.0])
def test_fits_closely_over_ten_million_draws(sigma):
    samples = draw(sigma, seed=15, count=10_000_000)
    assert probability_of_fit(samples, sigma) > REJECT
    assert probability_of_fit(samples, sigma * 1.003) < REJECT
    assert probability_of_fit(samples, sigma / 1.003) < REJECT
