"""Clear errors before data are read; a valid model for whatever the rows hold."""

import numpy as np
import pandas as pd
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    Domain,
    DomainError,
    DPXGBClassifier,
    LazyBBClassifier,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBClassifier,
    SBDTClassifier,
    SchemaError,
)
from privboost.accounting.calibration import calibrate_releases
from tests.tables import CLASSES, FEATURES, NUMBER, THREE, make_domain, make_frame


class Untouchable:
    """A table that fails the test if anybody looks at it."""

    def __getattr__(self, name):
        raise AssertionError(f"the data were touched: {name}")


def fit_untouched(**parameters):
    how = {"epsilon": 1.0, "delta": 1e-6, "domain": make_domain()} | parameters
    PrivBoostClassifier(**how).fit(Untouchable())


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"epsilon": 0}, "epsilon must be a finite number above 0"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": 1e-9, "delta": 1e-15}, "too small"),
        ({"delta": 0, "accountant": "gdp"}, "gdp accountant needs delta above 0"),
        ({"delta": 1}, "delta"),
        ({"delta": None}, "delta"),
        ({"domain": None}, "requires y to be passed"),
        ({"domain": make_domain(NUMBER)}, 'a classifier needs "classes"'),
        ({"n_estimators": 0}, "n_estimators"),
        ({"n_estimators": 2.5}, "n_estimators"),
        ({"calibration_share": 1}, "calibration_share"),
        ({"init_share": 0.97}, "leave nothing for the rounds"),
        ({"init_share": 0}, "init_share"),
        ({"gradient_clip": -1}, "gradient_clip"),
        ({"hessian_clip": 0}, "hessian_clip"),
        ({"hessian_share": 1}, "hessian_share"),
        ({"accountant": "magic"}, "accountant"),
        ({"random_state": -1}, "random_state"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"sample_weight_bound": 0}, "sample_weight_bound"),
        ({"backend": "cloud"}, "backend"),
    ],
)
def test_parameters_are_checked_before_data_are_touched(parameters, words):
    with pytest.raises(ValueError, match=words):
        fit_untouched(**parameters)


def test_pure_epsilon_is_refused_where_noise_is_gaussian():
    words = r"delta = 0 .pure DP. is impossible with Gaussian noise.*PrivBoostClassifier"
    with pytest.raises(ValueError, match=words):
        SBDTClassifier(1.0, 0, make_domain()).fit(Untouchable())


def domain_of(edges):
    feature = {"kind": "numeric", "bounds": [0, 1]}
    if edges:
        feature["edges"] = [(k + 1) / (edges + 1) for k in range(edges)]
    form = {"version": 1, "features": {"x": feature}, "target": {"name": "y", "classes": [0, 1]}}
    return Domain.from_dict(form)


@pytest.mark.parametrize("edges", [0, 3, 252])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (BoostedAdaSSPClassifier, "bins"),
        (SBDTClassifier, "n_candidates"),
        (DPXGBClassifier, "n_candidates"),
        (SarusXGBClassifier, "n_candidates"),
        (LazyBBClassifier, "n_candidates"),
    ],
)
def test_no_more_bins_than_there_are(kind, name, edges):
    most = (253 if edges == 252 else 192) - (name == "n_candidates")
    how = {"epsilon": 1.0, "delta": 1e-6, "domain": domain_of(edges), "n_estimators": 1}
    how |= {"density": 0.5} if kind is LazyBBClassifier else {}
    with pytest.raises(ValueError, match=f"^{name} must be at most {most}, all "):
        kind(**how, **{name: most + 1}).fit(Untouchable())
    kind(**how, **{name: most}).fit(np.linspace(0, 1, 20)[:, None], np.arange(20) % 2)


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"epsilon": None}, ValueError, "epsilon must be a finite number above 0; None is not"),
        ({"epsilon": "1"}, ValueError, "epsilon"),
        ({"epsilon": float("nan")}, ValueError, "epsilon"),
        ({"epsilon": float("inf")}, ValueError, "epsilon"),
        ({"epsilon": True}, ValueError, "epsilon"),
        ({"delta": None}, ValueError, "delta, if not 0, must be a finite number above 1e-300"),
        ({"delta": -1e-9}, ValueError, "delta"),
        ({"delta": 1}, ValueError, "delta"),
        ({"target": 3}, TypeError, "target must be the name of the column"),
        ({"target": None}, TypeError, "target"),
        ({"task": "rank"}, ValueError, "task"),
        ({"given": ["age"]}, TypeError, "given must be a mapping"),
        ({"random_state": 0.5}, TypeError, "random_state"),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"ledger": 5}, TypeError, "ledger must be the path"),
    ],
)
def test_learning_a_domain_checks_its_parameters_first(parameters, error, words):
    how = {"target": "income", "epsilon": 1.0, "delta": 1e-6} | parameters
    with pytest.raises(error, match=words):
        Domain.learn(Untouchable(), **how)


def test_types_of_parameters():
    with pytest.raises(TypeError, match="random_state"):
        fit_untouched(random_state=np.random.default_rng(0))
    with pytest.raises(TypeError, match="domain must be"):
        fit_untouched(domain=42)


