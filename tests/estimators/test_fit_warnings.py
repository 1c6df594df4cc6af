"""A fit warns of what released values show to be wrong, once, when the model is complete."""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    Domain,
    DPXGBClassifier,
    FitWarning,
    LazyBBClassifier,
    PrivateSearchCV,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBClassifier,
    SBDTClassifier,
    evaluate,
    load_model,
)
from privboost.models.findings import _is_empty, find_defects
from privboost.models.model import model_bytes, read_model
from tests.federated.parties import federate
from tests.tables import NUMBER, make_domain, make_frame

UNMATCHED = {"name": "t", "classes": ["NO", "YES"]}
FEATURES = {
    "a": {"kind": "numeric", "bounds": [0, 9], "missing": True},
    "b": {"kind": "numeric", "bounds": [0, 1]},
    "c": {"kind": "categorical", "categories": ["u", "v", "w"], "missing": True},
}


def domain(target=None):
    target = target or {"name": "t", "classes": ["no", "yes"]}
    return Domain.from_dict({"version": 1, "features": FEATURES, "target": target})


def table(rows, **columns):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 9, rows), "b": rng.uniform(0, 1, rows)})
    frame["c"] = rng.choice(["u", "v", "w"], rows)
    likely = frame["a"] + 3 * frame["b"] + rng.normal(0, 2, rows) > 6
    frame["t"] = np.where(likely, "yes", "no")
    return frame.assign(**columns)


