"""Pairs and trees: where they look, what is made of answers, and what they cost."""

import itertools

import numpy as np
import pytest

from privboost import PrivBoostClassifier, PrivBoostRegressor
from privboost._core.grid import SCORE_STEPS
from privboost.federated.agreement import shared_parameters
from privboost.recipes.common.allowed_interactions import Allowed
from privboost.recipes.common.interactions import (
    CodeQuantiles,
    InteractionRule,
    Interactions,
    add_differences,
)
from privboost.recipes.common.posterior import (
    VARIANCES,
    Effect,
    Noise,
    grid_prior,
    leaf_values,
    prior_of,
)
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

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
    return CodeQuantiles.of(np.arange(len(values)), ordered, [effect])


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


def test_differences_of_children_are_estimated_without_bias():
    """Of three features one matters: its nodes differ by 1, others by noise and sampling alone."""
    rng = np.random.default_rng(4)
    features, found = np.array([0, 1, 1, 2, 2, 2, 2]), np.zeros((2, 3))
    weight, noise = np.full(8, 500.0), 15.0
    truth = np.repeat([0.5, -0.5, 0.5, -0.5], 2)  # by child of the second level
    for _ in range(4000):
        sampled = rng.normal(truth * weight, np.sqrt(weight)) + rng.normal(0, noise, 8)
        add_differences(features, sampled, weight, noise, 1.0, 1.0, 3.0, found)
    mean, error = found[1] / found[0], np.sqrt(2 / found[0])
    assert abs(mean[1] - 1) < 0.01
    assert (np.abs(mean[[0, 2]]) < 5 * error[[0, 2]]).all()
    before = found.copy()
    add_differences(features, sampled, np.zeros(8), noise, 1.0, 1.0, 3.0, found)
    np.testing.assert_array_equal(found, before)  # children of no rows tell nothing


