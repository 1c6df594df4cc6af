"""Losses of numbers beyond the squared one: means, shares, factors, files and refusals."""

import numpy as np
import pandas as pd
import pytest

from privboost import (
    DPXGBRegressor,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBRegressor,
    SBDTClassifier,
    SBDTRegressor,
    export_model,
    load_model,
)
from privboost._core.errors import ModelFileError
from privboost._core.grid import LABEL_STEPS
from privboost.data.rows import Codes, Layout, Rows, lines_of_labels
from privboost.data.targets import NumberTarget
from privboost.losses.base import LogLink, loss_of, losses_of
from privboost.models.model import Model, model_bytes, read_model
from privboost.recipes.common.label_counts import LabelCounts
from privboost.recipes.common.log_scale import AmountCounts, _edges, label_lines
from tests.export.test_onnx import run_onnx

FEATURES = {
    "age": {"kind": "numeric", "bounds": [0, 1]},
    "job": {"kind": "categorical", "categories": ["a", "b"]},
}
KINDS = [PrivBoostRegressor, SBDTRegressor, DPXGBRegressor]
LOG_LINKS = ["poisson", "gamma", "tweedie"]
ROWS = 8000


CLASSES = {
    "version": 1,
    "features": FEATURES,
    "target": {"name": "visits", "classes": [0, 1]},
}


def domain_of(bounds=(0, 100), **more):
    target = {"name": "visits", "bounds": list(bounds)} | more
    return {"version": 1, "features": FEATURES, "target": target}


def table(rows=ROWS, kind="poisson", seed=0):
    """Labels whose mean is e^(1.5·age − .5), doubled for one job."""
    rng = np.random.default_rng(seed)
    age, job = rng.uniform(0, 1, rows), rng.choice(["a", "b"], rows)
    mean = np.exp(1.5 * age - 0.5) * np.where(job == "b", 2.0, 1.0)
    draws = {
        "poisson": lambda: rng.poisson(mean),
        "gamma": lambda: rng.gamma(2.0, mean / 2.0),
        "tweedie": lambda: rng.gamma(1.0, mean / 0.4) * (rng.uniform(size=rows) < 0.4),
        "normal": lambda: mean + 0.3 * rng.standard_normal(rows),
    }
    return pd.DataFrame({"age": age, "job": job, "visits": draws[kind]()}), mean


def fitted(loss, frame, epsilon=2.0, bounds=(0, 100), kind=PrivBoostRegressor, **more):
    how = {"delta": 1e-6, "random_state": 3, "domain": domain_of(bounds)} | more
    return kind(epsilon, loss=loss, **how).fit(frame)


@pytest.fixture(scope="module")
def counted():
    frame, _ = table()
    return fitted("poisson", frame), frame


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOG_LINKS)
def test_means_are_right_and_effects_are_factors(loss, kind):
    frame, mean = table(kind=loss)
    model = fitted(loss, frame, kind=kind)
    found = model.predict(frame)
    assert found.mean() / frame["visits"].mean() == pytest.approx(1, abs=0.1)
    assert np.corrcoef(np.log(found), np.log(mean))[0, 1] > 0.9
    both = pd.DataFrame({"age": [0.5, 0.5], "job": ["a", "b"]})
    first, second = model.predict(both)
    assert second / first == pytest.approx(2, rel=0.3)


