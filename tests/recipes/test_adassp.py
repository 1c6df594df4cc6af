"""BoostedAdaSSP: against plain least squares without noise, and what it says of itself."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from privboost import (
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    Domain,
    DomainError,
    load_model,
)
from privboost._core.grid import VECTOR_STEPS
from privboost.data.encoding import Encoder
from privboost.recipes.common.coordinates import MOST_COORDINATES, design
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

QUIET = {"epsilon": 1e8, "delta": 0.1, "random_state": 0}
"""So large a budget that the noise is nothing."""


def table(rows=4000, target="classes", seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.uniform(-2, 6, rows),
            "b": rng.uniform(0, 1, rows),
            "c": rng.choice(["x", "y", "z"], rows),
        }
    )
    score = 0.8 * frame["a"] - 3 * frame["b"] + frame["c"].map({"x": -1.0, "y": 0.5, "z": 1.5})
    features = {
        "a": {"kind": "numeric", "bounds": [-2, 6]},
        "b": {"kind": "numeric", "bounds": [0, 1]},
        "c": {"kind": "categorical", "categories": ["x", "y", "z"]},
    }
    if target == "classes":
        frame["t"] = rng.random(rows) < expit(score)
        public = {"name": "t", "classes": [False, True]}
    elif target == "three":
        frame["t"] = np.digitize(score + rng.normal(0, 0.3, rows), [-1.0, 2.0])
        public = {"name": "t", "classes": [0, 1, 2]}
    else:
        frame["t"] = score + rng.normal(0, 0.2, rows)
        public = {"name": "t", "bounds": [-8, 8]}
    return frame, Domain.from_dict({"version": 1, "features": features, "target": public})


def matrix(frame):
    """The columns as the model has them: intercept, two numbers, three indicators."""
    scaled = [np.ones(len(frame)), (frame["a"] - 2) / 4, frame["b"] * 2 - 1]
    return np.column_stack([*scaled, *(frame["c"] == name for name in "xyz")]).astype(float)


def test_without_noise_one_round_is_least_squares():
    frame, domain = table(target="number")
    model = BoostedAdaSSPRegressor(
        domain=domain, n_estimators=1, norm_bound=5.0, gradient_clip=1.0, **QUIET
    ).fit(frame)
    x = matrix(frame)
    fitted = x @ np.linalg.lstsq(x, frame["t"], rcond=None)[0]
    # Numbers are read in 192 bins, so predictions differ by a little of a bin's width.
    assert np.abs(model.predict(frame) - fitted).max() < 0.05


@pytest.mark.parametrize(
    ("loss", "gradient"),
    [
        ("logistic", lambda s, y: expit(s) - y),
        ("squared", lambda s, y: np.clip(s - (2 * y - 1), -1, 1)),
        ("hinge", lambda s, y: np.where((2 * y - 1) * s < 1, -(2 * y - 1), 0)),
    ],
)
def test_without_noise_rounds_are_ridge_steps_on_gradients(loss, gradient):
    frame, domain = table(6000)
    model = BoostedAdaSSPClassifier(
        domain=domain,
        loss=loss,
        n_estimators=6,
        learning_rate=0.7,
        norm_bound=5.0,
        tail=0.5,
        calibration_share=0.0,
        **QUIET,
    ).fit(frame)
    x, y = matrix(frame), frame["t"].to_numpy().astype(float)
    inverse = np.linalg.pinv(x.T @ x)
    theta, tail = np.zeros(6), np.zeros(6)
    for round_ in range(6):
        theta = theta - 0.7 * inverse @ (x.T @ gradient(x @ theta, y))
        tail += theta * (round_ >= 3) / 3
    found = model.decision_function(frame)
    assert np.abs(found - x @ tail).max() < 0.06
    assert hasattr(model, "predict_proba") == (loss == "logistic")
    assert model.model_.has_probabilities == (loss == "logistic")


def test_coefficients_are_in_original_units():
    frame, domain = table(20000)
    model = BoostedAdaSSPClassifier(domain=domain, n_estimators=40, norm_bound=5.0, **QUIET).fit(
        frame
    )
    told = {(c["feature"], c["value"]): c["coefficient"] for c in model.coefficients().to_pylist()}
    assert told["a", ""] == pytest.approx(0.8, abs=0.06)
    assert told["b", ""] == pytest.approx(-3, abs=0.2)
    assert told["c", "z"] - told["c", "x"] == pytest.approx(2.5, abs=0.2)
    by_hand = told["(intercept)", ""] + told["a", ""] * frame["a"] + told["b", ""] * frame["b"]
    by_hand += frame["c"].map({name: told["c", name] for name in "xyz"})
    assert np.abs(by_hand - model.decision_function(frame)).max() < 0.03


def test_a_number_is_told_in_its_own_units():
    frame, domain = table(20000, "number")
    model = BoostedAdaSSPRegressor(domain=domain, norm_bound=5.0, **QUIET).fit(frame)
    told = {(c["feature"], c["value"]): c["coefficient"] for c in model.coefficients().to_pylist()}
    assert told["a", ""] == pytest.approx(0.8, abs=0.02)
    by_hand = told["(intercept)", ""] + told["a", ""] * frame["a"] + told["b", ""] * frame["b"]
    by_hand += frame["c"].map({name: told["c", name] for name in "xyz"})
    assert np.abs(by_hand - model.predict(frame)).max() < 0.05


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"loss": "hinge", "ratio": (1, 1, 0.5)},
        {"loss": "squared", "clip_decay": 0.9, "tail": 0},
        {"bins": 8, "class_weight": "balanced"},
        {"products": True, "intercept": False},
        {"norm_bound": 1.0},
    ],
    ids=str,
)
def test_it_learns_and_comes_back(how, tmp_path):
    frame, domain = table(8000)
    model = BoostedAdaSSPClassifier(2.0, 1e-6, domain, random_state=1, **how).fit(frame)
    best = (expit(matrix(frame) @ [-0.9, 3.2, -1.5, -1.0, 0.5, 1.5]) > 0.5) == frame["t"]
    assert (model.predict(frame) == frame["t"]).mean() > best.mean() - 0.05
    assert 1.98 < model.privacy_.epsilon <= 2.0
    model.save(tmp_path / "m")
    back = load_model(tmp_path / "m")
    np.testing.assert_array_equal(back.decision_function(frame), model.decision_function(frame))
    assert back.coefficients().equals(model.coefficients())


def test_three_classes_share_the_matrix():
    frame, domain = table(9000, "three")
    model = BoostedAdaSSPClassifier(3.0, 1e-6, domain, random_state=1).fit(frame)
    counts = {release.what: release.count for release in model.privacy_.releases}
    assert counts == {
        "products of all pairs of coordinates": 1,
        "gradients times coordinates": 75,
        "rows by score and class": 3,
    }
    assert (model.predict(frame) == frame["t"]).mean() > 0.6
    assert model.coefficients().column_names == ["feature", "value", "coefficient", "class"]


def test_balanced_classes_find_the_rare_one():
    frame, domain = table(20000)
    rare = frame[~frame["t"] | (np.arange(len(frame)) % 25 == 0)]
    how = {"epsilon": 2.0, "delta": 1e-6, "domain": domain, "random_state": 1}
    plain, balanced = (
        BoostedAdaSSPClassifier(class_weight=weight, **how).fit(rare).predict(rare)
        for weight in (None, "balanced")
    )
    recall = [predicted[rare["t"]].mean() for predicted in (plain, balanced)]
    assert recall[1] > recall[0] + 0.3
    given = BoostedAdaSSPClassifier(class_weight={False: 1, True: 25}, **how).fit(rare)
    assert given.predict(rare)[rare["t"]].mean() > recall[0] + 0.3
    releases = BoostedAdaSSPClassifier(class_weight="balanced", **how).fit(rare).privacy_.releases
    assert "rows of each class" in [release.what for release in releases]


def test_weights_move_the_model_and_are_bounded():
    frame, domain = table(8000)
    how = {"sample_weight_bound": 1.0, "norm_bound": 5.0} | QUIET
    weight = np.where(frame["c"] == "x", 1.0, 0.0)
    weighted = BoostedAdaSSPClassifier(domain=domain, **how).fit(frame, sample_weight=weight)
    alone = BoostedAdaSSPClassifier(domain=domain, **how).fit(frame[frame["c"] == "x"])
    some = frame[frame["c"] == "x"]
    np.testing.assert_allclose(
        weighted.decision_function(some), alone.decision_function(some), atol=0.05
    )


def test_effects_are_those_of_features():
    frame, domain = table(4000)
    model = BoostedAdaSSPClassifier(domain=domain, norm_bound=5.0, **QUIET).fit(frame)
    effects = model.model_.effects().to_pylist()
    of_c = {e["values"]: e["effect"] for e in effects if e["feature"] == "c"}
    assert of_c["z"] > of_c["y"] > of_c["x"]
    joint = BoostedAdaSSPClassifier(domain=domain, products=[("a", "c")], **QUIET).fit(frame)
    with pytest.raises(AttributeError, match="products"):
        joint.model_.effects()


def test_columns_of_a_wild_domain():
    encoder = Encoder.of(make_domain())
    plain = design(encoder)
    names = [(column.feature, column.value) for column in plain.coordinates]
    assert ("age", "missing") in names
    assert ("gain", "on its log scale, from -1 to 1") in names
    assert ("job", "other") not in names
    assert ("job", "missing") in names
    assert ("flag", "missing") not in names
    assert plain.terms.most_square > VECTOR_STEPS**2  # numbers may be longer than typical ones
    binned = design(encoder, bins=4, intercept=False)
    assert binned.terms.most_square <= VECTOR_STEPS**2
    assert not binned.terms.shortens


class Untouchable:
    def __getattr__(self, name):
        raise AssertionError(f"the data were touched: {name}")


MANY = Domain.from_dict(
    {
        "version": 1,
        "features": {
            f"f{k}": {"kind": "categorical", "categories": [f"c{j}" for j in range(300)]}
            for k in range(20)
        },
        "target": CLASSES,
    }
)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"loss": "cubic"}, "loss"),
        ({"n_estimators": 0}, "n_estimators"),
        ({"learning_rate": -1}, "learning_rate"),
        ({"learning_rate": 1e300}, "learning_rate"),
        ({"ratio": (1, 2)}, "ratio"),
        ({"ratio": (0, 2, 0)}, "ratio"),
        ({"ratio": (1, 2, -1)}, "ratio"),
        ({"gradient_clip": 0}, "gradient_clip"),
        ({"clip_decay": 0}, "clip_decay"),
        ({"clip_decay": 0.5, "n_estimators": 50}, "clip_decay"),
        ({"tail": 1.5}, "tail"),
        ({"bins": 1}, "bins"),
        ({"products": [("age", "age")]}, "products"),
        ({"products": [("age", "wage")]}, "products"),
        ({"products": [("place", "age", "job")]}, "products"),
        ({"products": "age"}, "products"),
        ({"products": [("age", "wage")]}, "no feature 'wage'; there are 'age'"),
        ({"norm_bound": 0}, "norm_bound"),
        ({"norm_bound": 1e-6}, "norm_bound is too small"),
        ({"class_weight": "heavy"}, "class_weight"),
        ({"class_weight": "balanced", "domain": make_domain(THREE)}, "two classes"),
        ({"class_weight": {"low": 1.0}}, "each of high, low"),
        ({"class_weight": {"low": 1.0, "high": 0}}, "class_weight"),
        ({"domain": MANY}, f"at most {MOST_COORDINATES}"),
        ({"products": True, "bins": 32}, f"at most {MOST_COORDINATES}"),
        ({"delta": 0}, "pure DP"),
        ({"epsilon": 1e-7, "delta": 1e-12}, "too small"),
    ],
)
def test_bad_parameters_are_refused_before_rows_are_touched(parameters, words):
    how = {"epsilon": 1.0, "delta": 1e-6, "domain": make_domain()} | parameters
    with pytest.raises(ValueError, match=words):
        BoostedAdaSSPClassifier(**how).fit(Untouchable())


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("epsilon", [0.001, 1.0])
def test_few_rows_and_much_noise_give_a_valid_model(rows, epsilon):
    for target in (CLASSES, THREE, NUMBER):
        kind = BoostedAdaSSPRegressor if target is NUMBER else BoostedAdaSSPClassifier
        model = kind(epsilon, 1e-6, make_domain(target)).fit(make_frame(rows, target=target))
        predicted = model.predict(make_frame(50, target=target))
        assert predicted.shape == (50,)
        if target is NUMBER:
            assert ((predicted >= 0) & (predicted <= 10)).all()


def test_names_and_classes_are_known_before_a_domain_is_learned(tmp_path):
    frame, _ = table(5000)
    frame["t"] = np.where(frame["t"], "yes", "no")
    how = {"epsilon": 8.0, "delta": 1e-5, "random_state": 1}
    weighted = BoostedAdaSSPClassifier(
        products=[("a", "b")], class_weight={"no": 1, "yes": 2}, **how
    ).fit(frame, "t")
    assert "a × b" in weighted.coefficients()["feature"].to_pylist()
    wrong = BoostedAdaSSPClassifier(products=[("a", "x")], ledger=tmp_path / "l", **how)
    with pytest.raises(ValueError, match="no feature 'x'"):
        wrong.fit(frame, "t")
    assert not (tmp_path / "l").exists()


def test_what_fails_after_a_domain_was_learned_says_that_it_is_paid_for():
    frame, _ = table(3000, "three")
    model = BoostedAdaSSPClassifier(20.0, 1e-2, class_weight="balanced", random_state=1)
    with (
        pytest.warns(UserWarning, match="delta exceeds"),
        pytest.raises(ValueError, match=r"two classes.*is spent"),
    ):
        model.fit(frame.assign(t=frame["t"].astype(str)), "t")


def test_values_that_nobody_declared_have_the_mean_effect():
    """Only differences between indicators are learned; their common level would be noise."""
    frame, domain = table(4000)
    strange = frame.assign(c="elsewhere")
    for seed in range(5):
        model = BoostedAdaSSPClassifier(1.0, 1e-6, domain, random_state=seed).fit(frame)
        named = [model.decision_function(frame.assign(c=name)) for name in "xyz"]
        np.testing.assert_allclose(
            model.decision_function(strange), np.mean(named, axis=0), atol=1e-3
        )
        told = model.coefficients().to_pylist()
        assert abs(sum(c["coefficient"] for c in told if c["feature"] == "c")) < 1e-3


def test_huge_steps_stay_on_the_grid():
    """Also the intercept, into which the means of many features are moved."""
    names = [f"f{k}" for k in range(400)]
    feature = {"kind": "categorical", "categories": ["a", "b"]}
    form = {"version": 1, "features": dict.fromkeys(names, feature)}
    domain = Domain.from_dict(form | {"target": {"name": "t", "classes": [0, 1]}})
    x = np.random.default_rng(0).choice(np.array(["a", "b"], dtype=object), (500, 400))
    how = {"loss": "hinge", "n_estimators": 1, "learning_rate": 9e5, "random_state": 1}
    model = BoostedAdaSSPClassifier(500.0, 1e-6, domain, **how).fit(x, np.ones(500))
    assert (model.decision_function(x) > 0).mean() > 0.9


def test_a_missing_number_adds_up_too():
    frame, domain = table(4000)
    form = domain.to_dict()
    form["features"]["a"]["missing"] = True
    gone = frame.assign(a=frame["a"].where(np.arange(len(frame)) % 5 > 0))
    model = BoostedAdaSSPClassifier(domain=Domain.from_dict(form), norm_bound=5.0, **QUIET).fit(
        gone
    )
    told = {(c["feature"], c["value"]): c["coefficient"] for c in model.coefficients().to_pylist()}
    rows = gone[gone["a"].isna()]
    by_hand = told["(intercept)", ""] + told["a", "missing"] + told["b", ""] * rows["b"]
    by_hand += rows["c"].map({name: told["c", name] for name in "xyz"})
    assert np.abs(by_hand - model.decision_function(rows)).max() < 0.03
    assert model.model_.to_text().startswith("coefficients\n")


def test_classes_of_weights_may_be_written_as_text():
    """As a command line writes them."""
    frame, domain = table(2000)
    number = frame.assign(t=frame["t"].astype(int))
    form = domain.to_dict() | {"target": {"name": "t", "classes": [0, 1]}}
    for weight in ({0: 1, 1: 3}, {"0": 1, "1": 3}):
        model = BoostedAdaSSPClassifier(
            1.0, 1e-6, Domain.from_dict(form), class_weight=weight, random_state=2
        )
        assert model.fit(number).privacy_.parameters["class_weight"] == [1.0, 3.0]


def test_a_domain_can_be_learned_on_the_way():
    frame, _ = table(6000)
    frame["t"] = np.where(frame["t"], "yes", "no")
    model = BoostedAdaSSPClassifier(5.0, 1e-5, domain_share=0.2, random_state=1)
    model.fit(frame, "t")
    assert 4.9 < model.privacy_.epsilon <= 5.0
    assert (model.predict(frame) == frame["t"]).mean() > 0.65


def test_no_feature_has_the_name_of_the_constant_column():
    domain = make_domain()
    named = replace(domain, features=(replace(domain.features[0], name="(intercept)"),))
    with pytest.raises(DomainError, match="constant that"):
        design(Encoder.of(named))


def test_errors_of_coefficients_on_a_line_are_how_far_noise_moves_them():
    """Of the strongest, which the slope of the line moves; of weak ones they are an upper bound."""
    rng = np.random.default_rng(5)
    entries = rng.uniform(-1, 1, (3000, 3))
    chance = 1 / (1 + np.exp(-(2.5 * entries[:, 0] - entries[:, 1])))
    frame = pd.DataFrame(entries, columns=list("abc")).assign(y=(rng.random(3000) < chance) * 1)
    features = {name: {"kind": "numeric", "bounds": [-1, 1]} for name in "abc"}
    domain = Domain.from_dict(
        {"version": 1, "features": features, "target": {"name": "y", "classes": [0, 1]}}
    )
    found, told = [], []
    for seed in range(80):
        clf = BoostedAdaSSPClassifier(1.0, 1e-6, domain, random_state=seed).fit(frame)
        _, *lines = clf.explain_global().coefficients.lines
        found.append([line.coefficient for line in lines])
        told.append([line.std for line in lines])
    ratio = np.sqrt(np.mean(np.square(told), axis=0)) / np.std(found, axis=0, ddof=1)
    assert ratio[0] == pytest.approx(1.0, abs=0.25)
    assert (ratio > 0.8).all()
    assert (ratio < 2.5).all()
