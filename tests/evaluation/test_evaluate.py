"""What an evaluation says: near the truth within its bars, exact of public rows, never an error."""

import json
import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (
    brier_score_loss,
    log_loss,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

import privboost
from privboost import (
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    BudgetError,
    CategoricalFeature,
    DPXGBClassifier,
    FitWarning,
    LazyBBClassifier,
    NumericFeature,
    PrivacyWarning,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBClassifier,
    SBDTClassifier,
    SBDTRegressor,
    SchemaError,
    evaluate,
    load_model,
)
from privboost.data.loading import read_loader
from privboost.evaluation.model_card import evaluation_section
from privboost.evaluation.outcomes import OutcomeLoader
from privboost.evaluation.result import Group, Measures, Residuals, Value
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

ROWS = 4000


def frame_of(target, rows=ROWS, seed=3):
    return make_frame(rows, seed, target)


def known(frame, target):
    if "classes" in target:
        return frame[frame["income"].isin(target["classes"])]
    return frame[np.isfinite(frame["income"]) & frame["income"].between(*target["bounds"])]


def fit(kind, target, epsilon=3.0, **how):
    settings = {"random_state": 1, "n_estimators": 10} | how
    return kind(epsilon, domain=make_domain(target), **settings).fit(frame_of(target, seed=1))


@pytest.fixture(scope="module")
def two():
    return fit(PrivBoostClassifier, CLASSES)


@pytest.fixture(scope="module")
def three():
    return fit(PrivBoostClassifier, THREE)


@pytest.fixture(scope="module")
def number():
    return fit(PrivBoostRegressor, NUMBER)


def exactly(model, frame, y=None, **how):
    return evaluate(model, frame, y, epsilon=math.inf, public_rows=True, **how)


def test_two_classes_are_exact_on_public_rows(two):
    frame = known(frame_of(CLASSES), CLASSES)
    found, truth = exactly(two, frame), frame["income"] == two.classes_[1]
    chances = two.predict_proba(frame)[:, 1]
    assert found["rows"].value == len(frame)
    assert found["rows"].std == 0
    assert found["accuracy"].value == pytest.approx(two.score(frame, frame["income"]))
    assert found["prevalence"].value == pytest.approx(truth.mean())
    exact = {
        "auc": roc_auc_score(truth, chances),
        "log_loss": log_loss(truth, chances),
        "brier": brier_score_loss(truth, chances),
    }
    for name, value in exact.items():
        assert found[name].value == pytest.approx(value, abs=5e-4), name
        assert abs(found[name].value - value) <= found[name].width, name
    assert found.privacy.public_rows
    assert "NO PRIVACY" in str(found)


def test_three_classes_are_exact_on_public_rows(three):
    frame = known(frame_of(THREE), THREE)
    found, chances = exactly(three, frame), three.predict_proba(frame)
    assert found["accuracy"].value == pytest.approx(three.score(frame, frame["income"]))
    assert found["log_loss"].value == pytest.approx(
        log_loss(frame["income"], chances, labels=three.classes_), abs=1e-3
    )
    own = np.stack([frame["income"] == name for name in three.classes_], axis=1)
    assert found["brier"].value == pytest.approx(
        ((chances - own) ** 2).sum(axis=1).mean(), abs=1e-3
    )
    for k, name in enumerate(three.classes_):
        assert found[f"share of {name}"].value == pytest.approx(own[:, k].mean())
        truth = roc_auc_score(own[:, k], chances[:, k])
        assert found[f"auc of {name}"].value == pytest.approx(truth, abs=1e-3)
    short = exactly(three, frame, curves=False)
    assert set(short.measures.values) == {
        *("rows", "accuracy", "log_loss"),
        *(f"share of {name}" for name in three.classes_),
    }
    assert short["log_loss"].value == pytest.approx(found["log_loss"].value, abs=1e-3)
    assert short.privacy.parameters["touched"] == 2
    assert found.privacy.parameters["touched"] == 4


def test_a_number_is_exact_on_public_rows(number):
    frame = known(frame_of(NUMBER), NUMBER)
    truth, said = frame["income"], number.predict(frame)
    found = exactly(number, frame)
    exact = {
        "rmse": mean_squared_error(truth, said) ** 0.5,
        "mae": mean_absolute_error(truth, said),
        "bias": (truth - said).mean(),
        "r2": r2_score(truth, said),
    }
    assert {name: found[name].value for name in exact} == pytest.approx(exact, rel=1e-9)
    assert found.residuals == Residuals(None, (0.0, 10.0), 0)
    assert "clipped" not in str(found)


RECIPES = {
    "effects": (PrivBoostClassifier, CLASSES, {}),
    "effects, pure": (PrivBoostClassifier, CLASSES, {"delta": 0.0}),
    "interactions": (PrivBoostClassifier, CLASSES, {"epsilon": 50.0, "n_estimators": None}),
    "three classes": (PrivBoostClassifier, THREE, {}),
    "number": (PrivBoostRegressor, NUMBER, {}),
    "random trees": (SBDTClassifier, CLASSES, {}),
    "margins": (SBDTClassifier, CLASSES, {"loss": "squared"}),
    "random trees of a number": (SBDTRegressor, NUMBER, {}),
    "greedy trees": (DPXGBClassifier, CLASSES, {"max_depth": 2, "accountant": "rdp"}),
    "pure trees": (SarusXGBClassifier, CLASSES, {"max_depth": 2}),
    "votes": (LazyBBClassifier, CLASSES, {"calibration_share": 0.0}),
    "votes with odds": (LazyBBClassifier, CLASSES, {}),
    "votes of three": (LazyBBClassifier, THREE, {"calibration_share": 0.0}),
    "linear": (BoostedAdaSSPClassifier, CLASSES, {}),
    "linear hinge": (BoostedAdaSSPClassifier, CLASSES, {"loss": "hinge"}),
    "linear number": (BoostedAdaSSPRegressor, NUMBER, {}),
}


@pytest.mark.parametrize("case", RECIPES)
def test_every_recipe_fitted_or_loaded(case, tmp_path):
    kind, target, how = RECIPES[case]
    model = fit(kind, target, **how)
    model.save(tmp_path / "model")
    frame = known(frame_of(target), target)
    loaded = load_model(tmp_path / "model")
    one, other = (
        evaluate(each, frame, epsilon=2.0, by="flag", random_state=4) for each in (model, loaded)
    )
    assert one == other
    truth = exactly(model, frame, by="flag")
    for name, exact in truth.measures.values.items():
        assert abs(one[name].value - exact.value) <= 5 * one[name].std + one[name].width, name
    if target is NUMBER:
        assert one["mae"].value == pytest.approx(
            mean_absolute_error(frame["income"], model.predict(frame)), abs=0.3
        )
    else:
        assert truth["accuracy"].value == pytest.approx(model.score(frame, frame["income"]))
        assert ("log_loss" in one.measures.values) == loaded.has_probabilities


def test_bars_hold_for_noise_and_rows(two):
    """Tables of other rows of the same kind: two bars hold the truth nearly always."""
    truth = exactly(two, known(frame_of(CLASSES, 40_000, 11), CLASSES))
    held = {name: 0 for name in truth.measures.values if name != "rows"}
    runs = 40
    for seed in range(runs):
        frame = known(frame_of(CLASSES, 1500, 100 + seed), CLASSES)
        found = evaluate(two, frame, epsilon=0.5)
        for name in held:
            held[name] += abs(found[name].value - truth[name].value) <= 2 * found[name].std
    assert min(held.values()) >= 0.8 * runs, held
    assert sum(held.values()) >= 0.9 * runs * len(held), held


def test_intervals_of_a_number_hold(number):
    truth = exactly(number, known(frame_of(NUMBER, 40_000, 11), NUMBER))
    runs, held = 40, dict.fromkeys(("rmse", "mae", "bias", "r2"), 0)
    for seed in range(runs):
        frame = known(frame_of(NUMBER, 1500, 100 + seed), NUMBER)
        found = evaluate(number, frame, epsilon=1.0, random_state=seed)
        for name in held:
            low, high = found[name].lower, found[name].upper
            held[name] += (low is None or low <= truth[name].value) and truth[name].value <= high
    assert min(held.values()) >= 0.95 * runs, held


def test_groups(two):
    frame = known(frame_of(CLASSES), CLASSES)
    own = NumericFeature("gain", (0, 1000), edges=(100, 500))
    found = exactly(two, frame, by=["job", own, CategoricalFeature("person", tuple("abc"))])
    values = [(group.feature, group.value) for group in found.groups]
    assert values == [
        *(("job", word) for word in ("a", "b", "c", "other", "missing")),
        *(("gain", word) for word in ("x ≤ 100", "100 < x ≤ 500", "500 < x", "missing")),
        *(("person", word) for word in ("a", "b", "c", "other", "missing")),
    ]
    for feature in ("job", "gain", "person"):
        rows = [group["rows"].value for group in found.groups if group.feature == feature]
        assert sum(rows) == len(frame)
    part = frame[frame["job"] == "a"]
    assert found.groups[0]["accuracy"].value == pytest.approx(two.score(part, part["income"]))
    assert found.privacy.parameters["by"] == ["job", "gain", "person"]
    assert found.privacy.parameters["touched"] == 8


def test_a_number_has_four_spans(two):
    found = exactly(two, frame_of(CLASSES, 50), by="age")
    assert [group.value for group in found.groups] == [
        *("x ≤ 35.25", "35.25 < x ≤ 53.5", "53.5 < x ≤ 71.75", "71.75 < x", "missing"),
    ]


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("how", [{"epsilon": 0.5}, {"epsilon": math.inf, "public_rows": True}])
def test_hardly_any_rows_are_no_error(rows, how, two, three, number):
    for model, target in ((two, CLASSES), (three, THREE), (number, NUMBER)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", FitWarning)  # which follows released values
            found = evaluate(model, frame_of(target).iloc[:rows], by=["job", "age"], **how)
        for measures in (found.measures, *(group.measures for group in found.groups)):
            for value in measures.values.values():
                assert all(map(math.isfinite, (value.value, value.std, value.width)))
                assert value.std >= 0
        json.loads(found.to_json())


def test_wild_values_say_nothing(two, number):
    for model, target in ((two, CLASSES), (number, NUMBER)):
        frame = frame_of(target, 30)
        for value in (None, "?", 1e308, -1e308, float("nan"), float("inf"), b"\xff", object()):
            wild = frame.assign(
                **dict.fromkeys(frame, pd.Series([value] * len(frame), dtype=object))
            )
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", FitWarning)  # which follows released values
                evaluate(model, wild, epsilon=0.5, by=["job"])


def test_bounds_as_wide_as_numbers_go():
    domain = make_domain({"name": "income", "bounds": [-1e300, 1e300]})
    model = PrivBoostRegressor(1.0, 1e-6, domain, n_estimators=2, span_share=0.0)
    frame = frame_of(NUMBER, 60)
    model.fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for clip in (None, 1e295, 1e300, 1e304):
            found = evaluate(model, frame, epsilon=1.0, clip=clip)
            assert all(math.isfinite(value.value) for value in found.measures.values.values())


def test_labels_apart_arrays_and_files(two, tmp_path):
    frame = frame_of(CLASSES, 300)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    features = list(two.feature_names_in_)
    array = frame[features].to_numpy(dtype=object)
    truth = exactly(two, frame)
    assert exactly(two, frame.drop(columns="income"), frame["income"]) == truth
    assert exactly(two, array, frame["income"].tolist()) == truth
    assert exactly(two, tmp_path / "t.parquet", "income") == truth
    assert exactly(two, tmp_path / "t.csv")["rows"] == truth["rows"]


def test_units_are_bounded():
    """A hundred rows of one person count as one, so that rows are independent."""
    domain = make_domain(CLASSES, {"column": "person", "max_rows": 2})
    frame = known(frame_of(CLASSES), CLASSES)
    model = PrivBoostClassifier(1.0, 1e-6, domain, n_estimators=3).fit(frame)
    one = frame.iloc[[0] * 100].assign(person="someone")
    found = evaluate(model, one, epsilon=1e4)
    assert found["rows"].value == pytest.approx(1, abs=0.5)
    assert found.privacy.unit == replace(domain.unit, max_rows=1)
    assert any("person" in said for said in found.privacy.assumptions)
    assert exactly(model, one)["rows"].value == 100  # nobody is protected
    with pytest.raises(SchemaError, match="'person'"):
        evaluate(model, one.drop(columns="person"), epsilon=1.0)


@pytest.mark.parametrize("unit", [None, {"column": "person", "max_rows": 2}])
@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER], ids=["two", "three", "number"])
def test_the_same_wherever_rows_lie(unit, target):
    kind = PrivBoostRegressor if target is NUMBER else PrivBoostClassifier
    frame = frame_of(target, 700)
    model = kind(1.0, 1e-6, make_domain(target, unit), n_estimators=3, random_state=0).fit(frame)
    how = {"epsilon": 1.0, "by": ["job", "age"], "random_state": 2}
    one = evaluate(model, frame, **how)
    assert evaluate(model, frame, n_jobs=2, **how) == one
    assert evaluate(model, frame, backend=HostileBackend, **how) == one


