"""scikit-learn's manners, and what users expect of fit and predict."""

import inspect
import pickle
import re
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import privboost
from privboost import Domain, PrivBoostClassifier, PrivBoostRegressor, SBDTClassifier, SchemaError
from privboost._core.progress import rounds_bar
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame


def classifier(target=CLASSES, **how):
    how = {"epsilon": 1.0, "delta": 1e-6, "n_estimators": 12} | how
    return PrivBoostClassifier(domain=make_domain(target), **how)


def test_fit_changes_no_parameter():
    model = classifier()
    before = dict(model.get_params())
    model.fit(make_frame(200))
    after = model.get_params()
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)


def test_clone_and_pickle():
    model = classifier(random_state=3).fit(make_frame(200))
    again = clone(model).fit(make_frame(200))
    back = pickle.loads(pickle.dumps(model))
    frame = make_frame(50, 4)
    np.testing.assert_array_equal(model.predict_proba(frame), again.predict_proba(frame))
    np.testing.assert_array_equal(model.predict_proba(frame), back.predict_proba(frame))
    assert back.privacy_ == model.privacy_


def test_pipelines_and_cross_validation():
    frame = make_frame(400)
    pipeline = make_pipeline(FunctionTransformer(), classifier())
    pipeline.fit(frame, frame["income"])
    assert pipeline.predict(frame).shape == (400,)
    known = frame[frame["income"].isin(["low", "high"])]
    scores = cross_val_score(classifier(random_state=0), known, known["income"], cv=3)
    assert scores.shape == (3,)
    assert (scores > 0.5).all()


@pytest.mark.parametrize("target", [CLASSES, THREE])
def test_classes_and_probabilities(target):
    model = classifier(target, n_estimators=60, epsilon=20.0, random_state=1)
    model.fit(make_frame(2000, target=target))
    frame = make_frame(500, 5, target)
    chances = model.predict_proba(frame)
    assert model.classes_.tolist() == sorted(target["classes"])
    assert chances.shape == (500, len(target["classes"]))
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(frame), model.classes_[chances.argmax(axis=1)])
    assert model.decision_function(frame).shape == ((500,) if target is CLASSES else (500, 3))
    assert (model.predict(frame) == frame["income"]).mean() > 0.5


def test_a_regressor_stays_within_the_bounds():
    frame = make_frame(3000, target=NUMBER)
    model = PrivBoostRegressor(5.0, 1e-6, make_domain(NUMBER), random_state=1).fit(frame)
    predicted = model.predict(frame)
    assert predicted.min() >= 0
    assert predicted.max() <= 10
    clean = frame["income"].between(0.01, 9.99) & frame["age"].between(17, 90)
    truth = frame["income"][clean]
    mean_error = ((predicted[clean] - truth) ** 2).mean()
    assert mean_error < 0.8 * truth.var()


def test_labels_may_be_a_column_or_apart():
    frame = make_frame(300)
    column = classifier(random_state=1).fit(frame)
    apart = classifier(random_state=1).fit(frame.drop(columns="income"), frame["income"].tolist())
    np.testing.assert_array_equal(column.predict_proba(frame), apart.predict_proba(frame))
    weights = classifier(random_state=1, sample_weight_bound=2.0)
    named = clone(weights).fit(frame, sample_weight="weight")
    given = clone(weights).fit(frame, sample_weight=frame["weight"].to_numpy())
    np.testing.assert_array_equal(named.predict_proba(frame), given.predict_proba(frame))
    assert (named.predict_proba(frame) != column.predict_proba(frame)).any()


def test_domains_may_be_dicts_or_paths(tmp_path):
    domain = make_domain()
    domain.to_json(tmp_path / "d.json")
    for form in (domain.to_dict(), tmp_path / "d.json", str(tmp_path / "d.json")):
        PrivBoostClassifier(1.0, 1e-6, form, n_estimators=2).fit(make_frame(20))


def test_before_fit():
    with pytest.raises(NotFittedError):
        classifier().predict(make_frame(3))
    assert not hasattr(classifier(), "classes_")


def test_numeric_classes_come_back_as_numbers():
    domain = make_domain({"name": "income", "classes": [0, 1]})
    frame = make_frame(200)
    labels = (frame["income"] == "high").astype(int)
    model = PrivBoostClassifier(1.0, 1e-6, domain, n_estimators=6).fit(frame, labels)
    assert model.predict(frame).dtype.kind == "i"
    assert 0 <= model.score(frame, labels) <= 1


def test_the_report_says_what_there_is_to_say():
    domain = make_domain(
        unit={"column": "person", "max_rows": 4, "reason": "one id a patient & stay"}
    )
    model = PrivBoostClassifier(1.0, 1e-6, domain, n_estimators=9, sample_weight_bound=2.0)
    report = model.fit(make_frame(100), sample_weight="weight").privacy_
    text = str(report)
    for words in (
        "(1, 1e-06)-differential privacy",
        "add or remove one protected unit",
        "all rows of one person (at most 4 are used)",
        "gdp",
        "9 × gradients and Hessians by cell of a feature",
        "discrete Gaussian noise",
        "n_estimators=9",
        "privboost 0.",
        "weights are clipped to [0, 2]",
        "one id a patient",
        "the domain is public",
    ):
        assert words in text
    assert sum(release.count for release in report.releases) == 1 + 9 + 1
    assert report.epsilon <= 1.0
    assert 0 < report.slack < 1e-6
    assert report.from_dict(report.to_dict()) == report
    assert "one id a patient &amp; stay" in report.to_html()