@pytest.mark.parametrize("of", [2, 3])
def test_a_parity_is_found(of):
    """No single feature shows it, nor any pair one of three: trees find whose nodes differ."""
    rng = np.random.default_rng(of)
    values = rng.random((50_000, 10))
    label = (values[:, :of] > 0.5).sum(axis=1) % 2
    features = {f"x{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(10)}
    form = {"version": 1, "features": features, "target": {"name": "y", "classes": [0, 1]}}
    model = PrivBoostClassifier(1.0, 1e-6, form, random_state=0)
    model.fit(values[:40_000], label[:40_000])
    assert model.score(values[40_000:], label[40_000:]) > 0.82


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


def keys_of(model):
    """Return the names of a model's pairs, and of the features of each tree."""
    scores, names = model.model_.scores, np.array(model.domain_.feature_names)
    pairs = [tuple(sorted(names[list(pair.features)])) for pair in getattr(scores, "pairs", ())]
    trees = [{*names[tree.feature]} for tree, _ in scores.trees.trees()] if pairs else []
    return pairs, trees


def fit(rows=1000, target=CLASSES, epsilon=20.0, **how):
    kind = PrivBoostRegressor if target is NUMBER else PrivBoostClassifier
    model = kind(epsilon, 1e-6, make_domain(target), random_state=1, **how)
    return model.fit(make_frame(rows, target=target))


@pytest.mark.parametrize("epsilon", [0.01, 20.0])
@pytest.mark.parametrize("target", [CLASSES, NUMBER])
def test_named_pairs_are_measured_and_no_others(epsilon, target):
    """Whatever the rows say, and also of a feature that has too many categories for trees."""
    wanted = ["age*job", ("place", "age"), ("job", "age"), "gain * place"]
    model = fit(target=target, epsilon=epsilon, interactions=wanted)
    pairs, trees = keys_of(model)
    assert sorted(pairs) == [("age", "job"), ("age", "place"), ("gain", "place")]
    assert not trees
    assert all(pair.mass.any() for pair in model.model_.scores.pairs)
    assert model.privacy_.epsilon <= epsilon


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("most", [1, 4, 15, 100])
def test_a_number_is_the_most_pairs(most, at_once):
    model = fit(interactions=most, at_once=at_once)
    pairs, trees = keys_of(model)
    assert len(set(pairs)) == len(pairs) == min(most, 15)
    assert not trees
    assert all(pair.values.any() for pair in model.model_.scores.pairs)


def test_a_number_of_pairs_is_that_of_each_class():
    model = fit(target=THREE, epsilon=50.0, interactions=2)
    outputs = [pair.output for pair in model.model_.scores.pairs]
    assert np.bincount(outputs).tolist() == [2, 2, 2]


def test_a_number_of_pairs_is_for_enough_rows():
    assert fit(100, epsilon=0.05, interactions=3).model_.scores.kind == "additive"
    assert fit(100, epsilon=0.05, interactions=0).model_.scores.kind == "additive"


def test_pairs_to_try_are_of_large_effects_within_groups():
    sizes = np.array([0.1, 0.4, 0.2, 0.2, 0.05, 0.05])
    allowed = Allowed(((0, 1, 2, 3), (2, 3, 4, 5)), (0,) * 6, None, 3)
    every = {tuple(sorted(p)) for g in allowed.groups for p in itertools.combinations(g, 2)}
    assert len(every) == 11
    assert (allowed.n_pairs, allowed.n_tried) == (3, 9)
    by_size = sorted(every, key=lambda pair: (-sizes[pair[0]] * sizes[pair[1]], pair))
    for count in range(1, 12):
        found = allowed.largest_pairs(sizes, count)
        products = [sizes[first] * sizes[second] for first, second in found]
        assert set(found) <= every
        assert len(set(found)) == count
        assert products == [sizes[first] * sizes[second] for first, second in by_size[:count]]
    for most, kept, tried in ((11, 11, 0), (10, 10, 11), (1, 1, 3), (99, 11, 0)):
        own = Allowed(allowed.groups, (0,) * 6, None, most)
        assert (own.n_pairs, own.n_tried) == (kept, tried)
    wide = Allowed((tuple(range(3000)),), (0,) * 3000, None, 10)
    assert (wide.n_pairs, wide.n_tried) == (10, 30)
    assert len(wide.largest_pairs(np.ones(3000), 30)) == 30


def test_the_best_pairs_are_kept():
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 6))
    y = ((X[:, 1] > 0.5) ^ (X[:, 4] > 0.5)).astype(int)
    features = {name: {"kind": "numeric", "bounds": [0, 1]} for name in "abcdef"}
    domain = DOMAIN | {"features": features}
    model = PrivBoostClassifier(3.0, 1e-6, domain, random_state=0, interactions=5).fit(X, y)
    scores = model.model_.scores
    assert (1, 4) in [pair.features for pair in scores.pairs]
    assert float((model.predict(X) == y).mean()) > 0.9


@pytest.mark.parametrize("target", [CLASSES, NUMBER])
@pytest.mark.parametrize("how", [{}, {"interactions": 3}, {"at_once": 3}])
def test_members_of_a_group_alone_interact(target, how):
    groups = [["job", "age"], ["gain", "flag", "step", "gain"], ("place",)]
    model = fit(target=target, epsilon=50.0, interaction_constraints=groups, **how)
    pairs, trees = keys_of(model)
    assert pairs
    assert bool(trees) == ("interactions" not in how)
    for own in [*map(set, pairs), *trees]:
        assert own <= {"age", "job"} or own <= {"gain", "flag", "step"}
    if not how:
        assert {"age", "job"} in trees
        assert {"gain", "flag", "step"} in trees
    listed = model.privacy_.parameters["interaction_constraints"]
    assert [*map(list, listed)] == [["age", "job"], ["flag", "gain", "step"], ["place"]]


def test_groups_of_one_leave_no_interactions():
    groups = [["age"], ["job"], ["age"]]
    assert fit(epsilon=50.0, interaction_constraints=groups).model_.scores.kind == "additive"


def test_one_group_of_all_is_the_same_as_none():
    features = list(make_domain().feature_names)
    own, other = (
        fit(interaction_constraints=groups).decision_function(make_frame(50, 3))
        for groups in (None, [features])
    )
    assert (own == other).all()


@pytest.mark.parametrize(
    "how",
    [
        {"interactions": ["age*job", ("gain", "age")]},
        {"interactions": 2, "at_once": 2},
        {"interaction_constraints": [["age", "job"], ["gain", "age", "step"]]},
    ],
)
@pytest.mark.parametrize("target", [CLASSES, THREE])
def test_they_are_the_same_on_a_hostile_backend(how, target):
    rows = make_frame(50, 5)
    here, there = (
        fit(600, target, n_estimators=20, **how, **where)
        for where in ({}, {"backend": HostileBackend})
    )
    assert (here.decision_function(rows) == there.decision_function(rows)).all()
    assert here.privacy_.plan == there.privacy_.plan