def test_the_loader_travels(two):
    from privboost.evaluation.outcomes import open_groups
    from privboost.evaluation.plan import plan_evaluation
    from privboost.recipes.common.plan import Budget

    plan = plan_evaluation(two.model_, open_groups("job", two.model_), Budget(1.0, 1e-6))
    loader = OutcomeLoader(plan.model, plan.outcomes, plan.groups, "income", None)
    data = loader.to_bytes()
    other = read_loader(data)
    assert isinstance(other, OutcomeLoader)
    assert other.to_bytes() == data
    assert other.columns == loader.columns
    assert other.layout == loader.layout


def test_it_spends_what_it_says(two, tmp_path):
    frame = frame_of(CLASSES, 100)
    path = tmp_path / "ledger.jsonl"
    found = evaluate(two, frame, epsilon=0.7, delta=1e-6, by="job", ledger=path)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["entry"] for entry in entries] == ["reserve", "charge"]
    assert entries[0]["epsilon"] == pytest.approx(found.privacy.epsilon)
    assert found.privacy.epsilon == pytest.approx(0.7)
    assert found.privacy.delta == 0  # few cells: Laplace noise is smaller, and pure
    assert found.privacy.relation == "add or remove one protected unit"
    many = evaluate(two, frame, epsilon=0.7, delta=1e-6, by=["job", "age", "gain", "step", "flag"])
    assert many.privacy.guarantee == "(0.7, 1e-06)-differential privacy"
    assert "Gaussian" in many.privacy.releases[0].mechanism