@pytest.mark.parametrize(
    ("loss", "share"), [("quantile", 0.9), ("quantile", 0.2), ("absolute", 0.5)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_share_below_is_the_one_that_was_asked_for(loss, share, kind):
    frame, mean = table(kind="normal")
    more = {"quantile": share} if loss == "quantile" else {}
    model = fitted(loss, frame, bounds=(-10, 30), kind=kind, **more)
    found = model.predict(frame)
    assert (frame["visits"] <= found).mean() == pytest.approx(share, abs=0.03)
    assert np.corrcoef(found, mean)[0, 1] > 0.9
    assert model.model_.link == "identity"


@pytest.mark.parametrize("kind", KINDS)
def test_public_rows_have_no_noise_and_the_right_mean(kind):
    frame, _ = table()
    model = kind(
        float("inf"), loss="poisson", domain=domain_of(), public_rows=True, random_state=3
    ).fit(frame)
    assert model.predict(frame).mean() == pytest.approx(frame["visits"].mean(), rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [1e-3, 1e3])
@pytest.mark.parametrize("loss", ["poisson", "tweedie", "quantile"])
def test_any_budget_and_any_rows_give_a_valid_model(loss, epsilon, kind):
    odd = pd.DataFrame({"age": [np.nan, 7.0, -1.0], "job": ["c", None, "a"]})
    for labels in ([], [np.nan, -5.0, 1e300], [np.inf, -np.inf, 0.0], [0.0] * 3):
        frame = odd[: len(labels)].assign(visits=np.array(labels, dtype=float))
        found = fitted(loss, frame, epsilon, n_estimators=3, kind=kind).predict(odd)
        assert ((found >= 0) & (found <= 100)).all()


def test_pure_epsilon_and_weights():
    frame, _ = table()
    pure = fitted("poisson", frame, delta=0.0, epsilon=5.0)
    assert pure.predict(frame).mean() == pytest.approx(frame["visits"].mean(), rel=0.2)
    many = (frame["job"] == "b").to_numpy().astype(float)
    weighted = PrivBoostRegressor(
        5.0, delta=1e-6, loss="poisson", domain=domain_of(), sample_weight_bound=1.0, random_state=3
    ).fit(frame, sample_weight=many)
    own = frame["job"] == "b"
    ratio = weighted.predict(frame[own]).mean() / frame["visits"][own].mean()
    assert ratio == pytest.approx(1, abs=0.15)


def test_bounds_far_too_wide():
    frame, _ = table()
    model = fitted("poisson", frame, bounds=(0, 10_000))
    assert model.predict(frame).mean() == pytest.approx(frame["visits"].mean(), rel=0.15)
    assert model.model_.bounds[1] < 200
    lower = fitted("poisson", frame, bounds=(-50, 100))
    assert lower.predict(frame).mean() == pytest.approx(frame["visits"].mean(), rel=0.15)
    assert lower.model_.bounds[0] == 0
    narrow = frame.assign(visits=frame["visits"] / 1000)
    small = fitted("tweedie", narrow, bounds=(-0.02, 0.03))
    assert small.predict(frame).mean() == pytest.approx(narrow["visits"].mean(), rel=0.15)


def test_the_link_is_in_the_file(counted, tmp_path):
    model, frame = counted
    model.save(tmp_path / "m.privboost")
    read = load_model(tmp_path / "m.privboost")
    assert read.link == "log"
    assert model_bytes(read) == model_bytes(model.model_)
    np.testing.assert_array_equal(read.predict(frame), model.predict(frame))
    scores = read.decision_function(frame)
    np.testing.assert_allclose(read.predict(frame), np.exp(scores), rtol=1e-12)


def test_a_link_that_does_not_fit_is_refused(counted):
    model = counted[0].model_
    for link in ("logit", None, 3):
        with pytest.raises(ModelFileError, match="link"):
            read_model(
                model_bytes(Model(model.encoder, model.scores, model.privacy, link=link)), "f"
            )
    own = Model(model.encoder, model.scores, model.privacy, (-(2**30), -(2**30) + 2), link="log")
    assert read_model(model_bytes(own), "f").bounds[1] > 0
    lower = fitted("poisson", frame=table(500)[0], bounds=(-50, 100)).model_
    own = Model(lower.encoder, lower.scores, lower.privacy, (-(2**30), -(2**29)), link="log")
    with pytest.raises(ModelFileError, match="span: it must reach above 0"):
        read_model(model_bytes(own), "f")
    frame, _ = table(500)
    classes = PrivBoostClassifier(
        1.0,
        delta=1e-6,
        random_state=1,
        domain=domain_of() | {"target": {"name": "visits", "classes": [0, 1]}},
    ).fit(frame.assign(visits=(frame["visits"] > 1).astype(int)))
    own = classes.model_
    with pytest.raises(ModelFileError, match="link: a target of positive numbers"):
        read_model(model_bytes(Model(own.encoder, own.scores, own.privacy, link="log")), "f")


def test_explanations_say_that_effects_are_factors(counted):
    model, frame = counted
    shown = model.explain_global()
    assert "log of visits" in shown.to_text()
    found = model.explain_local(frame[:3])
    assert "log of visits" in found.to_text()
    total = found.contributions.sum(axis=1) + found.start
    np.testing.assert_allclose(np.exp(total), model.predict(frame[:3]), rtol=1e-6)
    effects = model.model_.effects().to_pandas()
    jobs = effects[effects["feature"] == "job"].set_index("values")["effect"]
    both = pd.DataFrame({"age": [0.5, 0.5], "job": ["a", "b"]})
    if not len(getattr(model.model_.scores, "pairs", ())):
        first, second = model.predict(both)
        assert second / first == pytest.approx(np.exp(jobs["b"] - jobs["a"]))


def test_standard_errors_are_factors_too(counted):
    model, frame = counted
    errors = model.model_.decision_function(frame[:20], return_std=True)[1]
    means, stds = model.predict(frame[:20], return_std=True)
    np.testing.assert_allclose(stds, errors * means)
    assert (stds > 0).all()


def test_exports_have_the_same_predictions(counted, tmp_path):
    model, frame = counted
    found, _ = run_onnx(model.model_, frame[:200], tmp_path / "m.onnx")
    np.testing.assert_allclose(found["prediction"], model.predict(frame[:200]), rtol=1e-12)
    duckdb = pytest.importorskip("duckdb")
    export_model(model, tmp_path / "m.sql")
    rows = frame[:200].drop(columns="visits").assign(place=range(200))
    with duckdb.connect() as database:
        database.register("rows", rows)
        answer = database.execute((tmp_path / "m.sql").read_text()).df().sort_values("place")
    np.testing.assert_allclose(answer["prediction"], model.predict(frame[:200]), rtol=1e-12)


def test_the_report_names_the_loss_and_its_releases(counted):
    privacy = counted[0].privacy_
    assert privacy.parameters["loss"] == "poisson"
    assert privacy.parameters["calibration_share"] == 0.04
    assert any("rows by label" in release.what for release in privacy.releases)
    frame, _ = table(500)
    privacy = fitted("tweedie", frame, power=1.25).privacy_
    assert privacy.parameters["power"] == 1.25
    assert "quantile" not in privacy.parameters
    assert fitted("quantile", frame, quantile=0.75).privacy_.parameters["quantile"] == 0.75
    assert "power" not in fitted("squared", frame).privacy_.parameters


def test_a_correction_may_be_left_out():
    frame, _ = table(1000)
    whole, bare = (fitted("poisson", frame, calibration_share=s).privacy_ for s in (0.04, 0.0))
    assert len(whole.releases) == len(bare.releases) + 1


@pytest.mark.parametrize("loss", LOG_LINKS)
def test_targets_that_a_log_link_does_not_fit_are_refused(loss):
    frame, _ = table(50)
    with pytest.raises(ValueError, match="declare the target without a scale"):
        PrivBoostRegressor(1.0, loss=loss, domain=domain_of(scale="log")).fit(frame)
    with pytest.raises(ValueError, match="positive upper bound"):
        fitted(loss, frame, bounds=(-5, 0))
    for bounds in ((-1e9, 1), (0, 1e-60), (0, 1e60)):
        with pytest.raises(ValueError, match="positive upper bound, from 1e-50 to 1e50"):
            fitted(loss, frame, bounds=bounds)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"loss": "cubic"}, "loss must be"),
        ({"loss": "tweedie", "power": 2.0}, "power must be a finite number above 1 and below 2"),
        ({"loss": "quantile", "quantile": 1.0}, "quantile must be a finite number above 0"),
        ({"loss": None, "quantile": 0.9}, 'quantile is for loss="quantile", and the loss is "squ'),
        ({"loss": "absolute", "quantile": 0.9}, 'quantile is for loss="quantile", and the loss is'),
        ({"loss": "poisson", "power": 1.2}, 'power is for loss="tweedie", and the loss is "poiss'),
    ],
)
def test_parameters_that_mean_nothing_are_refused(how, message):
    frame, _ = table(50)
    with pytest.raises(ValueError, match=message):
        fitted(frame=frame, **how)


