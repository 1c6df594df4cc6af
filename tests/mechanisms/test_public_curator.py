"""What has no noise: no private curator and no ledger takes it; that of public rows does."""

import math

import numpy as np
import pytest

from privboost import BudgetError
from privboost._core.grid import CLIP_STEPS, Contribution
from privboost.accounting.accountants import ACCOUNTANTS, PureAccountant
from privboost.accounting.events import Exact, Planned, SampledGroup, Selection
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.engine.queries import GRADIENT_COUNT, CellSums
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.public_curator import PublicCurator
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget, PublicRows
from privboost.trees.cell_map import CellMap
from tests.mechanisms.largest_cell import LargestCell

SUMS = np.array([[5, 3], [-2, 7], [0, 7]]) * CLIP_STEPS
QUERY = CellSums(CellMap.of_feature(0, np.arange(3)), statistics=GRADIENT_COUNT)
GAUSSIAN = GaussianRelease("sums", 1.0, CLIP_STEPS, 1, 1, (0.5, 0.5))
LAPLACE = LaplaceRelease("sums", 1.0, CLIP_STEPS, 1, 1, (0.5, 0.5))
CHOICE = Selection("a cell", 1.0)


class Sums:
    def __init__(self):
        self.asked = []

    def sum(self, query):
        self.asked.append(query)
        return SUMS.copy()


class Generous(Ledger):
    """A ledger that takes anything: the curator is on its own."""

    def charge(self, event):
        pass


def without_noise(event):
    """What no constructor makes."""
    object.__setattr__(event, "noise", 0.0)
    return event


@pytest.mark.parametrize("kind", [GaussianRelease, LaplaceRelease])
def test_no_event_of_private_rows_is_made_without_noise(kind):
    with pytest.raises(ValueError, match="noise"):
        kind("sums", 0.0, CLIP_STEPS, 1, 1, (1.0,))
    with pytest.raises(ValueError, match="noise"):
        Selection("a cell", 0.0)
    with pytest.raises(ValueError, match="epsilon"):
        Budget(math.inf, 1e-6)
    assert PublicRows(1e-6).epsilon == math.inf


@pytest.mark.parametrize("forged", [False, True])
def test_the_curator_of_private_rows_never_tells_exactly(forged):
    ledger, backend = Generous(1e9, 1e-6, PureAccountant()), Sums()
    curator = Curator(backend, ledger, KeyStream.seeded(1), Contribution())
    shape = ("sums", 1.0, CLIP_STEPS, 1, 1, (0.5, 0.5))
    gaussian, laplace = GaussianRelease(*shape), LaplaceRelease(*shape)
    make = without_noise if forged else Exact.of
    for act in (
        lambda: curator.sums(QUERY, make(gaussian)),
        lambda: curator.sums(QUERY, make(laplace)),
        lambda: curator.select(QUERY, LargestCell(), make(Selection("a cell", 1.0))),
    ):
        with pytest.raises(BudgetError, match="never released exactly"):
            act()
    assert backend.asked == []


@pytest.mark.parametrize("accountant", ACCOUNTANTS.values())
def test_no_ledger_reserves_what_has_no_noise(accountant):
    ledger = Ledger(1e300, 0.5, accountant())
    for event in (GAUSSIAN, LAPLACE, CHOICE):
        assert not accountant().covers(Exact.of(event))
        with pytest.raises(ValueError, match="does not cover"):
            ledger.reserve([Planned(Exact.of(event), 1)])


def public_curator():
    backend = Sums()
    keys = KeyStream.seeded(1)
    return backend, PublicCurator(backend, PureAccountant(), keys, Contribution())


def test_public_rows_are_told_exactly_and_of_equals_the_first_is_chosen():
    _, curator = public_curator()
    np.testing.assert_array_equal(curator.sums(QUERY, Exact.of(GAUSSIAN)), SUMS)
    np.testing.assert_array_equal(curator.sums(QUERY, Exact.of(LAPLACE)), SUMS)
    assert curator.select(QUERY, LargestCell(), Exact.of(CHOICE)).tolist() == [1]
    assert Exact.of(GAUSSIAN).sigmas.tolist() == [0, 0]


def test_the_public_curator_takes_no_private_release():
    backend, curator = public_curator()
    for act in (
        lambda: curator.sums(QUERY, GAUSSIAN),
        lambda: curator.sums(QUERY, LAPLACE),
        lambda: curator.select(QUERY, LargestCell(), CHOICE),
    ):
        with pytest.raises(ValueError, match="released exactly"):
            act()
    assert backend.asked == []


def test_samples_stay():
    backend, curator = public_curator()
    sampled = GaussianRelease("sums", 1.0, CLIP_STEPS, 1, 1, (0.5, 0.5), 0.25)
    curator.sums(QUERY, Exact.of(sampled))
    assert backend.asked[-1].sample.rate == 0.25
    ledger, noisy = Generous(1e9, 1e-6, PureAccountant()), Sums()
    Curator(noisy, ledger, KeyStream.seeded(1), Contribution()).sums(QUERY, sampled)
    np.testing.assert_array_equal(noisy.asked[-1].sample.key, backend.asked[-1].sample.key)
    group = Exact.of(SampledGroup.of("a tree", (Planned(LAPLACE, 1), Planned(CHOICE, 1)), 0.5))
    with curator.sampling(group):
        curator.sums(QUERY, group.inner[0].event)
        curator.select(QUERY, LargestCell(), group.inner[1].event)
        with pytest.raises(BudgetError, match="not in the group"):
            curator.sums(QUERY, group.inner[0].event)
    assert backend.asked[-1].sample is backend.asked[-2].sample
    assert backend.asked[-1].sample.rate == 0.5
