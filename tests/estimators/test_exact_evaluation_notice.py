"""What users are told about exact evaluation, in the places where they look."""

import pytest

import privboost
from tests.tables import CLASSES, NUMBER, make_domain, make_frame

ESTIMATORS = [
    getattr(privboost, name)
    for name in privboost.__all__
    if name.endswith(("Classifier", "Regressor"))
]


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_docstrings_say_that_exact_scores_are_not_private(kind):
    places = {"class": kind, "fit": kind.fit, "score": kind.score}
    places |= {
        n: getattr(kind, n)
        for n in dir(kind)
        if n.startswith(("staged_", "partial_fit", "loss_curve"))
    }
    for name, place in places.items():
        assert "exact" in place.__doc__, name


@pytest.mark.parametrize("target", [CLASSES, NUMBER], ids=["classes", "number"])
def test_the_report_assumes_it(target):
    kind = privboost.PrivBoostRegressor if target is NUMBER else privboost.PrivBoostClassifier
    model = kind(domain=make_domain(target), n_estimators=2).fit(make_frame(20, target=target))
    assert any("exact scores" in said for said in model.privacy_.assumptions)


def test_scores_are_scikit_learns():
    from sklearn.metrics import accuracy_score, r2_score

    for target, kind, measure in (
        (CLASSES, privboost.PrivBoostClassifier, accuracy_score),
        (NUMBER, privboost.PrivBoostRegressor, r2_score),
    ):
        frame = make_frame(60, target=target)
        usual = frame["income"].isin(CLASSES["classes"]) if target is CLASSES else None
        frame = frame[frame["income"].between(0, 10) if usual is None else usual]
        model = kind(domain=make_domain(target), n_estimators=2).fit(frame)
        weight = frame["age"].between(20, 50) + 1.0
        truth, predicted = frame["income"], model.predict(frame)
        assert model.score(frame, truth) == measure(truth, predicted)
        weighted = measure(truth, predicted, sample_weight=weight)
        assert model.score(frame, truth, sample_weight=weight) == weighted
        for own in (model, model.model_):
            assert own.score(frame, public_rows=True) == measure(truth, predicted)
            found = own.score(frame, sample_weight=weight, public_rows=True)
            assert found == weighted
        with pytest.raises(privboost.SchemaError, match="no column 'income'"):
            model.score(frame.drop(columns="income"), public_rows=True)
