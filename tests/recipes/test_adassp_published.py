"""BoostedAdaSSP as it was published: presets, ridges, and the stages of a model."""

import math

import numpy as np
import pytest
from scipy.special import expit

from privboost import BoostedAdaSSPClassifier, BoostedAdaSSPRegressor, ModelFileError, load_model
from privboost._core.grid import VECTOR_STEPS
from privboost.data.encoding import Encoder
from privboost.models.linear import LinearScores
from privboost.recipes.adassp import _ridge, design
from privboost.recipes.common.plan import Budget
from tests.recipes.test_adassp import QUIET, Untouchable, matrix, table
from tests.tables import THREE, make_domain, make_frame

SHARED = {
    "learning_rate": 1.0,
    "ratio": (1.0, 1.0, 1.0),
    "ridge": "adassp",
    "gradient_clip": 1.0,
    "clip_decay": 1.0,
    "tail": 0.0,
    "intercept": False,
    "norm_bound": "longest",
    "bins": None,
    "products": False,
}


@pytest.mark.parametrize("kind", [BoostedAdaSSPClassifier, BoostedAdaSSPRegressor])
def test_presets_are_the_published_algorithms(kind):
    for name, rounds in (("Algorithm2", kind().n_estimators), ("AdaSSP", 1)):
        chosen = kind.from_preset(name).get_params()
        assert SHARED.items() <= chosen.items()
        assert chosen["n_estimators"] == rounds
        if kind is BoostedAdaSSPClassifier:
            assert chosen["loss"] == "squared"
            assert chosen["class_weight"] is None
    other = kind.from_preset("Algorithm2", n_estimators=100, learning_rate=0.5)
    assert (other.n_estimators, other.learning_rate) == (100, 0.5)
    with pytest.raises(ValueError, match="Algorithm2"):
        kind.from_preset("Algorithm3")


def test_without_noise_the_preset_is_the_printed_loop():
    frame, domain = table(6000)
    model = BoostedAdaSSPClassifier.from_preset(
        "Algorithm2", domain=domain, n_estimators=4, **QUIET
    )
    model.fit(frame)
    x, y = matrix(frame)[:, 1:], 2.0 * frame["t"].to_numpy() - 1
    theta = np.zeros(5)
    for _ in range(4):
        theta = theta + np.linalg.solve(x.T @ x, x.T @ np.clip(y - x @ theta, -1, 1))
    assert np.abs(model.decision_function(frame) - x @ theta).max() < 0.03
    assert model.privacy_.parameters["norm_bound"] == pytest.approx(math.sqrt(3), rel=0.01)
    releases = {release.what: release for release in model.privacy_.releases}
    assert "the smallest eigenvalue" in releases
    assert releases["gradients times coordinates"].count == 4


def test_the_longest_row_is_not_shortened():
    for how in ({}, {"intercept": False}, {"bins": 4}, {"products": True}):
        longest = design(Encoder.of(make_domain()), **how, norm_bound="longest")
        assert not longest.terms.shortens
        shorter = design(Encoder.of(make_domain()), **how, norm_bound=longest.norm_bound * 0.99)
        assert shorter.terms.shortens


def plan_of(**how):
    _, domain = table(1)
    model = BoostedAdaSSPClassifier(1.0, 1e-6, domain, **how)
    return model._plan(Encoder.of(domain), None, Budget(1.0, 1e-6))


def test_adassp_s_ridge_by_hand():
    """λ = max(√(d·ln(2d²/ρ))·σ − max(λ_min − √ln(6/δ)·σ', 0), 0), with ρ = 0.05."""
    plan = plan_of(ridge="adassp", ratio=(1, 1, 1))
    unit, d = VECTOR_STEPS**2, 6
    matrix_noise, eigenvalue_noise = plan.gram.sigmas[0] / unit, plan.least.sigmas[0] / unit
    assert plan.gram.noise == pytest.approx(plan.least.noise)
    for least in (-5.0, 0.0, 20.0, 100.0, 1e6):
        bound = max(least - math.sqrt(math.log(6e6)) * eigenvalue_noise, 0)
        expected = max(math.sqrt(d * math.log(2 * d**2 / 0.05)) * matrix_noise - bound, 0)
        assert _ridge(plan, 1.0, 1.0, least) == pytest.approx(expected)
    assert _ridge(plan, 1.0, 1.0, 0.0) > 0 == _ridge(plan, 1.0, 1.0, 1e6)