def test_weights_need_a_bound():
    with pytest.raises(ValueError, match="sample_weight needs sample_weight_bound"):
        PrivBoostClassifier(1.0, 1e-6, make_domain()).fit(
            Untouchable(), sample_weight=Untouchable()
        )


def test_the_error_without_a_domain_shows_how_to_write_one():
    with pytest.raises(DomainError) as caught:
        fit_untouched(domain=None)
    example = str(caught.value).split("Domain.from_dict(")[1].split("})\n")[0] + "}"
    assert Domain.from_dict(eval(example, {"True": True})).feature_names == ("age", "job")


@pytest.mark.parametrize("bad", [{"n_estimators": 0}, {"accountant": "magic"}, {"init_share": 0}])
def test_nothing_is_spent_on_a_domain_before_parameters_are_checked(bad, tmp_path):
    model = PrivBoostClassifier(1.0, 1e-6, ledger=tmp_path / "ledger", **bad)
    with pytest.raises(ValueError, match=next(iter(bad))):
        model.fit(Untouchable(), Untouchable())
    assert not (tmp_path / "ledger").exists()


def test_a_regressor_needs_bounds():
    with pytest.raises(DomainError, match='a regressor needs "bounds"'):
        PrivBoostRegressor(1.0, 1e-6, make_domain()).fit(Untouchable())


def test_missing_columns():
    unit = make_domain(unit={"column": "patient", "max_rows": 2})
    for domain, frame, name in (
        (unit, make_frame(5), "patient"),
        (make_domain(), make_frame(5).drop(columns="job"), "job"),
        (make_domain(), make_frame(5).drop(columns="income"), "income"),
    ):
        with pytest.raises(SchemaError, match=f"no column '{name}'"):
            PrivBoostClassifier(1.0, 1e-6, domain).fit(frame)


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
@pytest.mark.parametrize("unit", [None, {"column": "person", "max_rows": 2}])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda frame: frame.iloc[:0],
        lambda frame: frame.iloc[:1],
        lambda frame: frame.assign(age=np.nan, job=None),
        lambda frame: frame.assign(**dict.fromkeys(FEATURES)),
        lambda frame: frame.assign(income=frame["income"].iloc[0]),
        lambda frame: frame.assign(income=None),
        lambda frame: frame.assign(weight=np.nan),
        lambda frame: frame.assign(age="not a number", gain="?"),
        lambda frame: frame.assign(person=None),
    ],
    ids=[
        "empty",
        "one",
        "missing",
        "all missing",
        "one class",
        "none",
        "nan weights",
        "text",
        "unit",
    ],
)
def test_odd_tables_give_a_valid_model(target, unit, spoil):
    kind = PrivBoostRegressor if target is NUMBER else PrivBoostClassifier
    model = kind(1.0, 1e-6, make_domain(target, unit), n_estimators=12, sample_weight_bound=1.0)
    frame = make_frame(40, target=target)
    for weights in (None, "weight"):
        model.fit(spoil(frame), sample_weight=weights)
        predicted = model.predict(frame)
        assert predicted.shape == (40,)
        assert predicted.dtype.kind in "fU"
        assert model.predict(frame.iloc[:0]).shape == (0,)


def test_an_empty_frame_without_types():
    frame = pd.DataFrame({name: [] for name in [*FEATURES, "income"]}, dtype=object)
    PrivBoostClassifier(1.0, 1e-6, make_domain(), n_estimators=3).fit(frame)


def test_a_huge_epsilon_without_a_domain_is_refused_before_it_costs(tmp_path):
    ledger = tmp_path / "ledger"
    frame = make_frame(30).drop(columns=["person", "weight"])
    with pytest.raises(ValueError, match="epsilon above 10000 protects nobody"):
        PrivBoostClassifier(1e6, 1e-6, n_estimators=2, ledger=ledger).fit(frame, "income")
    assert not ledger.exists()


def test_units_of_several_rows_are_said_first():
    with pytest.raises(ValueError, match="units of several rows"):
        LazyBBClassifier(1.0, domain=make_domain(unit={"column": "person", "max_rows": 3})).fit(
            make_frame(30)
        )


def test_a_large_delta_is_not_said_to_need_more_noise():
    with pytest.raises(ValueError, match="delta is so large"):
        calibrate_releases(1.0, 0.5, rounds=1, sampling_rate=0.1)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"sampling_rate": 1e-300}, "sampling_rate must lie between 1e-06 and 1"),
        ({"sampling_rate": float("nan")}, "sampling_rate"),
        ({"epsilon": 1e308}, "epsilon"),
        ({"epsilon": 1e-300}, "epsilon"),
        ({"rounds": 10**30}, "rounds"),
        ({"selections": 10, "selection_share": 1e-300}, "selection_share"),
    ],
)
def test_calibration_names_what_it_cannot_have(how, words):
    with pytest.raises(ValueError, match=words):
        calibrate_releases(**{"epsilon": 1.0, "delta": 1e-6, "rounds": 10} | how)


def test_noise_is_found_where_epsilon_falls_steeply():
    """At a large δ ε falls to 0 within a small change of noise; steps alone go astray."""
    said = calibrate_releases(1.0, 0.9, selections=10)
    assert 0.99 <= said.costs["game"] <= 1
