"""Honest probabilities: who pays for them, how a line enters a model, and what is refused."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from privboost import (
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    DPXGBClassifier,
    DPXGBRegressor,
    LazyBBClassifier,
    PrivBoostClassifier,
    SarusXGBClassifier,
    SarusXGBRegressor,
    SBDTClassifier,
    SBDTRegressor,
    load_model,
)
from privboost._core.grid import MAX_SCORE, SCORE_STEPS, VOTE
from privboost.models.trees import TreeScores
from privboost.models.votes import CalibratedVotes, VoteScores
from privboost.recipes.common import probability_calibration
from privboost.recipes.common.probability_calibration import ScoreCells, worth_of_vote
from tests.tables import CLASSES, THREE, make_domain, make_frame

WHAT = "rows by score and class"
TREES = {"n_estimators": 4, "max_depth": 2}
RECIPES = {
    "sbdt": (SBDTClassifier, {"delta": 1e-6} | TREES),
    "a filter": (SBDTClassifier, {"delta": 1e-6, "extra_estimators": 9} | TREES),
    "a Rényi filter": (
        SBDTClassifier,
        {"delta": 1e-6, "extra_estimators": 9, "subsample": 0.5} | TREES,
    ),
    "dpxgb": (DPXGBClassifier, {"delta": 1e-6, "accountant": "rdp"} | TREES),
    "sarus": (SarusXGBClassifier, {"delta": 0.0, "gradient_filter": 0.4} | TREES),
    "samples": (SarusXGBClassifier, {"delta": 0.0, "subsample": 0.5} | TREES),
    "votes": (LazyBBClassifier, {"delta": 0.0, "n_estimators": 5, "density": 0.4}),
    "votes of trees": (
        LazyBBClassifier,
        {"delta": 1e-6, "n_estimators": 3, "density": 0.4, "learner": "tree", "accountant": "rdp"},
    ),
    "linear": (BoostedAdaSSPClassifier, {"delta": 1e-6, "n_estimators": 3}),
}


def fitted(name, target=CLASSES, rows=200, share=0.1, **how):
    kind, own = RECIPES[name]
    how = {"domain": make_domain(target), "random_state": 1, "epsilon": 2.0} | own | how
    return kind(calibration_share=share, **how).fit(make_frame(rows, target=target))


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("target", [CLASSES, THREE], ids=["two", "three"])
def test_reports_list_the_counts_and_stay_within_the_budget(name, target):
    report = fitted(name, target).privacy_.to_dict()
    listed = [each for each in report["releases"] if each["what"] == WHAT]
    assert [each["count"] for each in listed] == [3 if target is THREE else 1]
    pure = RECIPES[name][1]["delta"] == 0
    assert ("Laplace" if pure else "Gaussian") in listed[0]["mechanism"]
    off = fitted(name, target, share=0.0).privacy_.to_dict()
    assert WHAT not in [each["what"] for each in off["releases"]]


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("target", [CLASSES, THREE], ids=["two", "three"])
def test_predictions_scores_and_chances_agree_also_in_a_file(name, target, tmp_path):
    frame = make_frame(50, 3, target)
    model = fitted(name, target)
    chances, scores = model.predict_proba(frame), model.decision_function(frame)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(frame), model.classes_[best])
    model.model_.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(frame), chances)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("rows", [0, 1, 300])
def test_public_rows_have_exact_counts(name, rows):
    if rows == 0 and name.startswith("votes"):
        return  # whose choices need rows
    how = {"epsilon": math.inf, "public_rows": True, "accountant": "auto"}
    model = fitted(name, rows=rows, **how)
    assert np.isfinite(model.predict_proba(make_frame(5))).all()


def line_of(monkeypatch, slope, shift, **how):
    """A model whose line is given."""
    monkeypatch.setattr(probability_calibration, "fit_line", lambda *_: (slope, shift))
    monkeypatch.setattr(probability_calibration, "slope_error", lambda *_: 0.1)
    return fitted(**how)


def test_a_line_is_part_of_the_values_of_trees(monkeypatch):
    """So stages, effects, importances and texts are those of the model that predicts."""
    frame = make_frame(60, 5)
    for name in ("sbdt", "a filter", "dpxgb"):
        plain = line_of(monkeypatch, 1.0, 0.0, name=name).model_
        steep = line_of(monkeypatch, 3.0, 0.5, name=name).model_
        own, stretched = (model.decision_function(frame) for model in (plain, steep))
        np.testing.assert_allclose(stretched, 3 * own + 0.5, atol=1e-3)
        for one, other in zip(plain.scores.forests, steep.scores.forests, strict=True):
            np.testing.assert_array_equal(other.values, 3 * one.values)
            np.testing.assert_array_equal(other.noise, 3 * one.noise)
            np.testing.assert_array_equal(other.mass, one.mass)
        shares = [model.scores.importances() for model in (steep, plain)]
        np.testing.assert_allclose(*shares, atol=1e-6)
        *_, last = steep.staged_decision_function(frame)
        np.testing.assert_array_equal(last, stretched)
    effects = line_of(monkeypatch, 3.0, 0.5, name="sbdt").model_.effects()
    plain = line_of(monkeypatch, 1.0, 0.0, name="sbdt").model_.effects()
    np.testing.assert_allclose(effects["effect"], 3 * np.array(plain["effect"]), atol=1e-3)


def test_a_line_is_part_of_the_coefficients(monkeypatch):
    frame = make_frame(60, 5)
    for target in (CLASSES, THREE):
        how = {"name": "linear", "target": target, "keep_stages": True}
        plain = line_of(monkeypatch, 1.0, 0.0, **how).model_
        steep = line_of(monkeypatch, 3.0, 0.5, **how).model_
        own, stretched = (model.decision_function(frame) for model in (plain, steep))
        np.testing.assert_allclose(stretched, 3 * own + 0.5, atol=0.01)
        np.testing.assert_allclose(steep.scores.noise, 3 * plain.scores.noise)
        stages = [list(model.staged_decision_function(frame)) for model in (plain, steep)]
        np.testing.assert_array_equal(stages[1][-1], stretched)
        np.testing.assert_allclose(stages[1][0], 3 * stages[0][0] + 0.5, atol=0.01)


def test_a_vote_stays_a_vote_and_has_a_worth(monkeypatch):
    frame = make_frame(60, 5)
    for name in ("votes", "votes of trees"):
        odds = line_of(monkeypatch, 2.0, 0.5, name=name).model_
        assert isinstance(odds.scores, CalibratedVotes)
        told = {"start": np.zeros_like(odds.scores.start)}
        told |= {part: getattr(odds.scores, part) for part in ("forests", "updates", "n_codes")}
        parts = [VoteScores(**told).scores(own) for own in odds.encoder.feature_codes(frame)]
        votes = np.concatenate(parts, axis=1)[0] / VOTE
        count = odds.scores.n_trees
        expected = 2 * worth_of_vote(count) * votes + 0.5
        np.testing.assert_allclose(odds.decision_function(frame), expected, atol=1e-3)
        *before, last = (stage.copy() for stage in odds.staged_decision_function(frame))
        np.testing.assert_array_equal(last, odds.decision_function(frame))
        assert all(np.isin(stage, np.arange(-count, count + 1)).all() for stage in before)
        with pytest.raises(AttributeError, match="stages are votes"):
            odds.staged_predict_proba(frame)
        assert "log-odds of low: +0.5, and" in odds.to_text()
    card = line_of(monkeypatch, 2.0, 0.5, name="votes").model_
    values = card.scores.feature_values()
    assert all((own % card.scores.worth[0] == 0).all() for own in values)


def test_without_a_share_votes_have_no_chances():
    model = fitted("votes", share=0.0)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="calibration_share"):
        model.predict_proba  # noqa: B018


def test_a_slope_goes_as_far_as_the_grid_allows():
    start = np.array([5 * SCORE_STEPS], dtype=np.int32)
    scores = TreeScores.of(start, [3])
    steep = scores.with_calibration(np.array([[1e9, 1.0]]))
    assert 0.9 * MAX_SCORE < steep.start[0] / SCORE_STEPS < MAX_SCORE


@pytest.mark.parametrize("votes", [1, 2, 5, 21, 22, 99, 1023])
def test_cells_of_votes_hold_every_sum_and_none_is_empty(votes):
    cells = ScoreCells.of_votes(votes)
    sums = np.arange(-votes, votes + 1, 2)
    own = np.searchsorted(cells.edges, sums * VOTE, side="right")
    np.testing.assert_array_equal(np.unique(own), np.arange(len(cells.at)))
    assert len(cells.at) <= 24
    worth = worth_of_vote(votes)
    means = [np.clip(sums[own == cell].mean() * worth, -8, 8) for cell in range(len(cells.at))]
    np.testing.assert_allclose(cells.at, means)


def biased(rows, seed):
    """Labels that scores of a narrow clip are too sure, or too shy, about."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows, 2))
    y = (rng.random(rows) < expit(3 * x[:, 0] + 2 * x[:, 1] - 1.5)).astype(int)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})


