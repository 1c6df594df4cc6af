"""Models of dates, durations, truth values and ranks, and of targets on a log scale."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from privboost import (
    BoostedAdaSSPRegressor,
    DateFeature,
    Domain,
    DPXGBClassifier,
    LazyBBClassifier,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTRegressor,
    evaluate,
    load_model,
)
from privboost.models.model import model_bytes
from tests.hostile import HostileBackend

ROWS = 800
FEATURES = {
    "admitted": {"kind": "date", "bounds": ["2015-01-01", "2024-12-31"], "missing": True},
    "seen": {"kind": "date", "bounds": ["2024-01-01T00:00:00", "2024-01-01T12:00:00"]},
    "stay": {"kind": "duration", "bounds": [0, 864000], "scale": "log"},
    "smoker": {"kind": "boolean", "missing": True},
    "grade": {"kind": "ordinal", "categories": ["low", "medium", "high"]},
}
CLASSES = {"name": "y", "classes": [0, 1]}
PRICE = {"name": "price", "bounds": [1, 1e6], "scale": "log"}


def make_domain(target=CLASSES):
    return Domain.from_dict({"version": 1, "features": FEATURES, "target": target})


def make_frame(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    days = rng.integers(-200, 4000, rows)
    smoker = rng.random(rows) < 0.3
    grade = rng.integers(0, 4, rows)
    hours = rng.exponential(20, rows)
    signal = 1.5 * smoker + grade / 2 + days / 2000 + rng.normal(0, 0.3, rows)
    frame = pd.DataFrame(
        {
            "admitted": pd.Timestamp("2015-01-01") + pd.to_timedelta(days, "D"),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 50000, rows), "s"),
            "stay": pd.to_timedelta((hours * 3600).round(), "s"),
            "smoker": smoker,
            "grade": np.array(["low", "medium", "high", "unheard of"])[grade],
            "y": (signal > 2).astype(int),
            "price": np.exp(2 * signal),
        }
    )
    frame.loc[::17, "admitted"] = pd.NaT
    return frame


def as_texts(frame):
    """The same rows as a text file has them."""
    words = frame.drop(columns=["y", "price"]).astype(object)
    words["admitted"] = [
        None if pd.isna(day) else day.tz_localize("UTC").tz_convert("Asia/Tokyo").isoformat()
        for day in frame["admitted"]
    ]
    words["seen"] = frame["seen"].map(str)
    words["stay"] = frame["stay"].map(str)
    words["smoker"] = frame["smoker"].map({True: "TRUE", False: "0"})
    return words.join(frame[["y", "price"]])


def carriers(frame):
    yield pl.from_pandas(frame)
    yield pa.Table.from_pandas(frame, preserve_index=False)
    yield as_texts(frame)
    yield frame.astype(object).assign(y=frame["y"], price=frame["price"])


MODELS = [
    (PrivBoostClassifier, CLASSES, {"n_estimators": 12}),
    (PrivBoostRegressor, PRICE, {"n_estimators": 12}),
    (SBDTRegressor, PRICE, {"n_estimators": 6, "max_depth": 3}),
    (DPXGBClassifier, CLASSES, {"n_estimators": 3, "max_depth": 3}),
    (LazyBBClassifier, CLASSES, {"delta": 0.0}),
    (BoostedAdaSSPRegressor, PRICE, {"n_estimators": 3}),
]


@pytest.mark.parametrize(("kind", "target", "how"), MODELS)
def test_one_model_whatever_carries_the_rows(kind, target, how):
    frame = make_frame()

    def run(table, **where):
        settings = {"epsilon": 2.0, "delta": 1e-6, "random_state": 7} | how | where
        return kind(domain=make_domain(target), **settings).fit(table).model_

    plain = run(frame)
    expected = model_bytes(plain)
    for table in carriers(frame):
        assert model_bytes(run(table)) == expected
        np.testing.assert_array_equal(plain.predict(table), plain.predict(frame))
    hostile = partial(HostileBackend, seed=MODELS.index((kind, target, how)), death_rate=0.2)
    assert model_bytes(run(frame, backend=hostile)) == expected


def test_a_model_file_comes_back_and_says_its_conditions(tmp_path):
    clf = DPXGBClassifier(50.0, 1e-6, make_domain(), n_estimators=20, max_depth=3, random_state=1)
    clf.fit(make_frame(4000))
    clf.save(tmp_path / "m.privboost")
    model = load_model(tmp_path / "m.privboost")
    assert model.domain == make_domain()
    text = model.to_text()
    assert "smoker is true" in text
    assert "smoker is false" in text
    assert "grade > " in text
    additive = PrivBoostClassifier(5.0, 1e-6, make_domain(), n_estimators=12, random_state=1)
    effects = additive.fit(make_frame()).model_.effects()
    assert {"true", "false"} <= set(effects["values"].to_pylist())
    explained = additive.explain_global()
    counted = {shape.spans.feature: shape.spans for shape in explained.shapes}
    assert counted["admitted"].counts == "days since 1970"
    assert any("20" in words and "-" in words for words in counted["admitted"].words)
    assert counted["stay"].counts == "seconds"
    assert any(":" in words for words in counted["stay"].words)
    assert counted["smoker"].names == ("false", "true")


def test_rows_by_date(tmp_path):
    clf = PrivBoostClassifier(5.0, 1e-6, make_domain(), n_estimators=12, random_state=1)
    clf.fit(make_frame())
    week = DateFeature("seen", ("2024-01-01", "2024-01-03"))
    found = evaluate(
        clf,
        make_frame(seed=1),
        epsilon=10.0,
        by=["admitted", "grade", "smoker", week],
        random_state=1,
    )
    values = {(group.feature, group.value) for group in found.groups}
    assert ("grade", "medium") in values
    assert ("smoker", "true") in values
    assert ("seen", "x ≤ 2024-01-01") not in values  # an edge at the lower end parts nothing
    assert sum(feature == "admitted" for feature, _ in values) == 5


def test_monotone_along_the_order():
    clf = PrivBoostClassifier(
        5.0, 1e-6, make_domain(), n_estimators=20, monotone={"grade": 1}, random_state=1
    )
    clf.fit(make_frame(4000))
    frame = make_frame(1).drop(columns="grade").loc[[0] * 3].assign(grade=["low", "medium", "high"])
    assert (np.diff(clf.decision_function(frame)) >= 0).all()


@pytest.mark.parametrize("bounds", [[1, 1e6], [0, 1e6], [-1e6, -1]])
def test_a_log_scale_predicts_geometric_means(bounds):
    """Without noise, a target that depends on one truth value comes back as its geometric mean."""
    rng = np.random.default_rng(0)
    smoker = rng.random(20_000) < 0.5
    price = np.exp(np.where(smoker, 8.0, 4.0) + rng.normal(0, 1, len(smoker)))
    sign = -1 if bounds[1] < 0 else 1
    frame = pd.DataFrame({"smoker": smoker, "price": sign * price})
    domain = Domain.from_dict(
        {
            "version": 1,
            "features": {"smoker": {"kind": "boolean"}},
            "target": PRICE | {"bounds": bounds},
        }
    )
    model = BoostedAdaSSPRegressor(
        float("inf"), 1e-6, domain, public_rows=True, n_estimators=20, random_state=0
    ).fit(frame)
    got = model.predict(pd.DataFrame({"smoker": [False, True]}))
    shift = 1 if 0 in bounds else 0
    expected = sign * (
        np.exp([np.log(price[~smoker] + shift).mean(), np.log(price[smoker] + shift).mean()])
        - shift
    )
    np.testing.assert_allclose(got, expected, rtol=0.05)
    low, high = model.model_.bounds
    assert bounds[0] <= low < high <= bounds[1]


def test_standard_errors_follow_the_scale():
    reg = PrivBoostRegressor(2.0, 1e-6, make_domain(PRICE), n_estimators=12, random_state=1)
    frame = make_frame()
    reg.fit(frame)
    model = reg.model_
    numbers, errors = model.predict(frame, return_std=True)
    _, own = model.decision_function(frame, return_std=True)
    np.testing.assert_allclose(errors, own * model.middle_and_half[1] * numbers)
    assert ((numbers >= 1) & (numbers <= 1e6)).all()


def test_an_evaluation_is_on_the_targets_own_scale():
    reg = PrivBoostRegressor(20.0, 1e-6, make_domain(PRICE), n_estimators=30, random_state=1)
    reg.fit(make_frame(4000))
    test = make_frame(4000, seed=1)
    found = evaluate(reg, test, epsilon=float("inf"), public_rows=True)
    residual = test["price"].clip(1, 1e6) - reg.predict(test)
    assert found["rmse"].value == pytest.approx(np.sqrt((residual**2).mean()), rel=1e-9)


def test_a_fit_learns_what_its_part_leaves_open():
    """Columns are left out, truth values cost nothing, and a scale goes with learned bounds."""
    frame = make_frame(4000).assign(id=np.arange(4000)).drop(columns=["y", "seen"])
    part = {
        "features": {"admitted": FEATURES["admitted"], "stay": {"kind": "duration"}},
        "target": {"name": "price", "scale": "log"},
        "leave_out": ["id"],
    }
    reg = PrivBoostRegressor(5.0, 1e-6, domain_given=part, n_estimators=12, random_state=1)
    reg.fit(frame, "price")
    domain = reg.model_.domain
    assert domain.feature_names == ("admitted", "stay", "smoker", "grade")
    assert [feature.kind for feature in domain.features] == [
        "date",
        "duration",
        "boolean",
        "categorical",
    ]
    assert domain.target.scale == "log"
    low, high = domain.target.bounds
    assert 0 < low < high
    np.testing.assert_array_equal(reg.predict(frame), reg.predict(frame.drop(columns="id")))
    sizes = [each.what for each in reg.privacy_.releases if "numbers" in each.what]
    assert sizes == ["rows by size of 2 numbers"]


def test_explanations_and_findings_go_by_numbers_and_speak_in_words():
    reg = PrivBoostRegressor(5.0, 1e-6, make_domain(PRICE), n_estimators=30, random_state=1)
    reg.fit(make_frame(4000))
    text = reg.explain_global().to_text()
    for said in ("log of price", "(true)", "2015-", "(low)"):
        assert said in text
    local = reg.explain_local(make_frame(3)).to_text()
    assert "log of price" in local
    wide = FEATURES | {"admitted": FEATURES["admitted"] | {"bounds": ["1000-01-01", "2024-12-31"]}}
    domain = Domain.from_dict({"version": 1, "features": wide, "target": CLASSES})
    clf = PrivBoostClassifier(5.0, 1e-6, domain, n_estimators=30, random_state=1)
    found = [each.text for each in clf.fit(make_frame(4000)).model_.findings()]
    assert any("the bounds are 1000-01-01 and 2024-12-31: narrower ones would" in t for t in found)
