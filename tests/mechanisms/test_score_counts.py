"""Counts of rows by score: paid beside budgets for life, of all rows, and as the event says."""

from dataclasses import replace

import numpy as np
import pytest

from privboost import LazyBBClassifier, SBDTClassifier
from privboost._core.errors import BudgetError
from privboost._core.grid import CLIP_STEPS, Contribution
from privboost.accounting.accountants import GdpAccountant, PureAccountant, RdpAccountant
from privboost.accounting.events import Planned, Relation
from privboost.accounting.individual_budgets import GaussianBudget, IndividualBudget
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.data.encoding import Encoder
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import (
    GRADIENT_HESSIAN,
    HESSIAN,
    CellSums,
    PredictionSums,
    ScoreCounts,
    TreeSums,
)
from privboost.engine.updates import Charge, CloseBudgets, OpenBudgets, Price, Start
from privboost.losses.logistic import LOGISTIC
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.probability_calibration import EDGES
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import stump
from tests.hostile import HostileBackend
from tests.mechanisms.test_individual_filter import BUDGETS, rows_for, run
from tests.tables import CLASSES, make_domain

QUERY = ScoreCounts(EDGES)
COUNTS = GaussianRelease("counts", 1.0, CLIP_STEPS, 1, 1, (1.0,))
LEAF = GaussianRelease("leaves", 12.0, CLIP_STEPS, 1, 1, (0.8, 0.2))
LIFE = GaussianBudget("all leaves", 1 / 0.4, releases=40, touched=2, least_sigma=1e5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("budget", "event"), BUDGETS, ids=["gaussian", "renyi"])
def test_after_a_filter_every_row_counts(budget, event, weighted):
    """Also those that have spent their budgets, on shards that die and replay as well."""
    encoder, blocks = rows_for(CLASSES, weighted)
    loss = LOGISTIC.table(0.3, 0.1)
    local, hostile = LocalBackend(blocks), HostileBackend(blocks, 1, death_rate=0.3)
    for backend in (local, hostile):
        run(backend, encoder, loss, budget, event)
    some = local.sum(QUERY).sum()
    for backend in (local, hostile):
        backend.apply(CloseBudgets())
    found = local.sum(QUERY)
    np.testing.assert_array_equal(hostile.sum(QUERY), found)
    assert hostile.deaths > 0
    known = sum(
        ((np.ones(len(b)) if b.weight is None else b.weight) * (b.label != 255)).sum()
        for b in blocks
    )
    assert some < found.sum() == known * CLIP_STEPS
    with pytest.raises(RuntimeError, match="OpenBudgets"):
        local.apply(Charge(0))
    with pytest.raises(RuntimeError, match="opened once"):
        local.apply(OpenBudgets())


def curator_for(plan, blocks):
    ledger = Ledger(1e6, 1e-6, GdpAccountant())
    ledger.reserve(plan)
    return Curator(LocalBackend(blocks), ledger, KeyStream.seeded(1), Contribution()), ledger


def test_counts_are_charged_to_the_ledger_and_to_no_row():
    _, blocks = rows_for(CLASSES, False)
    curator, ledger = curator_for([Planned(LIFE, 1), Planned(COUNTS, 1)], blocks)
    curator.publish(Start(LOGISTIC.table(0.3, 0.1)))
    curator.open_budget(LIFE)
    for _ in range(40):
        curator.sums(TreeSums((stump(),)), LEAF)
    with pytest.raises(BudgetError, match="no releases left"):
        curator.sums(QUERY, COUNTS)  # rows would pay, and those that cannot would sit out
    curator.close_budgets()
    counts = curator.sums(QUERY, COUNTS)
    assert counts.sum() / CLIP_STEPS == pytest.approx(
        sum((b.label != 255).sum() for b in blocks), 0.1
    )
    assert {planned.event: planned.count for planned in ledger.spent} == {LIFE: 1, COUNTS: 1}
    with pytest.raises(BudgetError, match="spent already"):
        curator.sums(QUERY, COUNTS)
    with pytest.raises(BudgetError, match="not reserved"):
        curator.sums(TreeSums((stump(),)), LEAF)  # which was paid within the budgets only
    with pytest.raises(ValueError, match="none can be opened again"):
        curator.open_budget(LIFE)


def test_rows_with_budgets_pay_for_their_own_states_alone(monkeypatch):
    """The twin reads a table at bounded predictions: rows are charged nothing, and add much."""
    _, blocks = rows_for(CLASSES, False)

    def ask():
        curator, ledger = curator_for([Planned(LIFE, 1)], blocks)
        curator.publish(Start(LOGISTIC.table(0.3, 0.1)))
        curator.open_budget(LIFE)
        return curator.sums(PredictionSums(EDGES[:0], 1), replace(LEAF, shares=(0.8, 0.2))), ledger

    with pytest.raises(ValueError, match="their own states only"):
        ask()
    monkeypatch.setattr(PredictionSums, "at_own_states", True)
    assert ask()[0].any()


