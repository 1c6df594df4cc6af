import pytest

from privboost import PrivBoostClassifier, evaluate
from tests.tables import make_domain, make_frame

NASTY = "<script>alert(1)</script> & \"a\" | `b` *c* [d](http://e.f) 'g' ://h www.i.j k@l.m"


@pytest.fixture(scope="session")
def nasty_model():
    """A model whose every word was written by somebody unkind."""
    domain = make_domain(unit={"column": "person", "max_rows": 3, "reason": NASTY}).to_dict()
    domain["features"][NASTY] = domain["features"].pop("gain") | {"reason": NASTY}
    domain["features"]["job"]["categories"] = [NASTY, "b", "c"]
    frame = make_frame(80).rename(columns={"gain": NASTY})
    return PrivBoostClassifier(1.0, 1e-6, domain, n_estimators=6).fit(frame), frame


@pytest.fixture(scope="session")
def evaluated(nasty_model):
    model, frame = nasty_model
    return evaluate(model, frame, epsilon=0.5, by=["job"])