PLAIN = {
    "version": 1,
    "features": {name: {"kind": "numeric", "bounds": [-1, 1]} for name in "ab"},
    "target": {"name": "y", "classes": [0, 1]},
}


@pytest.mark.parametrize(
    ("kind", "how", "gain"),
    [
        (SBDTClassifier, {"delta": 1e-6, "n_estimators": 60}, 0.005),
        (SBDTClassifier, {"delta": 1e-6, "n_estimators": 60, "extra_estimators": 30}, 0.05),
        (SarusXGBClassifier, {"n_estimators": 5}, 0.01),
    ],
    ids=["sbdt", "a filter", "sarus"],
)
def test_chances_become_honest(kind, how, gain):
    """Rows that spent their budgets leave, and only counts of all rows tell what that did."""
    rows, rest = biased(20_000, 1), biased(10_000, 2)
    loss, error = [], []
    for share in (0.0, 0.04):
        model = kind(2.0, domain=PLAIN, random_state=1, calibration_share=share, **how).fit(rows)
        chances = model.predict_proba(rest)[:, 1]
        loss.append(log_loss(rest["y"], chances))
        error.append(abs(chances.mean() - rest["y"].mean()))
    assert loss[1] < loss[0] - gain
    assert error[1] < 0.02


def test_the_counts_are_of_all_rows(monkeypatch):
    """Also of those that have spent their budgets, or whose gradient was filtered."""
    seen = []

    def fit_line(counts, sigma, at):
        seen.append(counts.sum())
        return 1.0, 0.0

    monkeypatch.setattr(probability_calibration, "fit_line", fit_line)
    known = make_frame(200)["income"].isin(CLASSES["classes"]).sum()
    for name in ("a filter", "a Rényi filter", "sarus"):
        fitted(name, epsilon=500.0, share=0.5)
        assert seen.pop() == pytest.approx(known, abs=6)


