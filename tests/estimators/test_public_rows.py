"""An infinite epsilon: the same recipes without noise, for rows that are declared public."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import privboost
from privboost import (
    BoostedAdaSSPRegressor,
    BudgetError,
    Domain,
    DomainError,
    LazyBBClassifier,
    ModelFileError,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBClassifier,
    SBDTClassifier,
    load_model,
)
from privboost.estimators.stream_files import save_stream
from privboost.recipes import ESTIMATORS
from privboost.reports.report import PUBLIC, PrivacyReport
from privboost.reports.writing import add_domain_inference, join_reports
from tests.tables import CLASSES, NUMBER, SURVIVAL, THREE, make_domain, make_frame

PUBLIC_ROWS = {"epsilon": math.inf, "public_rows": True}
FAST = {"n_estimators": 7}


def target_of(name):
    known = {"Regressor": NUMBER, "Survival": SURVIVAL}
    return next((own for end, own in known.items() if name.endswith(end)), CLASSES)


def public(name, target=None, **how):
    kind = getattr(privboost, name)
    few = {"interactions": False} if name.startswith("PrivBoost") else {}  # else there are hundreds
    return kind(domain=make_domain(target or target_of(name)), **(PUBLIC_ROWS | FAST | few | how))


class Untouchable:
    """A table that nobody may look at."""

    def __getattribute__(self, name):
        if name == "__class__":
            return super().__getattribute__(name)
        raise AssertionError(f"{name} was read")


def weighted(name):
    if name == "LazyBBClassifier":
        return {}, {}
    return {"sample_weight_bound": 2.0}, {"sample_weight": "weight"}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_recipe_fits_exactly(name, recwarn):
    frame = make_frame(300, target=target_of(name))
    bound, weights = weighted(name)
    fits = [public(name, random_state=s, **bound).fit(frame, **weights) for s in (1, 1)]
    assert not [w for w in recwarn if issubclass(w.category, privboost.PrivacyWarning)]
    first, again = fits
    np.testing.assert_array_equal(first.predict(frame), again.predict(frame))
    assert first.privacy_.guarantee == PUBLIC
    assert all("no noise" in release.mechanism for release in first.privacy_.releases)


@pytest.mark.parametrize("name", ["LazyBBClassifier", "BoostedAdaSSPClassifier"])
@pytest.mark.parametrize("target", [CLASSES, THREE], ids=["two", "three"])
def test_where_nothing_is_random_no_seed_matters(name, target):
    frame = make_frame(200, target=target)
    one, other = (public(name, target, random_state=s).fit(frame) for s in (None, 5))
    scores = one.decision_function(frame)
    np.testing.assert_array_equal(scores, other.decision_function(frame))


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (SBDTClassifier, {"extra_estimators": 5, "subsample": 0.5, "batch_size": 2}),
        (SBDTClassifier, {"extra_estimators": 5, "candidates": "hessian"}),
        (
            SBDTClassifier,
            {"init_epsilon": 0.1, "init_count_epsilon": 0.1, "init_noise": "laplace"},
        ),
        (SarusXGBClassifier, {"subsample": 0.5, "sketch_each_tree": True}),
        (SarusXGBClassifier, {"leaves": "means"}),
        (LazyBBClassifier, {"learner": "tree"}),
        (LazyBBClassifier, {"n_estimators": None}),
    ],
)
def test_variants(kind, how):
    frame = make_frame(200)
    model = kind(domain=make_domain(), **(PUBLIC_ROWS | FAST | how)).fit(frame)
    assert len(np.unique(model.decision_function(frame))) > 1
    if kind is SBDTClassifier:
        told = {release.what.split()[0]: release.count for release in model.privacy_.releases}
        trees = FAST["n_estimators"] + how.get("extra_estimators", 0)
        assert told["gradients"] == -(-trees // how.get("batch_size", 1))
    if "n_estimators" in how:
        assert model.privacy_.parameters["n_estimators"] == 99  # the most that any budget buys


TWO = Domain.from_dict(
    {
        "version": 1,
        "features": {"job": {"kind": "categorical", "categories": ["a", "b"]}},
        "target": {"name": "y", "bounds": [-1, 1]},
    }
)


def two_jobs():
    rng = np.random.default_rng(3)
    job = rng.choice(["a", "b"], 500)
    steps = rng.integers(-512, 512, 500) / 1024  # on the grid
    return pd.DataFrame({"job": job, "y": steps + np.where(job == "a", 0.25, -0.25)})


def test_an_effect_is_that_of_exact_sums():
    frame = two_jobs()
    model = PrivBoostRegressor(domain=TWO, gradient_clip=2.0, **PUBLIC_ROWS).fit(frame)
    for job, own in frame.groupby("job"):  # but for a prior that 250 rows outweigh
        got = model.predict(pd.DataFrame({"job": [job]}))[0]
        assert got == pytest.approx(own["y"].mean(), abs=2e-3)


def test_a_linear_models_coefficients_are_those_of_exact_sums():
    frame = two_jobs()
    how = {"n_estimators": 1, "learning_rate": 1.0, "gradient_clip": 2.0}
    model = BoostedAdaSSPRegressor(domain=TWO, **PUBLIC_ROWS, **how).fit(frame)
    for job, own in frame.groupby("job"):  # least squares of two indicators are two means
        got = model.predict(pd.DataFrame({"job": [job]}))[0]
        assert got == pytest.approx(own["y"].mean(), abs=1e-3)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_infinite_epsilon_needs_the_declaration(name):
    kind = getattr(privboost, name)
    for epsilon in (math.inf, np.float64("inf")):
        with pytest.raises(BudgetError, match="public_rows=True"):
            kind(epsilon=epsilon, domain=make_domain(target_of(name))).fit(Untouchable())
    with pytest.raises(BudgetError, match=r"math\.inf only"):
        kind(public_rows=True, domain=make_domain(target_of(name))).fit(Untouchable())
    for word in ("yes", "no", 1, None):
        with pytest.raises(ValueError, match="must be True or False"):
            kind(epsilon=math.inf, public_rows=word).fit(Untouchable())


def test_what_promises_something_is_refused(tmp_path):
    frame = make_frame(50)
    with pytest.raises(BudgetError, match="must be written"):
        PrivBoostClassifier(**PUBLIC_ROWS).fit(frame, "income")
    with pytest.warns(privboost.PrivacyWarning):
        learned = Domain.learn(make_frame(3000), "income", 5.0, 1e-6, random_state=1)
    for rows in ("same", "other"):
        with pytest.raises(BudgetError, match="must be written"):
            PrivBoostClassifier(domain=learned, domain_rows=rows, **PUBLIC_ROWS).fit(frame)
    unit = make_domain(unit={"column": "person", "max_rows": 2})
    with pytest.raises(BudgetError, match="unit"):
        PrivBoostClassifier(domain=unit, **PUBLIC_ROWS).fit(frame)
    with pytest.raises(BudgetError, match="ledger"):
        public("PrivBoostClassifier", ledger=tmp_path / "l.jsonl").fit(frame)
    assert not list(tmp_path.iterdir())
    with pytest.raises(BudgetError, match="stream"):
        public("SBDTClassifier").partial_fit(frame)
    with pytest.raises(ValueError, match="accountant"):
        public("PrivBoostClassifier", accountant="nobody").fit(frame)


def test_the_report_says_so_wherever_it_goes(tmp_path):
    model = public("PrivBoostClassifier", random_state=2, interactions=True).fit(make_frame(100))
    report = model.privacy_
    assert all("no noise" in release.mechanism for release in report.releases)
    form = json.loads(report.to_json(), parse_constant=lambda word: pytest.fail(word))
    assert (form["epsilon"], form["delta"], form["public_rows"]) == (None, 1.0, True)
    assert form["guarantee"] == PUBLIC
    assert form["protects"] == "nobody"
    assert PrivacyReport.from_dict(form) == report
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.privacy == report
    assert loaded.privacy.epsilon == math.inf
    for text in (str(loaded.privacy), loaded.privacy.to_html()):
        assert PUBLIC in text
        assert "declared public by the caller" in text
        assert "infinite" in text
        assert "differential privacy" not in text
    assert '<p class="warning">' in loaded.privacy.to_html()


def test_no_guarantee_is_made_of_such_a_report():
    frame = make_frame(100)
    report = public("PrivBoostClassifier").fit(frame).privacy_
    private = PrivBoostClassifier(domain=make_domain(), **FAST).fit(frame).privacy_
    assert "public_rows" not in private.to_dict()
    for act in (
        lambda: join_reports([private, report], "none is in two"),
        lambda: add_domain_inference(private, report, "training"),
        lambda: add_domain_inference(report, private, "training"),
    ):
        with pytest.raises(BudgetError, match="no guarantee to add"):
            act()
    form = report.to_dict()
    for forged in (
        form | {"public_rows": False},
        form | {"epsilon": 1.0},
        form | {"delta": 1e-6},
        form | {"public_rows": "yes"},
        form | {"alternatives": {"gdp": 1.0}},
        private.to_dict() | {"epsilon": None},
    ):
        with pytest.raises((ValueError, TypeError)):
            PrivacyReport.from_dict(forged)
    with pytest.raises(ValueError, match="epsilon"):
        PrivacyReport.from_dict(replace(private, epsilon=math.inf).to_dict())


def test_such_a_report_is_no_price_and_no_batch_of_a_stream(tmp_path):
    """Files that say so are refused when they are read, before anything is spent on them."""
    frame = make_frame(100)
    model = public("SBDTClassifier").fit(frame)
    form = make_domain().to_dict() | {"privacy": model.privacy_.to_dict()}
    with pytest.raises(DomainError, match="learned with noise"):
        Domain.from_dict(form)
    stream = SBDTClassifier(domain=make_domain(), **FAST).partial_fit(frame)
    state = stream._stream
    (cohort,) = state.cohorts
    forged = replace(state, cohorts=(replace(cohort, report=model.privacy_),))
    for own, told in ((forged, stream.model_), (state, model.model_)):
        save_stream(own, told, tmp_path / "s")
        with pytest.raises(ModelFileError, match="a stream's rows are private"):
            SBDTClassifier(domain=make_domain()).load_stream(tmp_path / "s")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name.endswith("Classifier")])
def test_on_adult_noise_never_helps(name):
    from sklearn.metrics import roc_auc_score

    from privboost.datasets import load_adult

    adult = load_adult()
    kind = getattr(privboost, name)
    rich = np.array(adult.test["income"].to_pylist()) == ">50K"
    with pytest.warns(privboost.PrivacyWarning):
        private = kind(epsilon=1.0, domain=adult.domain, random_state=0).fit(adult.train)
    exact = kind(domain=adult.domain, random_state=0, **PUBLIC_ROWS).fit(adult.train)
    scores = [
        roc_auc_score(rich, model.decision_function(adult.test)) for model in (private, exact)
    ]
    assert scores[1] >= scores[0]