@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_without_its_loss_is_refused(kind):
    frame, _ = table(50)
    with pytest.raises(ValueError, match="quantile is for loss"):
        fitted("squared", frame, kind=kind, quantile=0.9)
    with pytest.raises(ValueError, match="power is for loss"):
        fitted("squared", frame, kind=kind, power=1.2)


def test_recipes_without_a_loss_name_those_that_have_it():
    frame, _ = table(50)
    with pytest.raises(ValueError, match="is for PrivBoost, S-BDT and DP-XGB, not for this recipe"):
        SarusXGBRegressor(1.0, loss="poisson", domain=domain_of()).fit(frame)
    assert "loss" not in PrivBoostClassifier().get_params()
    assert "power" not in SBDTClassifier().get_params()
    with pytest.raises(ValueError, match='loss="poisson" is for numbers'):
        SBDTClassifier(1.0, 1e-6, loss="poisson", domain=CLASSES).fit(frame)


@pytest.mark.parametrize(
    "more",
    [
        {"boosting": "gradient"},
        {"extra_estimators": 50},
        {"subsample": 0.3, "extra_estimators": 50},
        {"candidates": "hessian"},
        {"gradient_clip": 5.0, "hessian_clip": 3.0},
        {"span_share": 0.0},
        {"init_noise": "laplace"},
    ],
)
def test_random_trees_of_counts(more):
    frame, mean = table()
    found = fitted("poisson", frame, kind=SBDTRegressor, **more).predict(frame)
    assert found.mean() / frame["visits"].mean() == pytest.approx(1, abs=0.1)
    assert np.corrcoef(np.log(found), np.log(mean))[0, 1] > 0.9


