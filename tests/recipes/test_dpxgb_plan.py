import pytest

from privboost import DPXGBClassifier
from privboost.data.encoding import Encoder
from privboost.recipes.common.plan import Budget
from tests.tables import THREE, make_domain


def plan_for(epsilon=1.0, delta=1e-5, target=None, **how):
    domain = make_domain() if target is None else make_domain(target)
    model = DPXGBClassifier(epsilon, delta, domain, **({"n_estimators": 10, "max_depth": 3} | how))
    return model._plan(Encoder.of(domain), None, Budget(epsilon, delta))


@pytest.mark.parametrize(
    ("how", "accountant"),
    [
        ({}, "game"),
        ({"accountant": "rdp"}, "rdp"),
        ({"candidates": "hessian", "candidate_rounds": 2}, "game"),
        ({"greedy_depth": 1, "max_depth": 5}, "game"),
        ({"init_share": 0.0}, "game"),
        ({"target": THREE}, "game"),
    ],
)
def test_a_plan_spends_its_budget_and_no_more(how, accountant):
    plan = plan_for(**how)
    assert plan.accountant.name == accountant
    assert 0.99 <= plan.accountant.compose(plan.releases).epsilon(1e-5) <= 1.0


def test_shares_are_parts_of_mu_squared():
    how = {"init_share": 0.1, "calibration_share": 0.1, "candidates": "hessian"}
    plan = plan_for(shares=(0.2, 0.5, 0.3), **how)
    parts = {
        "init": 1 / plan.init.noise**2,
        "sketch": 1 / plan.sketch.noise**2,
        "selection": 30 / plan.selection.noise**2 / 4,
        "leaf": 10 / plan.leaf.noise**2,
        "scores": 1 / plan.scores.noise**2,
    }
    total = sum(parts.values())
    expected = {"init": 0.1, "scores": 0.1, "sketch": 0.16, "selection": 0.4, "leaf": 0.24}
    assert {k: v / total for k, v in parts.items()} == pytest.approx(expected)


def test_the_game_leaves_less_noise_than_renyi():
    assert plan_for().selection.noise < 0.97 * plan_for(accountant="rdp").selection.noise


NUMBERS = {f"x{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(800)}
WIDE = {"version": 1, "features": NUMBERS, "target": {"name": "y", "classes": [0, 1]}}

BAD = [
    ({"max_depth": 13}, "max_depth"),
    ({"greedy_depth": 4}, "greedy_depth must be at most max_depth"),
    ({"greedy_depth": 0}, "greedy_depth"),
    ({"shares": (0.1, 0.1, 0.1)}, "shares must add up to 1"),
    ({"shares": 3}, "shares must be 3 numbers"),
    ({"features": "some"}, "features must be"),
    ({"candidates": "all"}, "candidates"),
    ({"split_lambda": 0}, "split_lambda"),
    ({"split_lambda": 1e-6}, "split_lambda"),
    ({"shares": (0.5, 0.5, 0.0)}, "but the first"),
    ({"shares": (0.0, 0.5, 0.5), "candidates": "hessian"}, "needs a sketch"),
    ({"max_depth": 12, "greedy_depth": 12, "n_candidates": 191, "domain": WIDE}, "too large"),
    ({"candidate_rounds": "each"}, "candidate_rounds"),
    ({"sketch_bins": 1}, "sketch_bins"),
    ({"sketch_bins": 193}, "sketch_bins must be at most"),
    ({"leaf_clip": 0}, "leaf_clip"),
    ({"leaf_clip": None, "learning_rate": 0}, "learning_rate"),
    ({"delta": 0}, "pure DP"),
    ({"accountant": "gdp"}, "does not cover"),
    ({"n_estimators": 0}, "n_estimators"),
    ({"hessian_share": 2}, "hessian_share"),
]


@pytest.mark.parametrize(("how", "words"), BAD)
def test_bad_parameters_are_refused_before_a_row_is_read(how, words):
    class Rows:
        def __len__(self):
            raise AssertionError("the rows were looked at")

    parameters = {"epsilon": 1.0, "delta": 1e-6, "domain": make_domain(), "max_depth": 3} | how
    with pytest.raises(ValueError, match=words):
        DPXGBClassifier(**parameters).fit(Rows())