def test_reports_go_to_files(tmp_path):
    report = classifier().fit(make_frame(30)).privacy_
    forms = {"json": report.to_json, "html": report.to_html, "md": report.to_markdown}
    for form, write in forms.items():
        text = write()
        for path in (tmp_path / f"a.{form}", str(tmp_path / f"b.{form}")):
            assert write(path) == text
            assert Path(path).read_bytes().decode("utf-8") == text


def test_progress_counts_rounds(capsys):
    classifier(verbose=True).fit(make_frame(137))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "12/12" in shown.err
    assert "137" not in shown.err


def test_progress_says_nothing_of_time(capsys, monkeypatch):
    """On a terminal too, with rounds slow enough for an estimate; the only numbers are rounds."""
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    drawn = ""
    for _ in rounds_bar(True)(range(7)):
        before = drawn.count("/7")
        while drawn.count("/7") < before + 2:  # a round is as long as two pictures of the bar
            time.sleep(0.01)
            drawn += capsys.readouterr().err
    drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn + capsys.readouterr().err)
    for line in filter(str.strip, re.split(r"[\r\n]", drawn)):
        assert re.fullmatch(r"rounds [━╸╺ ]* ?[0-7]/7 *", line), line


def test_a_frame_with_numbers_for_names():
    form = {
        "version": 1,
        "features": {"0": {"kind": "numeric", "bounds": [0, 1]}},
        "target": {"name": "y", "classes": [0, 1]},
    }
    frame = pd.DataFrame(np.random.default_rng(0).random((30, 1)))
    PrivBoostClassifier(1.0, 1e-6, form, n_estimators=2).fit(frame, np.arange(30) % 2)


ESTIMATORS = [
    getattr(privboost, name)
    for name in privboost.__all__
    if name.endswith(("Classifier", "Regressor", "Survival"))
]


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (((), {"eps": 1}), " has no parameter 'eps'; did you mean 'epsilon'?"),
        (((), {"n_estimator": 1}), " has no parameter 'n_estimator'; did you mean 'n_estimators'?"),
        (((), {"huber_delta": 1}), " has no parameter 'huber_delta'; there are epsilon, delta"),
        (((), {"colour": 1}), " has no parameter 'colour'; there are epsilon, delta, domain, "),
        (
            ((1, 0.1, None, 4), {}),
            ": too many positional arguments; by position it takes epsilon, ",
        ),
        (((1,), {"epsilon": 1}), ": multiple values for argument 'epsilon'"),
    ],
)
def test_a_wrong_argument_is_told_in_words_of_the_estimator(kind, arguments, words):
    by_place, by_name = arguments
    with pytest.raises(TypeError, match="^" + re.escape(kind.__name__ + words)):
        kind(*by_place, **by_name)


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_parameters_are_where_scikit_learn_looks_for_them(kind):
    model = clone(kind(2.0, n_estimators=3))
    assert model.get_params()["epsilon"] == 2.0
    assert list(inspect.signature(kind).parameters)[:3] == ["epsilon", "delta", "domain"]
    with pytest.raises(ValueError, match="Invalid parameter 'eps' for estimator"):
        model.set_params(eps=1)


def test_a_subclass_has_its_own_parameters():
    class Own(PrivBoostClassifier):
        def __init__(self, epsilon=1.0, colour="red"):
            super().__init__(epsilon, n_estimators=3)
            self.colour = colour

    own = clone(Own(2.0, "blue"))
    assert (own.epsilon, own.n_estimators, own.colour) == (2.0, 3, "blue")
    with pytest.raises(TypeError, match="Own has no parameter 'color'; did you mean 'colour'"):
        Own(color="red")


def test_what_is_shown_of_an_estimator_is_short():
    features = {f"feature {k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(100)}
    domain = Domain.from_dict({"version": 1, "features": features, "target": CLASSES})
    model = PrivBoostClassifier(0.5, 1e-7, domain, n_estimators=10, gradient_clip=0.3)
    assert len(repr(model)) < 200
    assert "100 features" in repr(model)
    assert "feature 99" not in repr(make_pipeline(FunctionTransformer(), model))
    assert "feature 99" in str(domain)


def test_the_domain_stays_on_the_estimator():
    assert classifier().fit(make_frame(30)).domain_ == make_domain()
    frame = make_frame(300).drop(columns="person")
    learned = PrivBoostClassifier(5.0, 1e-6, n_estimators=2).fit(frame, "income").domain_
    assert learned.target.name == "income"
    assert "age" in learned.feature_names


def test_who_takes_no_streams_says_who_does():
    assert hasattr(SBDTClassifier, "partial_fit")
    assert not hasattr(PrivBoostClassifier, "partial_fit")
    model = PrivBoostClassifier(1.0, 1e-6)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match=r"PrivBoostClassifier has no partial_fit.*SBDT"):
        model.partial_fit([[1.0]], [0])


def test_a_column_written_in_another_way_is_named():
    frame = make_frame(5).rename(columns={"age": "Age"})
    with pytest.raises(SchemaError, match=r"no column 'age' \(did you mean 'Age'\?\)"):
        PrivBoostClassifier(1.0, 1e-6, make_domain()).fit(frame)


def test_columns_of_the_domain_that_are_there_are_not_suggested_for_another():
    domain = Domain.from_dict(
        {
            "version": 1,
            "features": {name: {"kind": "numeric", "bounds": [0, 1]} for name in ("age", "ages")},
            "target": {"name": "aged", "bounds": [0, 1]},
        }
    )
    for absent in ("age", "ages", "aged"):
        frame = pd.DataFrame({name: [0.5] for name in ("age", "ages", "aged") if name != absent})
        with pytest.raises(SchemaError, match=f"the table has no column '{absent}'; it has 'age"):
            PrivBoostRegressor(1.0, 1e-6, domain).fit(frame)
