"""PrivBoost with several classes: one query for all of them, and calibrated probabilities."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privboost import Domain, PrivBoostClassifier
from privboost._core.errors import ModelFileError
from privboost.data.encoding import Encoder
from privboost.engine.softmax_kernels import PROBABILITY_STEPS
from privboost.models.model import SOFTMAX, Model, model_bytes, read_model
from privboost.recipes.common import softmax
from privboost.recipes.common.output_queries import SoftmaxClips
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.softmax import ClassCounts, couplings
from privboost.recipes.privboost import plan_privboost
from tests.fits import BASIC, INTERVALS

CLASSES = ["a", "b", "c", "d"]


def domain(classes=CLASSES):
    return Domain.from_dict(
        {
            "version": 1,
            "features": {
                "x": {"kind": "numeric", "bounds": [0, 1]},
                "z": {"kind": "numeric", "bounds": [0, 1]},
                "job": {"kind": "categorical", "categories": ["cook", "nurse", "smith"]},
            },
            "target": {"name": "y", "classes": classes},
        }
    )


def chances(frame):
    """The true probabilities of the four classes."""
    x, z = frame["x"].to_numpy(), frame["z"].to_numpy()
    nurse = (frame["job"] == "nurse").to_numpy()
    scores = np.stack([3 * x, 3 * (1 - x), 2 * z - 0.5, np.where(nurse, 2.0, -1.0)], axis=1)
    odds = np.exp(scores)
    return odds / odds.sum(axis=1, keepdims=True)


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    jobs = rng.choice(["cook", "nurse", "smith"], rows)
    frame = pd.DataFrame({"x": rng.random(rows), "z": rng.random(rows), "job": jobs})
    ends = chances(frame).cumsum(axis=1)
    return frame.assign(y=np.array(CLASSES)[(rng.random((rows, 1)) > ends).sum(axis=1)])


def fit(frame, epsilon=1.0, **how):
    given = {"random_state": 3, "n_jobs": 1} | how
    return PrivBoostClassifier(epsilon, 1e-6, domain(), **given).fit(frame)


@pytest.fixture(scope="module")
def model():
    return fit(table(20_000)).model_


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_probabilities_are_near_the_truth(epsilon):
    tried = table(3000, seed=1)
    found = fit(table(20_000), epsilon).predict_proba(tried)
    assert np.abs(found - chances(tried)).mean() < (0.06 if epsilon < 1 else 0.04)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_public_rows_without_noise():
    tried = table(3000, seed=1)
    clf = PrivBoostClassifier(np.inf, 1e-6, domain(), public_rows=True)
    found = clf.fit(table(20_000)).predict_proba(tried)
    assert np.abs(found - chances(tried)).mean() < 0.06


def test_the_noise_of_a_measurement_does_not_depend_on_the_number_of_classes():
    for delta in (1e-6, 0.0):
        values = []
        for names in (CLASSES, list("abcdefghijklmnopqrstuvw")):
            given = {"accountant": "auto", "interactions": bool(delta)}
            plan = plan_privboost(given, Encoder.of(domain(names)), None, Budget(1.0, delta))
            assert sum(each.count for each in plan.releases) == (4 if delta else 3 + 9)
            clips = SoftmaxClips.of(len(names), 0.3, 0.2, not delta)
            steps = clips.step_values(plan.count_step)
            noise = plan.reserved_release.deviations * steps
            values.append((*noise, plan.calibration_release.deviations[0]))
        np.testing.assert_allclose(*values, rtol=2e-3)


def test_effects_are_relative_to_the_mean_of_all_classes(model):
    assert model.link == SOFTMAX
    for values in model.scores.feature_values():
        assert np.abs(values.sum(axis=0)).max() <= 4 * len(CLASSES)
    assert model.explain_global().scored_in == "log-odds against the mean of all classes"
    assert model.privacy.parameters["loss"] == softmax.SOFTMAX_LOSS


def test_a_constant_of_all_classes_changes_no_probability(model):
    tried = table(50, seed=2)
    scores = model.decision_function(tried)
    same = model.probabilities_of(scores + np.arange(50)[:, None])
    np.testing.assert_allclose(same, model.predict_proba(tried))


def test_standard_errors_of_probabilities(model):
    """To first order: those of the scores, by the derivatives of the softmax."""
    tried = table(20, seed=2)
    scores, errors = model.decision_function(tried, return_std=True)
    found, stds = model.predict_proba(tried, return_std=True)
    moved = []
    for k in range(len(CLASSES)):
        step = 1e-6 * np.eye(len(CLASSES))[k]
        moved.append((model.probabilities_of(scores + step) - found) / 1e-6 * errors[:, [k]])
    np.testing.assert_allclose(stds, np.sqrt((np.array(moved) ** 2).sum(axis=0)), rtol=1e-4)


def test_files_keep_the_link(model):
    again = read_model(model_bytes(model), "a file")
    assert again.link == SOFTMAX
    tried = table(50, seed=2)
    np.testing.assert_array_equal(again.predict_proba(tried), model.predict_proba(tried))
    two = BASIC["privboost, two classes"]().model_
    forged = Model(two.encoder, two.scores, two.privacy, link=SOFTMAX)
    with pytest.raises(ModelFileError, match="several classes"):
        read_model(model_bytes(forged), "a file")


def test_sets_of_classes_hold_their_coverage():
    clf = fit(table(20_000), 2.0, **INTERVALS)
    tried = table(4000, seed=1)
    sets = clf.predict_set(tried, coverage=0.9)
    own = np.searchsorted(CLASSES, tried["y"])
    assert 0.88 < sets[np.arange(len(own)), own].mean() < 0.97
    assert sets.sum(axis=1).mean() < 3.5


def test_shares_of_classes_follow_noisy_counts():
    exact = ClassCounts(np.array([100.0, 300.0, 600.0]), 0.0)
    np.testing.assert_allclose(exact.shares, [0.1, 0.3, 0.6])
    np.testing.assert_allclose(np.diff(exact.start / 2**16), np.log([3, 2]), atol=1e-4)
    hidden = ClassCounts(np.array([90.0, 100.0, 110.0]), 1000.0)
    np.testing.assert_allclose(hidden.shares, 1 / 3)
    nothing = ClassCounts(np.array([-5.0, -3.0, 0.0]), 2.0)
    assert nothing.rows[0] == 1
    assert (nothing.shares > 0).all()


def test_couplings_of_equal_classes_are_those_of_a_newton_step():
    """The Hessian of equal classes is I/K on sums of 0, and its diagonal (1 − 1/K)/K."""
    for classes in (3, 10):
        factors = couplings(np.full(classes, 1 / classes))
        np.testing.assert_allclose(factors * (1 - 1 / classes) / classes, 1 / classes)
    assert couplings(np.array([0.98, 0.01, 0.01])).max() <= 3


def test_clips_are_rounded_down():
    clips = SoftmaxClips.of(3, 0.3, 2.0, False)
    assert clips.gradient <= 0.3 * PROBABILITY_STEPS < clips.gradient + 1
    assert clips.hessian == PROBABILITY_STEPS
    gradient, hessian = clips.step_values(2.0**-16)
    assert gradient * 46340 == pytest.approx(0.3)
    assert hessian * 2**16 == pytest.approx(1.0)


@pytest.mark.parametrize("slope", [0.6, 1.0, 1.5])
def test_the_slope_is_found(slope):
    """Scores that are too small by a factor, or too large."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1.5, (4, 40_000))
    odds = np.exp(slope * scores - (slope * scores).max(axis=0))
    right = rng.random(40_000) < (odds / odds.sum(axis=0)).max(axis=0)
    plain = np.exp(scores - scores.max(axis=0))
    top = (plain / plain.sum(axis=0)).max(axis=0) * PROBABILITY_STEPS
    edges = np.linspace(0.3, 0.9, 9) * PROBABILITY_STEPS
    edges = edges.astype(np.int32)
    cell = np.searchsorted(edges, top, side="right")
    counts = np.bincount(2 * cell + right, minlength=20).reshape(10, 2).astype(float)
    found = softmax._fit_slope(counts, 1.0, edges, scores[:, :1000])
    assert found == pytest.approx(slope, rel=0.12)