def test_random_trees_of_counts_are_exported_explained_and_go_one_way(tmp_path):
    frame, _ = table()
    model = fitted("poisson", frame, kind=SBDTRegressor, monotone={"age": 1})
    assert model.model_.link == "log"
    assert "log of visits" in model.explain_global().to_text()
    assert model.privacy_.parameters["gradient_clip"] is None
    line = pd.DataFrame({"age": np.linspace(0, 1, 200), "job": "a"})
    assert (np.diff(model.predict(line)) >= 0).all()
    model.save(tmp_path / "m.privboost")
    read = load_model(tmp_path / "m.privboost")
    np.testing.assert_array_equal(read.predict(frame), model.predict(frame))
    found, _ = run_onnx(model.model_, frame[:200], tmp_path / "m.onnx")
    np.testing.assert_allclose(found["prediction"], model.predict(frame[:200]), rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        (SBDTRegressor, {"init_share": 0.0}, "init_share must be above 0"),
        (DPXGBRegressor, {"init_share": 0.0}, "init_share must be above 0"),
        (SBDTRegressor, {"init_clip": 0.5}, "init_clip and init_epsilon need"),
        (SBDTRegressor, {"power": 3.0}, "power must be a finite number above 1 and below 2"),
        (DPXGBRegressor, {"domain": domain_of(scale="log")}, "declare the target without a scale"),
        (
            SBDTRegressor,
            {"domain": domain_of(scale="log"), "span_share": 0.0},
            "declare the target without a scale",
        ),
        (SBDTRegressor, {"loss": "huber"}, "'huber' is not known"),
        (DPXGBRegressor, {"loss": "cubic"}, 'loss must be "absolute" or "gamma"'),
    ],
)
def test_trees_refuse_what_a_loss_does_not_have(kind, more, message):
    frame, _ = table(50)
    with pytest.raises(ValueError, match=message):
        fitted(**{"loss": "tweedie", "frame": frame, "kind": kind} | more)


