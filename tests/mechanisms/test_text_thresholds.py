"""Texts above a threshold: what a unit changes in their counts, and events that understate it."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privboost._core.grid import CLIP_STEPS, Contribution
from privboost.accounting.accountants import GdpAccountant
from privboost.accounting.events import Planned, Relation
from privboost.accounting.individual_budgets import GaussianBudget
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import ThresholdRelease
from privboost.engine.shard import tally_texts
from privboost.engine.updates import Start
from privboost.losses.logistic import LOGISTIC
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.sensitivity import texts_bound
from privboost.randomness.keystream import KeyStream

COLUMNS, ROWS = 3, 2
BOTH = Contribution(rows=ROWS)


def event(steps=ROWS * CLIP_STEPS, cells=COLUMNS, rows=ROWS, noise=2.0, **more):
    return ThresholdRelease(
        "texts", noise, steps, cells, rows, (1.0,), delta_of_threshold=1e-3, **more
    )


class Texts:
    """A backend of texts alone, which notes how often it is asked."""

    def __init__(self, counts):
        self.counts, self.asked = counts, 0

    def tally(self):
        self.asked += 1
        return self.counts

    def apply(self, update):
        pass


def curator_for(planned, counts, contribution=BOTH, seed=1):
    ledger = Ledger(1e6, 0.5, GdpAccountant())
    ledger.reserve(planned)
    backend = Texts(counts)
    return Curator(backend, ledger, KeyStream.seeded(seed), contribution), backend, ledger


def tally(rows):
    columns = zip(*rows, strict=True) if rows else [[] for _ in range(COLUMNS)]
    return tally_texts([tuple(pa.array([*column], pa.large_binary()) for column in columns)])


def changes(rows, unit):
    before, after = tally(rows), tally([*rows, *unit])
    names = sorted({*before, *after})
    return np.array([after.get(name, 0) - before.get(name, 0) for name in names]) * CLIP_STEPS


TEXT = st.sampled_from([None, b"", b"a", b"b", b"0 a", b"\xff"])
A_ROW = st.tuples(*[TEXT] * COLUMNS)


@given(rows=st.lists(A_ROW, max_size=6), unit=st.lists(A_ROW, max_size=ROWS))
def test_no_unit_changes_counts_by_more_than_claimed(rows, unit):
    own, bound = changes(rows, unit), texts_bound(COLUMNS, BOTH)
    assert (np.abs(own) <= bound.steps).all()
    assert (own.astype(float) ** 2).sum() <= bound.cells * float(bound.steps) ** 2
    assert (own != 0).sum() <= bound.rows * bound.coordinates


def test_the_bound_is_attained_and_twins_that_forget_something_are_not_enough():
    same = changes([], [(b"a", b"a", b"a")] * ROWS).astype(float)
    length = np.sqrt((same**2).sum())
    bound = texts_bound(COLUMNS, BOTH)
    assert length == pytest.approx(bound.steps * np.sqrt(bound.cells))
    for twin in (texts_bound(COLUMNS - 1, BOTH), texts_bound(COLUMNS, Contribution())):
        assert length > twin.steps * np.sqrt(twin.cells) * 1.1


@pytest.mark.parametrize(
    "claimed",
    [
        event(cells=COLUMNS - 1),
        event(steps=CLIP_STEPS),
        event(rows=1),
        event(relation=Relation.REPLACE_ONE),
    ],
    ids=["columns", "steps", "rows", "relation"],
)
def test_an_event_that_understates_is_refused_before_anything_is_spent(claimed):
    curator, backend, ledger = curator_for([Planned(claimed, 1)], {b"0 a": 1000})
    with pytest.raises(ValueError, match="understates"):
        curator.threshold(COLUMNS, claimed, KeyStream.seeded(2))
    assert backend.asked == 0
    assert ledger.spent == ()


def test_texts_of_more_columns_than_claimed_are_left_out():
    counts = {b"0 a": 1000, b"2 b c": 900, b"3 d": 1000, b"10 e": 1000, b"00 f": 1000}
    curator, backend, ledger = curator_for([Planned(event(), 1)], counts)
    assert curator.threshold(COLUMNS, event(), KeyStream.seeded(2)) == [b"0 a", b"2 b c"]
    assert backend.asked == 1
    assert [planned.count for planned in ledger.spent] == [1]


def test_rows_with_budgets_are_not_tallied():
    budget = GaussianBudget("all sums", 1.0, releases=3, touched=2, least_sigma=1e5)
    curator, backend, ledger = curator_for([Planned(event(), 1), Planned(budget, 1)], {})
    curator.publish(Start(LOGISTIC.table(0.3, 0.1)))
    curator.open_budget(budget)
    spent = ledger.spent
    with pytest.raises(ValueError, match="only Gaussian releases"):
        curator.threshold(COLUMNS, event(), KeyStream.seeded(2))
    assert backend.asked == 0
    assert ledger.spent == spent