PRESETS = [
    kind.from_preset(name)
    for kind in (
        SBDTClassifier,
        SBDTRegressor,
        DPXGBClassifier,
        DPXGBRegressor,
        SarusXGBClassifier,
        SarusXGBRegressor,
        LazyBBClassifier,
        BoostedAdaSSPClassifier,
        BoostedAdaSSPRegressor,
    )
    for name in kind._presets
]


def test_no_published_setting_has_it():
    assert len(PRESETS) > 60
    assert not any(getattr(model, "calibration_share", 0.0) != 0 for model in PRESETS)


REFUSED = [
    (SBDTClassifier, CLASSES, {"loss": "squared"}, "no log-odds"),
    (SarusXGBClassifier, CLASSES, {"loss": "squared"}, "no log-odds"),
    (BoostedAdaSSPClassifier, CLASSES, {"loss": "hinge"}, "no log-odds"),
    (BoostedAdaSSPClassifier, CLASSES, {"intercept": False}, "needs an intercept"),
    (BoostedAdaSSPClassifier, CLASSES, {"class_weight": "balanced"}, "class_weight"),
    (DPXGBClassifier, CLASSES, {"init_share": 0.95}, "leave nothing for the rounds"),
    (SBDTClassifier, CLASSES, {"init_share": 0.95}, "leave nothing for the rounds"),
    (SarusXGBClassifier, CLASSES, {"init_share": 0.95}, "leave nothing for the rounds"),
    (LazyBBClassifier, CLASSES, {"calibration_share": 1.0}, "calibration_share must lie"),
]


@pytest.mark.parametrize(("kind", "target", "how", "words"), REFUSED)
def test_what_no_line_can_follow_from_is_refused_before_anything_is_spent(
    kind, target, how, words, tmp_path
):
    path = tmp_path / "ledger"
    how = {"calibration_share": 0.06} | how
    model = kind(domain=make_domain(target), ledger=path, random_state=1, **how)
    with pytest.raises(ValueError, match=words):
        model.fit(make_frame(30, target=target))
    assert not path.exists()


def test_by_default_there_are_counts_where_there_can_be():
    frame, domain = make_frame(60), make_domain()
    on = [SBDTClassifier, DPXGBClassifier, SarusXGBClassifier, LazyBBClassifier]
    for kind in (PrivBoostClassifier, BoostedAdaSSPClassifier, *on):
        how = {"accountant": "rdp"} if kind is DPXGBClassifier else {}
        model = kind(domain=domain, n_estimators=3, random_state=1, **how).fit(frame)
        assert model.privacy_.parameters["calibration_share"] == 0.04
    off = [(SBDTClassifier, {"loss": "squared"}), (SarusXGBClassifier, {"loss": "squared"})]
    linear = [{"loss": "hinge"}, {"intercept": False}, {"class_weight": "balanced"}]
    for kind, how in (*off, *((BoostedAdaSSPClassifier, how) for how in linear)):
        model = kind(domain=domain, n_estimators=3, random_state=1, **how).fit(frame)
        assert model.privacy_.parameters["calibration_share"] == 0


def test_a_stream_has_none():
    """Rows of the first batch would pay for the counts of all batches to come."""
    frame, domain = make_frame(60), make_domain()
    model = SBDTClassifier(domain=domain, n_estimators=3, random_state=1)
    model.partial_fit(frame)
    assert model.privacy_.parameters["calibration_share"] == 0
    model = SBDTClassifier(domain=domain, n_estimators=3, calibration_share=0.1)
    with pytest.raises(ValueError, match="must be 0 in a stream"):
        model.partial_fit(frame)
