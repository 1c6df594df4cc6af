"""Prices by a filter are never below what the runs cost together."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privboost import BudgetError
from privboost.accounting.accountants import GdpAccountant, RdpAccountant
from privboost.accounting.composition import ORDERS, Curve, curve_epsilons, curve_of
from privboost.accounting.events import Planned, Relation, Selection
from privboost.accounting.formulas import laplace_rdp, rdp_to_epsilon
from privboost.accounting.grid_slack import grid_size
from privboost.accounting.individual_budgets import RenyiBudget
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease, ThresholdRelease
from privboost.accounts.filters import GaussianFilter, Price, RenyiFilter

DELTA = 1e-6
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def gaussian(noise, count=1, relation=ADD):
    event = GaussianRelease("sums", noise, 2**16, 3, 2, (0.5, 0.5), relation=relation)
    return Planned(event, count)


runs = st.lists(
    st.tuples(st.floats(5.0, 500.0), st.integers(1, 300)).map(lambda pair: gaussian(*pair)),
    min_size=1,
    max_size=6,
)


@given(runs)
def test_gaussian_prices_cover_what_one_accountant_says_of_all_runs(plan):
    kind = GaussianFilter()
    total = sum((kind.price([run], ADD) for run in plan), Price())
    exact = GdpAccountant().cost(plan, DELTA)
    said = kind.epsilon(total, DELTA)
    assert exact <= said <= exact / (1 - 5e-4)  # what runs leave to it


def test_a_twin_that_forgets_the_grid_or_the_exchange_is_told_apart():
    plan = [gaussian(20.0, 100)]
    exact = GdpAccountant().cost(plan, DELTA)
    total = sum(run.count * run.event.mu**2 for run in plan)
    from privboost.accounting.formulas import gdp_epsilon

    assert gdp_epsilon(math.sqrt(total), DELTA) < exact  # a twin without the grid's price
    assert GaussianFilter().price(plan, ADD).size >= total * (1 + 9e-5)


@given(runs, st.integers(2, 60))
def test_renyi_prices_are_divergences_of_the_order(plan, order):
    kind = RenyiFilter(order)
    total = sum((kind.price([run], ADD) for run in plan), Price())
    rho = RdpAccountant().compose(plan).rho(order)
    assert rho <= total.size <= rho * (1 + 2e-4)
    assert kind.epsilon(total, DELTA) >= rdp_to_epsilon(order, rho, DELTA)


@pytest.mark.parametrize("kind", [GaussianFilter(), RenyiFilter(8)])
def test_replacing_is_twice_as_far_for_gaussian_noise(kind):
    far = kind.price([gaussian(30.0)], REPLACE)
    twice = kind.price([gaussian(15.0, relation=REPLACE)], REPLACE)
    assert far.size == pytest.approx(twice.size)


def test_replacing_covers_laplace_noise_of_twice_the_sensitivity():
    kind, event = RenyiFilter(6), LaplaceRelease("sums", 4.0, 2**16, 1, 1, (1.0,))
    far = kind.price([Planned(event, 1)], REPLACE).size
    assert far >= laplace_rdp(6, 2 / 4.0)
    assert far >= 2 * kind.price([Planned(event, 1)], ADD).size  # what a twin would say


@pytest.mark.parametrize("kind", [GaussianFilter(), RenyiFilter(8)])
def test_an_account_about_adding_takes_nothing_about_replacing(kind):
    with pytest.raises(BudgetError, match="does not add up"):
        kind.price([gaussian(30.0, relation=REPLACE)], ADD)


def test_what_is_not_gaussian_is_refused_with_the_reason():
    for event in (Selection("a split", 10.0), LaplaceRelease("s", 9.0, 2**16, 1, 1, (1.0,))):
        with pytest.raises(BudgetError, match="filter 'renyi'"):
            GaussianFilter().price([Planned(event, 1)], ADD)
    sampled = GaussianRelease("s", 9.0, 2**16, 1, 1, (1.0,), sampling_rate=0.1)
    with pytest.raises(BudgetError, match="filter 'renyi'"):
        GaussianFilter().price([Planned(sampled, 1)], ADD)


def test_noise_too_fine_for_the_allowance_is_refused():
    rough = Planned(GaussianRelease("sums", 1.0, 2**9, 1, 1, (1.0,)), 1)
    assert grid_size([rough]) == math.inf
    with pytest.raises(BudgetError, match="too fine"):
        GaussianFilter().price([rough], ADD)
    assert curve_of([rough]).mu_squared is None


def test_a_budget_for_life_has_no_divergence_beyond_its_order():
    life = Planned(RenyiBudget("life", 10.0, 5, 16), 1)
    assert RenyiFilter(16).price([life], ADD).size > 0
    with pytest.raises(BudgetError, match="order 17"):
        RenyiFilter(17).price([life], ADD)
    with pytest.raises(BudgetError, match="replacing"):
        RenyiFilter(9).price([life], REPLACE)  # it needs order 18


def test_thresholds_take_of_delta_and_more_where_units_are_replaced():
    event = ThresholdRelease("words", 40.0, 2**16, 1, 1, (1.0,), delta_of_threshold=1e-8)
    kind = GaussianFilter()
    near, far = kind.price([Planned(event, 1)], ADD), kind.price([Planned(event, 1)], REPLACE)
    assert near.threshold_delta(1.0) == pytest.approx(1e-8)
    assert far.threshold_delta(1.0) == pytest.approx((1 + math.e) * 1e-8)


@pytest.mark.parametrize("limit", [(0.5, 1e-6), (3.0, 1e-5), (10.0, 1e-9)])
def test_the_room_of_a_limit_is_just_what_it_allows(limit):
    epsilon, delta = limit
    for kind in (GaussianFilter(), RenyiFilter.of_limit(epsilon, delta)):
        headroom = kind.headroom(epsilon, delta)
        assert kind.epsilon(Price(headroom), delta) <= epsilon
        assert kind.epsilon(Price(headroom * 1.001), delta) > epsilon


def test_the_order_of_a_limit_has_most_room_for_gaussian_noise():
    own = RenyiFilter.of_limit(3.0, 1e-5)
    best = own.as_gaussian(own.headroom(3.0, 1e-5), 1e-5)
    for order in (own.order - 1, own.order + 1, 40):
        other = RenyiFilter(order)
        assert other.as_gaussian(other.headroom(3.0, 1e-5), 1e-5) <= best


def test_curves_add_up_and_cover_each_other():
    one, two = curve_of([gaussian(20.0, 3)]), curve_of([Planned(Selection("s", 8.0), 2)])
    assert (one + one).mu_squared == 2 * one.mu_squared
    assert (one + two).mu_squared is None
    assert set(curve_epsilons(one, DELTA)) == {"gdp", "rdp"}
    assert set(curve_epsilons(one + two, DELTA)) == {"rdp"}
    joined = one.joined(two)
    for k, order in enumerate(ORDERS):
        assert joined.rho[k] == max(one.rho_at(order), two.rho_at(order))
    assert one.rho_at(70) == one.rho[ORDERS.index(80)]  # divergences grow with their order
    assert one.rho_at(5000) == math.inf


def test_a_curve_travels_and_nonsense_is_refused():
    curve = curve_of([gaussian(20.0, 3)])
    assert Curve.from_dict(curve.to_dict()) == curve
    for form in (
        None,
        {},
        curve.to_dict() | {"grid": None},
        curve.to_dict() | {"rho": [1.0]},
        curve.to_dict() | {"extra_delta": None},
        curve.to_dict() | {"mu_squared": -1.0},
        curve.to_dict() | {"mu_squared": True},
    ):
        with pytest.raises(ValueError, match="curve"):
            Curve.from_dict(form)
