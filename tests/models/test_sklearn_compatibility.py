"""A trained model, as it comes from a file, in the hands of scikit-learn."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.metrics import RocCurveDisplay, accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils._response import _get_response_values
from sklearn.utils.validation import check_is_fitted

from tests.export.models import stored_model
from tests.tables import CLASSES, NUMBER, make_frame


@pytest.fixture
def model():
    return stored_model("privboost_2")


@pytest.fixture
def frame():
    own = make_frame(200, 5, CLASSES)
    return own[own["income"].isin(CLASSES["classes"])]


def test_it_is_a_fitted_estimator(model):
    check_is_fitted(model)
    assert is_classifier(model)
    assert is_regressor(stored_model("privboost_1"))
    assert model.classes_.tolist() == ["high", "low"]
    assert model.feature_names_in_.tolist() == list(model.domain.feature_names)
    assert model.n_features_in_ == 5


def test_scores_are_those_of_scikit_learn(model, frame):
    assert model.score(frame, frame["income"]) == accuracy_score(
        frame["income"], model.predict(frame)
    )
    number, rows = stored_model("privboost_1"), make_frame(100, 5, NUMBER)
    rows = rows[rows["income"].abs() < 100]
    weights = np.arange(len(rows))
    assert number.score(rows, rows["income"], weights) == r2_score(
        rows["income"], number.predict(rows), sample_weight=weights
    )


@pytest.mark.parametrize("name", ["privboost_2", "lazybb_uncalibrated_2", "sbdt_squared_2"])
def test_displays_find_what_to_draw(name, frame):
    """Probabilities where there are some, and scores elsewhere."""
    pytest.importorskip("matplotlib").use("agg")
    model = stored_model(name)
    drawn = RocCurveDisplay.from_estimator(model, frame, frame["income"])
    known = roc_auc_score(frame["income"] == "low", model.decision_function(frame))
    assert drawn.roc_auc == pytest.approx(known)


@pytest.mark.parametrize("name", ["privboost_2", "lazybb_uncalibrated_2", "sbdt_squared_2"])
def test_there_are_probabilities_where_scores_are_log_odds(name, frame):
    model = stored_model(name)
    assert hasattr(model, "predict_proba") == model.has_probabilities
    asked = ["predict_proba", "decision_function"]
    values, *_ = _get_response_values(model, frame, asked)
    known = (
        model.predict_proba(frame)[:, 1]
        if model.has_probabilities
        else model.decision_function(frame)
    )
    np.testing.assert_array_equal(values, known)
    assert not hasattr(stored_model("privboost_1"), "predict_proba")


def test_it_is_the_last_step_of_a_pipeline(model, frame):
    pipeline = make_pipeline(FunctionTransformer(lambda own: own.assign(step=0)), model)
    expected = model.predict(frame.assign(step=0))
    np.testing.assert_array_equal(pipeline.predict(frame), expected)
    np.testing.assert_array_equal(clone(pipeline).predict(frame), expected)
    assert pipeline.score(frame, frame["income"]) == accuracy_score(frame["income"], expected)
    assert pipeline[:-1].fit_transform(frame).shape == frame.shape


def test_nothing_trains_it_again(model, frame):
    for fit in (model.fit, lambda *own: cross_val_predict(model, *own)):
        with pytest.raises(TypeError, match="a trained model cannot be trained again"):
            fit(frame, frame["income"])
    with pytest.raises((TypeError, AttributeError)):  # later scikit-learns stop before `fit`
        make_pipeline(model).fit(frame, frame["income"])
    frozen = make_pipeline(FrozenEstimator(model)).fit(frame, frame["income"])
    np.testing.assert_array_equal(frozen.predict(frame), model.predict(frame))


def test_it_has_no_parameters(model):
    assert model.get_params() == {}
    assert clone(model) is model
    assert model.set_params() is model
    with pytest.raises(ValueError, match="no parameters"):
        model.set_params(depth=3)


def test_importance_by_permutation(model, frame):
    rows = frame[list(model.domain.feature_names)]
    found = permutation_importance(model, rows, frame["income"], n_repeats=2, random_state=0)
    assert found.importances_mean.argmax() == 0
