from dataclasses import replace

import numpy as np
import pytest

from privboost._core.grid import (
    BUDGET_STEPS,
    CLIP_STEPS,
    LABEL_STEPS,
    WEIGHT_CLASSES,
    WEIGHT_STEPS,
    Contribution,
    SharedContribution,
)
from privboost.accounting.accountants import GdpAccountant, RdpAccountant
from privboost.accounting.events import Planned
from privboost.accounting.formulas import gdp_epsilon, rdp_to_epsilon, subsampled_gaussian_rdp
from privboost.accounting.individual_budgets import GaussianBudget, RenyiBudget
from privboost.accounting.noisy_sums import GaussianRelease
from privboost.data.encoding import Encoder
from privboost.data.rows import initial_states, join
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import GRADIENT_HESSIAN, TreeSums
from privboost.engine.updates import (
    AddCellValues,
    Charge,
    OpenBudgets,
    Price,
    SetLabelBins,
    Start,
    UseLoss,
)
from privboost.losses.base import loss_of
from privboost.losses.logistic import LOGISTIC
from privboost.losses.squared import SQUARED_NUMBER
from privboost.mechanisms.individual_filter import Payments, charge_table
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import stump
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, encode_training, make_domain, make_frame

EVENT = GaussianRelease("sums", 12.0, CLIP_STEPS, 1, 1, (0.8, 0.2))
SAMPLED = GaussianRelease("sums", 60.0, CLIP_STEPS, 1, 1, (0.8, 0.2), 0.1)
GAUSSIAN = GaussianBudget("all sums", 1 / 0.4, releases=1000, touched=2, least_sigma=1e5)
RENYI = RenyiBudget("all sums", 1 / 2e-4, releases=1000, alpha=40)
BUDGETS = [(GAUSSIAN, EVENT), (RENYI, SAMPLED)]


def table_of(budget, loss, event, statistics=GRADIENT_HESSIAN):
    return charge_table(budget, event, loss, statistics, Contribution(weighted=True))


EDGES = np.linspace(-0.9, 0.9, 20) * LABEL_STEPS


def counted(clip=3.0):
    """The Poisson loss with a line for each bin of labels between edges."""
    return loss_of("number", "poisson").label_table(np.arange(21) / 4, clip, 2.0)


def rows_for(target, weighted):
    encoder = Encoder.of(make_domain(target))
    frame = make_frame(400, target=target)
    weights = "weight" if weighted else None
    return encoder, encode_training(encoder, frame, None, weights, 2.0, block_rows=64).blocks


def steps(encoder, rounds):
    rng = np.random.default_rng(1)
    codes = encoder.layout.n_codes[0]
    return [
        AddCellValues(
            CellMap.of_feature(0, np.arange(codes)),
            rng.integers(-20000, 20000, codes).astype(np.int32),
        )
        for _ in range(rounds)
    ]


def run(backend, encoder, loss, budget, event, rounds=30, table=None):
    """Sums of all active rows, round by round."""
    if loss.lines > 3:
        backend.apply(SetLabelBins(EDGES.astype(np.int32)))
    backend.apply(Start(loss))
    backend.apply(OpenBudgets())
    backend.apply(Price(0, (table_of(budget, loss, event) if table is None else table,)))
    answers = []
    for step in steps(encoder, rounds):
        backend.apply(Charge(0))
        answers.append(backend.sum(TreeSums((stump(),)))[0])
        backend.apply(step)
    return np.stack(answers)


def cost_of(budget, event, share):
    if isinstance(budget, GaussianBudget):
        return share / (event.noise * budget.mu) ** 2
    return (
        subsampled_gaussian_rdp(budget.alpha, event.sampling_rate, event.noise, share) / budget.rho
    )


@pytest.mark.parametrize(("budget", "event"), BUDGETS, ids=["gaussian", "renyi"])
@pytest.mark.parametrize("target", [CLASSES, NUMBER, "bins"], ids=["classes", "number", "bins"])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_row_exceeds_its_budget_and_the_sums_are_of_those_who_pay(
    budget, event, target, weighted
):
    """A reference that pays each row's exact cost in floating point."""
    spent, charged, dropped, active = spend(budget, event, target, weighted)
    assert (spent <= 1.0).all()
    assert dropped > 0
    assert active.any()
    # Rounding up costs little: who was dropped had nearly spent its budget.
    assert (charged / BUDGET_STEPS >= spent).all()


def test_charges_that_do_not_see_the_label_are_caught():
    """The twin charges all rows as if their label were in the first bin."""
    budget, event = BUDGETS[0]
    table = table_of(budget, counted(), event)
    table[:, :-1] = table[:, :1]
    spent, *_ = spend(budget, event, "bins", False, table)
    assert (spent > 1.0).any()