def given(act):
    """Return the fit warnings of an act."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return [one.message for one in caught if one.category is FitWarning]


QUICK = {"n_estimators": 20, "random_state": 1}
KINDS = [
    (PrivBoostClassifier, {"random_state": 1}),
    (PrivBoostClassifier, {"random_state": 1, "delta": 0.0}),
    (SBDTClassifier, QUICK),
    (DPXGBClassifier, QUICK),
    (SarusXGBClassifier, QUICK),
    (LazyBBClassifier, {"n_estimators": 5, "random_state": 1}),
    (BoostedAdaSSPClassifier, {"random_state": 1}),
]


@pytest.mark.parametrize(("kind", "how"), KINDS, ids=lambda x: getattr(x, "__name__", ""))
def test_every_recipe_warns_of_unmatched_labels_and_of_few_rows(kind, how):
    for target, rows in ((UNMATCHED, 3000), (None, 3)):
        model = kind(1.0, domain=domain(target), **how)
        (warning,) = given(lambda: model.fit(table(rows)))  # noqa: B023
        assert warning.kinds == ("no rows",)
        assert "labels match no class" in str(warning)
        assert "hardly any rows" in str(warning)
        assert warning.result is model.model_
    assert given(lambda: kind(1.0, domain=domain(), **how).fit(table(3000))) == []


def test_labels_that_are_no_numbers():
    target = {"name": "a", "bounds": [0, 9]}
    features = {name: own for name, own in FEATURES.items() if name != "a"}
    own = Domain.from_dict({"version": 1, "features": features, "target": target})
    model = PrivBoostRegressor(1.0, domain=own, random_state=1)
    (warning,) = given(lambda: model.fit(table(3000, a=np.nan)))
    assert warning.kinds == ("no rows",)
    assert "labels are not numbers" in str(warning)


TELLING = [
    (PrivBoostClassifier, {}),
    (PrivBoostClassifier, {"delta": 0.0}),
    (PrivBoostClassifier, {"interactions": False}),
    (SBDTClassifier, {}),
    (SBDTClassifier, {"features": "uniform", "n_estimators": 60}),
]


@pytest.mark.parametrize("column", ["b", "c"])
@pytest.mark.parametrize(("kind", "how"), TELLING, ids=lambda x: getattr(x, "__name__", ""))
def test_a_column_without_values_is_named(kind, how, column):
    frame = table(30_000, **{column: np.nan if column == "b" else None})
    model = kind(1.0, domain=domain(), random_state=1, **how)
    (warning,) = given(lambda: model.fit(frame))
    assert warning.kinds == ("missing column",)
    assert str(warning).startswith(f"missing column: {column}: nearly every cell")
    (finding,) = warning.findings
    assert finding in model.model_.findings()
    assert find_defects(read_model(model_bytes(model.model_), "file")) == warning.findings


@pytest.mark.parametrize("kind", [DPXGBClassifier, SarusXGBClassifier, LazyBBClassifier])
def test_recipes_that_release_nothing_about_it_say_nothing(kind):
    frame = table(10_000, b=np.nan)
    model = kind(1.0, domain=domain(), n_estimators=5, random_state=1)
    assert given(lambda: model.fit(frame)) == []


@pytest.mark.parametrize("kind", [PrivBoostClassifier, SBDTClassifier])
def test_half_empty_columns_are_healthy(kind):
    rng = np.random.default_rng(1)
    frame = table(10_000)
    frame.loc[rng.random(len(frame)) < 0.5, "b"] = np.nan
    frame.loc[rng.random(len(frame)) < 0.8, "c"] = None
    for seed in range(4):
        model = kind(1.0, domain=domain(), random_state=seed)
        assert given(lambda: model.fit(frame)) == []  # noqa: B023


def test_noise_alone_is_no_empty_column():
    """However few values noise leaves, the rows without one must stand out by far."""
    rng = np.random.default_rng(0)
    for missing, present in rng.normal(0, 1, (100_000, 2)):
        assert not _is_empty(missing, present, 1.0)
    assert _is_empty(100.0, 0.0, 1.0)
    assert not _is_empty(100.0, 20.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (PrivBoostClassifier, {"interactions": False, "n_estimators": 9}),
        (SBDTClassifier, {"n_estimators": 12, "max_depth": 4}),
        (LazyBBClassifier, {"n_estimators": 5}),
        (BoostedAdaSSPClassifier, {}),
    ],
)
def test_healthy_tables_are_not_warned_of(kind, how, epsilon):
    """With 300 fits and none warned of, fewer than 1 % are, with 95 % confidence."""
    rng = np.random.default_rng(1)
    frame = table(int(2_000 / epsilon))
    frame.loc[rng.random(len(frame)) < 0.3, "b"] = np.nan
    found = [
        find_defects(kind(epsilon, domain=domain(), random_state=seed, **how).fit(frame).model_)
        for seed in range(300)
    ]
    assert [own for own in found if own] == []


def test_public_rows_are_counted_exactly():
    how = {"public_rows": True, "interactions": False}
    model = PrivBoostClassifier(float("inf"), domain=domain(), **how)
    assert given(lambda: model.fit(table(500))) == []
    (warning,) = given(lambda: model.fit(table(500, b=np.nan)))
    assert warning.kinds == ("missing column",)
    model = PrivBoostClassifier(float("inf"), domain=domain(UNMATCHED), **how)
    (warning,) = given(lambda: model.fit(table(500)))
    assert "is 0" in str(warning)


def test_as_an_error_it_loses_nothing(tmp_path):
    model = PrivBoostClassifier(1.0, domain=domain(UNMATCHED), random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        with pytest.raises(FitWarning) as raised:
            model.fit(table(1000))
    assert raised.value.result is model.model_
    assert model.privacy_.epsilon <= 1
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").privacy == model.privacy_


def test_a_stream_goes_on_after_it():
    model = SBDTClassifier(1.0, domain=domain(UNMATCHED), n_estimators=20, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        for batch in (1, 2):
            with pytest.raises(FitWarning):
                model.partial_fit(table(500))
            assert model.n_batches_ == batch


def test_a_federation_warns_as_one_machine_does():
    target = {"name": "income", "classes": ["LOW", "HIGH"]}
    model = SBDTClassifier(1.0, 1e-6, make_domain(target), n_estimators=12, random_state=1)
    (warning,) = given(lambda: model.fit(federate(make_frame(300), 3)))
    assert warning.kinds == ("no rows",)
    (alone,) = given(lambda: model.fit(make_frame(300)))
    assert str(alone) == str(warning)


def test_a_search_warns_of_its_winner():
    base = PrivBoostClassifier(domain=domain(UNMATCHED), interactions=False)
    tried = [{"n_estimators": 3}, {"n_estimators": 6}]
    search = PrivateSearchCV(base, tried, 1.0, 1e-6, expected_runs=2, random_state=1)
    (warning,) = given(lambda: search.fit(table(1000)))
    assert warning.kinds == ("no rows",)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        again = PrivateSearchCV(base, tried, 1.0, 1e-6, expected_runs=2, random_state=1)
        with pytest.raises(FitWarning):
            again.fit(table(1000))
    assert again.best_params_ in tried
    assert again.privacy_.epsilon <= 1


@pytest.mark.parametrize("target", [None, NUMBER], ids=["classes", "number"])
def test_evaluations_warn_of_rows_that_are_not_there(target):
    if target is None:
        model = PrivBoostClassifier(5.0, domain=domain(), random_state=1).fit(table(3000))
        full, none = table(3000), table(3000, t="unheard of")
    else:
        model = PrivBoostRegressor(5.0, domain=make_domain(NUMBER), random_state=1)
        full = make_frame(3000, target=NUMBER)
        none = full.assign(income=np.nan)
        model.fit(full)
    found = []
    how = {"epsilon": 1.0, "random_state": 1}
    assert given(lambda: found.append(evaluate(model, full, **how))) == []
    (warning,) = given(lambda: found.append(evaluate(model, none, **how)))
    assert warning.kinds == ("no rows",)
    assert warning.result is found[1]
    assert [own.to_dict()["warnings"] for own in found] == [
        [],
        [{"kind": "no rows", "text": warning.findings[0].text}],
    ]


def test_what_it_is_and_where_it_points():
    assert issubclass(FitWarning, UserWarning)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        PrivBoostClassifier(1.0, domain=domain(UNMATCHED), random_state=1).fit(table(100))
    (one,) = [each for each in caught if each.category is FitWarning]
    assert one.filename == __file__
    again = pickle.loads(pickle.dumps(one.message))
    assert (again.kinds, str(again)) == (one.message.kinds, str(one.message))
    same = SimpleNamespace(kind="no rows", text="")
    assert FitWarning(same, same).kinds == ("no rows",)
