"""Pairs and trees: where they look, what is made of answers, and what they cost."""

import numpy as np
import pytest

from privboost import PrivBoostClassifier
from privboost._core.grid import SCORE_STEPS
from privboost.recipes.common.interactions import Allowed, CodeQuantiles, Interactions
from privboost.recipes.common.posterior import (
    VARIANCES,
    Effect,
    Noise,
    grid_prior,
    leaf_values,
    prior_of,
)
from privboost.recipes.privboost import InteractionRule

EVEN = np.full(len(VARIANCES), 1 / len(VARIANCES))
NOISE = Noise(3.0, 2.0, 1.0)


def nested(depth):
    """The covariance of leaves for a prior variance of 1: an equal part for each node above."""
    leaf = np.arange(2**depth)
    same = [(leaf[:, None] >> up) == (leaf >> up) for up in range(depth)]
    return np.sum(same, axis=0) / depth


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_leaves_are_the_posterior_of_their_answer(depth):
    """The same by plain algebra, for each prior variance, weighed by evidence."""
    rng = np.random.default_rng(depth)
    gradient, hessian = rng.normal(0, 30, 2**depth), rng.uniform(-5, 100, 2**depth)
    weight = np.maximum(hessian, 0.5 * NOISE.hessian + 1)
    spread = np.diag((NOISE.gradient**2 + NOISE.gradient_variance * weight) / weight**2)
    found, logs = [], []
    for variance in VARIANCES:
        prior = variance * nested(depth)
        whole = prior + spread
        mean = prior @ np.linalg.solve(whole, gradient / weight)
        heard = gradient / weight
        logs.append(
            -0.5 * np.linalg.slogdet(whole)[1] - 0.5 * heard @ np.linalg.solve(whole, heard)
        )
        found.append(mean)
    chance = np.exp(np.array(logs) - max(logs))
    chance /= chance.sum()
    values, weights = leaf_values(gradient, hessian, NOISE, EVEN)
    np.testing.assert_allclose(weights, chance, atol=1e-9)
    np.testing.assert_allclose(values, sum(w * m for w, m in zip(chance, found, strict=True)))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_leaves_stay_numbers(scale):
    answer = np.full(64, scale), np.zeros(64)
    for noise in (Noise(0.0, 0.0, 1.0), Noise(1e12, 1e12, 1.0)):
        values, _ = leaf_values(*answer, noise, EVEN)
        assert np.isfinite(values).all()


@pytest.mark.parametrize("side", [3, 8])
def test_neighbouring_cells_of_a_pair_are_alike(side):
    covariance = np.linalg.inv(grid_prior(side).precision)
    shaped = covariance.reshape(side, side, side, side)
    assert np.diag(covariance).mean() == pytest.approx(1.2, rel=0.2)
    assert shaped[1, 1, 1, 2] == pytest.approx(shaped[1, 1, 2, 1])
    assert shaped[1, 1, 1, 2] > shaped[0, 0, -1, -1] > 0


def place_of(values, profile, ordered):
    effect = Effect(prior_of(ordered, np.ones(len(values), dtype=bool)))
    effect.mass, effect.values = np.array(profile, float), np.array(values, float)
    return CodeQuantiles.of(np.arange(len(values)), ordered, effect)


def test_numbers_stand_in_their_order_and_categories_in_that_of_effects():
    number = place_of([3.0, 1.0, 2.0, 0.0], [1, 2, 1, 0], ordered=3)
    np.testing.assert_allclose(number.of_code[:3], [0.125, 0.5, 0.875], atol=1e-6)
    assert number.missing == 3
    category = place_of([3.0, 1.0, 2.0, 0.0], [1, 1, 1, 1], ordered=0)
    np.testing.assert_allclose(category.of_code, [0.875, 0.375, 0.625, 0.125])
    assert category.missing is None
    assert category.cells(2).tolist() == [1, 0, 1, 0]


def joined(quantiles, rounds=100, cells=64):
    allowed = Allowed((tuple(range(len(quantiles))),), (0,) * len(quantiles))
    return Interactions(quantiles, NOISE, cells, rounds, (0.1, 0.1), 3.0, allowed)


