import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet
import pytest

from privboost import (
    Domain,
    DomainError,
    PrivacyWarning,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SchemaError,
)
from privboost.datasets import load_adult
from tests.tables import make_frame


def frame_of(rows=20_000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(20, 90, rows)
    return pd.DataFrame(
        {
            "age": x,
            "gain": rng.lognormal(3, 2, rows),
            "loss": -rng.uniform(0, 900, rows),
            "flag": rng.random(rows) < 0.3,
            "job": rng.choice(["nurse", "clerk"], rows),
            "id": [f"person {k}" for k in range(rows)],
            "label": np.where(x + rng.normal(0, 10, rows) > 55, "old", "young"),
        }
    )


def test_bounds_categories_and_classes_are_found():
    domain = Domain.learn(frame_of(), "label", 1.0, 1e-6, random_state=1)
    by_name = {feature.name: feature for feature in domain.features}
    assert by_name["age"].bounds == (16, 128)
    assert by_name["gain"].scale == "log"
    assert by_name["loss"].bounds[0] == -1024
    assert by_name["loss"].bounds[1] <= 0
    assert by_name["job"].categories == ("clerk", "nurse")
    assert by_name["id"].categories == ("(no value stood out)",)
    assert domain.target.classes == ("old", "young")
    assert all(feature.missing for feature in domain.features)
    assert Domain.from_json(domain.to_json()) == domain


def test_the_report_says_what_was_spent():
    report = Domain.learn(frame_of(2000), "label", 0.5, 1e-6).privacy
    assert report.guarantee == "(0.5, 1e-06)-differential privacy"
    assert [release.count for release in report.releases] == [1, 1, 1]
    seeded = Domain.learn(frame_of(2000), "label", 0.5, 1e-6, random_state=1).privacy
    assert seeded.guarantee == "no privacy guarantee: seeded"


def test_a_wrong_name_of_the_target_is_not_blamed_on_another_column(tmp_path):
    frame, ledger = frame_of(20), tmp_path / "ledger"
    dated = frame.assign(signup=pd.Timestamp("2020-01-01"))
    with pytest.raises(SchemaError, match=r"no column 'lable' \(did you mean 'label'"):
        PrivBoostClassifier(1.0, 1e-6, ledger=ledger).fit(dated, "lable")
    with pytest.raises(SchemaError, match=r"no column 'lable' \(did you mean 'label'"):
        Domain.learn(dated, "lable", 1.0, 1e-6, ledger=ledger)
    given = {"target": {"classes": ["old", "young"]}}
    with pytest.raises(SchemaError, match="no column 'lable'"):
        PrivBoostClassifier(1.0, 1e-6, domain_given=given, ledger=ledger).fit(frame, "lable")
    assert not ledger.exists()


def test_part_may_be_given():
    given = {
        "features": {"age": {"kind": "numeric", "bounds": [18, 99]}},
        "target": {"name": "label", "classes": ["old", "young", "ageless"]},
    }
    domain = Domain.learn(frame_of(), "label", 1.0, 1e-6, given=given)
    assert domain.features[0].bounds == (18, 99)
    assert domain.features[1].name == "gain"
    assert len(domain.target.classes) == 3
    with pytest.raises(DomainError, match="given: unknown key"):
        Domain.learn(frame_of(10), "label", 1.0, 1e-6, given={"feature": {}})
    bad = {"features": {"age": {"kind": "numeric", "bounds": [9, 1]}}}
    with pytest.raises(DomainError, match=r"features\.age\.bounds"):
        Domain.learn(frame_of(10), "label", 1.0, 1e-6, given=bad)


@pytest.mark.parametrize("place", [0, -1])
def test_a_text_that_is_no_utf8_changes_no_kind(place):
    labels = np.array(["0", "1"] * 300 + ["0"])
    labels[place] = "\ud800"
    X = np.arange(601.0)[:, None]
    domain = Domain.learn(X, "y", 5.0, 1e-5, y=labels, task="classes", random_state=1)
    assert domain.target.classes == ("0", "1")


@pytest.mark.parametrize("text", ["x,y", "x,y\n", "x,y\n0.5,a,zz\n", "x,y\r0.5,a\r"])
def test_a_text_file_without_records(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    given = {"target": {"classes": ["a", "b"]}, "features": {"x": {"kind": "numeric"}}}
    with pytest.warns(PrivacyWarning, match="no value stood out from the noise in 'x'"):
        domain = Domain.learn(path, "y", 1.0, 1e-6, given=given)
    PrivBoostClassifier(1.0, 1e-6, domain, n_estimators=2).fit(path)
    with pytest.raises(DomainError, match="at most one class stood out"):
        PrivBoostClassifier(1.0, 1e-6, n_estimators=2).fit(path, "y")


def test_wide_tables():
    X = np.random.default_rng(0).random((500, 700))
    domain = Domain.learn(X, "y", 10.0, 1e-5, y=np.arange(500) % 2, task="classes")
    assert len(domain.features) == 700


@pytest.mark.parametrize(
    "labels",
    [
        np.fromiter(["1.0", "1", "2.0"] * 300, dtype=object, count=900),
        np.array([0.0, np.inf, 1.0] * 300),
        np.array([True] * 900),
    ],
)
def test_odd_classes_give_a_valid_domain(labels):
    X = np.arange(900.0)[:, None]
    domain = Domain.learn(X, "y", 20.0, 1e-5, y=labels, task="classes")
    assert len(domain.target.classes) >= 2


def test_words_that_no_domain_can_hold_are_left_out():
    """Once they are told, the budget is spent: they raise nothing."""
    words = ["clerk", "a\0", "\x1b[2J", "two\nlines"] * 1000
    frame = pd.DataFrame({"job": words, "label": np.tile(["old", "young"], 2000)})
    domain = Domain.learn(frame, "label", 2.0, 1e-6, random_state=1)
    assert domain.features[0].categories == ("clerk",)


def test_large_whole_classes_stay_floating_point_numbers():
    frame = pd.DataFrame({"x": np.zeros(2000), "label": np.tile([0.0, 1e30], 1000)})
    domain = Domain.learn(frame, "label", 2.0, 1e-6, task="classes", random_state=1)
    assert set(domain.target.classes) == {0, 1e30}
    assert Domain.from_json(domain.to_json()) == domain


def test_names_that_no_domain_can_hold_are_refused_before_anything_is_spent(tmp_path):
    frame = frame_of(100).rename(columns={"job": "a\0"})
    with pytest.raises(DomainError, match="a column's name"):
        Domain.learn(frame, "label", 1.0, 1e-6, ledger=tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()


def test_an_estimator_without_a_domain_by_every_accountant():
    for name in ("gdp", "rdp", "pld"):
        model = PrivBoostClassifier(1.0, 1e-6, n_estimators=6, accountant=name)
        assert model.fit(frame_of(4000), "label").privacy_.epsilon <= 1.0


def test_units_are_bounded():
    """One person with a thousand rows cannot force a value in."""
    frame = frame_of(3000).assign(who=[f"w{k}" for k in range(3000)])
    frame.loc[:999, "job"], frame.loc[:999, "who"] = "spy", "w0"
    given = {"unit": {"column": "who", "max_rows": 1}}
    domain = Domain.learn(frame, "label", 2.0, 1e-6, given=given, random_state=3)
    by_name = {feature.name: feature for feature in domain.features}
    assert by_name["job"].categories == ("clerk", "nurse")
    assert "who" not in by_name
    alone = Domain.learn(frame, "label", 2.0, 1e-6, random_state=3)
    assert "spy" in {f.name: f for f in alone.features}["job"].categories


def test_a_numeric_target_may_be_either():
    frame = frame_of().assign(label=np.arange(20_000) % 3)
    assert Domain.learn(frame, "label", 1.0, 1e-6).target.bounds == (0.0, 2.0)
    assert Domain.learn(frame, "label", 1.0, 1e-6, task="classes").target.classes == (0, 1, 2)


def test_tables_of_every_kind(tmp_path):
    frame = frame_of(5000).drop(columns=["flag"])
    frame.to_parquet(tmp_path / "t.parquet")
    expected = Domain.learn(frame, "label", 1.0, 1e-6, random_state=2)
    for table in (pl.DataFrame(frame), tmp_path / "t.parquet"):
        assert Domain.learn(table, "label", 1.0, 1e-6, random_state=2) == expected
    array = Domain.learn(frame[["age", "gain"]].to_numpy(), "y", 1.0, 1e-6, y=frame["label"])
    assert array.feature_names == ("x0", "x1")


@pytest.mark.filterwarnings("ignore::privboost.PrivacyWarning")
@pytest.mark.parametrize("rows", [0, 1, 20])
def test_small_and_empty_tables_give_a_valid_domain(rows):
    frame = make_frame(rows).drop(columns="weight")
    given = {"target": {"classes": ["low", "high"]}}
    domain = Domain.learn(frame, "income", 0.1, 1e-6, given=given)
    assert len(domain.features) == 7
    PrivBoostClassifier(1.0, 1e-6, domain, n_estimators=7).fit(frame)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"epsilon": 0}, "epsilon must be a finite number above 0"),
        ({"delta": 0}, "delta"),
        ({"task": "ranking"}, "task must be"),
        ({"target": "nonsense"}, "no column 'nonsense'"),
        ({"given": {"features": {"agee": {"kind": "numeric", "bounds": [0, 1]}}}}, "'agee'"),
        ({"given": {"unit": {"column": "nope", "max_rows": 1}}}, "no column 'nope'"),
        ({"given": {"target": {"name": "age", "bounds": [0, 1]}}}, "the target is 'age'"),
        ({"task": "number"}, "holds text"),
        ({"frame": pd.DataFrame({"label": ["a"]})}, "no feature columns"),
    ],
)
def test_bad_input(how, words):
    how = {"frame": frame_of(10), "target": "label", "epsilon": 1.0, "delta": 1e-6} | how
    with pytest.raises((ValueError, SchemaError), match=words):
        Domain.learn(**how)


