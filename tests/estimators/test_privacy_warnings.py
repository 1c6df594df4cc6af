"""Warnings about seeds and weak budgets: there, at the user's line, and not in floods."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import privboost
from privboost import Domain, PrivacyWarning, PrivBoostClassifier, SBDTRegressor
from tests.tables import NUMBER, make_domain, make_frame

FRAME = make_frame(60)
KNOWN = FRAME[FRAME["income"].isin(["low", "high"])]


def classifier(epsilon=1.0, delta=1e-6, **how):
    return PrivBoostClassifier(epsilon, delta, make_domain(), n_estimators=2, **how)


def heard(act):
    """Return the cautions that an act gives, with a memory for what was shown."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        act()
    return [one for one in caught if one.category is PrivacyWarning]


def test_it_is_a_warning_of_its_own():
    assert issubclass(PrivacyWarning, UserWarning)
    assert privboost.PrivacyWarning is PrivacyWarning


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"random_state": 0}, "no privacy guarantee"),
        ({"delta": 1.1e-3}, "delta is above 0.001"),
        ({"epsilon": 50.1}, "epsilon is above 50"),
    ],
)
def test_each_caution(how, words):
    caught = heard(lambda: classifier(**how).fit(FRAME))
    assert len(caught) == 1
    assert words in str(caught[0].message)


def test_nothing_is_said_of_a_careful_run():
    assert heard(lambda: classifier(50.0, 1e-3).fit(FRAME)) == []


def test_all_three_at_once():
    assert len(heard(lambda: classifier(60.0, 0.01, random_state=1).fit(FRAME))) == 3


@pytest.mark.parametrize("how", ["fit", "partial_fit", "learn", "pipeline"])
def test_they_point_to_the_users_line(how):
    acts = {
        "fit": lambda: classifier(random_state=0).fit(FRAME),
        "partial_fit": lambda: SBDTRegressor(
            domain=make_domain(NUMBER), n_estimators=2, random_state=0
        ).partial_fit(make_frame(20, target=NUMBER)),
        "learn": lambda: Domain.learn(
            make_frame(2000)[["age", "income"]],
            "income",
            1.0,
            1e-6,
            given={"target": make_domain().target.to_dict()},
            random_state=0,
        ),
        "pipeline": lambda: make_pipeline(FunctionTransformer(), classifier(random_state=0)).fit(
            FRAME, FRAME["income"]
        ),
    }
    (one,) = heard(acts[how])
    assert one.filename == __file__
    start = inspect.getsourcelines(test_they_point_to_the_users_line)[1]
    assert start < one.lineno < start + 20


def test_a_search_is_not_flooded():
    search = GridSearchCV(classifier(random_state=0), {"gradient_clip": [0.3, 0.5]}, cv=3)
    (one,) = heard(lambda: search.fit(KNOWN, KNOWN["income"]))
    assert one.filename == __file__


def test_they_are_easy_to_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        classifier(60.0, 0.01, random_state=1).fit(FRAME)


def test_they_come_before_rows_are_read():
    """They follow from parameters alone; made an error, one stops a fit that has spent nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        with pytest.raises(PrivacyWarning, match="random_state"):
            classifier(random_state=0).fit(object())


@pytest.mark.parametrize("empty", [True, False])
def test_they_do_not_depend_on_rows(empty):
    frame = FRAME.iloc[:0] if empty else FRAME
    caught = heard(lambda: classifier(60.0, 0.01, random_state=np.int64(1)).fit(frame))
    assert [str(one.message)[:8] for one in caught] == ["random_s", "delta is", "epsilon "]