def test_fewer_and_other_rows_are_reserved_before_they_are_read(two, tmp_path):
    path = tmp_path / "ledger.jsonl"

    def fail(loads):
        raise RuntimeError("no backend")

    with pytest.raises(RuntimeError, match="no backend"):
        evaluate(two, frame_of(CLASSES, 10), epsilon=1.0, ledger=path, backend=fail)
    assert [json.loads(line)["entry"] for line in path.read_text().splitlines()] == ["reserve"]


def test_a_seed_takes_the_guarantee_away(two):
    frame = frame_of(CLASSES, 50)
    with pytest.warns(PrivacyWarning, match="random_state"):
        found = evaluate(two, frame, epsilon=1.0, random_state=3)
    assert found.privacy.guarantee == "no privacy guarantee: seeded"
    assert evaluate(two, frame, epsilon=1.0, random_state=3) == found
    assert evaluate(two, frame, epsilon=1.0, random_state=4) != found


def test_forms(two):
    found = evaluate(two, frame_of(CLASSES, 200), epsilon=1.0, by="job")
    form = json.loads(found.to_json())
    assert form["all"]["auc"]["std"] == found["auc"].std
    assert form["privacy"]["guarantee"] == found.privacy.guarantee
    assert [group["value"] for group in form["groups"]] == ["a", "b", "c", "other", "missing"]
    assert len(form["all"]["reliability"]) == 8
    text = str(found)
    assert text.splitlines()[1].split()[:2] == ["rows", "accuracy"]
    assert "job: missing" in text
    assert "<td>job: missing</td>" in found._repr_html_()
    assert pickle.loads(pickle.dumps(found)) == found
    assert float(found["auc"]) == found["auc"].value
    with pytest.raises(AttributeError):
        found.target = "other"