def test_an_estimator_without_a_domain_learns_one_within_its_budget():
    adult = load_adult()
    model = PrivBoostClassifier(1.0, 1e-6, random_state=1).fit(adult.train, "income")
    report = model.privacy_
    assert 0.99 < report.epsilon <= 1.0
    assert any("learned privately" in text for text in report.assumptions)
    assert [release.what for release in report.releases][:3] == [
        "the number of rows",
        "rows by size of 6 numbers",
        "values that occur in 9 columns of words",
    ]
    counts = [release.count for release in report.releases]
    assert sum(counts) - max(counts) == 3 + 14 * 12 + 2  # beside answers about several features
    assert model.score(adult.test, adult.test["income"].to_pylist()) > 0.82
    assert model.domain is None


def test_the_share_decides_how_the_budget_is_divided():
    frame = frame_of(2000)

    def noises(share):
        model = PrivBoostClassifier(1.0, 1e-6, domain_share=share, n_estimators=6)
        mechanisms = [r.mechanism for r in model.fit(frame, "label").privacy_.releases]
        return [float(m.split("noise, ")[1].split(" times")[0]) for m in mechanisms]

    small, large = noises(0.05), noises(0.5)
    assert small[0] > large[0]
    assert small[-1] < large[-1]
    with pytest.raises(ValueError, match="domain_share"):
        noises(1.0)


