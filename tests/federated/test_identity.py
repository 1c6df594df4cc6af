"""One seed gives one model, byte for byte, on one machine and across parties."""

from functools import partial

import pytest

from privboost import (
    LazyBBClassifier,
    PrivBoostClassifier,
    SBDTClassifier,
)
from tests.federated.parties import federate, same_model
from tests.tables import CLASSES, THREE, make_domain, make_frame

ROWS = 1000
PARTIES = (3, 10)


def check(make, target, weighted):
    """Fit the same on one machine and across parties; only the report tells them apart."""
    frame = make_frame(ROWS, target=target)
    weight = {"sample_weight": "weight"} if weighted else {}
    plain = make().fit(frame, **weight).model_
    for parties in PARTIES:
        federation = federate(frame, parties, dropouts=parties // 4)
        model = make().fit(federation, **weight).model_
        assert same_model(plain, model)
        more = set(model.privacy.assumptions) - set(plain.privacy.assumptions)
        assert len(more) == 3
        assert any("the server is trusted with exact totals" in said for said in more)
        assert any("lie with one party" in said for said in more)
        assert federation.last.lost == {}
    other = federate(frame.iloc[::2], 3)
    assert not same_model(plain, make().fit(other, **weight).model_)


@pytest.mark.parametrize(
    ("kind", "target", "weighted", "how"),
    [
        (PrivBoostClassifier, THREE, True, {"epsilon": 4.0, "at_once": 2}),
        (PrivBoostClassifier, CLASSES, False, {"delta": 0.0, "monotone": {"age": 1}}),
    ],
)
def test_steps_and_monotone_effects(kind, target, weighted, how):
    settings = {"epsilon": 1.0, "delta": 1e-6, "n_estimators": 12, "sample_weight_bound": 2.0} | how
    make = partial(kind, domain=make_domain(target), random_state=7, **settings)
    check(make, target, weighted)


def test_every_recipe(any_fit):
    if any_fit.unit is not None:
        pytest.skip("a unit lies with one party: see below")
    check(any_fit.estimator, any_fit.target, any_fit.weighted)


def test_votes_whose_number_follows_from_that_of_rows():
    check(partial(LazyBBClassifier, 2.0, 0.0, make_domain(), random_state=7), CLASSES, False)


def test_weights_of_classes():
    how = {"n_estimators": 4, "class_weight": {"low": 1.0, "high": 3.0}, "random_state": 7}
    check(partial(SBDTClassifier, 1.0, 1e-6, make_domain(), **how), CLASSES, False)


@pytest.mark.parametrize("weighting", ["rows", "units"])
def test_units_that_lie_with_one_party_each(weighting):
    frame = make_frame(ROWS)
    unit = {"column": "person", "max_rows": 50, "weighting": weighting}
    make = partial(
        PrivBoostClassifier, 3.0, 1e-6, make_domain(unit=unit), n_estimators=12, random_state=7
    )
    plain = make().fit(frame).model_
    owner = frame["person"].map(lambda name: ord(name) % 3 if isinstance(name, str) else 0)
    rows = [frame[owner == k] for k in range(3)]
    assert same_model(plain, make().fit(federate(rows, 3)).model_)
