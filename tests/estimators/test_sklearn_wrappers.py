"""scikit-learn around privboost: pipelines, votes, stacks; each works, and says what it costs."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn import (
    calibration,
    ensemble,
    feature_selection,
    model_selection,
    multiclass,
    multioutput,
    semi_supervised,
)
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

from privboost import (
    BudgetStore,
    PrivacyWarning,
    PrivateSearchCV,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    SchemaError,
)
from privboost._core import warnings as cautions
from privboost.estimators.sklearn_wrappers import ADDED_UP, UNCOVERED
from tests.tables import make_domain, make_frame

FRAME = make_frame(300)
FRAME = FRAME[FRAME["income"].isin(["low", "high"])]
X, WORDS = FRAME.drop(columns="income"), FRAME["income"]
NUMBERS = (WORDS == "high").astype(int)
GRID = {
    "version": 1,
    "features": {f"x{k}": {"kind": "numeric", "bounds": [-3, 3]} for k in range(3)},
    "target": {"name": "y", "classes": [0, 1]},
}


def member(classes=(0, 1), kind=PrivBoostClassifier, **how):
    domain = make_domain({"name": "income", "classes": list(classes)})
    return kind(1.0, 1e-6, domain, n_estimators=3, **how)


def heard(act):
    """Return what is said of an act, each warning as often as it is given."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return [str(one.message) for one in caught if one.category is PrivacyWarning]


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    """Lines of these tests call many wrappers, and what was said there is remembered."""
    monkeypatch.setattr(cautions, "_shown", set())


def members():
    return [("effects", member()), ("trees", member(kind=SBDTClassifier))]


