"""Parameters at their extremes: an error that names them before anything is spent, or a model."""

import json
import os
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

import privboost
from privboost import Domain, FitWarning, PrivacyWarning
from privboost._core.checks import LEAST_SHARE, LEAST_SIZE, MOST_SIZE
from privboost._core.threads import count_threads
from privboost.accounting.calibration import LEAST_RATE
from privboost.data.encoding import Encoder
from privboost.models.model import model_bytes
from privboost.recipes import ESTIMATORS
from privboost.recipes.common.newton import NewtonStep
from tests.estimators.test_bad_input import Untouchable

FEATURES = {
    "x": {"kind": "numeric", "bounds": [0, 1]},
    "c": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
}
TARGETS = {
    "Classifier": {"name": "y", "classes": [0, 1]},
    "Regressor": {"name": "y", "bounds": [0, 1]},
    "Survival": {"name": "t", "bounds": [0.1, 1], "event": "y"},
}
NO_SIZE = {"domain", "domain_given", "backend", "ledger", "domain_rows", "domain_share"}
"""Parameters that are no numbers, and the one that does nothing where there is a domain."""
SIZES = [1e-320, 1e-100, 1e-51, LEAST_SIZE * 1.01, 1e-9, 1e9, MOST_SIZE * 0.99, 1e51, 1e308]
SHARES = [LEAST_SHARE, 1 - LEAST_SHARE, 1 - 1e-16]
COUNTS = [0, -1, 10**7, 10**30, 10**400, 10**5000]
ODD = [-1e-320, -1.0, float("nan"), float("inf"), np.longdouble("1e4000"), 1j, "1", b"1", [1.0], {}]
ODD += [np.array([1.0, 2.0]), np.array(["a", "b"]), object()]
LISTS = {
    "shares": [(1e-300, 0.5, 0.5), (0, 1e-9, 1 - 1e-9), (0, 1e308, 1), (0, 10**400, 1), (0, 1, 0)],
    "ratio": [(1e-300, 1, 0), (1e308, 1e308, 1), (1, 1, 1e-9), (1e-51, 1, 1), (10**400, 1, 1)],
    "class_weight": [{0: 1e-300, 1: 1}, {0: 1, 1: 1e308}, {0: 10**400, 1: 1}, {0: 1, 1: 4096}],
    "products": [True, np.True_, 0.5, 3, ["xc"], [("x", "x")], [(1, 2)], ["x"], "xc", [("x", "c")]],
    "norm_bound": [1e-5, 1e-3, 8192, 8193, 3e4, 4e4],
}


def table():
    rng = np.random.default_rng(0)
    x, y = rng.random(60), rng.integers(0, 2, 60)
    rest = {"c": rng.choice(["a", "b"], 60), "y": y, "w": rng.random(60)}
    return pd.DataFrame({"x": x, "t": x + 0.1} | rest)


def estimator(name, **parameters):
    kind = getattr(privboost, name)
    target = next(target for end, target in TARGETS.items() if name.endswith(end))
    domain = Domain.from_dict({"version": 1, "features": FEATURES, "target": target})
    delta = 0.0 if name.startswith("Sarus") else 1e-6
    own = {"epsilon": 1.0, "delta": delta, "domain": domain, "n_estimators": 3}
    own |= {"density": 0.5} if "LazyBB" in name else {}
    own |= {"interactions": False} if "PrivBoost" in name else {}  # they have a test of their own
    return kind(**(own | parameters))


def judge(model, about, folder, **given):
    """Return what is wrong with a fit, or None."""
    rows, ledger, path = table(), folder / "ledger", folder / "model"
    ledger.unlink(missing_ok=True)
    try:
        model.set_params(ledger=ledger).fit(rows, **given)
    except (ValueError, TypeError) as error:
        if ledger.exists():
            return f"it is spent: {error}"
        return None if about in str(error) else f"unnamed: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    model.save(path)
    loaded = privboost.load_model(path)
    told = [loaded.decision_function(rows)] if hasattr(model, "classes_") else []
    told += [] if hasattr(model, "classes_") else [loaded.predict(rows)]
    told += [model.feature_importances_] if hasattr(model, "feature_importances_") else []
    model.privacy_.to_json()
    return None if all(np.isfinite(numbers).all() for numbers in told) else "not finite"


