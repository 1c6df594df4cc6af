"""Effects against the same posterior in plain algebra, in the space of answers."""

import numpy as np
import pytest

from privboost._core.grid import MAX_SCORE, SCORE_STEPS
from privboost.recipes.common import posterior_kernels as posterior_kernels
from privboost.recipes.common.feature_posteriors import moving_cells
from privboost.recipes.common.posterior import (
    COMMON,
    FADE,
    MOST_VALUE,
    RIDGE,
    ROUGH,
    VARIANCES,
    Effect,
    Noise,
    largest_value,
    prior_of,
    shared_belief,
)

EVEN = np.full(len(VARIANCES), 1 / len(VARIANCES))


def prior(ordered, learned):
    """The covariance of bins for a prior variance of 1: a random walk, and bins on their own."""
    covariance = np.eye(len(learned))
    steps = np.diff(np.eye(ordered), axis=0)
    if ordered:
        own = np.linalg.inv(RIDGE * np.eye(ordered) + ROUGH * steps.T @ steps)
        covariance[:ordered, :ordered] = own
    return covariance * np.outer(learned, learned)


class Plain:
    """All answers side by side, and what they say for each prior variance."""

    def __init__(self, ordered, learned):
        self.prior = prior(ordered, learned)
        self.rows, self.heard, self.own = [], [], []

    def observe(self, effect, cell_of, before, gradient, hessian, noise):
        within = effect.profile / np.bincount(cell_of, effect.profile)[cell_of]
        weight = np.maximum(hessian, 0.5 * noise.hessian + 1)
        looks = (np.arange(len(hessian))[:, None] == cell_of) * within * weight[:, None]
        self.own = [spread / FADE for spread in self.own]
        self.rows.append(looks)
        self.heard.append(gradient + looks @ before)
        many = sum(FADE**k for k in range(len(self.rows)))
        sampling = (1 + COMMON * (many - 1)) * noise.gradient_variance * weight
        whole = noise.gradient**2 + sampling
        if self.own:  # older ones were weighted as some of fewer
            few = sum(FADE**k for k in range(len(self.rows) - 1))
            was = noise.gradient**2 + (1 + COMMON * (few - 1)) * noise.gradient_variance * weight
            self.own = [spread * whole.mean() / was.mean() for spread in self.own]
        self.own.append(whole)

    def posterior(self, variance):
        """Return the mean, the covariance, and the logarithm of the evidence."""
        looks, heard = np.concatenate(self.rows), np.concatenate(self.heard)
        spread = np.diag(np.concatenate(self.own))
        covariance = variance * self.prior
        whole = looks @ covariance @ looks.T + spread
        gain = np.linalg.solve(whole, looks @ covariance).T
        evidence = -0.5 * np.linalg.slogdet(whole)[1] - 0.5 * heard @ np.linalg.solve(whole, heard)
        return gain @ heard, covariance - gain @ looks @ covariance, evidence


@pytest.mark.parametrize("size", [1, 2, 9, 40])
def test_a_matrix_is_looked_at_between_its_firsts_and_its_diagonal_only(size):
    """Lines that begin anywhere: what lies before is never read, and results are the inverse's."""
    rng = np.random.default_rng(size)
    first = np.array([rng.integers(0, i + 1) for i in range(size)])
    known = np.tril(rng.normal(size=(size, size))) * (np.arange(size) >= first[:, None])
    np.fill_diagonal(known, 2.0 * size)
    own, learned, variance = np.eye(size), np.ones(size, dtype=bool), 0.7
    whole = np.tril(known, -1) + known.T + own / variance
    hidden = np.where(np.arange(size) >= first[:, None], known, np.nan)
    least = np.ones(size)
    right = rng.normal(size=(size, 3))
    found = right.copy()
    posterior_kernels.solve(*posterior_kernels.root_of(hidden, own, least, first, variance), found)
    np.testing.assert_allclose(found, np.linalg.solve(whole, right), rtol=1e-9)
    found = posterior_kernels.variances_of_bins(learned, hidden, own, least, first, variance)
    np.testing.assert_allclose(found, np.diag(np.linalg.inv(whole)), rtol=1e-9)
    evidence, weights = np.empty((2, 1))
    how = (own, least, first, np.full(1, variance), np.ones(1), evidence, weights)
    found = posterior_kernels.weigh_variances(hidden, right[:, :1].copy(), *how)
    mean = np.linalg.solve(whole, right[:, 0])
    np.testing.assert_allclose(found, mean, rtol=1e-9, atol=1e-12)
    volume = np.linalg.slogdet(whole * variance)[1]
    np.testing.assert_allclose(evidence, (right[:, 0] @ mean - volume) / 2, rtol=1e-9)


def observe(effect, *answer):
    effect.step(effect.observe(*answer, EVEN), 1.0)


