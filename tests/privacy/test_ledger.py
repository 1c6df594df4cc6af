import json

import pytest

from privboost import BudgetError
from privboost.privacy.accountants.gdp import GdpAccountant
from privboost.privacy.calibration import calibrate
from privboost.privacy.events import GaussianRelease, Planned
from privboost.privacy.ledger import Ledger

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
    ledger = Ledger(1.0, 1e-6, GdpAccountant(), tmp_path / "no" / "such" / "folder")
    with pytest.raises(FileNotFoundError):
        ledger.reserve(PLAN)
    assert ledger.reserved == ()


def test_json():
    ledger = Ledger(1.0, 1e-6, GdpAccountant())
    ledger.reserve(PLAN)
    ledger.charge(EVENT)
    form = json.loads(ledger.to_json())
    assert (form["reserved"][0]["count"], form["spent"][0]["count"]) == (3, 1)
