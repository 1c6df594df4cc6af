import json
import math

import pytest

from privboost import BudgetError
from privboost.accounting.accountants import BoundedRangeAccountant, GdpAccountant, total_mu
from privboost.accounting.calibration import calibrate
from privboost.accounting.events import Planned, Selection
from privboost.accounting.formulas import round_up
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GaussianRelease, ThresholdRelease

PLAN = calibrate(
    [Planned(GaussianRelease("sums", 1.0, 2**16, 1, 1, (0.5, 0.5)), 3)], 1.0, 1e-6, GdpAccountant()
)
EVENT = PLAN[0].event


def test_a_plan_beyond_the_budget_is_refused_and_leaves_nothing(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(0.9, 1e-6, GdpAccountant(), path)
    with pytest.raises(BudgetError, match=r"the budget is 0\.9"):
        ledger.reserve(PLAN)
    assert ledger.reserved == ()
    assert not path.exists()
    with pytest.raises(BudgetError, match="not reserved"):
        ledger.charge(EVENT)


def test_a_second_plan_counts_the_first():
    ledger = Ledger(1.0, 1e-6, GdpAccountant())
    ledger.reserve(PLAN)
    with pytest.raises(BudgetError):
        ledger.reserve(PLAN)


def test_only_what_is_reserved_can_be_charged():
    ledger = Ledger(1.0, 1e-6, GdpAccountant())
    ledger.reserve(PLAN)
    with pytest.raises(BudgetError):
        ledger.charge(EVENT.scaled(0.5))
    for _ in range(3):
        ledger.charge(EVENT)
    with pytest.raises(BudgetError, match="spent already"):
        ledger.charge(EVENT)
    assert ledger.spent == PLAN


def test_the_file_is_written_first_and_only_grows(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"entry": "earlier"}\n')
    ledger = Ledger(1.0, 1e-6, GdpAccountant(), path)
    ledger.reserve(PLAN)
    ledger.charge(EVENT)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["entry"] for line in lines] == ["earlier", "reserve", "charge"]
    assert lines[1]["plan"][0]["count"] == 3
    assert lines[1]["epsilon"] <= 1.0


def test_a_file_that_cannot_be_written_stops_before_the_release(tmp_path):
    with pytest.raises(FileNotFoundError, match="ledger: no such folder"):
        Ledger(1.0, 1e-6, GdpAccountant(), tmp_path / "no" / "such" / "folder")
    folder = tmp_path / "here"
    folder.mkdir()
    ledger = Ledger(1.0, 1e-6, GdpAccountant(), folder / "ledger")
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        ledger.reserve(PLAN)
    assert ledger.reserved == ()


def test_selections_of_different_ranges_keep_their_order():
    """A small range before a large one costs more than after it."""
    wide, narrow = Selection("wide", 2.0), Selection("narrow", 10.0)
    first, last = [Planned(wide, 2), Planned(narrow, 3)], [Planned(narrow, 3), Planned(wide, 2)]
    game = BoundedRangeAccountant()
    assert game.compose(first).epsilon(1e-5) < game.compose(last).epsilon(1e-5)
    ledger = Ledger(10.0, 1e-5, game)
    ledger.reserve(first)
    with pytest.raises(BudgetError, match="must follow the order of the plan"):
        ledger.charge(narrow)
    for event in (wide, wide, narrow, narrow, narrow):
        ledger.charge(event)


def test_a_placeholder_gives_way_to_no_more_than_it_holds():
    ledger = Ledger(1.0, 1e-6, GdpAccountant())
    ledger.reserve(PLAN)
    with pytest.raises(BudgetError, match="more than was reserved"):
        ledger.exchange(PLAN[0], [PLAN[0].scaled(0.5)], GdpAccountant())
    with pytest.raises(BudgetError, match="more than was reserved"):
        ledger.exchange(
            PLAN[0], [Planned(Selection("a choice", 100.0), 1)], BoundedRangeAccountant()
        )
    assert ledger.reserved == PLAN


def test_a_placeholder_gives_way_once_and_only_before_it_is_spent():
    """What stands in its place may be many releases of any noise, as long as μ² adds up."""
    ledger = Ledger(1.0, 1e-6, GdpAccountant())
    ledger.reserve(PLAN)
    held = PLAN[0].count
    halves = [Planned(PLAN[0].event.scaled(math.sqrt(2 * k)), held * k) for k in (1, 9)]
    assert ledger.cost == GdpAccountant().cost(PLAN, 1e-6) < 1
    ledger.exchange(PLAN[0], halves, GdpAccountant())
    assert ledger.cost == 1  # the budget: the path's own cost would tell which path it was
    assert total_mu(ledger.reserved) == pytest.approx(total_mu(PLAN))
    for planned in halves:
        ledger.charge(planned.event)
    with pytest.raises(BudgetError, match="not reserved"):
        ledger.charge(PLAN[0].event)
    with pytest.raises(BudgetError, match="not reserved"):
        ledger.exchange(PLAN[0], halves, GdpAccountant())


def test_a_rounded_epsilon_is_hardly_above_itself():
    for value in (0.9993574984089572, 0.99936, 1.0, 0.1 + 0.2, 123456.7, 1e-6):
        assert value <= float(round_up(value)) <= value * (1 + 1.1e-5)


@pytest.mark.parametrize("value", [1.000004e-318, 5e-324, 2.5e-308, 1.7976931348623157e308])
def test_the_smallest_and_largest_numbers_are_rounded_up_too(value):
    assert value <= float(round_up(value))


def test_what_has_no_mu_takes_no_placeholder():
    """Thresholds fail with a chance that no sum of μ² bounds; and nothing is made minus once."""
    ledger = Ledger(1.0, 1e-6, GdpAccountant())
    ledger.reserve(PLAN)
    counts = {"steps": 2**16, "cells": 1, "rows": 1, "shares": (1.0,)}
    told = ThresholdRelease("values", 1e3, **counts, delta_of_threshold=1e-7)
    sampled = GaussianRelease("a sample", 1e3, **counts, sampling_rate=0.5)
    for event in (told, sampled):
        with pytest.raises(BudgetError, match="more than was reserved"):
            ledger.exchange(PLAN[0], [Planned(event, 1)], GdpAccountant())
    with pytest.raises(ValueError, match="a whole number of at least 0"):
        Planned(EVENT, -1)
    assert ledger.reserved == PLAN