def cases(name):
    """Yield each parameter with values that are hard to bear."""
    for parameter, default in estimator(name).get_params().items():
        if parameter in NO_SIZE:
            continue
        values = [*COUNTS, *ODD, *LISTS.get(parameter, [])]
        values += [] if isinstance(default, str | bool) else SIZES
        values += SHARES if parameter.endswith("share") else []
        values = ODD[-3:] if parameter == "verbose" else values  # any is true, false or neither
        for value in values:
            yield parameter, value


def brief(value):
    return "a huge number" if isinstance(value, int) and value > 10**30 else repr(value)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_is_named_or_gives_a_model(name, tmp_path):
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", FitWarning)  # of so few rows
        for parameter, value in cases(name):
            given = {"sample_weight": "w"} if parameter == "sample_weight_bound" else {}
            try:
                found = judge(estimator(name, **{parameter: value}), parameter, tmp_path, **given)
            except Exception as error:
                found = f"after it was spent: {type(error).__name__}: {error}"
            if found:
                wrong.append(f"{parameter}={brief(value)}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["PrivBoostClassifier", "PrivBoostRegressor"])
def test_as_many_interactions_as_there_may_be_give_a_model(name, tmp_path):
    model = estimator(name, interactions=True, epsilon=MOST_SIZE * 0.99)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", FitWarning)  # of so few rows
        assert judge(model, "epsilon", tmp_path) is None
    assert model.model_.scores.kind == "compound"


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("SBDTClassifier", {"epsilon": 10.0}),  # privacy loss distributions, quicker than at 1
        ("SarusXGBRegressor", {}),
        ("SarusXGBRegressor", {"accountant": "rdp"}),
    ],
)
def test_few_rows_may_be_sampled(name, how, tmp_path):
    model = estimator(name, subsample=LEAST_RATE, delta=1e-9, **how)
    assert judge(model, "subsample", tmp_path) is None


def test_no_sizes_together_leave_the_floats():
    """Sums as large as int64, and noise as large as the grid has, at both ends of all sizes."""
    ends = (LEAST_SIZE * 1.01, MOST_SIZE * 0.99)
    sums = np.array([-(2**62), -1, 0, 1, 2**62])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for gradient, hessian, lambda_, leaf, bound in product(ends, ends, ends, ends, ends):
            rate = max(0.5 / leaf, ends[0])
            given = NewtonStep(gradient, hessian, 0.5, lambda_, leaf, rate)
            for step in (given, given.with_noise_lambda(1.0, 2.0**44, bound)):
                values = step.values(sums, sums[::-1], bound)
                assert np.abs(values).max() <= 2**17
                assert np.isfinite(step.noise(sums, 2.0**44, bound) ** 2).all()


SOME = {
    "bins": 4,
    "density": 0.3,
    "gradient_filter": 0.2,
    "greedy_depth": 1,
    "hessian_clip": 0.3,
    "hessian_share": 0.3,
    "init_share": 0.1,
    "learning_rate": 0.3,
    "max_bins": 4,
    "max_depth": 2,
    "n_estimators": 3,
    "norm_bound": 1.3,
    "reg_lambda": 2.3,
    "sample_weight_bound": 2.3,
}
"""Ordinary numbers for parameters whose default is None."""
WHOLE = [np.int64, np.int8, np.uint64]
BROKEN = [np.float32, np.float64, np.longdouble, np.float16]


def numbers(name):
    """Yield each parameter that is a number, as numpy has it and as Python has the same."""
    for parameter, default in estimator(name).get_params().items():
        value = SOME.get(parameter) if default is None else default
        value = 3 if parameter == "features" else value
        if isinstance(value, tuple):
            yield parameter, tuple(map(np.float64, value)), value
        elif isinstance(value, bool):
            yield parameter, np.bool_(value), value
        elif isinstance(value, int):
            yield from ((parameter, kind(value), value) for kind in WHOLE)
        elif isinstance(value, float):
            own = [kind(value) for kind in BROKEN]
            yield from ((parameter, number, float(number)) for number in own if 0 < number < 2**14)


def plan_of(model):
    run_settings = model._prepare(Untouchable(), None, None).run_settings
    bound = model._weight_bound("w") if model.sample_weight_bound else None
    encoder = Encoder.of(run_settings.domain)
    return model._plan(encoder, bound, run_settings.budget), run_settings


