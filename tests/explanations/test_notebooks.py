"""What notebooks show of estimators, domains and reports."""

from html import unescape

import pytest

import privboost
from privboost import Domain, SBDTClassifier
from privboost.recipes import ESTIMATORS
from tests.tables import make_domain, make_frame


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_estimators(name):
    estimator = getattr(privboost, name)(1.0)
    assert name in estimator._repr_html_()


def test_domains():
    domain = Domain.from_dict(
        {
            "version": 1,
            "features": {
                "<b>": {"kind": "categorical", "categories": ["a"], "reason": "a <public> list"},
                "x": {"kind": "numeric", "bounds": [0, 1], "missing": True},
            },
            "target": {"name": "t", "bounds": [0, 1]},
            "unit": {"column": "who", "max_rows": 3},
        }
    )
    page = domain._repr_html_()
    assert "<td>&lt;b&gt;</td>" in page
    assert "a &lt;public&gt; list" in page
    assert "all rows of one who" in page
    assert page.count("expected") == 1


def test_reports_stay_in_a_frame_of_their_own():
    """The style of a page must not reach the notebook that shows it."""
    model = SBDTClassifier(1.0, domain=make_domain(), n_estimators=1, random_state=1)
    report = model.fit(make_frame(50)).privacy_
    page = report._repr_html_()
    assert page.startswith("<iframe srcdoc=")
    assert "<style" not in page
    assert unescape(page.split('srcdoc="')[1].split('" style=')[0]) == report.to_html()
