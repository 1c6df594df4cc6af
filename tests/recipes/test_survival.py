"""Survival times: what is learned of them, how labels come, and what one row can change."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from typer.testing import CliRunner

from privboost import (
    Domain,
    DomainError,
    ModelFileError,
    PrivateSearchCV,
    PrivBoostRegressor,
    PrivBoostSurvival,
    SBDTRegressor,
    SchemaError,
    SurvivalTarget,
    evaluate,
    export_model,
    load_model,
    model_card,
    recommend,
)
from privboost._core.grid import CLIP_STEPS
from privboost.cli.main import app
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, RowLoader, load_rows, open_source
from privboost.engine.queries import ScoreCounts, TreeSums
from privboost.engine.shard import Shard
from privboost.engine.updates import Start
from privboost.losses.base import LossTable, within_steps
from privboost.losses.log_logistic import LogLogistic
from privboost.models.model import model_bytes, read_model
from privboost.models.survival import concordance
from privboost.recipes.common.label_shares import shares_of_times
from privboost.recipes.common.survival_scale import Belief, EventCounts
from privboost.trees.tree import stump
from tests.export.test_onnx import run_onnx

FEATURES = {
    "age": {"kind": "numeric", "bounds": [0, 1]},
    "job": {"kind": "categorical", "categories": ["a", "b"]},
}
TARGET = {"name": "days", "bounds": [0.05, 20], "event": "died"}
DOMAIN = {"version": 1, "features": FEATURES, "target": TARGET}
SCALE = 0.5
ROWS = 8000


def table(rows=ROWS, seed=0):
    """Log-logistic times, whose median doubles for one job; rows are censored at random."""
    rng = np.random.default_rng(seed)
    age, job = rng.uniform(0, 1, rows), rng.choice(["a", "b"], rows)
    median = np.exp(2.0 * age) * np.where(job == "b", 2.0, 1.0)
    times = median * np.exp(SCALE * rng.logistic(size=rows))
    ends = rng.uniform(0.5, 20, rows)
    days, died = np.minimum(times, ends), times <= ends
    return pd.DataFrame({"age": age, "job": job, "days": days, "died": died}), median


def fitted(frame, y=None, epsilon=3.0, **more):
    how = {"delta": 1e-6, "random_state": 3, "domain": DOMAIN} | more
    return PrivBoostSurvival(epsilon, **how).fit(frame, y)


@pytest.fixture(scope="module")
def trained():
    frame, median = table()
    return fitted(frame), frame, median


def test_medians_factors_and_the_scale_are_found(trained):
    model, frame, median = trained
    found = model.predict(frame)
    assert np.corrcoef(np.log(found), np.log(median))[0, 1] > 0.95
    assert np.median(found / median) == pytest.approx(1, abs=0.1)
    both = pd.DataFrame({"age": [0.5, 0.5], "job": ["a", "b"]})
    first, second = model.predict(both)
    assert second / first == pytest.approx(2, rel=0.25)
    own = model.model_.scores.time_scale[0] * model.model_.middle_and_half[1]
    assert own == pytest.approx(SCALE, rel=0.15)
    assert "log of days" in model.explain_global().to_text()


def test_survival_functions_fall_from_one_to_zero_and_are_calibrated(trained):
    model, frame, median = trained
    times = [0.0, 0.05, 1.0, 4.0, 20.0, 1e12]
    survival = model.predict_survival_function(frame, times)
    assert survival.shape == (ROWS, len(times))
    assert (np.diff(survival, axis=1) <= 0).all()
    assert (survival[:, 0] == 1).all()
    assert survival[:, -1].max() < 1e-6
    at_median = model.predict_survival_function(frame[:1], model.predict(frame[:1]))
    assert at_median[0, 0] == pytest.approx(0.5)
    true = expit((np.log(median) - np.log(4.0)) / SCALE)
    assert np.abs(survival[:, 3] - true).mean() < 0.05


def test_the_scale_is_public_and_gives_survival(trained):
    model, frame, _ = trained
    own, loaded = model.scale_, read_model(model_bytes(model.model_), "m")
    assert own == loaded.scale_ == pytest.approx(SCALE, rel=0.2)
    survival = 1 / (1 + (3.0 / model.predict(frame[:50])) ** (1 / own))
    assert np.allclose(model.predict_survival_function(frame[:50], 3.0)[:, 0], survival)
    found = model.explain_global()
    assert found.time_scale == found.to_dict()["time_scale"] == own
    assert f"s = {own:.4g}" in found.to_text()
    assert f"{own:.4g}" in model_card(model).to_markdown()
    assert fitted(frame[:50], n_estimators=2, scale=0.9).scale_ == pytest.approx(0.9)


def test_a_single_time_gives_one_column(trained):
    model, frame, _ = trained
    expected = model.predict_survival_function(frame[:9], [3.0])
    for one in (3, np.float32(3.0), np.array(3)):
        assert np.array_equal(model.predict_survival_function(frame[:9], one), expected)


def test_medians_beyond_the_bounds_are_still_in_order():
    """Where all rows are censored early, predictions must not end at the last time."""
    frame, median = table()
    late = frame["days"] > 2
    early = frame.assign(days=frame["days"].clip(upper=2.0), died=frame["died"] & ~late)
    domain = DOMAIN | {"target": TARGET | {"bounds": [0.05, 2]}}
    model = fitted(early, domain=domain)
    found = model.predict(frame)
    assert found.max() > 3
    assert np.corrcoef(np.log(found), np.log(median))[0, 1] > 0.8


def structured(frame):
    y = np.empty(len(frame), dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = frame["died"], frame["days"]
    return y


def test_labels_come_in_any_form():
    frame, _ = table(500)
    X = frame[["age", "job"]]
    expected = model_bytes(fitted(frame, n_estimators=4).model_)
    frames = [frame[["died", "days"]], pd.DataFrame({"t": frame["days"], "e": frame["died"]})]
    frames += [pa.table({"t": frame["days"], "e": frame["died"]}), structured(frame)]
    for y in frames:
        assert model_bytes(fitted(X, y, n_estimators=4).model_) == expected
    y = structured(frame)
    integers = y.astype([("event", np.int8), ("time", float)])
    assert model_bytes(fitted(X, integers, n_estimators=4).model_) == expected
    for kinds in ([("event", int), ("time", int)], [("event", float), ("time", float)]):
        with pytest.raises(SchemaError, match="as integers, of 0 and 1, the first"):
            fitted(X, y.astype(kinds))
    with pytest.raises(SchemaError, match="structured array"):
        fitted(X, integers[["time", "event"]])
    numbers = frame.assign(died=frame["died"].astype(int))
    for own in (numbers, frame.assign(died=frame["died"].astype(str)), pa.table(numbers)):
        assert model_bytes(fitted(own, "days", n_estimators=4).model_) == expected
    for y in (frame["days"], frame[["days", "age"]], frame[["days"]], np.zeros((500, 2))):
        with pytest.raises(SchemaError, match="structured array"):
            fitted(X, y)
    with pytest.raises(SchemaError, match="target is 'days'"):
        fitted(frame, "died")
    with pytest.raises(SchemaError, match="no column 'died'"):
        fitted(frame.drop(columns="died"))


def test_rows_without_a_time_or_an_event_do_not_count():
    frame, _ = table(500)
    more = pd.concat([frame, frame[:60]], ignore_index=True)
    more["died"] = more["died"].astype(object)
    more.loc[500:519, "days"] = np.nan
    more.loc[520:539, "died"] = None
    more.loc[540:, "died"] = "perhaps"
    model, same = fitted(more, n_estimators=4), fitted(frame, n_estimators=4)
    assert model_bytes(model.model_) == model_bytes(same.model_)


def test_any_budget_and_any_rows_give_a_valid_model():
    odd = pd.DataFrame({"age": [np.nan, 7.0, -1.0], "job": ["c", None, "a"]})
    for days in ([], [np.nan, -5.0, 1e300], [np.inf, -np.inf, 0.0], [1.0] * 3):
        for died in (True, False, None):
            frame = odd[: len(days)].assign(days=np.array(days, dtype=float), died=died)
            for epsilon in (1e-3, 1e3):
                model = fitted(frame, epsilon=epsilon, n_estimators=3)
                assert np.isfinite(model.predict(odd)).all()
                assert np.isfinite(model.predict_survival_function(odd, [0.0, 1.0])).all()


def test_pure_epsilon_weights_a_public_scale_and_exact_rows():
    frame, median = table()
    for how in ({"delta": 0.0, "epsilon": 5.0}, {"scale": SCALE}, {"calibration_share": 0}):
        found = fitted(frame, **how).predict(frame)
        assert np.corrcoef(np.log(found), np.log(median))[0, 1] > 0.9
    exact = fitted(frame, epsilon=np.inf, public_rows=True, interactions=False)
    assert np.median(exact.predict(frame) / median) == pytest.approx(1, abs=0.05)
    many = (frame["job"] == "b").to_numpy().astype(float)
    weighted = PrivBoostSurvival(5.0, 1e-6, DOMAIN, sample_weight_bound=1.0, random_state=3)
    own = frame["job"] == "b"
    ratio = weighted.fit(frame, sample_weight=many).predict(frame[own]) / median[own]
    assert np.median(ratio) == pytest.approx(1, abs=0.15)
    kept = fitted(frame, scale=0.9).model_
    assert kept.scores.time_scale[0] * kept.middle_and_half[1] == pytest.approx(0.9)


def test_monotone_effects_and_standard_errors():
    frame, _ = table(2000)
    model = fitted(frame, epsilon=1.0, monotone={"age": 1})
    rising = pd.DataFrame({"age": np.linspace(0, 1, 50), "job": "a"})
    found, errors = model.predict(rising, return_std=True)
    assert (np.diff(found) >= 0).all()
    assert (errors > 0).all()


def test_files_and_exports_predict_the_same(trained, tmp_path):
    model, frame, _ = trained
    rows, path = frame[:50], tmp_path / "m.privboost"
    model.save(path)
    loaded = load_model(path)
    assert np.array_equal(loaded.predict(rows), model.predict(rows))
    survival = loaded.predict_survival_function(rows, [1.0, 3.0])
    assert np.array_equal(survival, model.predict_survival_function(rows, [1.0, 3.0]))
    found, _ = run_onnx(loaded, rows, tmp_path / "m.onnx")
    assert np.allclose(found["prediction"], model.predict(rows), rtol=1e-9)
    duckdb = pytest.importorskip("duckdb")
    export_model(loaded, tmp_path / "m.sql")
    with duckdb.connect() as database:
        database.register("rows", rows.assign(place=range(len(rows))))
        answer = database.execute((tmp_path / "m.sql").read_text()).df().sort_values("place")
    assert np.allclose(answer["prediction"], model.predict(rows), rtol=1e-9)


def test_a_file_needs_the_scale_of_its_times(trained):
    model = trained[0].model_
    without = replace(model, scores=replace(model.scores, time_scale=None))
    with pytest.raises(ModelFileError, match="time_scale"):
        read_model(model_bytes(without), "m")
    for scale in (0.0, -1.0, np.inf, np.nan, 1e30):
        odd = replace(model, scores=replace(model.scores, time_scale=np.array([scale])))
        with pytest.raises(ModelFileError, match="time_scale"):
            read_model(model_bytes(odd), "m")


def test_scores_are_concordances(trained):
    model, frame, _ = trained
    times, events = frame["days"].to_numpy(), frame["died"].to_numpy()
    few = slice(0, 300)
    scores = model.predict(frame[few])
    right = pairs = 0.0
    for i in np.flatnonzero(events[few]):
        for j in range(300):
            if times[j] > times[i] or (times[j] == times[i] and not events[j]):
                pairs += 1
                right += (scores[j] > scores[i]) + 0.5 * (scores[j] == scores[i])
    assert concordance(times[few], events[few], scores) == pytest.approx(right / pairs)
    assert model.model_.score(frame[few], public_rows=True) == pytest.approx(right / pairs)
    y = structured(frame)
    found = model.score(frame[["age", "job"]], y, public_rows=True)
    assert found == model.score(frame, public_rows=True) > 0.7
    assert np.isnan(concordance(times[:0], events[:0], scores[:0]))


@pytest.mark.parametrize(
    ("target", "about"),
    [
        (TARGET | {"bounds": [0, 20]}, "above 0"),
        (TARGET | {"scale": "linear"}, "always log"),
        (TARGET | {"event": "days"}, "another column"),
        (TARGET | {"event": "age"}, "a feature too"),
        (TARGET | {"event": 3}, "target.event"),
        ({"name": "days", "classes": [0, 1], "event": "died"}, "event"),
    ],
)
def test_wrong_targets_are_refused(target, about):
    with pytest.raises(DomainError, match=about):
        Domain.from_dict(DOMAIN | {"target": target})


def test_a_domain_says_what_it_is_about(tmp_path):
    domain = Domain.from_dict(DOMAIN)
    assert isinstance(domain.target, SurvivalTarget)
    assert Domain.from_dict(domain.to_dict()) == domain
    assert "until died" in str(domain)
    assert domain.check(pa.table({"age": [0.5], "job": ["a"], "days": [3.0]})).absent == ("died",)
    unfit = pa.table({"age": [0.5], "job": ["a"], "days": [3.0], "died": [[1]]})
    assert domain.check(unfit).unfit
    assert type(recommend(DOMAIN, 1.0).estimator) is PrivBoostSurvival


def test_bounds_of_times_are_never_inferred():
    frame, _ = table(50)
    for target in ({"name": "days", "event": "died"}, TARGET | {"bounds": None}):
        with pytest.raises(DomainError, match=r"target\.bounds: .* not inferred"):
            Domain.learn(frame, "days", 1.0, 1e-6, given={"target": target})
        with pytest.raises(DomainError, match=r"target\.bounds: ") as raised:
            Domain.from_dict(DOMAIN | {"target": target})
        assert "domain learn" not in str(raised.value)


def test_the_docstring_says_that_a_domain_is_needed():
    text = " ".join(PrivBoostSurvival.__doc__.split())
    assert "It must be given" in text
    assert "Without it, `fit` infers one" not in text
    assert "or survival times. By default none" in text
    assert "Without it, `fit` infers one" in " ".join(PrivBoostRegressor.__doc__.split())


def test_what_has_no_meaning_is_refused():
    frame, _ = table(50)
    with pytest.raises(ValueError, match="a survival model needs one"):
        PrivBoostSurvival(1.0, 1e-6).fit(frame)
    with pytest.raises(TypeError, match="no units are put aside"):
        PrivBoostSurvival(1.0, 1e-6, DOMAIN, conformal_fraction=0.2)
    for kind in (PrivBoostRegressor, SBDTRegressor):
        with pytest.raises(DomainError, match="PrivBoostSurvival predicts it"):
            kind(1.0, 1e-6, DOMAIN).fit(frame)
    plain = DOMAIN | {"target": {"name": "days", "bounds": [0.05, 20]}}
    with pytest.raises(DomainError, match='and "event"'):
        PrivBoostSurvival(1.0, 1e-6, plain).fit(frame)
    with pytest.raises(TypeError, match="takes no 'event_col': here it is dom"):
        PrivBoostSurvival(1.0, 1e-6, DOMAIN).fit(frame, event_col="died")
    with pytest.raises(TypeError, match="takes no 'how': it takes X, y, sample_weight"):
        PrivBoostSurvival(1.0, 1e-6, DOMAIN).fit(frame, how="died")
    with pytest.raises(ValueError, match="'died' is the column of events, the domain's target"):
        PrivBoostSurvival(1.0, 1e-6, DOMAIN).fit(frame, "days", "died")
    model = fitted(frame, n_estimators=2)
    with pytest.raises(AttributeError, match="no units were put aside"):
        model.model_.predict_interval(frame)
    for times, error in (("a", TypeError), ([], ValueError), (-1.0, ValueError)):
        with pytest.raises(error, match="times must be"):
            model.predict_survival_function(frame, times)
    number = PrivBoostRegressor(1.0, 1e-6, plain, n_estimators=2, random_state=1).fit(frame)
    with pytest.raises(AttributeError, match="no survival time"):
        number.model_.predict_survival_function(frame, [1.0])
    with pytest.raises(AttributeError, match="scale_: the target is no survival time"):
        _ = number.model_.scale_
    assert "time_scale" not in number.explain_global().to_dict()


def test_a_search_compares_concordances():
    frame, _ = table(1500)
    model = PrivBoostSurvival(1.0, 1e-6, DOMAIN, interactions=False)
    search = PrivateSearchCV(
        model, [{"n_estimators": 4}, {"n_estimators": 6}], 4.0, 1e-6, random_state=1
    )
    search.fit(frame)
    assert search.scoring_ == "concordance"
    assert 0 <= search.best_score_ <= 1


# The fit of location and scale


@pytest.mark.parametrize("noise", [0.0, 30.0])
def test_counts_tell_location_and_scale(noise):
    rng = np.random.default_rng(1)
    times, ends = 0.3 + 0.2 * rng.logistic(size=20_000), rng.uniform(-0.5, 1, 20_000)
    seen, event = np.minimum(times, ends), times <= ends
    at = np.linspace(-1, 1, 25)
    counts = np.stack([np.histogram(seen[event == own], at)[0] for own in (False, True)], axis=1)
    noisy = counts + noise * rng.standard_normal(counts.shape)
    found = EventCounts(at, noisy, noise).fit(Belief(0.0, 1.5, np.log(0.5), 0.5))
    assert found.location == pytest.approx(0.3, abs=0.03 if noise == 0 else 0.06)
    assert np.exp(found.log_scale) == pytest.approx(0.2, rel=0.05 if noise == 0 else 0.3)


def test_where_noise_is_all_the_prior_stays():
    prior = Belief(0.5, 1.5, np.log(0.2), 0.3)
    found = EventCounts(np.linspace(-1, 1, 25), np.zeros((24, 2)), 1e6).fit(prior)
    assert found.location == pytest.approx(prior.location, abs=0.2)
    assert found.log_scale == pytest.approx(prior.log_scale, abs=0.05)
    fixed = EventCounts(np.linspace(-1, 1, 25), np.zeros((24, 2)), 0.0).fit(
        prior._replace(log_spread=0.0)
    )
    assert fixed.log_scale == pytest.approx(prior.log_scale)


# What one row adds


def shard_of(frame):
    domain = Domain.from_dict(DOMAIN)
    source, roles = open_source(domain, frame, None, None)
    return Shard(load_rows([Load(RowLoader(Encoder.of(domain), roles), source)])[0].blocks)


LOSS = LogLogistic(0.3)


def sums_of(frame, loss):
    """Exact answers to the queries of training."""
    shard = shard_of(frame)
    shard.apply(Start(loss))
    edges = np.arange(-60_000, 60_001, 10_000, dtype=np.int32)
    queries = [TreeSums((stump(),), 0, ("gradient", "hessian")), ScoreCounts(edges)]
    return [shard.sum(query).reshape(-1, len(query.statistics)) for query in queries]


values = st.one_of(st.floats(), st.sampled_from([0.0, 1e-9, 0.05, 1.0, 20.0, 1e300, None]))
events = st.sampled_from([True, False, None])


def apart(frame, row, loss):
    """By how much one row changes the answers."""
    more = pd.concat([frame, row], ignore_index=True).astype({"died": object})
    pairs = zip(sums_of(more, loss), sums_of(frame, loss), strict=True)
    return [np.abs(one - other) for one, other in pairs]


@settings(max_examples=25, deadline=None)
@given(values, events)
def test_a_row_moves_no_answer_by_more_than_a_clip(days, died):
    frame, _ = table(20)
    row = pd.DataFrame({"age": [0.5], "job": ["a"], "days": [days], "died": [died]})
    loss = LOSS.table(0.4 * LOSS.largest_gradient, 0.2 / LOSS.scale**2)
    for moved in apart(frame.astype({"died": object}), row, loss):
        assert (moved.max(axis=0) <= CLIP_STEPS).all()
        assert (moved > 0).any(axis=1).sum() <= 1


def test_a_table_that_exceeds_its_clip_is_rejected():
    """Gradients of events that are not clipped add up to 1/s, twice a clip of half of that."""
    table_ = LOSS.table(0.5 * LOSS.largest_gradient, 0.25 / LOSS.scale**2)
    whole = LOSS.table(LOSS.largest_gradient, LOSS.largest_hessian)
    broken = LossTable(2 * whole.gradient, table_.hessian, table_.shift)
    assert within_steps(table_)
    assert not within_steps(broken)
    with pytest.raises(ValueError, match="exceeds its clip"):
        Start(broken).frozen()
    row = pd.DataFrame({"age": [0.5], "job": ["a"], "days": [0.05], "died": [True]})
    frame, _ = table(20)
    moved, _ = apart(frame, row, broken)
    assert moved[0, 0] > CLIP_STEPS  # what the property above would find


def test_gradients_are_bounded_and_have_the_signs_of_the_likelihood():
    score = np.linspace(-8, 8, 1001)
    event, censored = LOSS.gradient(score, 1.0), LOSS.gradient(score, 0.0)
    assert np.abs(event).max() <= LOSS.largest_gradient
    assert (censored <= 0).all()  # a censored row only says that its time is longer
    assert censored.min() >= -LOSS.largest_gradient
    assert (np.sign(event) == np.sign(score)).all()
    assert LOSS.hessian(score, 1.0).max() <= LOSS.largest_hessian
    assert LOSS.hessian(score, 0.0).max() <= LOSS.largest_hessian / 2


def test_the_rest_of_a_domain_is_learned_around_a_target():
    frame, _ = table(3000)
    given = {"target": TARGET}
    domain = Domain.learn(frame, "days", 5.0, 1e-6, given=given, random_state=1)
    assert domain.feature_names == ("age", "job")
    assert domain.target == Domain.from_dict(DOMAIN).target
    with pytest.raises(SchemaError, match="'died', which was given"):
        Domain.learn(frame.drop(columns="died"), "days", 5.0, 1e-6, given=given, random_state=1)


def test_on_the_command_line(tmp_path):
    runner, (frame, _) = CliRunner(), table(2000)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    Domain.from_dict(DOMAIN).to_json(tmp_path / "d.json")
    model, rows = str(tmp_path / "m"), str(tmp_path / "rows.csv")

    def run(*arguments, error=None):
        done = runner.invoke(app, list(map(str, arguments)))
        assert (done.exception is None) == (error is None), done.output
        assert error is None or error in str(done.exception)
        return done.output

    how = ("--domain", tmp_path / "d.json", "--epsilon", 3, "--seed", 1)
    run("train", rows, *how, "--model", model, "--set", "n_estimators=4")
    run("predict", model, rows, "--out", tmp_path / "p.csv")
    told = pd.read_csv(tmp_path / "p.csv")["prediction"]
    assert np.allclose(told, load_model(model).predict(frame))
    found = run("evaluate", model, rows, "--epsilon", 1, "--seed", 1, "--horizon", 3)
    assert "concordance" in found
    own = ("train", rows, *how, "--model", tmp_path / "n", "--recipe", "sbdt")
    run(*own, error="is for classes or a number; the target is a survival time")


@pytest.mark.parametrize(
    ("code", "about"),
    [
        (lambda died: np.where(died, 2, 1), "hardly any were censored"),
        (lambda died: 1, "hardly any were censored"),
        (lambda died: died & False, "nearly all were censored"),
    ],
    ids=["coded 1 and 2", "all", "none"],
)
def test_events_of_one_kind_are_named(code, about):
    frame, _ = table(6000)
    model = fitted(frame.assign(died=code(frame["died"])), n_estimators=4).model_
    (text,) = [one.text for one in model.findings() if one.kind == "events"]
    assert about in text
    assert read_model(model_bytes(model), "file").findings() == model.findings()


@pytest.mark.parametrize("bounds", [[0.05, 20], [0.05, 23], [1, 10]])
def test_times_are_not_said_to_reach_their_bounds(bounds):
    """Rows that live to the end of a study are censored there."""
    frame, _ = table(6000)
    domain = DOMAIN | {"target": TARGET | {"bounds": bounds}}
    found = {one.kind for one in fitted(frame, domain=domain, n_estimators=4).model_.findings()}
    assert not {"events", "label bounds"} & found


def test_events_in_words_leave_no_rows():
    frame, _ = table(3000)
    words = frame.assign(died=np.where(frame["died"], "dead", "alive"))
    model = fitted(words, n_estimators=4).model_
    (text,) = [one.text for one in model.findings() if one.kind == "no rows"]
    assert "events none of true, false, 1 and 0" in text
    found = evaluate(model, words, epsilon=3.0, random_state=1).findings()
    assert [one.text for one in found] == [text]


def test_times_that_are_all_too_short_are_named():
    frame, _ = table(6000)
    model = fitted(frame.assign(days=-frame["days"]), n_estimators=4).model_
    (text,) = [one.text for one in model.findings() if one.kind == "label bounds"]
    assert "about 100% of rows seem to lie at the lower bound 0.05" in text


def test_shares_of_labels_in_a_file_are_checked(trained):
    scores = replace(trained[0].model_.scores, label_shares=np.array([2.0, -1.0, 0.0]))
    with pytest.raises(ModelFileError, match="label_shares"):
        read_model(model_bytes(replace(trained[0].model_, scores=scores)), "file")


@pytest.mark.parametrize(("noise", "rows", "said"), [(10.0, 5000.0, 1), (40.0, 5000.0, 0)])
def test_noise_that_may_hide_censored_rows_says_nothing(noise, rows, said):
    counts = np.zeros((24, 2))
    counts[:, 1] = rows / 24
    found = shares_of_times(counts, noise * 2, True)
    assert (found is not None) == said