def test_tables(two, number):
    found = evaluate(two, frame_of(CLASSES, 2000), epsilon=1.0, by="job")
    table = found.to_table().to_pylist()
    assert [line["value"] for line in table] == [None, "a", "b", "c", "other", "missing"]
    assert table[0]["auc"] == found["auc"].value
    assert table[2]["auc_std"] == found.groups[1]["auc"].std
    bins = found.reliability_table().to_pylist()
    assert len(bins) == 8 * 6
    assert bins[3]["observed"] == found.reliability[3].observed.value
    assert {line["feature"] for line in bins[8:]} == {"job"}
    apart = evaluate(number, frame_of(NUMBER, 200), epsilon=1.0)
    assert apart.to_table().column_names[:4] == ["feature", "value", "rows", "rows_std"]
    assert apart.reliability_table().num_rows == 0


def test_groups_without_rows_to_speak_of_show_no_results(two):
    """Their released number and its noise decide; one of more than two errors is shown."""
    frame = frame_of(CLASSES, 200)
    found = exactly(two, frame[frame["job"].isin(["a", "b", "c"])], by="job")
    few = Measures({"rows": Value(9.9, 5.0), "accuracy": Value(0.5, 0.5), "auc": Value(0.5, 0.5)})
    some = replace(few, values=few.values | {"rows": Value(10.1, 5.0)})
    groups = (Group("job", "few", few), Group("job", "some", some))
    plain = replace(found, measures=some, groups=groups)
    lines = [*str(plain).splitlines(), *str(found).splitlines()]
    shown = {line.split("  ")[0]: line for line in lines}
    assert "no rows to speak of" in shown["job: few"]
    assert "0.50" not in shown["job: few"]
    assert "0.50 ± 0.50" in shown["job: some"]
    assert "no rows to speak of" in shown["job: other"]  # there are none, exactly
    table = {line["value"]: line for line in found.to_table().to_pylist()}
    assert table["other"]["rows"] == 0
    assert table["other"]["auc"] is table["other"]["auc_std"] is None
    section = evaluation_section(two.privacy_, [found])
    by_group = next(own for own in section.blocks if getattr(own, "caption", "").endswith("group"))
    cells = {row[0]: row[1] for row in by_group.rows}
    assert cells["job: other"] == "rows 0 ± 0; no rows to speak of"
    assert "auc 0" in cells["job: a"]