def test_parties_of_a_federation_have_the_same_plan():
    how = {"interactions": [("age", "job"), "gain*age"], "monotone": {"age": 1}}
    sent = shared_parameters(how)
    plans = [PrivBoostClassifier(domain=make_domain(), **own).preview() for own in (how, sent)]
    assert plans[0].privacy.plan == plans[1].privacy.plan
    listed = [["age", "job"], ["gain", "flag"]]
    sent = shared_parameters({"interaction_constraints": listed})
    assert sent == {"interaction_constraints": listed}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"interactions": ["age*nobody"]}, "interactions: there is no feature 'nobody'"),
        ({"interactions": ["age*jbo"]}, "did you mean 'job'"),
        ({"interactions": ["age"]}, "a pair is two different features"),
        ({"interactions": ["age*age"]}, "a pair is two different features"),
        ({"interactions": ["age*job*gain"]}, "a pair is two different features"),
        ({"interactions": [("age", 3)]}, "a pair is two different features"),
        ({"interactions": [3]}, "a pair is two different features"),
        ({"interactions": []}, "interactions must be True, False, a number of pairs, or pairs"),
        ({"interactions": {"age": "job"}}, "interactions must be True, False"),
        ({"interactions": 0.9}, "interactions must be a whole number"),
        ({"interactions": -1}, "interactions must be a whole number"),
        ({"interactions": 501}, "at most 500"),
        ({"interactions": "pairwise"}, "a pair is two different features"),
        ({"interactions": ["age*job"], "delta": 0}, "pairs need a delta above 0"),
        (
            {"interactions": ["age*job"], "interaction_constraints": [["age", "job"]]},
            "give interaction_constraints, or the pairs themselves",
        ),
        ({"interaction_constraints": "pairwise"}, "interactions=10"),
        ({"interaction_constraints": "no_interactions"}, "interactions=False"),
        ({"interaction_constraints": [[0, 1]]}, "must be groups of names of features"),
        ({"interaction_constraints": ["age", "job"]}, "must be groups of names of features"),
        ({"interaction_constraints": [[]]}, "must be groups of names of features"),
        ({"interaction_constraints": 3}, "must be groups of names of features"),
        ({"interaction_constraints": {"age": ["job"]}}, "must be groups of names of features"),
        ({"interaction_constraints": [["age", "nobody"]]}, "there is no feature 'nobody'"),
    ],
)
def test_other_interactions_are_refused_before_anything_is_spent(how, words, tmp_path):
    ledger = tmp_path / "ledger"
    model = PrivBoostClassifier(**{"domain": make_domain(), "ledger": ledger} | how)
    with pytest.raises(ValueError, match=words):
        model.fit(make_frame(20))
    assert not ledger.exists()


def test_names_are_checked_where_a_domain_is_to_be_learned():
    given = {"target": {"classes": ["low", "high"]}}
    how = {"epsilon": 3.0, "domain_given": given, "random_state": 1}
    for own in ({"interactions": ["age*nobody"]}, {"interaction_constraints": [["nobody", "age"]]}):
        with pytest.raises(ValueError, match="no feature 'nobody'"):
            PrivBoostClassifier(**how, **own).fit(make_frame(50), "income")
    model = PrivBoostClassifier(**how, interactions=["age*gain"], n_estimators=8)
    model.fit(make_frame(500), "income")
    assert keys_of(model)[0] == [("age", "gain")]


def test_groups_are_listed_where_they_are_given():
    plain = PrivBoostClassifier(domain=make_domain()).preview().privacy
    assert "interaction_constraints" not in plain.parameters
    named = PrivBoostClassifier(domain=make_domain(), interaction_constraints=[["age", "job"]])
    report = PrivBoostClassifier(
        domain=make_domain(), interaction_constraints=[["job", "age"], ["gain"]]
    )
    assert named.preview().privacy.plan != plain.plan
    assert "<td>age, job; gain</td>" in report.preview().privacy.to_html()