def test_features_of_a_large_effect_are_looked_at_more_often():
    large, none = place_of([-1.0, 1.0], [1, 1], 0), place_of([0.0, 0.0], [1, 1], 0)
    own, generator = joined([large, none, none, none]), np.random.default_rng(0)
    seen = np.concatenate([own.next_trees(1, generator)[0].feature for _ in range(50)])
    assert (seen == 0).mean() == pytest.approx(0.7 + 0.3 / 4, abs=0.02)
    even = joined([none] * 4)
    seen = np.concatenate([even.next_trees(1, generator)[0].feature for _ in range(50)])
    assert np.bincount(seen, minlength=4).min() > 0.2 * len(seen)
    for _ in range(200):
        even.next_pairs(1, generator)
    assert all(first < second for first, second in even.pairs)
    assert len(even.pairs) == 6


def test_no_cut_of_a_tree_is_above_one_that_parted_its_rows():
    """Of one feature whose bins have equal mass, depth 3 parts any 8 of them into 8 spans."""
    number = place_of(np.zeros(65), [1] * 64 + [0], ordered=64)
    own, generator = joined([number, number], cells=8), np.random.default_rng(1)
    for _ in range(20):
        (tree,) = own.next_trees(1, generator)
        for node in range(1, 7):
            above = (node - 1) // 2
            if tree.feature[node] == tree.feature[above]:
                left, right = tree.goes_right[above][:64], tree.goes_right[node][:64]
                if node == 2 * above + 1:
                    assert (right >= left).all()  # whoever went right above would go right here
                else:
                    assert (right <= left).all()


def test_a_pair_is_pooled_and_a_tree_is_told_once():
    number = place_of(np.zeros(65), [1] * 64 + [0], ordered=64)
    own, generator = joined([number, number]), np.random.default_rng(2)
    pairs = []
    while not pairs:
        pairs = own.next_pairs(1, generator)
    (pair,) = pairs
    cells = pair.cells.n_cells
    truth = np.where(np.arange(cells) % 2, 0.5, -0.5)
    told = np.zeros(cells)
    for _ in range(3):
        gradient = 200 * (truth - told / SCORE_STEPS)
        sums = np.stack([-gradient, np.full(cells, 200)], axis=1) / 0.1
        (change,) = own.observe_pairs(pairs, [sums])
        told = told + change
    assert (told == pair.effect.published).all()
    np.testing.assert_allclose(told / SCORE_STEPS, truth, atol=0.1)
    trees = own.next_trees(3, generator)
    told = own.observe_trees(trees, np.zeros((3, trees[0].n_leaves, 2)))
    assert (told == [grown.published for grown in own.trees]).all()


def test_the_part_of_interactions_grows_with_what_they_could_tell():
    parts, counts = zip(
        *map(InteractionRule().divide, (0.0, 1.0, 2.0, 20.0, 2e2, 2e4, 1e12)), strict=True
    )
    assert list(parts) == sorted(parts)
    assert list(counts) == sorted(counts)
    assert (parts[1], counts[1], parts[-1], counts[-1]) == (0.0, 0, 0.7, 1500)


DOMAIN = {
    "version": 1,
    "features": {name: {"kind": "numeric", "bounds": [0, 1]} for name in "abc"},
    "target": {"name": "y", "classes": [0, 1]},
}


def test_what_no_feature_shows_alone_is_found():
    """An exclusive or: additive models are blind to it."""
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 3))
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int)

    def accuracy(**how):
        model = PrivBoostClassifier(3.0, 1e-6, DOMAIN, random_state=0, **how).fit(X, y)
        return model, float((model.predict(X) == y).mean())

    model, right = accuracy()
    assert right > 0.9
    assert model.model_.scores.kind == "compound"
    plain, blind = accuracy(interactions=False)
    assert blind < 0.6
    assert plain.model_.scores.kind == "additive"
    spent = {mine.privacy_.epsilon for mine in (model, plain)}
    assert len({round(epsilon, 4) for epsilon in spent}) == 1