def test_a_measure_that_is_not_there_is_told_with_those_that_are(two):
    found = evaluate(two, frame_of(CLASSES, 200), epsilon=1.0, by="job")
    for own in (found, found.groups[0]):
        with pytest.raises(KeyError, match=r"no 'AUC' among rows, .*, auc, .*did you mean 'auc'\?"):
            own["AUC"]
        with pytest.raises(KeyError, match=r"there is no 0 among .*prevalence\W+$"):
            own[0]


def test_classes_that_are_html_are_escaped():
    domain = make_domain(CLASSES).to_dict()
    domain["features"]["job"]["categories"] = ["<b>", "b"]
    frame = frame_of(CLASSES, 60)
    model = PrivBoostClassifier(1.0, 1e-6, domain, n_estimators=2).fit(frame)
    assert "&lt;b&gt;" in evaluate(model, frame, epsilon=1.0, by="job")._repr_html_()


def test_many_classes_have_no_curves_unless_asked_for():
    target = {"name": "income", "classes": [f"c{k}" for k in range(12)]}
    frame = frame_of(target, 600)
    model = PrivBoostClassifier(9.0, 1e-6, make_domain(target), n_estimators=2).fit(frame)
    assert "auc" not in evaluate(model, frame, epsilon=1.0).measures.values
    found = evaluate(model, frame, epsilon=1.0, curves=True)
    assert "auc of c3" in found.measures.values
    assert found.privacy.parameters["touched"] == 13


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"epsilon": math.inf}, BudgetError, "epsilon is infinite"),
        ({"public_rows": True}, BudgetError, "public_rows=True goes with"),
        ({"epsilon": 0}, ValueError, "epsilon must be"),
        ({"delta": 2}, ValueError, "delta"),
        ({"epsilon": 1e-12}, ValueError, "would not fit the integer grid"),
        ({"sample_weight": "weight"}, ValueError, "sample_weight"),
        ({"by": "nose"}, ValueError, "by: the model has no feature 'nose'"),
        ({"by": 3}, TypeError, "by must be"),
        ({"by": [3]}, TypeError, "by must be"),
        ({"by": ["job", "job"]}, ValueError, "by: 'job' is given twice"),
        ({"by": CategoricalFeature("income", ("low",))}, ValueError, "'income' is the target"),
        ({"by": CategoricalFeature("nowhere", ("low",))}, SchemaError, "'nowhere'"),
        ({"score_cells": 3}, ValueError, "score_cells"),
        ({"score_cells": 15}, ValueError, "score_cells must be even"),
        ({"score_cells": 10**6}, ValueError, "score_cells must be at most"),
        ({"curves": False}, ValueError, "curves"),
        ({"clip": 3.0}, ValueError, "clip: classes have no residuals"),
        ({"random_state": "x"}, (TypeError, ValueError), "random_state"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
        ({"backend": 3}, ValueError, "backend"),
        ({"ledger": 3}, TypeError, "ledger"),
        ({"y": "job"}, SchemaError, "the domain's target is 'income'"),
    ],
)
def test_refusals_name_the_parameter_before_anything_is_spent(how, error, words, two, tmp_path):
    how = {"epsilon": 1.0, "ledger": tmp_path / "ledger"} | how
    with pytest.raises(error, match=words):
        evaluate(two, frame_of(CLASSES, 20), **how)
    assert not (tmp_path / "ledger").exists()


