"""Importances: the order of known effects, and nothing for features of pure noise."""

import tracemalloc
from functools import cache

import numpy as np
import pandas as pd
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    DPXGBClassifier,
    DPXGBRegressor,
    LazyBBClassifier,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBClassifier,
    SarusXGBRegressor,
    SBDTClassifier,
    SBDTRegressor,
    load_model,
)
from privboost.data.design_matrix import Terms
from privboost.models.additive import AdditiveScores
from privboost.models.forest import Forest
from privboost.models.linear import Coordinate, LinearScores
from privboost.models.scores import N_ROWS, draw_rows
from privboost.models.trees import TreeScores
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

FEATURES = {
    "noise": {"kind": "numeric", "bounds": [0, 1]},
    "words": {"kind": "categorical", "categories": [f"w{k}" for k in range(40)]},
    "weak": {"kind": "numeric", "bounds": [-1, 1]},
    "strong": {"kind": "numeric", "bounds": [-1, 1]},
    "middle": {"kind": "categorical", "categories": ["a", "b", "c", "rare"]},
}
NAMES = list(FEATURES)
IS_CLASS = {"name": "y", "classes": [0, 1]}
IS_NUMBER = {"name": "y", "bounds": [-4, 4]}


def planted(target, rows=30_000, seed=0, effects=(0.5, 2.5, 1.0)):
    """A score of known parts: their variances are as 1 to 25 to 14."""
    rng = np.random.default_rng(seed)
    weak, strong, middle = effects
    frame = pd.DataFrame(
        {
            "noise": rng.beta(1, 3, rows),
            "words": [f"w{k}" for k in np.minimum(rng.geometric(0.1, rows), 40) - 1],
            "weak": rng.uniform(-1, 1, rows),
            "strong": rng.uniform(-1, 1, rows),
            "middle": rng.choice(["a", "b", "c", "rare"], rows, p=[0.5, 0.4, 0.09, 0.01]),
        }
    )
    part = frame["middle"].map({"a": -1.0, "b": 1.0, "c": 1.0, "rare": 4.0})
    score = weak * frame["weak"] + strong * frame["strong"] + middle * part
    if target is IS_NUMBER:
        frame["y"] = score + rng.normal(0, 0.5, rows)
    else:
        frame["y"] = (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(int)
    return frame, {"version": 1, "features": FEATURES, "target": target}


PURE = {"delta": 0.0, "n_estimators": 20, "max_depth": 3}  # as advised for so few rows
RECIPES = {
    "additive": (PrivBoostClassifier, IS_CLASS, {}),
    "additive, number": (PrivBoostRegressor, IS_NUMBER, {}),
    "random trees": (SBDTClassifier, IS_CLASS, {}),
    "random trees of all": (SBDTClassifier, IS_CLASS, {"features": "uniform"}),
    "random trees of two": (SBDTClassifier, IS_CLASS, {"features": 2, "batch_size": 3}),
    "random trees, counts": (SBDTClassifier, IS_CLASS, {"boosting": "gradient", "subsample": 0.5}),
    "random trees, number": (SBDTRegressor, IS_NUMBER, {}),
    "greedy trees": (DPXGBClassifier, IS_CLASS, {"accountant": "rdp"}),
    "greedy trees, number": (DPXGBRegressor, IS_NUMBER, {"accountant": "rdp"}),
    "pure trees": (SarusXGBClassifier, IS_CLASS, PURE),
    "pure trees, number": (SarusXGBRegressor, IS_NUMBER, PURE),
    "linear": (BoostedAdaSSPClassifier, IS_CLASS, {}),
    "linear in bins": (BoostedAdaSSPClassifier, IS_CLASS, {"bins": 8}),
    "linear with products": (BoostedAdaSSPClassifier, IS_CLASS, {"products": [("weak", "middle")]}),
    "linear, hinge": (BoostedAdaSSPClassifier, IS_CLASS, {"loss": "hinge"}),
    "linear, number": (BoostedAdaSSPRegressor, IS_NUMBER, {}),
}


@cache
def fit_planted(name, epsilon=1.0, seed=0, **data):
    kind, target, how = RECIPES[name]
    frame, domain = planted(target, **data)
    how = {"delta": 1e-6, "random_state": seed} | how
    return kind(epsilon, domain=domain, **how).fit(frame)


@pytest.mark.parametrize("name", RECIPES)
def test_the_order_of_known_effects_is_right(name):
    own = dict(zip(NAMES, fit_planted(name).feature_importances_, strict=True))
    assert sum(own.values()) == pytest.approx(1)
    assert own["strong"] > own["middle"] > own["weak"]
    assert own["noise"] < 0.02
    assert own["words"] < 0.02
    if name != "linear with products":  # whose many parts of the weak effect are mostly noise
        assert own["weak"] > max(own["noise"], own["words"])


@pytest.mark.parametrize("name", ["additive", "random trees", "linear, number"])
def test_shares_are_those_of_the_variance(name):
    """Where a model can learn the truth, so can its reader."""
    own = fit_planted(name, epsilon=5.0, rows=60_000).feature_importances_
    truth = np.array([0, 0, 0.5**2 / 3, 2.5**2 / 3, 1.18])
    np.testing.assert_allclose(own, truth / truth.sum(), atol=0.06)


@pytest.mark.parametrize(
    "name", ["additive", "random trees", "random trees of two", "greedy trees", "pure trees"]
)
def test_noise_alone_counts_for_little(name):
    """The twin that does not subtract noise sees effects where there are none."""
    left = []
    for seed in range(4):
        scores = fit_planted(name, 0.1, seed, effects=(0.0, 0.0, 0.0)).model_.scores
        rows, others = draw_rows(scores.code_probabilities())
        parts = list(scores.changes(rows, others))
        raw = sum((change**2).mean() for _, change, _ in parts)
        less = sum(max((change**2 - doubt).mean(), 0) for _, change, doubt in parts)
        left.append(less / raw)
    assert np.mean(left) < 0.3


def test_values_vary_by_no_more_than_noise_tells():
    """Later steps take noise back, so less is fine; the level of a feature tells nothing."""
    frame, domain = planted(IS_CLASS)
    kind = PrivBoostClassifier
    models = [
        kind(0.5, 1e-6, domain, random_state=k, interactions=False).fit(frame) for k in range(10)
    ]
    fits = [model.model_.scores for model in models]
    for feature in range(len(NAMES)):
        mass = np.maximum(np.mean([s.mass[feature][0] for s in fits], axis=0), 0)
        values = np.array([s.values[feature][0] for s in fits], dtype=float)
        values -= np.average(values, axis=1, weights=mass)[:, None]
        spread = np.average(np.var(values, axis=0, ddof=1), weights=mass)
        told = np.average(np.mean([s.noise[feature][0] ** 2 for s in fits], axis=0), weights=mass)
        assert 0.1 < spread / told < 1.2


def test_mass_says_where_rows_are():
    """Even chances would miss by 0.77."""
    frame, _ = planted(IS_CLASS)
    truth = np.histogram(frame["noise"], 8, (0, 1))[0] / len(frame)
    for name in ("additive", "random trees", "random trees of all", "pure trees", "linear in bins"):
        own = fit_planted(name).model_.scores.code_probabilities()
        assert np.abs(own[0][:192].reshape(8, 24).sum(axis=1) - truth).sum() < 0.3
        assert all((part >= 0).all() and part.sum() == pytest.approx(1) for part in own)


@pytest.mark.parametrize("name", ["additive", "random trees of two", "pure trees", "linear"])
def test_a_loaded_model_has_them_too(name, tmp_path):
    model = fit_planted(name, rows=2000)
    model.save(tmp_path / "m")
    back = load_model(tmp_path / "m")
    np.testing.assert_array_equal(back.feature_importances(), model.feature_importances_)


@pytest.mark.parametrize("kind", [PrivBoostClassifier, SBDTClassifier, DPXGBClassifier])
def test_any_table_has_importances(kind):
    """Three classes, weights, no rows at all: finite, at least 0, adding up to 1 or 0."""
    how = {"n_estimators": 6, "random_state": 1, "sample_weight_bound": 2.0}
    if kind is DPXGBClassifier:
        how |= {"accountant": "rdp", "max_depth": 3}
    for rows in (0, 500):
        frame = make_frame(500, target=THREE).iloc[:rows]
        model = kind(1.0, 1e-6, make_domain(THREE), **how)
        own = model.fit(frame, sample_weight=frame["weight"]).feature_importances_
        assert own.shape == (6,)
        assert np.isfinite(own).all()
        assert (own >= 0).all()
        assert own.sum() == pytest.approx(1) or not own.any()


def test_linear_models_of_three_classes_and_of_no_rows_have_importances():
    frame, domain = planted(IS_CLASS, rows=3000)
    frame["y"] += frame["strong"] > 0.5
    domain["target"] = {"name": "y", "classes": [0, 1, 2]}
    for rows in (0, 3000):
        model = BoostedAdaSSPClassifier(3.0, 1e-6, domain, random_state=0).fit(frame[:rows])
        own = model.feature_importances_
        assert np.isfinite(own).all()
        assert (own >= 0).all()
    assert NAMES[own.argmax()] == "strong"


def test_a_stream_has_importances():
    frame, domain = planted(IS_CLASS, rows=20_000)
    model = SBDTClassifier(2.0, 1e-6, domain, n_estimators=50, random_state=0)
    model.partial_fit(frame[:10_000]).partial_fit(frame[10_000:])
    assert NAMES[model.feature_importances_.argmax()] == "strong"


def test_features_that_no_round_saw_have_none():
    model = PrivBoostRegressor(1.0, 1e-6, make_domain(NUMBER), n_estimators=2, random_state=0)
    assert not model.fit(make_frame(300, target=NUMBER)).feature_importances_[2:].any()


def test_there_is_none_where_released_values_do_not_tell():
    frame = make_frame(300)
    votes = LazyBBClassifier(1.0, 0.0, make_domain(), n_estimators=5).fit(frame)
    few, domain = planted(IS_CLASS, rows=500)
    bare = BoostedAdaSSPClassifier(1.0, 1e-6, domain, intercept=False).fit(few)
    for model, reason in ((votes, "no count of rows was released"), (bare, "an intercept")):
        assert not hasattr(model, "feature_importances_")
        with pytest.raises(AttributeError, match=reason):
            _ = model.feature_importances_
        with pytest.raises(AttributeError, match=reason):
            model.model_.feature_importances()
    assert not hasattr(PrivBoostClassifier(), "feature_importances_")


def test_without_mass_there_are_none():
    frame = make_frame(300)
    for kind in (PrivBoostClassifier, SBDTClassifier):
        model = kind(1.0, 1e-6, make_domain(CLASSES), n_estimators=6).fit(frame).model_
        form = model.scores.to_payload()
        for part in form.get("forests", [form]):
            part |= {"mass": None, "noise": None}
        scores = type(model.scores).from_payload(form, model.encoder.layout, 1)
        with pytest.raises(AttributeError, match="does not hold what was released"):
            scores.importances()


def test_rows_are_drawn_as_chances_say():
    chances = np.array([0.5, 0.25, 0.0, 0.25])
    rows, others = draw_rows([chances, chances])
    assert rows.shape == others.shape == (2, N_ROWS)
    for drawn in (*rows, *others):
        np.testing.assert_allclose(np.bincount(drawn, minlength=4) / N_ROWS, chances, atol=1e-3)
    assert not np.array_equal(rows[0], rows[1])
    again = draw_rows([chances, chances])
    np.testing.assert_array_equal(rows, again[0])
    np.testing.assert_array_equal(others, again[1])


FEW_CODES, MANY_OUTPUTS = 3, 100


def small_additive(features):
    values = (np.zeros((MANY_OUTPUTS, FEW_CODES), dtype=np.int32),) * features
    mass = (np.ones((MANY_OUTPUTS, FEW_CODES)),) * features
    return AdditiveScores(np.zeros(MANY_OUTPUTS, dtype=np.int32), values, mass, mass)


def small_trees(features):
    of_leaves = np.ones((1, MANY_OUTPUTS, 2), dtype=np.int32)
    turns = np.ones((1, 1, 1), dtype=np.uint8)
    group = Forest(np.zeros((1, 1), dtype=np.uint16), turns, of_leaves, of_leaves, of_leaves)
    n_codes = np.full(features, FEW_CODES, dtype=np.int32)
    start = np.zeros(MANY_OUTPUTS, dtype=np.int32)
    return TreeScores(start, (group,), np.ones(1, dtype=np.int32), n_codes)


def small_linear(features):
    places = tuple(np.full(FEW_CODES, k, dtype=np.int32) for k in range(features))
    entries = (np.arange(FEW_CODES, dtype=np.int32),) * features
    terms = Terms(tuple((k, -1) for k in range(features)), places, entries, features)
    columns = tuple(Coordinate(f"x{k}", "") for k in range(features))
    coefficients = np.ones((MANY_OUTPUTS, features), dtype=np.int32)
    moments = np.ones((2, features))
    return LinearScores(terms, columns, coefficients, True, 1.0, moments, moments[0])


@pytest.mark.parametrize("make", [small_additive, small_trees, small_linear])
def test_memory_does_not_grow_with_features_times_outputs(make):
    """All changes at once would take 2^28 bytes."""
    make(2).importances()  # what is compiled or loaded on the way is not meant
    tracemalloc.start()
    own = make(160).importances()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(own) == 160
    assert peak < 2**24
