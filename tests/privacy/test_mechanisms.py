import numpy as np
import pytest

from privboost import BudgetError
from privboost.engine.commands import FeatureSums, NodeHistograms, OpenBudgets, Start
from privboost.engine.tree import stump
from privboost.grid import UNIT, WEIGHT_UNITS, Contribution
from privboost.losses import logistic
from privboost.privacy.accountants.gdp import GdpAccountant
from privboost.privacy.accountants.rdp import RdpAccountant
from privboost.privacy.events import GaussianRelease, Planned
from privboost.privacy.filters import GaussianFilter
from privboost.privacy.keystream import KeyStream
from privboost.privacy.ledger import Ledger
from privboost.privacy.mechanisms import Curator

QUERY = FeatureSums(0, np.arange(50, dtype=np.uint16), 50)
ONE_ROW = Contribution()
EXACT = np.arange(100).reshape(50, 2) * UNIT


class Rows:
    """A backend that notes when it is asked."""

    def __init__(self, ledger):
        self.ledger, self.spent_when_asked = ledger, []

    def sum(self, query):
        self.spent_when_asked.append(sum(p.count for p in self.ledger.spent))
        return EXACT.copy()

    def apply(self, update):
        pass

    def close(self):
        pass


def event(z=50.0, units=UNIT, cells=1, rows=1, shares=(0.9, 0.1)):
    return GaussianRelease("sums", z, units, cells, rows, shares)


def curator_for(planned, contribution=ONE_ROW, seed=1):
    ledger = Ledger(1e6, 1e-6, GdpAccountant())
    ledger.reserve(planned)
    rows = Rows(ledger)
    return Curator(rows, ledger, KeyStream.seeded(seed), contribution), rows


def test_each_statistic_has_its_own_scale():
    curator, _ = curator_for([Planned(event(), 400)])
    noise = np.stack([curator.gaussian(QUERY, event()) - EXACT for _ in range(400)])
    deviations = noise.reshape(-1, 2).std(axis=0)
    np.testing.assert_allclose(deviations, event().sigmas, rtol=0.03)
    for twin in (event(z=55), event(z=45), event(shares=(0.8, 0.2))):
        assert (np.abs(deviations / twin.sigmas - 1) > 0.03).any()


def test_the_charge_comes_before_the_rows_are_asked():
    curator, rows = curator_for([Planned(event(), 2)])
    curator.gaussian(QUERY, event())
    curator.gaussian(QUERY, event())
    assert rows.spent_when_asked == [1, 2]


def test_without_a_reservation_the_rows_are_not_asked():
    curator, rows = curator_for([Planned(event(), 1)])
    curator.gaussian(QUERY, event())
    with pytest.raises(BudgetError):
        curator.gaussian(QUERY, event())
    assert rows.spent_when_asked == [1]


def test_noise_is_never_reused():
    curator, _ = curator_for([Planned(event(), 2)])
    first, second = (curator.gaussian(QUERY, event()) for _ in range(2))
    assert (first != second).mean() > 0.99


def test_a_sampling_rate_is_not_believed():
    """Rows are not sampled here: amplification by sampling would be a lie."""
    cheap = GaussianRelease("sums", 50.0, UNIT, 1, 1, (0.9, 0.1), 0.001)
    ledger = Ledger(1e6, 1e-6, RdpAccountant())
    ledger.reserve([Planned(cheap, 1)])
    curator = Curator(Rows(ledger), ledger, KeyStream.seeded(1), ONE_ROW)
    with pytest.raises(ValueError, match="not sampled"):
        curator.gaussian(QUERY, cheap)
    assert ledger.spent == ()


def test_budgets_are_charged_with_their_release_and_opened_once():
    curator, _ = curator_for([Planned(event(), 3)])
    curator.publish(Start(logistic(0.3, 0.1)))
    with pytest.raises(ValueError, match="OpenBudgets"):
        curator.filtered_gaussian(QUERY, event(), GaussianFilter(1.0))
    curator.publish(OpenBudgets())
    curator.filtered_gaussian(QUERY, event(), GaussianFilter(1.0))
    with pytest.raises(ValueError, match="only filtered releases"):
        curator.gaussian(QUERY, event())
    for update in (OpenBudgets(), GaussianFilter(1.0).charge(logistic(0.3, 0.1), event())):
        with pytest.raises(ValueError, match="for life"):
            curator.publish(update)


HISTOGRAMS = NodeHistograms(stump(), (0, 1), (QUERY.cell_of, QUERY.cell_of + 50), 100)


@pytest.mark.parametrize(
    ("query", "claimed", "contribution"),
    [
        (QUERY, event(units=UNIT // 2), Contribution()),
        (QUERY, event(), Contribution(weighted=True)),
        (QUERY, event(units=UNIT * WEIGHT_UNITS), Contribution(weighted=True, rows=2)),
        (QUERY, event(units=2 * UNIT), Contribution(rows=2)),
        (QUERY, event(shares=(1.0,)), Contribution()),
        (HISTOGRAMS, event(), Contribution()),
    ],
)
def test_an_event_that_understates_is_refused_before_anything_is_spent(
    query, claimed, contribution
):
    curator, rows = curator_for([Planned(claimed, 1)], contribution)
    with pytest.raises(ValueError, match="understates"):
        curator.gaussian(query, claimed)
    assert rows.spent_when_asked == []
    assert rows.ledger.spent == ()