WRAPPERS = {
    "a hard vote": (lambda: ensemble.VotingClassifier(members()), "all of them together"),
    "a soft vote": (
        lambda: ensemble.VotingClassifier(members(), voting="soft"),
        "all of them together",
    ),
    "a stack": (lambda: ensemble.StackingClassifier(members(), cv=2), "no privacy guarantee"),
    "one against the rest": (
        lambda: multiclass.OneVsRestClassifier(member()),
        "reads the classes off them",
    ),
    "calibration": (
        lambda: calibration.CalibratedClassifierCV(member(), cv=2),
        "calibration_share makes",
    ),
    "calibration of one model": (
        lambda: calibration.CalibratedClassifierCV(member(), cv=2, ensemble=False),
        "calibration_share makes",
    ),
    "a search": (
        lambda: model_selection.GridSearchCV(member(), {"gradient_clip": [0.3, 0.5]}, cv=2),
        "PrivateSearchCV",
    ),
    "a threshold": (
        lambda: model_selection.TunedThresholdClassifierCV(member(), cv=2),
        "exact scores",
    ),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_works_and_is_named_once(name):
    make, words = WRAPPERS[name]
    wrapper = make()
    (said,) = heard(lambda: wrapper.fit(X, NUMBERS))
    assert words in said
    assert said.startswith(type(wrapper).__name__)
    assert set(np.unique(wrapper.predict(X))) <= {0, 1}
    if hasattr(wrapper, "predict_proba"):
        np.testing.assert_allclose(wrapper.predict_proba(X).sum(axis=1), 1)


def test_the_outermost_that_takes_the_guarantee_away_is_named():
    vote = ensemble.VotingClassifier([("pipeline", make_pipeline(Normalizer(), member()))])
    search = model_selection.GridSearchCV(vote, {"weights": [[1], [2]]}, cv=2)
    search.set_params(estimator__pipeline__normalizer="passthrough")
    (said,) = heard(lambda: search.fit(X, NUMBERS))
    assert said.startswith("GridSearchCV")


@pytest.mark.parametrize("function", ["cross_val_score", "cross_validate", "cross_val_predict"])
def test_functions_are_wrappers_too(function):
    act = getattr(model_selection, function)
    (said,) = heard(lambda: act(member(), X, NUMBERS, cv=2))
    assert "no privacy guarantee" in said


def test_nothing_is_said_where_nothing_is_lost(tmp_path):
    account = BudgetStore(tmp_path / "store").open("people", epsilon=9.0, delta=1e-3)
    kept = [("a", member(budget=account)), ("b", member(budget=account))]
    assert heard(lambda: ensemble.VotingClassifier(kept).fit(X, NUMBERS)) == []
    assert len(account.balance().entries) == 2
    assert heard(lambda: member().fit(X, NUMBERS)) == []
    public = member(public_rows=True).set_params(epsilon=np.inf)
    assert heard(lambda: ensemble.VotingClassifier([("a", public)]).fit(X, NUMBERS)) == []
    (said,) = heard(
        lambda: ensemble.VotingClassifier([("a", member(random_state=0))]).fit(X, NUMBERS)
    )
    assert said.startswith("random_state")


def test_another_process_knows_too():
    """It is where the warning is given; what is recognised there is the function that runs."""
    for name in ("_fit_and_predict", "_fit_and_score"):
        assert hasattr(model_selection._validation, name)
        assert name in UNCOVERED
    assert hasattr(calibration, "_fit_classifier_calibrator_pair")
    assert hasattr(ensemble._base, "_fit_single_estimator")
    assert hasattr(multiclass, "_fit_binary")
    (said,) = heard(
        lambda: ensemble._base._fit_single_estimator(member(), X, NUMBERS, {"sample_weight": None})
    )
    assert said.startswith("a wrapper of scikit-learn trains several times")


def test_every_name_is_one_of_scikit_learn():
    homes = (
        *(ensemble, ensemble._bagging, ensemble._weight_boosting, ensemble._base),
        *(calibration, feature_selection, multiclass, multioutput, semi_supervised),
        *(model_selection, model_selection._search, model_selection._validation),
    )
    for name in (*UNCOVERED, *ADDED_UP):
        assert any(hasattr(home, name) for home in homes), name


def test_words_are_refused_where_numbers_are_handed_on():
    vote = ensemble.VotingClassifier([("a", member(["low", "high"]))])
    with pytest.raises(SchemaError, match="hand on 0, 1, … instead of classes"):
        vote.fit(X, WORDS)
    calibrated = calibration.CalibratedClassifierCV(member(["low", "high"]), cv=2)
    assert calibrated.fit(X, WORDS).classes_.tolist() == ["high", "low"]


FIXED = {
    "functions": FunctionTransformer(),
    "nothing": "passthrough",
    "a frozen scaler": FrozenEstimator(StandardScaler().fit(np.eye(3))),
    "columns that are fixed": make_column_transformer(
        (Normalizer(), [0, 1]), ("drop", []), remainder="passthrough"
    ),
    "a union": FeatureUnion([("a", make_column_transformer(("passthrough", [0, 1, 2])))]),
}
LEARNED = {
    "a scaler": (StandardScaler(), "StandardScaler"),
    "columns that learn": (
        make_column_transformer((StandardScaler(), [0, 1]), remainder="passthrough"),
        "StandardScaler",
    ),
    "a pipeline within": (make_pipeline(Normalizer(), SimpleImputer()), "SimpleImputer"),
}
ROWS = np.random.default_rng(0).normal(size=(200, 3))
LABELS = (ROWS[:, 0] > 0).astype(int)


def on_grid(**how):
    return PrivBoostClassifier(1.0, 1e-6, GRID, n_estimators=3, **how)


def test_wrappers_that_make_arrays_of_frames():
    (said,) = heard(lambda: multiclass.OneVsOneClassifier(on_grid()).fit(ROWS, LABELS))
    assert said.startswith("OneVsOneClassifier trains once for each class")
    outputs = np.column_stack([LABELS, 1 - LABELS])
    (said,) = heard(lambda: multioutput.MultiOutputClassifier(on_grid()).fit(ROWS, outputs))
    assert said.startswith("MultiOutputClassifier trains once for each class or output")


def test_bagging_gives_seeds():
    bag = ensemble.BaggingClassifier(on_grid(sample_weight_bound=3.0), n_estimators=2)
    (said,) = heard(lambda: bag.fit(ROWS, LABELS))
    assert said.startswith("random_state is given")
    with pytest.raises(ValueError, match="hand over weights of their own"):
        ensemble.BaggingClassifier(on_grid(), n_estimators=2).fit(ROWS, LABELS)


@pytest.mark.parametrize("step", FIXED.values(), ids=list(FIXED))
def test_steps_that_learn_nothing_are_welcome(step):
    assert heard(lambda: make_pipeline(step, on_grid()).fit(ROWS, LABELS)) == []


@pytest.mark.parametrize(("step", "name"), LEARNED.values(), ids=list(LEARNED))
def test_steps_that_learn_are_named(step, name):
    (said,) = heard(lambda: make_pipeline(step, on_grid()).fit(ROWS, LABELS))
    assert said.startswith(f"the pipeline fits {name} to these rows")


@pytest.mark.parametrize("form", ["default", "pandas", "polars"])
def test_outputs_of_a_column_transformer(form):
    columns = ColumnTransformer(
        [("kept", "passthrough", ["age", "gain"]), ("rest", FunctionTransformer(), ["step"])],
        verbose_feature_names_out=False,
    )
    columns.set_output(transform=form)
    rows = pl.DataFrame(X[["step", "gain", "age"]]) if form == "polars" else X
    domain = make_domain().to_dict()
    kept = ["age", "gain", "step"]
    domain["features"] = {name: domain["features"][name] for name in kept}
    model = PrivBoostClassifier(1.0, 1e-6, domain, n_estimators=8, random_state=1)
    direct = model.fit(X, WORDS).predict_proba(X)
    pipeline = make_pipeline(columns, model).fit(rows, WORDS)
    np.testing.assert_array_equal(pipeline.predict_proba(rows), direct)


def test_sparse_outputs():
    encoder = OneHotEncoder(categories=[["a", "b", "c"]], handle_unknown="ignore")
    words = pd.DataFrame({"job": np.array(["a", "b", "c"] * 50)})
    pipeline = make_pipeline(encoder, on_grid(random_state=0))
    assert pipeline.fit(words, np.arange(150) % 2).predict(words).shape == (150,)
    hashed = make_pipeline(HashingVectorizer(n_features=3), on_grid(random_state=0))
    texts = ["one word", "two words", "three"] * 20
    assert hashed.fit(texts, np.arange(60) % 2).predict(texts).shape == (60,)


def test_a_stack_gives_its_output_as_asked():
    stack = ensemble.StackingClassifier(members(), cv=2).set_output(transform="pandas")
    given = stack.fit(X, NUMBERS).transform(X)
    assert isinstance(given, pd.DataFrame)
    assert given.shape == (len(X), 2)


def test_weights_are_routed():
    weights = np.linspace(0, 2, len(LABELS))
    plain = on_grid(random_state=0, sample_weight_bound=2.0)
    direct = plain.fit(ROWS, LABELS, sample_weight=weights).predict_proba(ROWS)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = on_grid(random_state=0, sample_weight_bound=2.0)
        asked.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(FunctionTransformer(), asked)
        routed = pipeline.fit(ROWS, LABELS, sample_weight=weights).predict_proba(ROWS)
        np.testing.assert_array_equal(routed, direct)
        assert 0 <= pipeline.score(ROWS, LABELS, sample_weight=weights) <= 1
        vote = ensemble.VotingClassifier([("a", asked)], voting="soft")
        vote.fit(ROWS, LABELS, sample_weight=weights)
        np.testing.assert_array_equal(vote.predict_proba(ROWS), direct)
        aside = on_grid(random_state=0).set_fit_request(sample_weight=False)
        vote = ensemble.VotingClassifier([("a", aside), ("b", asked)])
        vote.fit(ROWS, LABELS, sample_weight=weights)
        again = on_grid(random_state=0).fit(ROWS, LABELS).predict_proba(ROWS)
        np.testing.assert_array_equal(vote.estimators_[0].predict_proba(ROWS), again)


def test_a_step_that_says_nothing_of_itself_is_taken_to_learn():
    class Duck:
        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return X

    with pytest.warns(PrivacyWarning, match="the pipeline fits Duck"):
        make_pipeline(Duck(), on_grid()).fit(ROWS, LABELS)


EXACT = "an exact score on rows that were not declared public"


@pytest.mark.parametrize("seed", [None, 1])
def test_a_score_on_rows_that_may_be_private_is_warned_of(seed):
    model = on_grid(random_state=seed).fit(ROWS, LABELS)
    number = GRID | {"target": {"name": "y", "bounds": [0, 1]}}
    regressor = PrivBoostRegressor(1.0, 1e-6, number, n_estimators=3, random_state=seed)
    regressor.fit(ROWS, LABELS.astype(float))
    own = {"classifier": model, "regressor": regressor, "model": model.model_}
    for each in [*own.values(), make_pipeline(FunctionTransformer(), model)]:
        (said,) = heard(lambda: each.score(ROWS, LABELS))  # noqa: B023
        assert said.startswith(EXACT)
        assert "unpaid release" in said
        assert "privboost.evaluate" in said
    for each in own.values():
        assert heard(lambda: each.score(ROWS, LABELS, public_rows=True)) == []  # noqa: B023
        with pytest.raises(ValueError, match="public_rows must be True or False"):
            each.score(ROWS, LABELS, public_rows="no")


def test_a_score_of_a_model_of_public_rows_is_not():
    model = PrivBoostClassifier(float("inf"), domain=GRID, public_rows=True, n_estimators=3)
    assert heard(lambda: model.fit(ROWS, LABELS).score(ROWS, LABELS)) == []
    scores = model_selection.cross_val_score
    assert heard(lambda: scores(model, ROWS, LABELS, cv=2)) == []
    assert len(heard(lambda: model.score(ROWS, LABELS, public_rows=False))) == 1


def test_wrappers_that_score_are_warned_of_once():
    for act in (
        lambda model: model_selection.cross_val_score(model, ROWS, LABELS, cv=2),
        lambda model: model_selection.permutation_test_score(
            model, ROWS, LABELS, cv=2, n_permutations=2
        ),
        lambda model: model_selection.GridSearchCV(model, {"n_estimators": [2, 3]}, cv=2).fit(
            ROWS, LABELS
        ),
    ):
        (said,) = heard(lambda: act(on_grid()))  # noqa: B023
        assert "uses exact scores on these rows" in said
        (said,) = heard(lambda: act(on_grid(random_state=1)))  # noqa: B023
        assert said.startswith("random_state is given")
    # Nothing was fitted that could have warned.
    frozen = FrozenEstimator(on_grid().fit(ROWS, LABELS))
    (said,) = heard(lambda: model_selection.cross_val_score(frozen, ROWS, LABELS, cv=2))
    assert "uses exact scores on these rows" in said


def test_the_score_of_a_search_is_warned_of():
    search = model_selection.GridSearchCV(on_grid(), {"n_estimators": [2, 3]}, cv=2)
    search.fit(ROWS, LABELS)
    (said,) = heard(lambda: search.score(ROWS, LABELS))
    assert said.startswith(EXACT)
    own = PrivateSearchCV(on_grid(), [{"n_estimators": 2}], 1.0, 1e-6, expected_runs=2)
    own.fit(ROWS, LABELS)
    (said,) = heard(lambda: own.score(ROWS, LABELS))
    assert said.startswith(EXACT)
    assert heard(lambda: own.score(ROWS, LABELS, public_rows=True)) == []


def test_a_declaration_is_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        model = on_grid().set_score_request(public_rows=True)
        pipeline = make_pipeline(FunctionTransformer(), model).fit(ROWS, LABELS)
        assert heard(lambda: pipeline.score(ROWS, LABELS, public_rows=True)) == []