@pytest.mark.parametrize(("d", "exact"), [(1, 0.0274), (2, 0.0044), (3, None), (12, None)])
def test_adassp_s_ridge_is_seldom_too_small_for_the_noise_here(d, exact):
    """By integrals at d = 1 and 2, by the bound of a Gaussian series from 3 on."""
    reach, draws = math.sqrt(d * math.log(2 * d**2 / 0.05)), 20_000
    rng = np.random.default_rng(d)
    noise = np.triu(rng.normal(size=(draws, d, d))) * np.where(np.eye(d), 1, math.sqrt(0.5))
    noise += np.triu(noise, 1).transpose(0, 2, 1)
    seen = (np.linalg.eigvalsh(noise)[:, 0] < -reach).mean()
    chance = d * math.exp(-(reach**2) / (d + 1)) if exact is None else exact
    assert chance + math.sqrt(1e-3 / 6) / 2 < 0.05
    assert seen <= chance + 4 * math.sqrt(chance / draws)
    if exact is not None:
        assert seen >= chance - 4 * math.sqrt(chance / draws)


def test_a_ridge_by_hand_is_in_rows():
    frame, domain = table(6000, "number")
    how = {"domain": domain, "n_estimators": 1, "norm_bound": 5.0, "span_share": 0.0} | QUIET
    x, y = matrix(frame)[:, 1:], frame["t"].to_numpy() / 8
    for ridge in (0, 500.0, 20_000.0):
        model = BoostedAdaSSPRegressor(ridge=ridge, intercept=False, **how).fit(frame)
        fitted = x @ np.linalg.solve(x.T @ x + ridge * np.eye(5), x.T @ y)
        assert np.abs(model.predict(frame) - 8 * fitted).max() < 0.06


def test_a_ridge_by_hand_keeps_directions_of_noise_small():
    """Without a floor, an eigenvalue of noise near 0 would make coefficients of any size."""
    for seed in range(5):
        model = BoostedAdaSSPClassifier(
            0.01, 1e-6, make_domain(), ridge=0, n_estimators=1, random_state=seed
        ).fit(make_frame(50))
        assert np.abs(model.decision_function(make_frame(50))).max() < 50


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"ridge": "adassp"}, "ridge: .* last of ratio"),
        ({"ridge": 1.0, "ratio": (1, 1, 1)}, "ratio: .* ridge is a number"),
        ({"ridge": -1}, "ridge"),
        ({"ridge": "ada"}, "ridge"),
        ({"ridge": math.inf}, "ridge"),
        ({"norm_bound": "widest"}, "norm_bound"),
        ({"keep_stages": True, "n_estimators": 10**6}, "keep_stages"),
    ],
)
def test_what_no_rule_covers_is_refused_before_rows_are_touched(parameters, words):
    with pytest.raises(ValueError, match=words):
        BoostedAdaSSPClassifier(domain=make_domain(), **parameters).fit(Untouchable())


@pytest.mark.parametrize("tail", [0.0, 0.5])
def test_stages_are_models_of_fewer_rounds(tail):
    frame, domain = table(3000)
    how = {"domain": domain, "tail": tail, "norm_bound": 5.0, "calibration_share": 0.0} | QUIET
    model = BoostedAdaSSPClassifier(n_estimators=5, keep_stages=True, **how).fit(frame)
    stages = list(model.staged_decision_function(frame))
    assert len(stages) == 5
    np.testing.assert_array_equal(stages[-1], model.decision_function(frame))
    for rounds in (1, 2, 4):
        fewer = BoostedAdaSSPClassifier(n_estimators=rounds, **how).fit(frame)
        assert np.abs(stages[rounds - 1] - fewer.decision_function(frame)).max() < 1e-3
    *_, last = model.staged_predict_proba(frame)
    np.testing.assert_array_equal(last, model.predict_proba(frame))
    *_, last = model.staged_predict(frame)
    np.testing.assert_array_equal(last, model.predict(frame))


def test_to_keep_stages_changes_nothing_else(tmp_path):
    frame = make_frame(500, target=THREE)
    how = {"domain": make_domain(THREE), "n_estimators": 4, "random_state": 1}
    plain, staged = (
        BoostedAdaSSPClassifier(keep_stages=keep, **how).fit(frame) for keep in (False, True)
    )
    ours, theirs = plain.model_.scores, staged.model_.scores
    np.testing.assert_array_equal(ours.coefficients, theirs.coefficients)
    assert ours.stages is None
    assert "stages" not in ours.to_payload()
    staged.save(tmp_path / "m")
    back = load_model(tmp_path / "m")
    for one, other in zip(back.staged_predict(frame), staged.staged_predict(frame), strict=True):
        np.testing.assert_array_equal(one, other)
    for name in ("staged_predict", "staged_predict_proba", "staged_decision_function"):
        with pytest.raises(AttributeError, match=name) as refused:
            getattr(plain, name)
        assert "keep_stages" in str(refused.value.__cause__)
    with pytest.raises(AttributeError, match="keep_stages"):
        next(plain.model_.staged_predict(frame))
    hinge = BoostedAdaSSPClassifier(loss="hinge", keep_stages=True)
    assert not hasattr(hinge, "staged_predict_proba")
    assert hasattr(hinge, "staged_decision_function")


