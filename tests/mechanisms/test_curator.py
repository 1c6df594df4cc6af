from dataclasses import replace

import numpy as np
import pytest

from privboost import BudgetError
from privboost._core.grid import CLIP_STEPS, WEIGHT_STEPS, Contribution
from privboost.accounting.accountants import GdpAccountant, PureAccountant, RdpAccountant
from privboost.accounting.events import Planned, SampledGroup, Selection
from privboost.accounting.individual_budgets import GaussianBudget
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.engine.queries import GRADIENT_COUNT, CellSums, NodeHistograms, ScoreCounts
from privboost.engine.updates import Charge, OpenBudgets, Price, Start
from privboost.losses.logistic import LOGISTIC
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import Sample
from privboost.trees.cell_map import CellMap
from privboost.trees.splits import join_splits
from privboost.trees.tree import stump
from tests.mechanisms.largest_cell import LargestCell

CELLS = CellMap.of_feature(0, np.arange(50))
QUERY = CellSums(CELLS)
ONE_ROW = Contribution()
EXACT = np.arange(100).reshape(50, 2) * CLIP_STEPS


class Rows:
    """A backend that notes when it is asked."""

    def __init__(self, ledger):
        self.ledger, self.spent_when_asked = ledger, []
        self.told, self.samples = [], []

    def sum(self, query):
        self.samples.append(query.sample)
        self.spent_when_asked.append(sum(p.count for p in self.ledger.spent))
        return EXACT.copy()

    def apply(self, update):
        self.told.append(update)

    def close(self):
        pass


def event(z=50.0, steps=CLIP_STEPS, cells=1, rows=1, shares=(0.9, 0.1)):
    return GaussianRelease("sums", z, steps, cells, rows, shares)


def curator_for(planned, contribution=ONE_ROW, seed=1):
    ledger = Ledger(1e6, 1e-6, GdpAccountant())
    ledger.reserve(planned)
    rows = Rows(ledger)
    return Curator(rows, ledger, KeyStream.seeded(seed), contribution), rows


def test_each_statistic_has_its_own_scale():
    curator, _ = curator_for([Planned(event(), 400)])
    noise = np.stack([curator.sums(QUERY, event()) - EXACT for _ in range(400)])
    deviations = noise.reshape(-1, 2).std(axis=0)
    np.testing.assert_allclose(deviations, event().sigmas, rtol=0.03)
    for twin in (event(z=55), event(z=45), event(shares=(0.8, 0.2))):
        assert (np.abs(deviations / twin.sigmas - 1) > 0.03).any()


def test_the_charge_comes_before_the_rows_are_asked():
    curator, rows = curator_for([Planned(event(), 2)])
    curator.sums(QUERY, event())
    curator.sums(QUERY, event())
    assert rows.spent_when_asked == [1, 2]


def test_without_a_reservation_the_rows_are_not_asked():
    curator, rows = curator_for([Planned(event(), 1)])
    curator.sums(QUERY, event())
    with pytest.raises(BudgetError):
        curator.sums(QUERY, event())
    assert rows.spent_when_asked == [1]


def test_noise_is_never_reused():
    curator, _ = curator_for([Planned(event(), 2)])
    first, second = (curator.sums(QUERY, event()) for _ in range(2))
    assert (first != second).mean() > 0.99


def test_a_sampling_rate_is_what_the_rows_are_sampled_with():
    """Amplification by sampling is claimed only for a query that samples, with a fresh key."""
    cheap = GaussianRelease("sums", 50.0, CLIP_STEPS, 1, 1, (0.9, 0.1), 0.001)
    ledger = Ledger(1e6, 1e-6, RdpAccountant())
    ledger.reserve([Planned(cheap, 2), Planned(event(), 1)])
    rows = Rows(ledger)
    curator = Curator(rows, ledger, KeyStream.seeded(1), ONE_ROW)
    own = replace(QUERY, sample=Sample(np.zeros(32, dtype=np.uint8), 1e-9))
    curator.sums(own, cheap)  # what a recipe wishes does not count
    curator.sums(QUERY, cheap)
    curator.sums(own, event())
    first, second, full = rows.samples
    assert first.rate == second.rate == 0.001
    assert full is None
    assert first.key.any()
    assert (first.key != second.key).any()


SPLITS = join_splits([(0, np.arange(50), False, False)])
BUDGET = GaussianBudget("all sums", 1.0, releases=3, touched=2, least_sigma=1e5)


def test_once_budgets_are_open_every_release_charges_the_rows():
    curator, rows = curator_for([Planned(event(), 1), Planned(BUDGET, 1)])
    curator.publish(Start(LOGISTIC.table(0.3, 0.1)))
    curator.sums(QUERY, event())
    curator.open_budget(BUDGET)
    for _ in range(3):
        curator.sums(QUERY, event())  # reserved once: the others are within the budget
    kinds = [type(update).__name__ for update in rows.told]
    assert kinds == ["Start", "OpenBudgets", "Price", "Charge", "Charge", "Charge"]
    with pytest.raises(BudgetError, match="no releases left"):
        curator.sums(QUERY, event())
    assert len(rows.samples) == 4


