import numpy as np
import pytest

from privboost.encoding import Encoder, encode_training
from privboost.engine.backend import LocalBackend
from privboost.engine.block import join
from privboost.engine.commands import AddFeatureValues, OpenBudgets, Start, TreeSums
from privboost.engine.tree import stump
from privboost.grid import BUDGET_UNITS, UNIT, WEIGHT_CLASSES, WEIGHT_UNITS
from privboost.losses import logistic, squared
from privboost.privacy.events import GaussianRelease
from privboost.privacy.filters import GaussianFilter, RenyiFilter
from privboost.privacy.formulas import subsampled_gaussian_rdp
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, make_domain, make_frame

EVENT = GaussianRelease("sums", 12.0, UNIT, 1, 1, (0.8, 0.2))
SAMPLED = GaussianRelease("sums", 60.0, UNIT, 1, 1, (0.8, 0.2), 0.1)
FILTERS = [(GaussianFilter(0.4), EVENT), (RenyiFilter(40, 2e-4), SAMPLED)]


def rows_for(target, weighted):
    encoder = Encoder.of(make_domain(target))
    frame = make_frame(400, target=target)
    weights = "weight" if weighted else None
    return encoder, encode_training(encoder, frame, None, weights, 2.0, block_rows=64).blocks


def steps(encoder, rounds):
    rng = np.random.default_rng(1)
    codes = encoder.layout.n_codes[0]
    return [
        AddFeatureValues(0, rng.integers(-20000, 20000, codes).astype(np.int32))
        for _ in range(rounds)
    ]


def run(backend, encoder, loss, filter_, event, rounds=30):
    """Sums of all active rows, round by round."""
    backend.apply(Start(loss))
    backend.apply(OpenBudgets())
    answers = []
    for step in steps(encoder, rounds):
        backend.apply(filter_.charge(loss, event))
        answers.append(backend.sum(TreeSums(stump())))
        backend.apply(step)
    return np.stack(answers)


def cost_of(filter_, event, share):
    if isinstance(filter_, GaussianFilter):
        return share / (event.noise * filter_.mu) ** 2
    return (
        subsampled_gaussian_rdp(filter_.alpha, event.sampling_rate, event.noise, share)
        / filter_.rho
    )


@pytest.mark.parametrize(("filter_", "event"), FILTERS, ids=["gaussian", "renyi"])
@pytest.mark.parametrize("target", [CLASSES, NUMBER], ids=["classes", "number"])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_row_exceeds_its_budget_and_the_sums_are_of_those_who_pay(
    filter_, event, target, weighted
):
    """A reference that pays each row's exact cost in floating point."""
    encoder, blocks = rows_for(target, weighted)
    loss = logistic(0.3, 0.1) if target is CLASSES else squared(0.3, 1.0)
    got = run(LocalBackend(blocks), encoder, loss, filter_, event)

    block = join(blocks)
    state = np.zeros(len(block), dtype=np.int64) if block.start is None else block.start.astype(int)
    weight = np.ones(len(block)) if block.weight is None else block.weight / WEIGHT_UNITS
    spent, charged = np.zeros(len(block)), np.zeros(len(block), dtype=np.int64)
    table = filter_.charge(loss, event).table
    line = np.where(block.label == 255, 2, (block.label == 1) if target is CLASSES else 0).astype(
        int
    )
    whole = np.ones(len(block), dtype=int) if block.weight is None else block.weight.astype(int)
    dropped = 0
    for answer, step in zip(got, steps(encoder, 30), strict=True):
        cell = np.clip((state >> loss.shift) + loss.size // 2, 0, loss.size - 1)
        g, h = loss.gradient[line, cell], loss.hessian[line, cell]
        share = (0.8 * (g / UNIT) ** 2 + 0.2 * (h / UNIT) ** 2) * weight**2
        classes = WEIGHT_CLASSES
        if block.weight is not None:
            classes = -(-block.weight.astype(int) * WEIGHT_CLASSES // WEIGHT_UNITS)
        units = table[classes, line, cell]
        active = charged + units <= BUDGET_UNITS
        charged += units * active
        spent += np.array([cost_of(filter_, event, min(s, 1.0)) for s in share]) * active
        dropped += int((~active).sum())
        np.testing.assert_array_equal(
            answer[0], [(g * whole * active).sum(), (h * whole * active).sum()]
        )
        state = state + step.value_of[block.column(0)]
    assert (spent <= 1.0).all()
    assert dropped > 0
    assert active.any()
    # Rounding up costs little: who was dropped had nearly spent its budget.
    assert (charged / BUDGET_UNITS >= spent).all()


def test_a_killed_shard_remembers_who_has_paid():
    encoder, blocks = rows_for(CLASSES, True)
    loss = logistic(0.3, 0.1)
    expected = run(LocalBackend(blocks), encoder, loss, *FILTERS[0])
    for seed in range(3):
        hostile = HostileBackend(blocks, seed, death_rate=0.4)
        np.testing.assert_array_equal(run(hostile, encoder, loss, *FILTERS[0]), expected)
        assert hostile.deaths > 0


def test_a_table_rounded_down_is_caught():
    """The twin: charges rounded down let some row exceed its budget."""
    loss = squared(0.3, 1.0)
    filter_, event = FILTERS[0]
    honest = filter_.charge(loss, event).table
    cost = cost_of(filter_, event, 0.2 + 0.8 * (loss.gradient[0] / UNIT) ** 2)
    assert (honest[-1, 0] / BUDGET_UNITS >= cost).all()
    assert not ((honest[-1, 0] - 2) / BUDGET_UNITS >= cost).all()
    assert (honest[:, 2] == 0).all()  # unknown labels pay nothing and give nothing


def test_a_count_is_charged_in_full():
    loss = logistic(1.0, 0.25)
    filter_, event = FILTERS[0]
    by_count = filter_.charge(loss, event, 0, ("gradient", "count")).table[-1, 1]
    by_hessian = filter_.charge(loss, event).table[-1, 1]
    assert by_count[-1] > 100 * by_hessian[-1]  # a confident row: no Hessian, but one row
    alone = GaussianRelease("counts", 12.0, UNIT, 1, 1, (1.0,))
    in_full = filter_.charge(loss, alone, 0, ("count",)).table[-1, :2]
    assert (in_full / BUDGET_UNITS >= 1 / (12.0 * filter_.mu) ** 2).all()


def test_nobody_counts_without_a_charge_under_the_current_loss():
    _, blocks = rows_for(CLASSES, False)
    backend, loss = LocalBackend(blocks), logistic(0.3, 0.1)
    backend.apply(Start(loss))
    backend.apply(OpenBudgets())
    assert not backend.sum(TreeSums(stump())).any()
    backend.apply(FILTERS[0][0].charge(loss, EVENT))
    assert backend.sum(TreeSums(stump())).any()
    backend.apply(Start(logistic(0.9, 0.25)))
    assert not backend.sum(TreeSums(stump())).any()
    with pytest.raises(RuntimeError, match="opened once"):
        backend.apply(OpenBudgets())


def test_samples_need_the_renyi_filter():
    with pytest.raises(ValueError, match="full batches"):
        GaussianFilter(1.0).charge(squared(0.3, 1.0), SAMPLED)


def test_charges_need_budgets():
    _, blocks = rows_for(CLASSES, False)
    backend = LocalBackend(blocks)
    loss = logistic(0.3, 0.1)
    backend.apply(Start(loss))
    with pytest.raises(RuntimeError, match="OpenBudgets"):
        backend.apply(GaussianFilter(1.0).charge(loss, EVENT))