def test_a_stream_has_the_squared_loss_alone():
    frame, _ = table(50)
    model = SBDTRegressor(1.0, 1e-6, domain_of(), loss="poisson")
    with pytest.raises(ValueError, match='a stream of numbers needs loss="squared"'):
        model.partial_fit(frame)


def test_a_domain_may_be_learned():
    frame, _ = table(4000)
    model = PrivBoostRegressor(5.0, delta=1e-6, loss="poisson", random_state=3)
    model.fit(frame[["age", "job"]], frame["visits"])
    assert model.predict(frame[["age", "job"]]).mean() == pytest.approx(
        frame["visits"].mean(), rel=0.25
    )


def rows_of(coded):
    codes = Codes.empty(Layout((2,)), len(coded.label))
    return Rows(codes, coded.label, minus_label=coded.minus_label)


EXPOSED = FEATURES | {"part": {"kind": "numeric", "bounds": [0.01, 2], "scale": "log"}}


def exposed_table(rows=ROWS):
    frame, mean = table(rows)
    rng = np.random.default_rng(5)
    part = np.exp(rng.uniform(np.log(0.01), np.log(2), rows))
    return frame.assign(part=part, visits=rng.poisson(mean * part)), mean


def with_exposure(frame, epsilon=3.0, **more):
    how = {"delta": 1e-6, "random_state": 3, "domain": domain_of() | {"features": EXPOSED}}
    return PrivBoostRegressor(epsilon, **{"loss": "poisson", "exposure": "part"} | how | more).fit(
        frame
    )


@pytest.fixture(scope="module")
def exposed():
    frame, mean = exposed_table()
    return with_exposure(frame), frame, mean


def test_predictions_are_for_the_exposure_of_a_row_and_rates_for_one(exposed):
    model, frame, mean = exposed
    found, rate = model.predict(frame), model.predict_rate(frame)
    assert found.sum() / frame["visits"].sum() == pytest.approx(1, abs=0.1)
    assert rate.mean() / mean.mean() == pytest.approx(1, abs=0.15)
    np.testing.assert_allclose(found / rate, frame["part"], rtol=0.02)  # of bins
    np.testing.assert_array_equal(model.predict_rate(frame.assign(part=1.0)), rate)
    assert np.corrcoef(np.log(rate), np.log(mean))[0, 1] > 0.9
    assert model.privacy_.parameters["exposure"] == "part"


def test_an_exposure_is_neither_measured_nor_in_pairs(exposed):
    scores = exposed[0].model_.scores
    assert not scores.noise[2].any()
    assert (np.diff(scores.values[2][0][:-1]) > 0).all()
    assert not any(2 in pair.features for pair in getattr(scores, "pairs", ()))
    least = scores.values[2][0][0] / 65536
    assert np.exp(least) == pytest.approx(0.01, rel=0.02)
    assert np.exp(scores.values[2][0][-1] / 65536) == pytest.approx(2, rel=1e-4)  # missing


def test_exposures_that_are_none_count_as_a_bound(exposed):
    model = exposed[0]
    rows = pd.DataFrame({"age": 0.5, "job": "a", "part": [np.nan, 0.0, -1.0, 2.0, 9.0, 0.01]})
    found = model.predict(rows)
    assert found[1] == found[2] == found[5]
    assert found[3] == found[4]
    assert found[0] == pytest.approx(found[3], rel=0.02)