def test_forged_stages_are_refused():
    frame, domain = table(200)
    how = {"domain": domain, "n_estimators": 3, "keep_stages": True, "random_state": 1}
    model = BoostedAdaSSPClassifier(**how).fit(frame).model_
    form, layout = model.scores.to_payload(), model.encoder.layout
    assert LinearScores.from_payload(form, layout, 1).stages.shape == (3, 1, 6)
    far = form["stages"].copy()
    far[0] = 2**31 - 1
    for stages in (form["stages"][:2], form["stages"][:0], form["stages"][:, 0], None, far):
        with pytest.raises(ModelFileError, match=r"scores\.stages"):
            LinearScores.from_payload(form | {"stages": stages}, layout, 1)


def test_loss_curves_are_those_of_public_rows():
    frame, domain = table(3000)
    public = table(500, seed=7)[0]
    y = public["t"].to_numpy()
    losses = {
        "logistic": lambda s: -np.log(expit(np.where(y, s, -s))),
        "hinge": lambda s: np.maximum(1 - np.where(y, s, -s), 0),
        "squared": lambda s: (1 - np.where(y, s, -s)) ** 2 / 2,
    }
    for loss, size in losses.items():
        how = {"loss": loss, "n_estimators": 3, "keep_stages": True} | QUIET
        model = BoostedAdaSSPClassifier(domain=domain, **how).fit(frame)
        expected = [size(s).mean() for s in model.staged_decision_function(public)]
        np.testing.assert_allclose(model.loss_curve(public), expected, rtol=1e-6)
        apart = model.loss_curve(public.drop(columns="t"), y)
        np.testing.assert_allclose(apart, expected, rtol=1e-6)
        unknown = public.assign(t=np.where(np.arange(500) % 2, public["t"], None))
        half = model.loss_curve(public[np.arange(500) % 2 > 0])
        np.testing.assert_allclose(model.loss_curve(unknown), half)
    assert np.isnan(model.loss_curve(public.assign(t="?"))).all()


def test_loss_curves_of_numbers_and_several_classes():
    frame, domain = table(3000, "number")
    how = {"n_estimators": 3, "keep_stages": True} | QUIET
    model = BoostedAdaSSPRegressor(domain=domain, **how).fit(frame)
    middle, half = model.model_.middle_and_half
    label = np.clip((frame["t"] - middle) / half, -1, 1)
    stages = [((s - label) ** 2 / 2).mean() for s in model.model_.staged_decision_function(frame)]
    np.testing.assert_allclose(model.loss_curve(frame), stages, atol=1e-4)
    frame, domain = table(3000, "three")
    model = BoostedAdaSSPClassifier(domain=domain, **how).fit(frame)
    sign = np.where(frame["t"].to_numpy()[:, None] == np.arange(3), 1, -1)
    stages = [
        -np.log(expit(sign * s)).sum(axis=1).mean() for s in model.staged_decision_function(frame)
    ]
    np.testing.assert_allclose(model.loss_curve(frame), stages, rtol=1e-6)


def test_weights_of_three_classes_row_by_row():
    """What is said where class_weight is refused: a class that weighs more is found more often."""
    frame, domain = table(6000, "three")
    rare = frame[(frame["t"] != 2) | (np.arange(6000) % 20 == 0)]
    how = {"domain": domain, "sample_weight_bound": 1.0} | QUIET
    plain = BoostedAdaSSPClassifier(**how).fit(rare, sample_weight=np.full(len(rare), 0.05))
    weight = np.where(rare["t"] == 2, 1.0, 0.05)
    weighted = BoostedAdaSSPClassifier(**how).fit(rare, sample_weight=weight)
    found = [(model.predict(rare)[rare["t"] == 2] == 2).mean() for model in (plain, weighted)]
    assert found[1] > found[0] + 0.2
    with pytest.raises(ValueError, match="sample_weight"):
        BoostedAdaSSPClassifier(domain=domain, class_weight={0: 1, 1: 1, 2: 20}).fit(Untouchable())