@pytest.mark.parametrize("name", ESTIMATORS)
def test_numbers_of_numpy_make_the_same_plan(name):
    checked = set()
    for parameter, own, same in numbers(name):
        made, run_settings = plan_of(estimator(name, **{parameter: own}))
        plain, _ = plan_of(estimator(name, **{parameter: same}))
        assert made.digest == plain.digest, parameter
        assert json.dumps(made.parameters) == json.dumps(plain.parameters), parameter
        assert type(run_settings.budget.epsilon) is type(run_settings.budget.delta) is float
        checked.add(parameter)
    assert checked >= {"epsilon", "n_estimators"}


def test_a_plan_that_cannot_be_hashed_cannot_be_made():
    plan, _ = plan_of(estimator("SBDTClassifier"))
    settings = replace(plan.settings)
    object.__setattr__(settings, "init_share", np.float32(0.1))
    with pytest.raises(TypeError, match="not JSON serializable"):
        replace(plan, settings=settings)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("SBDTClassifier", {"init_share": np.float32(0.02), "candidate_share": np.float32(0.1)}),
        ("DPXGBClassifier", {"split_lambda": np.float32(1), "domain_share": np.float32(0.1)}),
        ("SarusXGBClassifier", {"gradient_filter": np.float32(0.25), "delta": np.float32(1e-6)}),
        ("SarusXGBClassifier", {"min_child_weight": np.longdouble(2), "delta": 1e-6}),
    ],
)
def test_numbers_of_numpy_do_not_fail_once_a_domain_is_learned(name, how):
    rows = pd.concat([table()] * 30).drop(columns="w")
    model = estimator(name, **{"epsilon": 20.0, "domain": None, "max_depth": 2} | how)
    assert model.fit(rows, "y").domain_.privacy is not None


@pytest.mark.parametrize("share", [0, 1e-300, 1e-7, 1 - 1e-16, 1, 10**400, "a", np.ones(2)])
def test_a_share_of_a_domain_is_named_before_it_costs(share, tmp_path):
    ledger = tmp_path / "ledger"
    model = estimator("LazyBBClassifier", domain=None, domain_share=share, ledger=ledger)
    with pytest.raises(ValueError, match="domain_share must lie strictly between 0 and 1"):
        model.fit(table(), "y")
    assert not ledger.exists()


def test_more_threads_than_anybody_has_are_not_made(tmp_path):
    model = estimator("PrivBoostClassifier", n_jobs=10**20, random_state=1)
    assert 1 <= count_threads(model.n_jobs) <= 8 * (os.cpu_count() or 1)
    one = estimator("PrivBoostClassifier", random_state=1).fit(table())
    assert model_bytes(model.fit(table()).model_) == model_bytes(one.model_)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"ledger": ""}, "ledger must be the path of a file; '' is none"),
        ({"ledger": "a\0b"}, "ledger must be the path of a file"),
        ({"ledger": "."}, "ledger must be the path of a file; '.' is a folder"),
        ({"domain": "\0"}, "domain must be the path of a file"),
        ({"domain": ""}, "domain must be the path of a file"),
        ({"gradient_clip": 1e-30}, "gradient_clip and hessian_clip are too far apart"),
        ({"hessian_clip": 1e30}, "gradient_clip and hessian_clip are too far apart"),
        ({"verbose": np.array([1, 2])}, "verbose must be True or False"),
        ({"init_share": 1e-300}, "init_share must lie strictly between 0 and 1"),
        ({"subsample": 1e-300}, "subsample must lie between 0 and 1"),
        ({"epsilon": 10**400}, "epsilon must be a finite number"),
    ],
)
def test_errors_name_what_was_given(how, words):
    with pytest.raises(ValueError, match=words):
        estimator("SBDTClassifier", **how).fit(Untouchable())


@pytest.mark.parametrize(
    "how", [{"epsilon": 10**400}, {"epsilon": 1e308}, {"delta": 10**400}, {"ledger": ""}]
)
def test_learning_a_domain_names_what_was_given(how):
    with pytest.raises(ValueError, match=next(iter(how))):
        Domain.learn(Untouchable(), **{"target": "y", "epsilon": 1.0, "delta": 1e-6} | how)