def test_only_the_curator_closes_budgets():
    _, blocks = rows_for(CLASSES, False)
    curator, _ = curator_for([Planned(LIFE, 1)], blocks)
    for update in (CloseBudgets(), OpenBudgets(), Price(0, ())):
        with pytest.raises(ValueError, match="close_budgets"):
            curator.publish(update)


REPLACED = {"relation": Relation.REPLACE_ONE}


@pytest.mark.parametrize("kind", [GaussianRelease, LaplaceRelease])
def test_of_replaced_units_only_counts_of_two_cells_are_released(kind):
    _, blocks = rows_for(CLASSES, False)
    honest = kind("counts", 9.0, CLIP_STEPS, 2, 1, (1.0,), **REPLACED)
    pair = kind("sums", 9.0, CLIP_STEPS, 2, 1, (0.5, 0.5), **REPLACED)
    cells = CellMap.of_feature(0, np.arange(blocks[0].layout.n_codes[0]))
    twins = [
        (QUERY, replace(honest, cells=1), "understates"),  # one cell, where two change
        (QUERY, replace(honest, steps=CLIP_STEPS - 1), "understates"),
        (CellSums(cells, 0, GRADIENT_HESSIAN), pair, "only counts"),
        (CellSums(cells, 0, HESSIAN), honest, "only counts"),
    ]

    class Free(Ledger):
        def charge(self, event):
            self.paid = event

    for query, event, words in [*twins, (QUERY, honest, None)]:
        ledger = Free(1e9, 1e-6, PureAccountant())
        curator = Curator(LocalBackend(blocks), ledger, KeyStream.seeded(5), Contribution())
        curator.publish(Start(LOGISTIC.table(0.3, 0.1)))
        if words is None:
            assert curator.sums(query, event).shape == query.shape
            continue
        with pytest.raises(ValueError, match=words):
            curator.sums(query, event)
        assert not hasattr(ledger, "paid")


@pytest.mark.parametrize("subsample", [1.0, 0.5])
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_plan_pays_for_counts_beside_the_budgets_of_rows(subsample, outputs):
    target = CLASSES if outputs == 1 else {"name": "income", "classes": ["a", "b", "c"]}
    domain, budget = make_domain(target), Budget(1.0, 1e-6)
    how = {"extra_estimators": 5, "subsample": subsample, "n_estimators": 20}
    plans = [
        SBDTClassifier(1.0, 1e-6, domain, calibration_share=share, **how)._plan(
            Encoder.of(domain), None, budget
        )
        for share in (0.0, 0.2)
    ]
    whole, less = (plan.accountant.cost(plan.releases, 1e-6) for plan in plans)
    assert max(whole, less) <= 1.0
    counted = plans[1]
    own = [planned for planned in counted.releases if planned.event == counted.calibration_release]
    assert [planned.count for planned in own] == [outputs]
    assert sum(isinstance(planned.event, IndividualBudget) for planned in counted.releases) == 1
    assert counted.life.noise > plans[0].life.noise  # rows have less, for the counts have some
    if subsample == 1:
        init, scores = (
            outputs / event.noise**2
            for event in (counted.init_release, counted.calibration_release)
        )
        assert scores / (scores + init + counted.life.mu**2) == pytest.approx(0.2, rel=1e-6)
    else:
        alpha = counted.life.alpha
        rho = RdpAccountant(counted.releases).rho(alpha)
        least = counted.life.rho + outputs * alpha / (2 * counted.calibration_release.noise**2)
        assert rho >= least


@pytest.mark.parametrize(
    ("delta", "accountant", "kind"),
    [
        (0.0, "auto", LaplaceRelease),
        (1e-6, "rdp", GaussianRelease),
        (1e-6, "auto", GaussianRelease),
        (1e-6, "pure", LaplaceRelease),
        (1e-6, "advanced", LaplaceRelease),
    ],
)
@pytest.mark.parametrize("learner", ["rule", "tree"])
def test_votes_are_counted_under_replaced_rows(delta, accountant, kind, learner):
    domain = make_domain()
    model = LazyBBClassifier(
        1.0,
        delta,
        domain,
        n_estimators=5,
        density=0.5,
        learner=learner,
        accountant=accountant,
        calibration_share=0.1,
    )
    plan = model._plan(Encoder.of(domain), None, Budget(1.0, delta))
    assert isinstance(plan.calibration_release, kind)
    assert plan.calibration_release.relation == Relation.REPLACE_ONE
    assert plan.calibration_release.cells == 2
    assert 0.98 <= plan.accountant.cost(plan.releases, delta) <= 1.0
    if accountant == "pure" or delta == 0:
        assert plan.calibration_release.pure == pytest.approx(0.1, rel=1e-5)