def test_refusals_of_models(number):
    with pytest.raises(TypeError, match="a fitted estimator of privboost, or a Model"):
        evaluate(3, frame_of(CLASSES, 20), epsilon=1.0)
    with pytest.raises(Exception, match="not fitted"):
        evaluate(PrivBoostClassifier(), frame_of(CLASSES, 20), epsilon=1.0)
    for how, words in (
        ({"score_cells": 8}, "score_cells"),
        ({"deviance": "normal"}, "deviance"),
        ({"power": 1.5}, "power is that of deviance=.tweedie."),
        ({"deviance": "poisson", "power": 1.5}, "power"),
        ({"deviance": "tweedie", "power": 2}, "power"),
        ({"deviance": "gamma"}, "lower bound is above 0"),
        ({"quantile": 1}, "quantile"),
        ({"clip": 0}, "clip"),
        ({"clip": 1e-9}, "clip must be a finite number above 5.96046e-07"),
        ({"clip": math.inf}, "clip"),
    ):
        with pytest.raises(ValueError, match=words):
            evaluate(number, frame_of(NUMBER, 20), epsilon=1.0, **how)
    with pytest.raises(ValueError, match="clip: residuals of public rows are not clipped"):
        exactly(number, frame_of(NUMBER, 20), clip=3.0)
    with pytest.raises(BudgetError, match="ledger"):
        exactly(number, frame_of(NUMBER, 20), ledger="somewhere")


def test_score_points_to_it():
    for name in privboost.__all__:
        if name.endswith(("Classifier", "Regressor")):
            assert "privboost.evaluate" in getattr(privboost, name).score.__doc__


def test_cells_reach_the_scores_of_a_rare_class():
    """Nearly all rows have log-odds below −5, where cells once told nobody apart."""
    rng = np.random.default_rng(3)

    def rows(n):
        x = rng.normal(size=(n, 2))
        chance = 1 / (1 + np.exp(7.5 - 1.3 * x[:, 0] - 0.8 * x[:, 1]))
        return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": (rng.random(n) < chance).astype(int)})

    features = {name: {"kind": "numeric", "bounds": [-4, 4]} for name in "ab"}
    form = {"version": 1, "features": features, "target": {"name": "y", "classes": [0, 1]}}
    model = PrivBoostClassifier(5.0, 1e-6, form, random_state=1).fit(rows(20_000))
    other = rows(20_000)
    exact = evaluate(model, other, epsilon=math.inf, public_rows=True)["auc"].value
    assert (model.decision_function(other) < -5).mean() > 0.9
    found = [evaluate(model, other, epsilon=10.0, random_state=k)["auc"] for k in range(8)]
    assert abs(np.mean([own.value for own in found]) - exact) < 0.03
    assert all(abs(own.value - exact) < 2 * own.std + own.width for own in found)
