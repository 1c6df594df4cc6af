import pytest

from privboost import PrivBoostClassifier, PrivBoostRegressor
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

CASES = {"classes": CLASSES, "three": THREE, "number": NUMBER}


@pytest.fixture(scope="session", params=CASES)
def compound(request):
    """A model of features, pairs and trees, and rows that it has not seen."""
    target = CASES[request.param]
    kind = PrivBoostRegressor if target is NUMBER else PrivBoostClassifier
    model = kind(100.0, 1e-6, make_domain(target), n_estimators=12, random_state=1)
    return model.fit(make_frame(300, target=target)), make_frame(50, 7, target)