def spend(budget, event, target, weighted, table=None):
    """Run with a table of charges; return what rows spent and were charged, and who was dropped."""
    binned = target == "bins"
    encoder, blocks = rows_for(NUMBER if binned else target, weighted)
    loss = LOGISTIC.table(0.3, 0.1) if target is CLASSES else SQUARED_NUMBER.table(0.3, 1.0)
    loss = counted() if binned else loss
    got = run(LocalBackend(blocks), encoder, loss, budget, event, table=table)

    block = join(blocks)
    state = np.zeros(len(block), dtype=np.int64)
    if block.minus_label is not None and not binned:
        state += initial_states(block.minus_label)
    weight = np.ones(len(block)) if block.weight is None else block.weight / WEIGHT_STEPS
    spent, charged = np.zeros(len(block)), np.zeros(len(block), dtype=np.int64)
    table = table_of(budget, loss, event) if table is None else table
    own = (block.label == 1) if target is CLASSES else np.zeros(len(block))
    if binned:
        own = (EDGES.astype(np.int32)[:, None] <= -block.minus_label[None].astype(int)).sum(axis=0)
    line = np.where(block.label == 255, loss.lines - 1, own).astype(int)
    whole = np.ones(len(block), dtype=int) if block.weight is None else block.weight.astype(int)
    dropped = 0
    for answer, step in zip(got, steps(encoder, 30), strict=True):
        cell = np.clip((state >> loss.shift) + loss.size // 2, 0, loss.size - 1)
        g, h = loss.gradient[line, cell], loss.hessian[line, cell]
        share = (0.8 * (g / CLIP_STEPS) ** 2 + 0.2 * (h / CLIP_STEPS) ** 2) * weight**2
        classes = WEIGHT_CLASSES
        if block.weight is not None:
            classes = -(-block.weight.astype(int) * WEIGHT_CLASSES // WEIGHT_STEPS)
        units = table[classes, line, cell]
        active = charged + units <= BUDGET_STEPS
        charged += units * active
        spent += np.array([cost_of(budget, event, min(s, 1.0)) for s in share]) * active
        dropped += int((~active).sum())
        np.testing.assert_array_equal(
            answer[0], [(g * whole * active).sum(), (h * whole * active).sum()]
        )
        state = state + step.value_of[block.column(0)]
    return spent, charged, dropped, active


def cost_of_a_unit(contribution, shares, rounds=60):
    """What rows that are alike and share a weight cost together, in budgets, until they sit out.

    A row of full gradients is charged by its weight class; a unit's exact cost is that of its whole
    contribution.
    """
    loss = LOGISTIC.table(0.1, 1e-3)
    tables = charge_table(GAUSSIAN, EVENT, loss, GRADIENT_HESSIAN, contribution)
    classes = -(-np.array(shares) * WEIGHT_CLASSES // WEIGHT_STEPS)
    price, spent, cost = tables[classes, 1, loss.size // 2], np.zeros(len(shares), np.int64), 0.0
    share = cost_of(GAUSSIAN, EVENT, 1.0)
    for _ in range(rounds):
        active = spent + price <= BUDGET_STEPS
        spent += price * active
        cost += share * (np.array(shares)[active].sum() / WEIGHT_STEPS) ** 2
    return cost


@pytest.mark.parametrize(
    "shares", [[256], [128, 128], [86, 85, 85], [52, 51, 51, 51, 51], [3] * 85]
)
def test_rows_that_share_a_weight_are_charged_as_if_each_had_all_of_it(shares):
    """Then a unit's charge is at most the mean of its rows' charges; by their parts it is not."""
    assert 0.9 < cost_of_a_unit(SharedContribution(True, 100), shares) <= 1
    if len(shares) > 1:
        assert cost_of_a_unit(Contribution(True), shares) > 1.5


def test_a_killed_shard_remembers_who_has_paid():
    encoder, blocks = rows_for(CLASSES, True)
    loss = LOGISTIC.table(0.3, 0.1)
    expected = run(LocalBackend(blocks), encoder, loss, *BUDGETS[0])
    for seed in range(3):
        hostile = HostileBackend(blocks, seed, death_rate=0.4)
        np.testing.assert_array_equal(run(hostile, encoder, loss, *BUDGETS[0]), expected)
        assert hostile.deaths > 0


def test_a_table_rounded_down_is_caught():
    """The twin: charges rounded down let some row exceed its budget."""
    loss = SQUARED_NUMBER.table(0.3, 1.0)
    budget, event = BUDGETS[0]
    honest = table_of(budget, loss, event)
    cost = cost_of(budget, event, 0.2 + 0.8 * (loss.gradient[0] / CLIP_STEPS) ** 2)
    assert (honest[-1, 0] / BUDGET_STEPS >= cost).all()
    assert not ((honest[-1, 0] - 2) / BUDGET_STEPS >= cost).all()
    assert (honest[:, 2] == 0).all()  # unknown labels pay nothing and give nothing


def test_a_count_is_charged_in_full():
    loss = LOGISTIC.table(1.0, 0.25)
    budget, event = BUDGETS[0]
    by_count = table_of(budget, loss, event, ("gradient", "count"))[-1, 1]
    by_hessian = table_of(budget, loss, event)[-1, 1]
    assert by_count[-1] > 100 * by_hessian[-1]  # a confident row: no Hessian, but one row
    alone = GaussianRelease("counts", 12.0, CLIP_STEPS, 1, 1, (1.0,))
    in_full = table_of(budget, loss, alone, ("count",))[-1, :2]
    assert (in_full / BUDGET_STEPS >= 1 / (12.0 * budget.mu) ** 2).all()


def test_nobody_counts_without_a_charge_under_the_current_loss():
    _, blocks = rows_for(CLASSES, False)
    backend, loss = LocalBackend(blocks), LOGISTIC.table(0.3, 0.1)
    backend.apply(Start(loss))
    backend.apply(OpenBudgets())
    query = TreeSums((stump(),))
    assert not backend.sum(query).any()
    backend.apply(Price(0, (table_of(GAUSSIAN, loss, EVENT),)))
    backend.apply(Charge(0))
    assert backend.sum(query).any()
    backend.apply(Start(LOGISTIC.table(0.9, 0.25)))
    assert not backend.sum(query).any()
    with pytest.raises(RuntimeError, match="opened once"):
        backend.apply(OpenBudgets())


def test_rows_of_a_cohort_without_a_price_sit_out_and_pay_nothing():
    _, blocks = rows_for(CLASSES, False)
    loss, late = LOGISTIC.table(0.3, 0.1), [replace(block, cohort=1) for block in blocks]
    table = table_of(GAUSSIAN, loss, EVENT)
    alone, both = LocalBackend(blocks), LocalBackend([*blocks, *late])
    for update in (Start(loss), OpenBudgets(), Price(0, (table,)), *[Charge(0)] * 20):
        alone.apply(update)
        both.apply(update)
    query = TreeSums((stump(),))
    np.testing.assert_array_equal(alone.sum(query), both.sum(query))
    only = LocalBackend(blocks)
    for update in (Start(loss), OpenBudgets(), Price(1, (table,)), Charge(1)):
        only.apply(update)
    for update in (Price(1, (table, table)), Charge(1)):
        alone.apply(update)
        both.apply(update)
    np.testing.assert_array_equal(both.sum(query), alone.sum(query) + only.sum(query))


def test_a_gaussian_budget_covers_full_batches_on_its_grid_only():
    with pytest.raises(ValueError, match="not a release that this budget covers"):
        table_of(GAUSSIAN, SQUARED_NUMBER.table(0.3, 1.0), SAMPLED)
    assert not GAUSSIAN.admits(replace(EVENT, noise=0.1))  # a smaller scale has more slack
    assert not GAUSSIAN.admits(replace(EVENT, cells=2))  # and so have more coordinates
    assert RENYI.admits(SAMPLED)


def test_a_renyi_budget_is_worth_its_own_order():
    assert RENYI.rdp(40) == RENYI.rdp(2) == pytest.approx(2e-4)
    assert RENYI.rdp(41) == np.inf
    cost = RdpAccountant().compose([Planned(RENYI, 1)]).epsilon(1e-6)
    assert cost == pytest.approx(rdp_to_epsilon(40, 2e-4, 1e-6))


def test_a_gaussian_budget_costs_its_mu_and_the_slack_of_all_its_releases():
    plain = gdp_epsilon(0.4, 1e-6)
    profile = GdpAccountant().compose([Planned(GAUSSIAN, 1)])
    assert plain < profile.epsilon(1e-6) < plain * 1.001
    more = replace(GAUSSIAN, releases=10 * GAUSSIAN.releases)
    assert GdpAccountant().compose([Planned(more, 1)]).slack(1e-6) > 5 * profile.slack(1e-6)


def test_charges_need_budgets():
    _, blocks = rows_for(CLASSES, False)
    backend = LocalBackend(blocks)
    loss = LOGISTIC.table(0.3, 0.1)
    backend.apply(Start(loss))
    with pytest.raises(RuntimeError, match="OpenBudgets"):
        backend.apply(Charge(0))


class Log:
    """A backend that notes its updates."""

    def __init__(self):
        self.updates = []

    def apply(self, update):
        self.updates.append(update)


def test_a_replayed_log_is_priced_by_its_last_loss():
    """The loss may change on the way: a price by the first one would be too low."""
    budget, event = BUDGETS[0]
    query = TreeSums((stump(),))
    narrow, wide = LOGISTIC.table(1.0, 0.25), LOGISTIC.table(0.1, 0.05)
    log = [Start(narrow), OpenBudgets(), UseLoss(wide)]
    backend = Log()
    payments = Payments(backend, Contribution())
    payments.replay(log, [budget])
    payments.charge_rows(query, event)
    assert backend.updates[:3] == log
    (price,) = (update for update in backend.updates if isinstance(update, Price))
    wanted, too_low = (
        charge_table(budget, event, loss, GRADIENT_HESSIAN, Contribution())
        for loss in (wide, narrow)
    )
    np.testing.assert_array_equal(price.tables[0], wanted)
    assert (too_low < wanted).any()
