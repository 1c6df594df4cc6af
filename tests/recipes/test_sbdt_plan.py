"""The plan: what it costs, what budgets it opens, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest

from bench.closed_forms import calibrate_gaussian
from privboost import SBDTClassifier, SBDTRegressor
from privboost._core.grid import BUDGET_STEPS, Contribution
from privboost.accounting.accountants import ACCOUNTANTS
from privboost.accounting.individual_budgets import GaussianBudget, RenyiBudget
from privboost.data.encoding import Encoder
from privboost.losses.base import LossTable
from privboost.mechanisms.individual_filter import charge_table
from privboost.recipes.common.plan import Budget
from tests.tables import NUMBER, THREE, make_domain

DELTA = 5e-8


NOTHING_ELSE = {"init_share": 0.0, "calibration_share": 0.0}
OWN_EPSILON = {"init_noise": "laplace", "init_epsilon": 0.05, "init_count_epsilon": 0.005}


def plan_for(epsilon=0.5, target=None, batch=None, before=(), **how):
    domain = make_domain() if target is None else make_domain(target)
    model = SBDTClassifier(epsilon, DELTA, domain, **({"n_estimators": 50} | how))
    return model._plan(Encoder.of(domain), None, Budget(epsilon, DELTA, before), batch)


def cost(plan):
    return plan.accountant.compose(plan.releases).epsilon(DELTA)


@pytest.mark.parametrize(
    ("how", "accountant", "multiplier"),
    [
        (NOTHING_ELSE, "gdp", calibrate_gaussian(0.5, DELTA, 50)),
        ({"init_share": 0.0, "accountant": "rdp"}, "rdp", None),
        (
            NOTHING_ELSE | {"subsample": 0.1},
            "pld",
            calibrate_gaussian(0.5, DELTA, 50, 0.1, "pld"),
        ),
        ({"init_share": 0.1, "init_noise": "laplace"}, "pld", None),
        ({"init_share": 0.1, "subsample": 0.1}, "pld", None),
        ({"candidates": "hessian"}, "gdp", None),
        ({"extra_estimators": 20}, "gdp", None),
        ({"extra_estimators": 20, "init_noise": "laplace"}, "pld", None),
        ({"extra_estimators": 20, "subsample": 0.1}, "rdp", None),
        ({"extra_estimators": 5, "subsample": 0.1, "candidates": "hessian"}, "rdp", None),
        ({"batch_size": 8}, "gdp", None),
        ({"candidates": "hessian", "candidate_share": None}, "gdp", None),
        (OWN_EPSILON, "pld", None),
        (OWN_EPSILON | {"accountant": "rdp", "subsample": 0.1}, "rdp", None),
        (OWN_EPSILON | {"target": THREE}, "pld", None),
        (OWN_EPSILON | {"extra_estimators": 20}, "pld", None),
        (OWN_EPSILON | {"extra_estimators": 20, "subsample": 0.1}, "rdp", None),
        ({"target": THREE, "batch_size": 7}, "gdp", None),
    ],
)
def test_a_plan_spends_its_budget_and_no_more(how, accountant, multiplier):
    plan = plan_for(**how)
    assert plan.accountant.name == accountant
    assert 0.99 * 0.5 <= cost(plan) <= 0.5
    if multiplier is not None:
        assert plan.leaf.noise == pytest.approx(multiplier, rel=3e-3)
    assert len(plan.digest) == 64


@pytest.mark.parametrize("how", [{}, {"extra_estimators": 9}, {"subsample": 0.1}, {"batch": 0}])
def test_an_initial_score_with_an_epsilon_of_its_own_is_reserved_at_that_price(how):
    plan = plan_for(**OWN_EPSILON, **how)
    assert plan.releases[0].event is plan.init_release
    assert plan.init_release.pure == pytest.approx(0.055)
    total, count = plan.init_release.scales  # one row moves each of them by one step count at most
    assert total == pytest.approx(plan.init_release.steps / 0.05)
    assert count == pytest.approx(plan.init_release.steps / 0.005)
    assert cost(plan) <= 0.5
    free = plan.accountant.compose(plan.releases[1:]).epsilon(DELTA)
    assert free < 0.5 * (1 - 1e-4)  # without its price the plan would seem to cost less
    assert plan_for(**OWN_EPSILON, **(how | {"batch": 1})).init_release is None


def test_a_histogram_of_candidates_has_the_noise_of_a_tree_if_asked():
    plan = plan_for(candidates="hessian", candidate_share=None, init_share=0.0)
    assert plan.hessian.cells == 3
    assert plan.hessian.noise * 3**0.5 == pytest.approx(plan.leaf.noise)  # of all three: √3 less


def test_a_batch_of_trees_costs_as_much_as_its_trees_one_by_one():
    one, eight = plan_for(n_estimators=48), plan_for(n_estimators=48, batch_size=8)
    np.testing.assert_allclose(eight.leaf.scales, one.leaf.scales, rtol=1e-6)
    assert eight.leaf.cells == 8


@pytest.mark.parametrize(
    ("subsample", "n_estimators", "how"),
    [
        (1.0, 3000, {}),
        *(
            (subsample, n_estimators, how)
            for subsample in (1.0, 0.1)
            for n_estimators in (1, 50)
            for how in ({}, {"candidates": "hessian"}, {"target": THREE})
        ),
    ],
)
def test_a_row_of_full_gradients_lasts_for_just_the_regular_trees(subsample, n_estimators, how):
    """Whoever pays the worst case each round is in all regular rounds and in none beyond."""
    plan = plan_for(subsample=subsample, n_estimators=n_estimators, extra_estimators=100, **how)
    assert isinstance(plan.life, GaussianBudget if subsample == 1 else RenyiBudget)
    full = np.full((3, 4), 2**16, dtype=np.int32)
    loss = LossTable(full, full, 8)
    left = BUDGET_STEPS
    if plan.hessian is not None:
        table = charge_table(plan.life, plan.hessian, loss, ("hessian",), Contribution())
        left -= plan.settings.refinements * int(table.max())
    price = int(
        charge_table(plan.life, plan.leaf, loss, ("gradient", "hessian"), Contribution()).max()
    )
    regular = plan.settings.n_regular_updates * plan.task.n_outputs
    assert regular * price <= left < (regular + 1) * price


def test_the_budget_of_a_filter_costs_what_the_regular_trees_cost():
    plain, filtered = plan_for(), plan_for(extra_estimators=500)
    assert filtered.leaf.noise == pytest.approx(plain.leaf.noise, rel=1e-4)
    assert filtered.life.mu**2 == pytest.approx(50 / plain.leaf.noise**2, rel=1e-4)


def test_later_batches_have_no_initial_score_and_a_budget_of_their_own():
    first, later = plan_for(batch=0), plan_for(batch=1)
    assert first.init_release is not None
    assert later.init_release is None
    assert later.life.mu > first.life.mu
    assert "batch 2" in later.life.what
    assert first.life.admits(later.leaf)
    assert not first.life.admits(replace(later.leaf, noise=later.leaf.noise / 5))


BAD = [
    ({"subsample": 0.5, "domain": make_domain(unit={"column": "person", "max_rows": 2})}, "unit"),
    ({"max_depth": 13}, "max_depth must be at most 12"),
    ({"max_depth": 0}, "max_depth"),
    ({"n_estimators": 0}, "n_estimators"),
    ({"n_estimators": 2.5}, "n_estimators"),
    ({"subsample": 0}, "subsample"),
    ({"subsample": 1.5}, "subsample"),
    ({"hessian_share": 0.0}, "hessian_share"),
    ({"hessian_share": 1.0}, "hessian_share"),
    ({"init_share": 1.0}, "init_share"),
    ({"init_noise": "uniform"}, "init_noise"),
    ({"features": "some"}, "features"),
    ({"features": 0}, "features"),
    ({"candidates": "quantile"}, "candidates"),
    ({"n_candidates": 0}, "n_candidates"),
    ({"category_splits": "all"}, "category_splits"),
    ({"extra_estimators": -1}, "extra_estimators"),
    ({"batch_size": 0}, "batch_size"),
    ({"boosting": "greedy"}, "boosting"),
    ({"learning_rate": 0}, "learning_rate"),
    ({"reg_lambda": -1}, "reg_lambda"),
    ({"gradient_clip": float("nan")}, "gradient_clip"),
    ({"accountant": "pure"}, "accountant"),
    ({"subsample": 0.1, "extra_estimators": 3, "accountant": "pld"}, "accountant must be"),
    ({"n_estimators": 10**6}, "too large"),
    ({"init_share": 1e-18}, "init_share must lie"),
    ({"init_share": 1e-30, "init_noise": "laplace"}, "init_share must lie"),
    ({"candidates": "hessian", "candidate_share": 1e-20}, "candidate_share must lie"),
    ({"epsilon": 1e-5, "delta": 1e-8, "init_share": 1e-6}, "would not fit the integer grid"),
    ({"epsilon": 1e-7, "subsample": 0.01, "extra_estimators": 2}, "epsilon is too small"),
    ({"negative_hessian": "none"}, "negative_hessian"),
    ({"candidate_rule": "median"}, "candidate_rule"),
    ({"init_clip": 0}, "init_clip"),
    ({"init_clip": 1.5}, "init_clip must be at most 1"),
    ({"init_epsilon": 0.1}, "both init_epsilon and init_count_epsilon"),
    ({"init_count_epsilon": 0.1}, "both init_epsilon and init_count_epsilon"),
    (OWN_EPSILON | {"init_noise": "gaussian"}, "Laplace"),
    (OWN_EPSILON | {"init_share": 0.1}, "not both"),
    (OWN_EPSILON | {"init_epsilon": -1}, "init_epsilon"),
    (OWN_EPSILON | {"init_epsilon": 0.999}, "less than epsilon"),
    (OWN_EPSILON | {"init_count_epsilon": 1e-12}, "would not fit the integer grid"),
]


@pytest.mark.parametrize(("how", "words"), BAD)
def test_bad_parameters_are_refused_before_a_row_is_read(how, words):
    class Rows:
        def __len__(self):
            raise AssertionError("the rows were looked at")

    parameters = {"epsilon": 1.0, "delta": 1e-6, "domain": make_domain()} | how
    with pytest.raises(ValueError, match=words):
        SBDTClassifier(**parameters).fit(Rows())
    unit = {"column": "person", "max_rows": 2} if "domain" in how else None
    with pytest.raises(ValueError, match=words):
        SBDTRegressor(**(parameters | {"domain": make_domain(NUMBER, unit)})).fit(Rows())


def test_a_class_has_no_clip_of_its_own():
    with pytest.raises(ValueError, match="init_clip is for numbers"):
        plan_for(init_clip=0.5)


def test_a_stream_has_a_number_of_releases_for_life():
    with pytest.raises(ValueError, match="releases for life"):
        plan_for(batch=0, n_estimators=2**15, target=THREE, learning_rate=0.01)


def test_every_accountant_that_covers_a_plan_is_named_where_one_does_not():
    with pytest.raises(ValueError, match="pld, rdp would"):
        plan_for(subsample=0.1, accountant="gdp")
    assert set(ACCOUNTANTS) >= {"gdp", "pld", "rdp"}