def test_the_exposure_is_in_the_file_and_in_exports(exposed, tmp_path):
    model, frame, _ = exposed
    model.save(tmp_path / "m.privboost")
    read = load_model(tmp_path / "m.privboost")
    assert read.exposure == "part"
    rows = frame[:150].drop(columns="visits")
    np.testing.assert_array_equal(read.predict_rate(rows), model.predict_rate(rows))
    found, _ = run_onnx(read, rows, tmp_path / "m.onnx")
    np.testing.assert_allclose(found["prediction"], model.predict(rows), rtol=1e-12)
    np.testing.assert_allclose(found["rate"], model.predict_rate(rows), rtol=1e-12)
    duckdb = pytest.importorskip("duckdb")
    export_model(read, tmp_path / "m.sql")
    with duckdb.connect() as database:
        database.register("rows", rows.assign(place=range(150)))
        answer = database.execute((tmp_path / "m.sql").read_text()).df().sort_values("place")
    np.testing.assert_allclose(answer["prediction"], model.predict(rows), rtol=1e-12)
    np.testing.assert_allclose(answer["rate"], model.predict_rate(rows), rtol=1e-12)
    own = read.encoder, read.scores, read.privacy
    for link, name in (("log", "job"), ("log", "age"), ("log", "no"), ("identity", "part")):
        with pytest.raises(ModelFileError, match="exposure"):
            read_model(model_bytes(Model(*own, link=link, exposure=name)), "f")


@pytest.mark.parametrize("more", [{"delta": 0.0}, {"at_once": 5}, {"loss": "tweedie"}])
def test_exposures_with_other_parameters(more):
    frame, _ = exposed_table(4000)
    model = with_exposure(frame, epsilon=8.0, **more)
    assert model.predict(frame).sum() / frame["visits"].sum() == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"loss": "squared"}, "exposure needs a loss with a log link"),
        ({"loss": None}, "exposure needs a loss with a log link"),
        ({"exposure": "no"}, "exposure must name a feature of the domain"),
        ({"exposure": "prat"}, "'prat' does not; did you mean 'part'"),
        ({"exposure": 3}, "exposure must name a feature of the domain"),
        ({"exposure": "job"}, "must be numeric, with a lower bound above 0"),
        ({"exposure": "age"}, "must be numeric, with a lower bound above 0"),
        ({"monotone": {"part": 1}}, "is the exposure, whose effect is known"),
    ],
)
def test_exposures_that_mean_nothing_are_refused(more, message):
    frame, _ = exposed_table(50)
    with pytest.raises(ValueError, match=message):
        with_exposure(frame, **more)


@pytest.mark.parametrize("name", ["part", "x"])
def test_the_rest_of_a_domain_is_learned_beside_an_exposure(name):
    """The stand-in of a domain has a feature of that name, whatever its own ones are called."""
    frame, _ = exposed_table(4000)
    frame = frame.rename(columns={"part": name})
    model = PrivBoostRegressor(8.0, 1e-6, loss="poisson", exposure=name, random_state=3)
    model.set_params(domain_given={"features": {name: EXPOSED["part"]}}).fit(frame, "visits")
    assert model.privacy_.epsilon <= 8
    assert model.predict(frame).sum() / frame["visits"].sum() == pytest.approx(1, abs=0.25)
    ratio = model.predict(frame.assign(**{name: 2.0})) / model.predict_rate(frame)
    np.testing.assert_allclose(ratio, 2, rtol=0.02)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "exposure: 'part' needs bounds above 0 from public knowledge"),
        ({"features": {"part": {"kind": "numeric", "bounds": None}}}, "needs bounds above 0"),
        ({"features": {"part": {"kind": "numeric", "bounds": [0, 2]}}}, "a lower bound above 0"),
        (
            {"features": {"part": EXPOSED["part"]}, "leave_out": ["age", "job"]},
            "the domain has no other feature",
        ),
    ],
)
def test_an_exposure_beside_a_learned_domain_is_checked_before_anything_is_spent(
    given, message, tmp_path
):
    frame, _ = exposed_table(50)
    ledger = tmp_path / "ledger"
    how = {"loss": "poisson", "exposure": "part", "random_state": 3, "ledger": ledger}
    model = PrivBoostRegressor(1.0, 1e-6, domain_given=given, **how)
    with pytest.raises(ValueError, match=message):
        model.fit(frame, "visits")
    with pytest.raises(ValueError, match="there is no feature 'year' among the columns"):
        model.set_params(exposure="year", domain_given=None).fit(frame, "visits")
    assert not ledger.exists()


