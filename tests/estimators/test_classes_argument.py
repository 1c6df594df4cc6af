"""`classes=`: public, free, and checked; labels whose type is of the other task are refused."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import privboost
from privboost import (
    BoostedAdaSSPRegressor,
    DomainError,
    LazyBBClassifier,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    SBDTRegressor,
    SchemaError,
)
from tests.tables import make_domain, make_frame

CLASSIFIERS = [getattr(privboost, name) for name in privboost.__all__ if "Classifier" in name]
QUICK = {"epsilon": 5.0, "random_state": 1}


def rare(rows=3000, share=0.0036, seed=0):
    """Return a table whose second class is rare."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.uniform(0, 1, rows)})
    frame["fraud"] = (rng.random(rows) < share).astype(int)
    return frame


@pytest.mark.parametrize("kind", CLASSIFIERS, ids=lambda kind: kind.__name__)
def test_every_classifier_takes_them(kind):
    model = kind(classes=[0, 1], n_estimators=5, **QUICK)
    assert clone(model).get_params()["classes"] == [0, 1]
    model.fit(rare(1000), "fraud")
    assert model.classes_.tolist() == [0, 1]
    assert model.domain_.target.classes == (0, 1)
    assert model.classes == [0, 1]


def test_a_rare_class_is_not_missed_and_costs_nothing():
    failed = 0
    for seed in range(10):
        how = {"epsilon": 1.0, "delta": 1e-6, "n_estimators": 2, "random_state": seed}
        try:
            PrivBoostClassifier(**how).fit(rare(seed=seed), "fraud")
        except DomainError:
            failed += 1
        model = PrivBoostClassifier(classes=[0, 1], **how).fit(rare(seed=seed), "fraud")
        assert model.privacy_.epsilon <= 1
        assert not any(said.startswith("learned about") for said in model.privacy_.assumptions)
    assert failed


def test_a_fit_without_two_classes_says_what_it_spent_and_what_helps():
    with pytest.raises(DomainError) as raised:
        PrivBoostClassifier(**QUICK).fit(rare(1000, share=0), "fraud")
    assert re.search(r"has spent epsilon = \d", str(raised.value))
    assert "classes=[0, 1]" in str(raised.value)


@pytest.mark.parametrize("labels", [float, "Int64", str, bool, object])
def test_labels_match_them_as_they_match_a_domains(labels):
    """The type of labels decides nothing where classes are given."""
    frame = rare(2000, share=0.5)
    exact = PrivBoostClassifier(classes=[0, 1], **QUICK).fit(frame, "fraud")
    other = frame.assign(fraud=frame["fraud"].astype(labels))
    model = PrivBoostClassifier(classes=[0, 1], **QUICK).fit(other, "fraud")
    assert model.predict_proba(frame).tolist() == exact.predict_proba(frame).tolist()


def test_one_null_makes_floats_and_changes_nothing():
    frame = rare(2000, share=0.5)
    frame.loc[0, "fraud"] = None
    assert frame["fraud"].dtype == float
    model = PrivBoostClassifier(classes=[0, 1], **QUICK).fit(frame, "fraud")
    assert model.classes_.tolist() == [0, 1]
    form = {"version": 1, "features": {"x": {"kind": "numeric", "bounds": [0, 1]}}}
    domain = form | {"target": {"name": "fraud", "classes": [0, 1]}}
    assert PrivBoostClassifier(domain=domain, **QUICK).fit(frame).classes_.tolist() == [0, 1]
    given = {"target": {"classes": [0, 1]}}
    model = PrivBoostClassifier(domain_given=given, **QUICK).fit(frame, "fraud")
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("classes", [["high", "low"], np.array(["low", "high"]), ("low", "high")])
def test_beside_a_domain_they_must_be_the_same(classes):
    model = PrivBoostClassifier(domain=make_domain(), classes=classes, n_estimators=2, **QUICK)
    assert model.fit(make_frame(100)).classes_.tolist() == ["high", "low"]
    for other in (["high", "low", "mid"], ["high", "LOW"], [0, 1]):
        with pytest.raises(DomainError, match="classes must be those of the domain"):
            model.set_params(classes=other).fit(make_frame(100))


