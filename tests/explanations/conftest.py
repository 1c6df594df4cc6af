"""A model of every recipe, for classes, several of them, and a number."""

from typing import Any, NamedTuple

import pytest

import privboost
from tests.tables import CLASSES, NUMBER, SURVIVAL, THREE, make_domain, make_frame

CASES = {
    "privboost": ("PrivBoostClassifier", CLASSES, {}),
    "privboost three": ("PrivBoostClassifier", THREE, {}),
    "privboost number": ("PrivBoostRegressor", NUMBER, {}),
    "privboost times": ("PrivBoostSurvival", SURVIVAL, {}),
    "privboost alone": ("PrivBoostClassifier", CLASSES, {"interactions": False}),
    "sbdt": ("SBDTClassifier", CLASSES, {"n_estimators": 12}),
    "sbdt three, joint": ("SBDTClassifier", THREE, {"n_estimators": 4, "features": "uniform"}),
    "sbdt number": ("SBDTRegressor", NUMBER, {"n_estimators": 12}),
    "dpxgb three": ("DPXGBClassifier", THREE, {"n_estimators": 3}),
    "dpxgb number": ("DPXGBRegressor", NUMBER, {"n_estimators": 4}),
    "sarus": ("SarusXGBClassifier", CLASSES, {"n_estimators": 4}),
    "sarus means": ("SarusXGBClassifier", CLASSES, {"n_estimators": 4, "leaves": "means"}),
    "lazybb": ("LazyBBClassifier", CLASSES, {"n_estimators": 5}),
    "lazybb three": ("LazyBBClassifier", THREE, {"n_estimators": 5, "calibration_share": 0.0}),
    "lazybb trees": ("LazyBBClassifier", CLASSES, {"n_estimators": 3, "learner": "tree"}),
    "adassp three": ("BoostedAdaSSPClassifier", THREE, {"bins": 3}),
    "adassp number": ("BoostedAdaSSPRegressor", NUMBER, {}),
    "adassp without a line": ("BoostedAdaSSPClassifier", CLASSES, {"calibration_share": 0.0}),
    "adassp products": ("BoostedAdaSSPClassifier", CLASSES, {"products": [("age", "job")]}),
    "adassp without intercept": ("BoostedAdaSSPClassifier", CLASSES, {"intercept": False}),
}


class Fitted(NamedTuple):
    """An estimator, rows that it has not seen, and what it says of itself and of them."""

    estimator: Any
    frame: Any
    explanation: Any
    local: Any


@pytest.fixture(scope="session", params=CASES)
def fitted(request):
    name, target, parameters = CASES[request.param]
    kind = getattr(privboost, name)
    model = kind(20.0, domain=make_domain(target), random_state=1, **parameters)
    model.fit(make_frame(300, target=target))
    frame = make_frame(40, 7, target)
    return Fitted(model, frame, model.explain_global(), model.explain_local(frame))