def test_budgets_are_opened_and_charged_by_the_curator_alone():
    curator, rows = curator_for([Planned(BUDGET, 1)])
    curator.publish(Start(LOGISTIC.table(0.3, 0.1)))
    for update in (OpenBudgets(), Charge(0), Price(0, ())):
        with pytest.raises(ValueError, match="open_budget"):
            curator.publish(update)
    curator.open_budget(BUDGET)
    with pytest.raises(BudgetError, match="spent already"):
        curator.open_budget(BUDGET)
    tight = event(z=0.1)
    with pytest.raises(BudgetError, match="does not cover"):
        curator.sums(QUERY, tight)
    with pytest.raises(ValueError, match="only Gaussian"):
        curator.sums(QUERY, LaplaceRelease("sums", 50.0, CLIP_STEPS, 1, 1, (0.9, 0.1)))
    query = replace(QUERY, statistics=GRADIENT_COUNT)
    with pytest.raises(ValueError, match="only Gaussian"):
        curator.select(query, LargestCell(), Selection("x", 1.0))
    assert rows.samples == []


TWO = CellMap.side_by_side([CELLS, CellMap.of_feature(1, np.arange(50))])
EDGES = np.array([0], dtype=np.int32)
HISTOGRAMS = NodeHistograms(stump(), TWO)


@pytest.mark.parametrize(
    ("query", "claimed", "contribution"),
    [
        (QUERY, event(steps=CLIP_STEPS // 2), Contribution()),
        (QUERY, event(), Contribution(weighted=True)),
        (QUERY, event(steps=CLIP_STEPS * WEIGHT_STEPS), Contribution(weighted=True, rows=2)),
        (QUERY, event(steps=2 * CLIP_STEPS), Contribution(rows=2)),
        (QUERY, event(shares=(1.0,)), Contribution()),
        (HISTOGRAMS, event(), Contribution()),
        (CellSums(TWO), event(), Contribution()),
        (ScoreCounts(EDGES), event(), Contribution()),
        (ScoreCounts(EDGES), event(steps=CLIP_STEPS // 2, shares=(1.0,)), Contribution()),
        (ScoreCounts(EDGES), event(shares=(1.0,)), Contribution(weighted=True)),
    ],
)
def test_an_event_that_understates_is_refused_before_anything_is_spent(
    query, claimed, contribution
):
    curator, rows = curator_for([Planned(claimed, 1)], contribution)
    with pytest.raises(ValueError, match="understates"):
        curator.sums(query, claimed)
    assert rows.spent_when_asked == []
    assert rows.ledger.spent == ()


LEAF = LaplaceRelease("leaves", 10.0, CLIP_STEPS, 1, 1, (0.5, 0.5))
CHOICE = Selection("a cell", 5.0)
GROUP = SampledGroup.of("a tree", (Planned(CHOICE, 2), Planned(LEAF, 1)), 0.1)


def group_curator(count=2):
    ledger = Ledger(1e6, 0.0, PureAccountant())
    ledger.reserve([Planned(GROUP, count)])
    rows = Rows(ledger)
    return Curator(rows, ledger, KeyStream.seeded(1), ONE_ROW), rows


def test_a_group_shares_one_sample_and_makes_just_its_releases():
    curator, rows = group_curator()
    query = replace(QUERY, statistics=GRADIENT_COUNT)
    for _ in range(2):
        with curator.sampling(GROUP):
            curator.select(query, LargestCell(), CHOICE)
            curator.select(query, LargestCell(), CHOICE)
            curator.sums(QUERY, LEAF)
            with pytest.raises(BudgetError, match="made already"):
                curator.sums(QUERY, LEAF)
            with pytest.raises(ValueError, match="under way"):
                curator.sums(QUERY, event())
    keys = [sample.key.tobytes() for sample in rows.samples]
    assert len(keys) == 6
    assert len(set(keys[:3])) == len(set(keys[3:])) == 1
    assert keys[0] != keys[3]
    assert all(sample.rate == 0.1 for sample in rows.samples)
    with pytest.raises(BudgetError, match="spent already"), curator.sampling(GROUP):
        pass
    with pytest.raises(BudgetError):
        curator.sums(QUERY, LEAF)  # outside the group nothing is reserved


def test_a_group_costs_its_releases_together_amplified():
    inner = 2 / 5.0 + 1 / 10.0
    assert GROUP.pure == pytest.approx(np.log1p(0.1 * np.expm1(inner)))
    assert GROUP.scaled(2.0).pure < 0.55 * GROUP.pure
    with pytest.raises(ValueError, match="cost of its releases"):
        replace(GROUP, noise=10.0)  # claims to cost less than it does
    with pytest.raises(ValueError, match="several"):
        SampledGroup.of("a tree", (Planned(replace(LEAF, rows=2), 1),), 0.1)
    with pytest.raises(ValueError, match="whole sample"):  # it would be amplified twice
        SampledGroup.of("a tree", (Planned(replace(LEAF, sampling_rate=0.1), 1),), 0.1)
    with pytest.raises(ValueError, match="whole sample"):
        SampledGroup.of("a tree", (Planned(GROUP, 1),), 0.1)
    tight = SampledGroup.of("a tree", (Planned(replace(LEAF, noise=1e-4), 1),), 0.1)
    assert tight.pure == pytest.approx(1e4 + np.log(0.1))


def test_units_of_several_rows_are_never_sampled():
    ledger = Ledger(1e6, 0.0, PureAccountant())
    choices = SampledGroup.of("a tree", (Planned(CHOICE, 2),), 0.1)
    ledger.reserve([Planned(choices, 1)])
    curator = Curator(Rows(ledger), ledger, KeyStream.seeded(1), Contribution(rows=2))
    with pytest.raises(ValueError, match="in part"), curator.sampling(choices):
        pass
