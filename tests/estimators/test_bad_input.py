"""Clear errors before data are read; a valid model for whatever the rows hold."""

import numpy as np
import pandas as pd
import pytest

from privboost import (
    Domain,
    DomainError,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SchemaError,
)
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
        ({"delta": 0}, "delta = 0 .pure DP. is impossible with Gaussian noise"),
        ({"delta": 1}, "delta"),
        ({"delta": None}, "delta"),
        ({"domain": None}, "requires y to be passed"),
        ({"domain": make_domain(NUMBER)}, 'a classifier needs "classes"'),
        ({"n_estimators": 0}, "n_estimators"),
        ({"n_estimators": 2.5}, "n_estimators"),
        ({"n_estimators": 10**6}, "could pass"),
        ({"max_bins": 1}, "max_bins"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"gradient_clip": -1}, "gradient_clip"),
        ({"hessian_clip": 0}, "hessian_clip"),
        ({"hessian_share": 1}, "hessian_share"),
        ({"reg_lambda": 0}, "reg_lambda"),
        ({"leaf_clip": float("inf")}, "leaf_clip"),
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


@pytest.mark.parametrize("bad", [{"n_estimators": 0}, {"accountant": "magic"}, {"leaf_clip": 0}])
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