def test_a_regressor_and_arrays():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (5000, 2))
    model = PrivBoostRegressor(5.0, 1e-6, random_state=0).fit(X, 3 * X[:, 0])
    assert model.predict(X).max() <= 32
    assert np.corrcoef(model.predict(X), X[:, 0])[0, 1] > 0.9


def test_a_lesson_without_classes_stops_and_says_what_it_spent(tmp_path):
    said = r"spent epsilon = 0\.01 at delta = 1e-06, and training did not begin\. Give the classes"
    with pytest.raises(DomainError, match=said):
        Domain.learn(frame_of(20), "label", 0.01, 1e-6)
    for how in ({}, {"accountant": "rdp"}):
        ledger = tmp_path / f"ledger {len(how)}"
        model = PrivBoostClassifier(1.0, 1e-6, domain_share=0.05, ledger=ledger, **how)
        with pytest.raises(DomainError, match=r"spent epsilon = 0\.\d+ at") as caught:
            model.fit(frame_of(20), "label")
        assert float(str(caught.value).split("epsilon = ")[1].split(" ")[0]) < 0.3
        assert ledger.read_text().count('"charge"') == 3  # rows, numbers, words: no training
        assert not hasattr(model, "model_")


@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_are_refused_by_their_type(kind):
    for rows in ([], [[0.1]], [None]):
        with pytest.raises(SchemaError, match="a list has no columns of its own"):
            Domain.learn(kind(rows), "y", 1.0, 1e-6, y=["a"] * len(rows))
        with pytest.raises(SchemaError, match="a list has no columns of its own"):
            PrivBoostClassifier(1.0, 1e-6).fit(kind(rows), ["a"] * len(rows))