def test_beside_a_part_of_a_domain():
    given = {"target": {"name": "fraud", "classes": None}}
    model = PrivBoostClassifier(classes=[0, 1], domain_given=given, **QUICK)
    assert model.fit(rare(1000)).classes_.tolist() == [0, 1]
    model.set_params(domain_given={"target": {"classes": ["0", "1"]}})  # which match
    assert model.fit(rare(1000), "fraud").classes_.tolist() == ["0", "1"]
    model.set_params(domain_given={"target": {"classes": [1, 2]}})
    with pytest.raises(DomainError, match="classes must be those of the domain"):
        model.fit(rare(1000), "fraud")


@pytest.mark.parametrize("classes", ["01", [0], [0, 0], [0, "a"], [0, float("nan")], 3])
def test_what_cannot_be_classes_is_refused_before_anything_is_spent(classes, tmp_path):
    ledger = tmp_path / "ledger"
    model = PrivBoostClassifier(classes=classes, ledger=ledger, **QUICK)
    with pytest.raises(DomainError, match="classes"):
        model.fit(rare(1000), "fraud")
    assert not ledger.exists()


def test_a_number_has_none():
    for kind in (PrivBoostRegressor, SBDTRegressor):
        with pytest.raises(ValueError, match="classes is for classifiers"):
            kind(classes=[0, 1], **QUICK).fit(rare(100), "x")
    with pytest.raises(TypeError, match="no parameter 'classes'"):
        BoostedAdaSSPRegressor(classes=[0, 1])


def test_a_stream_takes_them_with_its_first_batch():
    how = {"n_estimators": 4, "random_state": 1}
    model = SBDTClassifier(5.0, **how).partial_fit(rare(1000), "fraud", classes=[0, 1])
    same = SBDTClassifier(5.0, classes=[0, 1], **how).partial_fit(rare(1000), "fraud")
    assert model.predict_proba(rare(50)).tolist() == same.predict_proba(rare(50)).tolist()
    model.partial_fit(rare(1000, seed=1), "fraud", classes=[1, 0])
    with pytest.raises(DomainError, match="classes must be"):
        model.partial_fit(rare(1000), "fraud", classes=[0, 2])
    assert model.n_batches_ == 2


FLOATS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrays": lambda frame: frame.to_numpy(),
}


@pytest.mark.parametrize("kind", CLASSIFIERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("library", FLOATS)
def test_a_classifier_refuses_floats_and_names_the_regressor(kind, library, tmp_path):
    rows, ledger = FLOATS[library](rare(1000)[["x"]]), tmp_path / "ledger"
    y = np.random.default_rng(0).normal(size=1000)
    regressor = kind.__name__.replace("Classifier", "Regressor")
    regressor = "PrivBoostRegressor" if kind is LazyBBClassifier else regressor
    with pytest.raises(SchemaError, match=rf"{regressor} for a number.*classes=\[0, 1\]"):
        kind(ledger=ledger, **QUICK).fit(rows, y)
    assert not ledger.exists()


def test_whole_numbers_words_and_objects_are_learned_as_before():
    frame = rare(3000, share=0.5)
    for labels in (int, str, bool, object, "category"):
        model = PrivBoostClassifier(n_estimators=2, **QUICK)
        model.fit(frame.assign(fraud=frame["fraud"].astype(labels)), "fraud")
        assert len(model.classes_) == 2


@pytest.mark.parametrize("labels", ["string", "category"])
def test_a_regressor_refuses_words_and_names_the_classifier(labels, tmp_path):
    frame, ledger = make_frame(500)[["age", "income"]], tmp_path / "ledger"
    frame["income"] = frame["income"].astype(labels)
    for kind, name in ((PrivBoostRegressor, "PrivBoost"), (SBDTRegressor, "SBDT")):
        with pytest.raises(SchemaError, match=f"use {name}Classifier for classes"):
            kind(ledger=ledger, **QUICK).fit(frame, "income")
    assert not ledger.exists()
    given = {"target": {"bounds": [0, 1]}}  # texts that are numbers
    frame["income"] = pd.Series(["0", "1"] * 250, dtype=labels)
    model = PrivBoostRegressor(domain_given=given, n_estimators=2, **QUICK)
    assert model.fit(frame, "income").domain_.target.bounds == (0, 1)