def test_a_model_without_an_exposure_has_no_rate(counted):
    with pytest.raises(AttributeError, match="trained without an exposure"):
        counted[0].predict_rate(counted[1])


TARGETS = [(0, 20), (0, 100), (0, 5000), (-3, 7), (2, 2.5), (0, 1e12), (0, 1e-9)]


@pytest.mark.parametrize("bounds", TARGETS)
@pytest.mark.parametrize(
    "loss", [loss_of("number", name) for name in LOG_LINKS], ids=lambda o: o.name
)
def test_every_label_has_the_line_of_about_its_size(loss, bounds):
    target = NumberTarget("y", bounds)
    low, high = max(bounds[0], 0.0), bounds[1]
    counts = AmountCounts(
        np.array([low, (low + high) / 2, high]), np.array([99.0, 1.0]), 1.0, np.zeros(2)
    )
    edges, labels = label_lines(target, loss, counts)
    assert len(labels) == len(edges) + 1
    assert (edges[1:] > edges[:-1]).all()
    values = np.random.default_rng(1).uniform(low, high, 300)
    if loss.whole:
        values = np.append(values, np.arange(np.ceil(low), np.ceil(low) + min(high - low, 20)))
    coded = target.code(values)
    rows = rows_of(coded)
    found = labels[lines_of_labels(rows, edges)]
    apart = np.abs(found - values)
    assert (apart <= 0.06 * values + 0.02 * counts.mean + 0.01 * (high - low)).all()
    if loss.whole and high - low < 200 and high >= 1:
        whole = np.arange(np.ceil(low), np.floor(high) + 1)
        coded = target.code(whole)
        rows = rows_of(coded)
        np.testing.assert_array_equal(labels[lines_of_labels(rows, edges)], whole)


def test_clips_follow_noise():
    edges = np.geomspace(1, 1000, 21)
    counts = AmountCounts(edges, 1000.0 / edges[1:], 0.1, np.zeros(20))
    clips = [counts.clip_for(noise) for noise in (1e-3, 1.0, 1e3)]
    assert clips[0] > clips[1] > clips[2] >= counts.mean
    assert counts.beyond(1000.0) == 0 < counts.beyond(100.0)


def test_cells_of_labels_part_them_all():
    for ends in ((-65536, 65536), (0, 65536)):
        edges = _edges(*ends)
        assert edges[0] == ends[0]
        assert edges[-1] == ends[1]
        assert (np.diff(edges) > 0).all()
    assert LABEL_STEPS % 65536 == 0


def test_levels_of_noisy_counts():
    rng = np.random.default_rng(2)

    def level(counts):
        return LabelCounts(np.linspace(0, 1, 65), counts, 20.0, counts / 20).level(0.3)

    noise = rng.normal(0, 20, 64)
    noisy = LabelCounts(np.linspace(0, 1, 65), 100.0 + noise, 20.0, 5 + noise / 20)
    assert (np.diff(noisy.below) >= 0).all()
    assert noisy.level(0.3) == pytest.approx(0.3, abs=0.05)
    assert 0 <= level(np.zeros(64)) <= 1
    assert 0 <= level(rng.normal(0, 20, 64)) <= 1


def test_losses_that_begin_on_a_scale_of_their_own():
    own = [name for name in losses_of("number") if loss_of("number", name).own_scale]
    assert own == ["absolute", "gamma", "poisson", "quantile", "tweedie"]
    assert isinstance(loss_of("number", "tweedie 1.25"), LogLink)
    assert loss_of("number", "tweedie 1.25").power == 1.25
    with pytest.raises(ValueError, match="the poisson loss has no parameter"):
        loss_of("number", "poisson 3")