def answers(ordered, size, count, seed):
    """Answers about a step of an effect, with noise, and cells as they are asked for."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.ones(size))
    truth = np.where(np.arange(size) < size // 3, -0.4, 0.5)
    noise = Noise(30.0, 20.0, 1.0)
    for _ in range(count):
        cell_of = moving_cells(share, ordered, 5, rng)
        hessian = np.bincount(cell_of, 2000 * share) + rng.normal(0, 20, cell_of.max() + 1)
        gradient = np.bincount(cell_of, 2000 * share * truth)
        yield cell_of, gradient + rng.normal(0, 30, len(gradient)), hessian, noise


def deviations_after(count, noise):
    """Standard deviations of two bins whose measurements, always the same, are known so well."""
    effect = Effect(prior_of(0, np.ones(2, dtype=bool)), fade=1.0)
    for _ in range(count):
        observe(effect, np.arange(2), np.zeros(2), np.full(2, 400.0), Noise(noise, 0.0, 1.0))
    return np.sqrt(1 / np.diag(effect.info))


def test_rows_that_are_measured_again_tell_no_more_about_sampling():
    """Noise is averaged out; the part of the sampling error that is common stays."""
    np.testing.assert_allclose(deviations_after(1, 0.0), 1 / 20)
    np.testing.assert_allclose(deviations_after(1000, 0.0), np.sqrt(COMMON) / 20, rtol=1e-3)
    np.testing.assert_allclose(deviations_after(100, 1e4), deviations_after(1, 1e4) / 10, rtol=1e-3)


@pytest.mark.parametrize(("ordered", "size"), [(20, 21), (1, 2), (2, 3), (0, 4), (0, 1), (0, 2)])
@pytest.mark.parametrize("missing", [True, False])
def test_an_effect_is_the_posterior_of_all_answers(ordered, size, missing):
    learned = np.ones(size, dtype=bool)
    learned[-1] = missing
    effect, plain = Effect(prior_of(ordered, learned)), Plain(ordered, learned)
    for cell_of, gradient, hessian, noise in answers(ordered, size, 6, seed=size):
        before = effect.values
        observe(effect, cell_of, gradient, hessian, noise)
        plain.observe(effect, cell_of, before, gradient, hessian, noise)
        each = [plain.posterior(variance) for variance in VARIANCES]
        evidence = np.array([found[2] for found in each])
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        mean = sum(w * found[0] for w, found in zip(weights, each, strict=True))
        evidence -= evidence[0]
        np.testing.assert_allclose(effect.evidence - effect.evidence[0], evidence, atol=1e-9)
        np.testing.assert_allclose(effect.weights, weights, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(effect.values, mean, atol=1e-9)
        found = plain.posterior((weights * VARIANCES).sum())[1]
        np.testing.assert_allclose(effect.variances(), np.diag(found), rtol=1e-6, atol=1e-12)
    assert (effect.values[~learned] == 0).all()


def test_a_walk_has_the_covariance_it_says():
    for ordered in (1, 2, 3, 64):
        basis, whole = (
            posterior_kernels.walk_basis(ordered, RIDGE, ROUGH),
            np.ones(ordered, dtype=bool),
        )
        np.testing.assert_allclose(basis @ basis.T, prior(ordered, whole), rtol=1e-9)
        inverse = np.linalg.inv(prior_of(ordered, whole).precision)
        np.testing.assert_allclose(inverse, prior(ordered, whole), rtol=1e-9)


def test_mass_is_what_answers_say_of_each_cell():
    effect = Effect(prior_of(8, np.ones(9, dtype=bool)))
    cell_of = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3])
    hessian = np.array([90.0, -5.0, 30.0, 4.0])
    effect.observe(cell_of, np.zeros(4), hessian, Noise(1.0, 1.0, 1.0), EVEN)
    np.testing.assert_allclose(np.bincount(cell_of, effect.rows), [90, 0, 30, 4])
    assert (effect.profile > 0).all()
    assert effect.profile.sum() == pytest.approx(1)


@pytest.mark.parametrize("scale", [0.0, 1e-50, 1e-6, 1.0, 1e6, 1e11])
@pytest.mark.parametrize("clip", [1e-50, 1.0, 1e50])
def test_no_noise_and_no_answer_leaves_the_numbers(scale, clip):
    """Answers of any size the grid allows: values stay finite and within their bounds."""
    rng = np.random.default_rng(1)
    effect = Effect(prior_of(64, np.ones(65, dtype=bool)))
    for _ in range(12):
        cell_of = moving_cells(effect.profile, 64, 32, rng)
        gradient, hessian = clip * scale * rng.normal(size=(2, cell_of.max() + 1))
        noise = Noise(clip * scale, scale, 0.05)
        observe(effect, cell_of, gradient, hessian / clip, noise)
        assert (np.abs(effect.values) <= MOST_VALUE).all()
        assert np.isfinite(effect.variances()).all()
        assert np.isfinite(effect.size)


def test_no_score_leaves_the_grid_however_many_features_there_are():
    for features in (1, 1776, 6000, 2**16):
        steps = np.rint(largest_value(features) * SCORE_STEPS)
        assert features * steps < (MAX_SCORE - 16) * SCORE_STEPS
    rng = np.random.default_rng(2)
    effect = Effect(prior_of(0, np.ones(3, dtype=bool)), most=0.01)
    observe(effect, np.arange(3), 1e6 * rng.normal(size=3), np.full(3, 1e3), Noise(1, 1, 1.0))
    assert np.abs(effect.values).max() == 0.01


def test_what_all_features_say_moves_the_belief_of_each():
    evidence = np.zeros((5, len(VARIANCES)))
    weights = np.tile(EVEN, (5, 1))
    np.testing.assert_allclose(shared_belief(evidence, weights), EVEN)
    evidence[:, 3] = 10
    belief = shared_belief(evidence, weights)
    assert belief.argmax() == 3
    assert belief.min() > 0.05 / len(VARIANCES)
    assert belief.sum() == pytest.approx(1)
    assert np.isfinite(shared_belief(evidence * 1e200, weights)).all()


def test_the_same_answers_give_the_same_bits():
    def told():
        effect = Effect(prior_of(20, np.ones(21, dtype=bool)))
        for answer in answers(20, 21, 5, seed=3):
            observe(effect, *answer)
        return effect.values.tobytes() + effect.weights.tobytes() + effect.variances().tobytes()

    assert told() == told()