def test_without_calibration_there_are_two_releases_less(model):
    plain = fit(table(2000), calibration_share=0.0)
    kept = [release["what"] for release in plain.privacy_.to_dict()["releases"]]
    assert not any("calibrate" in what or "most probable" in what for what in kept)


def test_measurements_of_many_categories_share_bins_of_all_classes():
    rng = np.random.default_rng(0)
    names = [f"c{k}" for k in range(120)]
    frame = pd.DataFrame({"city": rng.choice(names, 4000)})
    frame["y"] = np.array(CLASSES)[rng.integers(0, 4, 4000)]
    form = {
        "version": 1,
        "features": {"city": {"kind": "categorical", "categories": names}},
        "target": {"name": "y", "classes": CLASSES},
    }
    clf = PrivBoostClassifier(3.0, 1e-6, Domain.from_dict(form), random_state=0).fit(frame)
    (values,) = clf.model_.scores.feature_values()
    assert len({tuple(column) for column in values.T}) <= 66


@pytest.mark.parametrize("how", [{"interactions": 2}, {"at_once": 3}, {"delta": 0.0}])
def test_other_parameters(how):
    frame = table(3000)
    given = {"delta": 1e-6, "random_state": 3} | how
    clf = PrivBoostClassifier(4.0, domain=domain(), **given).fit(frame)
    assert np.abs(clf.predict_proba(frame) - chances(frame)).mean() < 0.12


def test_pairs_and_trees_are_of_all_classes():
    clf = fit(table(20_000), 5.0)
    scores = clf.model_.scores
    outputs = [pair.output for pair in scores.pairs]
    assert outputs == [*range(4)] * (len(outputs) // 4)
    for _, values in scores.trees.trees():
        assert values.shape[0] == 4
        assert np.abs(values.sum(axis=0)).max() <= 16
    assert replace(clf.model_).link == SOFTMAX
