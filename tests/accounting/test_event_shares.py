import math
from dataclasses import replace

import pytest

from privboost import PrivBoostClassifier
from privboost.accounting.composition import BY_PART, MU_SQUARED, PURE, event_shares
from privboost.accounting.events import Planned, Selection
from privboost.accounting.individual_budgets import RenyiBudget
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.reports.writing import add_domain_inference
from tests.tables import make_domain, make_frame

STEPS = 2**16
COARSE, FINE = (
    GaussianRelease(f"sums {noise}", noise, STEPS, 1, 1, (1.0,)) for noise in (20.0, 10.0)
)
LAPLACE = LaplaceRelease("counts", 10.0, STEPS, 1, 1, (1.0,))
CHOICE = Selection("choice", 20.0)


def test_gaussian_noise_is_shared_by_mu_squared():
    of, shares = event_shares([Planned(COARSE, 3), Planned(FINE, 1), Planned(COARSE, 1)], 1e-6)
    assert of == MU_SQUARED
    assert shares == {COARSE: pytest.approx(0.5), FINE: pytest.approx(0.5)}


def test_pure_releases_are_shared_by_epsilon():
    of, shares = event_shares([Planned(LAPLACE, 1), Planned(CHOICE, 6)], 0.0)
    assert of == PURE
    assert shares == {LAPLACE: pytest.approx(0.25), CHOICE: pytest.approx(0.75)}


def test_what_is_mixed_is_shared_by_a_divergence():
    of, shares = event_shares([Planned(FINE, 1), Planned(CHOICE, 16)], 1e-6)
    assert of.startswith("Rényi divergence of order ")
    order = int(of.split()[-1])
    whole = FINE.rdp(order) + 16 * CHOICE.rdp(order)
    assert shares[FINE] == pytest.approx(FINE.rdp(order) / whole)
    assert math.fsum(shares.values()) == pytest.approx(1)


def test_an_order_is_taken_that_all_have():
    budget = RenyiBudget("a budget", 20.0, releases=5, alpha=9)
    of, _ = event_shares([Planned(budget, 1), Planned(FINE, 1)], 1e-6)
    assert 2 <= int(of.split()[-1]) <= 9


@pytest.mark.parametrize("plan", [[], [Planned(FINE, 0)]], ids=["nothing", "never"])
def test_nothing_has_no_shares(plan):
    assert event_shares(plan, 1e-6) == ("", {})


def test_parts_are_shared_by_epsilon():
    model = PrivBoostClassifier(1.0, 1e-6, make_domain(), n_estimators=2).fit(make_frame(40))
    report = model.privacy_
    both = add_domain_inference(replace(report, epsilon=3.0), report, "training")
    assert both.share_of == BY_PART
    half = len(report.releases)
    shares = [release.share for release in both.releases]
    assert math.fsum(shares[:half]) == pytest.approx(3 / (3 + report.epsilon))
    assert math.fsum(shares) == pytest.approx(1)
    older = replace(report, share_of="")
    assert {each.share for each in add_domain_inference(older, report, "training").releases} == {
        None
    }
