"""Effects that go one way: the nearest such values, predictions that keep to it, and refusals."""

import numpy as np
import pytest

from privboost import PrivBoostClassifier, PrivBoostRegressor
from privboost.models.additive import AdditiveScores
from privboost.models.interactions import InteractionScores
from privboost.recipes.common.monotone import rise
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame


def nearest_rising(values, weights):
    """The same by the formula of minima and maxima of means."""
    count = range(len(values))
    means = [
        [np.average(values[i : j + 1], weights=weights[i : j + 1]) for j in range(i, len(values))]
        for i in count
    ]
    return [max(min(means[i][k - i :]) for i in range(k + 1)) for k in count]


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_the_nearest_values_that_never_fall(size):
    rng = np.random.default_rng(size)
    values, weights = rng.normal(0, 1, size), rng.uniform(0.1, 3, size)
    found = values.copy()
    rise(found, weights)
    np.testing.assert_allclose(found, nearest_rising(values, weights), atol=1e-12)
    assert (np.diff(found) >= 0).all()
    again = found.copy()
    rise(again, weights)
    assert (again == found).all()


@pytest.mark.parametrize("target", [CLASSES, NUMBER])
@pytest.mark.parametrize("epsilon", [0.5, 100.0])
@pytest.mark.parametrize("slope", [1, -1])
def test_predictions_go_one_way_in_that_feature(target, epsilon, slope):
    """Also against the rows, with interactions of the others, and after calibration."""
    domain, frame = make_domain(target), make_frame(500, target=target)
    kind = PrivBoostRegressor if target is NUMBER else PrivBoostClassifier
    model = kind(epsilon, domain=domain, monotone={"age": slope, "gain": 0}, random_state=1)
    model.fit(frame)
    scores = model.model_.scores
    assert isinstance(
        scores, InteractionScores if epsilon == 100 else AdditiveScores | InteractionScores
    )
    age = domain.feature_names.index("age")
    if isinstance(scores, InteractionScores):
        assert all(age not in pair.features for pair in scores.pairs)
        assert all(age not in tree.feature for tree, _ in scores.trees.trees())
    low, high = domain.features[age].bounds
    rows = make_frame(40, 9, target)
    read = model.predict if target is NUMBER else model.decision_function
    found = [read(rows.assign(age=value)) for value in np.linspace(low - 1, high + 1, 150)]
    assert (slope * np.diff(found, axis=0) >= 0).all()


def test_without_constraints_the_model_is_the_same():
    plain, free = (
        PrivBoostClassifier(domain=make_domain(), random_state=1, **how).fit(make_frame(300))
        for how in ({}, {"monotone": {"age": 0}})
    )
    own, other = plain.model_.scores, free.model_.scores
    assert (own.start == other.start).all()
    rows = make_frame(50, 3)
    assert (plain.decision_function(rows) == free.decision_function(rows)).all()


@pytest.mark.parametrize(
    ("monotone", "words"),
    [
        ({"nobody": 1}, "no feature 'nobody'"),
        ({"job": 1}, "is a category"),
        ({"age": 2}, "must map names"),
        ({"age": "up"}, "must map names"),
        ({"age": True}, "must map names"),
        ({1: 1}, "must map names"),
        (["age"], "must map names"),
        ("age", "must map names"),
    ],
)
def test_what_cannot_go_one_way_is_refused_before_anything_is_spent(monotone, words, tmp_path):
    ledger = tmp_path / "ledger"
    model = PrivBoostClassifier(domain=make_domain(), monotone=monotone, ledger=ledger)
    with pytest.raises(ValueError, match=words):
        model.fit(make_frame(20))
    assert not ledger.exists()


def test_beyond_two_classes_it_is_refused():
    model = PrivBoostClassifier(domain=make_domain(THREE), monotone={"age": 1})
    with pytest.raises(ValueError, match="two classes or a number"):
        model.fit(make_frame(20, target=THREE))


@pytest.mark.parametrize(
    ("monotone", "given", "words"),
    [
        ({"job": 1}, {"target": {"classes": [0, 1]}}, "is a category"),
        ({"nobody": 1}, {"target": {"classes": [0, 1]}}, "no feature 'nobody'"),
        ({"age": 1}, None, "say in classes"),
    ],
)
def test_with_a_domain_to_be_learned_as_well(monotone, given, words, tmp_path):
    frame = make_frame(50)
    model = PrivBoostClassifier(
        monotone=monotone, domain_given=given, ledger=tmp_path / "ledger", random_state=1
    )
    with pytest.raises(ValueError, match=words):
        model.fit(frame, make_domain().target.name)
    assert not (tmp_path / "ledger").exists()
