"""Weights of classes: the same as weights of rows, in every recipe that has those."""

import numpy as np
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    DPXGBClassifier,
    LazyBBClassifier,
    PrivBoostClassifier,
    PrivBoostRegressor,
    PrivBoostSurvival,
    SarusXGBClassifier,
    SBDTClassifier,
)
from privboost._core.grid import WEIGHT_STEPS
from privboost.data.encoding import Encoder
from privboost.data.loading import Roles, RowLoader
from privboost.reports.report import PUBLIC_CLASS_WEIGHTS
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

WEIGHTS = {"low": 1, "high": 4}
KINDS = [PrivBoostClassifier, SBDTClassifier, DPXGBClassifier, SarusXGBClassifier]
FRAME = make_frame(800)


def make(kind=PrivBoostClassifier, target=CLASSES, **how):
    how = {"n_estimators": 4, "random_state": 1, "accountant": "rdp"} | how
    return kind(how.pop("epsilon", 2.0), 1e-6, make_domain(target), **how)


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_of_a_class_is_one_of_its_rows(kind):
    own = make(kind, class_weight=WEIGHTS).fit(FRAME)
    given = FRAME["income"].map(WEIGHTS).fillna(0)
    rows = make(kind, sample_weight_bound=4.0).fit(FRAME, sample_weight=given)
    np.testing.assert_array_equal(own.predict_proba(FRAME), rows.predict_proba(FRAME))
    plain = make(kind).fit(FRAME)
    assert (own.predict_proba(FRAME) != plain.predict_proba(FRAME)).any()
    assert own.privacy_.parameters["class_weight"] == [4.0, 1.0]  # in the order of classes_
    assert "class_weight" not in plain.privacy_.parameters
    assert own.privacy_.plan != rows.privacy_.plan
    assert any("weights of classes are public" in said for said in own.privacy_.assumptions)


def test_more_weight_is_more_chance():
    means = [
        make(n_estimators=30, epsilon=20.0, class_weight={"low": 1, "high": weight})
        .fit(FRAME)
        .predict_proba(FRAME)[:, 0]
        .mean()
        for weight in (0.2, 1, 5)
    ]
    assert means[0] < means[1] - 0.05 < means[2] - 0.1


def test_they_multiply_weights_of_rows():
    encoder = Encoder.of(make_domain(THREE))
    frame = make_frame(100, target=THREE)
    steps = (WEIGHT_STEPS, 64, 1)  # high, low, mid
    loader = RowLoader(encoder, Roles("income", "weight"), 2.0, class_steps=steps)
    again = RowLoader.from_bytes(loader.to_bytes())
    batch = {name: frame[name].to_numpy() for name in loader.columns}
    plain = RowLoader(encoder, Roles("income", "weight"), 2.0).read(batch, 0)
    for each in (loader, again):
        rows = each.read(batch, 0)
        factor = np.append(steps, [0] * 253)[rows.label]
        np.testing.assert_array_equal(rows.weight, plain.weight.astype(int) * factor // 256)
        assert rows.weight.max() <= WEIGHT_STEPS


def test_noise_follows_the_largest_weight_only():
    """Weights are bounded before noise is added: a row of any class moves a sum by no more."""
    reports = [
        make(SBDTClassifier, class_weight={"low": 1, "high": w}).fit(FRAME).privacy_
        for w in (1, 100)
    ]
    weighted = (
        make(SBDTClassifier, sample_weight_bound=7.0).fit(FRAME, sample_weight="weight").privacy_
    )
    assert reports[0].releases == reports[1].releases == weighted.releases


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("balanced", "needs the counts of classes, which are private"),
        ({"low": 1}, "a mapping from all classes"),
        ([1, 2], "a mapping from all classes"),
        ({"low": 1, "mid": 2}, "a weight for each of high, low"),
        ({"low": 1, "high": 0}, "each of class_weight"),
        ({"low": 1, "high": float("nan")}, "each of class_weight"),
        ({"low": 1, "high": 300}, "rounded to 0"),
        ({1: 5, "1": 1, 2: 1}, "two of its classes are the same string"),
    ],
)
def test_what_is_refused_before_a_row_is_read(given, words):
    with pytest.raises(ValueError, match=words):
        make(class_weight=given).fit(object())


def test_where_there_are_none():
    with pytest.raises(ValueError, match="the target is a number"):
        make(PrivBoostRegressor, NUMBER, class_weight=WEIGHTS).fit(make_frame(9, target=NUMBER))
    times = {"name": "y", "bounds": [1, 9], "event": "e"}
    with pytest.raises(ValueError, match="the target is a survival time"):
        make(PrivBoostSurvival, times, class_weight=WEIGHTS).fit(make_frame(9, target=NUMBER))
    with pytest.raises(ValueError, match="a stream takes none"):
        make(SBDTClassifier, class_weight=WEIGHTS).partial_fit(FRAME)
    with pytest.raises(TypeError, match="no parameter 'class_weight'"):
        LazyBBClassifier(class_weight=WEIGHTS)


def test_a_linear_model_keeps_its_own():
    balanced = BoostedAdaSSPClassifier(1.0, 1e-6, make_domain(), class_weight="balanced")
    report = balanced.fit(FRAME).privacy_
    assert report.epsilon <= 1
    given = BoostedAdaSSPClassifier(1.0, 1e-6, make_domain(), class_weight=WEIGHTS)
    said = given.fit(FRAME).privacy_.assumptions
    assert PUBLIC_CLASS_WEIGHTS in said
    assert PUBLIC_CLASS_WEIGHTS not in report.assumptions


def test_classes_are_not_learned_for_them():
    frame = make_frame(3000)[["age", "income"]]
    model = PrivBoostClassifier(5.0, 1e-6, n_estimators=3, class_weight=WEIGHTS)
    with pytest.raises(ValueError, match="say in classes which there are"):
        model.fit(frame, "income")
    model.set_params(domain_given={"target": {"classes": ["low", "high"]}})
    assert model.fit(frame, "income").classes_.tolist() == ["high", "low"]
    with pytest.raises(ValueError, match=r"a weight for each of high, low$"):
        model.set_params(class_weight={"no": 1, "yes": 2}).fit(frame, "income")