def test_objects_are_words_unless_the_caller_says_numbers():
    X = np.random.default_rng(0).uniform(1, 4, (5000, 2)).round(1).astype(object)
    X[0] = "one text among numbers changes nothing"
    y = np.arange(5000) % 2
    with pytest.warns(PrivacyWarning, match="learned as strings: 'x0', 'x1'"):
        domain = Domain.learn(X, "y", 5.0, 1e-6, y=y, task="classes")
    assert [feature.kind for feature in domain.features] == ["categorical"] * 2
    given = {"features": {"x0": {"kind": "numeric"}, "x1": {"kind": "categorical"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        domain = Domain.learn(X, "y", 5.0, 1e-6, y=y, task="classes", given=given)
    assert domain.features[0].bounds == (0.5, 4.0)  # the bin that 1 ends begins at a half
    assert "2.5" in domain.features[1].categories
    bad = {"features": {"x0": {"kind": "numeric", "scale": "log"}}}
    with pytest.raises(DomainError, match="'bounds' is missing"):
        Domain.learn(X, "y", 5.0, 1e-6, y=y, given=bad)


@pytest.mark.parametrize(
    ("values", "classes"),
    [((False, True), (False, True)), ((0.0, 1.0), (0, 1)), (("no", "yes"), ("no", "yes"))],
    ids=["truths", "numbers", "words"],
)
def test_classes_without_a_type_are_warned_about(values, classes):
    X = np.random.default_rng(0).uniform(1, 4, (5000, 1))
    y = [values[k % 2] for k in range(5000)]
    with pytest.warns(PrivacyWarning, match="learned as strings: 'y'"):
        domain = Domain.learn(X, "y", 5.0, 1e-6, y=y, task="classes")
    assert domain.target.classes == classes
    assert [type(c) for c in domain.target.classes] == [type(c) for c in classes]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Domain.learn(X, "y", 5.0, 1e-6, y=np.array(y), task="classes")


@pytest.mark.parametrize(
    ("values", "classes"),
    [((0, 1), (0, 1)), ((False, True), (False, True)), (("n", "y"), ("n", "y"))],
)
def test_classes_that_are_categories_keep_the_type_of_their_values(values, classes):
    X = np.random.default_rng(0).uniform(1, 4, (5000, 1))
    y = pd.Series([values[k % 2] for k in range(5000)]).astype("category")
    domain = Domain.learn(X, "y", 5.0, 1e-6, y=y, task="classes")
    assert domain.target.classes == classes
    assert [type(c) for c in domain.target.classes] == [type(c) for c in classes]


def test_what_is_no_feature_is_not_learned(tmp_path):
    frame = frame_of(4000).assign(w=1.0).sample(frac=0.5, random_state=0)
    frame.to_parquet(tmp_path / "t.parquet")
    names = pyarrow.parquet.read_schema(tmp_path / "t.parquet").names
    assert "__index_level_0__" in names
    assert (
        "__index_level_0__"
        not in Domain.learn(tmp_path / "t.parquet", "label", 5.0, 1e-6).feature_names
    )
    model = PrivBoostClassifier(5.0, 1e-6, n_estimators=6, sample_weight_bound=1.0)
    model.fit(tmp_path / "t.parquet", "label", sample_weight="w")
    assert model.domain_.feature_names == tuple(n for n in frame.columns if n not in ("label", "w"))
    said = [text for text in model.privacy_.assumptions if text.startswith("learned about 'label'")]
    assert said == ["learned about 'label': the classes old, young; rows of others do not count"]


def test_the_target_of_a_text_file_may_be_a_number(tmp_path):
    frame = frame_of(4000)[["age", "label"]].assign(pay=lambda f: f["age"] * 2)
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = PrivBoostRegressor(5.0, 1e-6, n_estimators=6).fit(tmp_path / "t.csv", "pay")
    assert model.domain_.target.bounds[1] >= 128


def test_infinities_have_no_bounds():
    x = np.random.default_rng(0).uniform(1, 4, 5000)
    x[::5] = np.inf
    domain = Domain.learn(pd.DataFrame({"x": x, "y": np.arange(5000) % 2 == 0}), "y", 5.0, 1e-6)
    assert domain.features[0].bounds == (1.0, 4.0)


def test_numbers_of_a_text_file_may_be_said_to_be_numbers(tmp_path):
    frame = frame_of(4000)[["age", "job", "label"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = {"features": {"age": {"kind": "numeric"}}}
    learned = Domain.learn(tmp_path / "t.csv", "label", 5.0, 1e-6, given=given, random_state=3)
    assert learned == Domain.learn(frame, "label", 5.0, 1e-6, random_state=3)


@pytest.mark.parametrize("text", ["5,anna\n7,bob\n", "id,,label\n1,2,a\n", "7,x,label\n1,2,a\n"])
def test_a_text_file_without_a_header_is_refused_and_not_quoted(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    for learn in (
        lambda: Domain.learn(path, "label", 1.0, 1e-6),
        lambda: PrivBoostClassifier(1.0, 1e-6).fit(path, "label"),
    ):
        with pytest.raises(SchemaError, match="header") as caught:
            learn()
        assert "anna" not in str(caught.value)


def test_a_large_delta_is_warned_about():
    with pytest.warns(UserWarning, match="delta exceeds one over"):
        PrivBoostClassifier(5.0, 0.01, n_estimators=6).fit(frame_of(3000), "label")


def test_the_ledger_holds_the_learning_too(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    model = PrivBoostClassifier(1.0, 1e-6, n_estimators=6, interactions=False, ledger=ledger)
    model.fit(frame_of(4000), "label")
    lines = ledger.read_text().splitlines()
    assert '"training"' in lines[0]
    assert sum('"charge"' in line for line in lines) == 3 + 6 + 2
