"""Accounts on the command line."""

import json
import sys
import warnings

import pytest

from privboost import BudgetError, BudgetStore, load_model
from privboost.accounts.filters import Price
from privboost.cli.main import main
from tests.tables import make_domain, make_frame


@pytest.fixture
def act(capsys, monkeypatch, tmp_path):
    """Run a command in this process and an empty folder with a table and its domain."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own
    monkeypatch.chdir(tmp_path)
    make_domain().to_json("d.json")
    make_frame(300).to_parquet("t.parquet")
    (tmp_path / "c.json").write_text('[{"n_estimators": 3}, {"n_estimators": 6}]')

    def run(line, code=0):
        monkeypatch.setattr(sys, "argv", ["privboost", *line.split()])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert (left.value.code or 0) == code, err
        return out + err

    return run


TRAIN = (
    "train t.parquet --domain d.json --epsilon 1 --set n_estimators=3 --set interactions=false "
    "--quiet --budget s.db --dataset people"
)


def test_from_the_first_run_to_the_last(act):
    said = act(TRAIN + " --model a --limit-epsilon 1.6 --limit-delta 1e-6 --name one")
    assert "opened a new account for 'people'" in said
    assert "(0.9995, 9e-07)-differential privacy" in said
    act(TRAIN + " --model b --limit-epsilon 1.6 --limit-delta 1e-6")
    refused = act(TRAIN + " --model c", code=5)
    assert refused.startswith("privboost: the account of 'people' does not cover this")
    assert refused.count("\n") == 1
    act("evaluate a t.parquet --epsilon 0.2 --budget s.db --dataset people --name look")
    (shown,) = json.loads(act("budget show s.db --json"))
    assert [run["name"] for run in shown["runs"]] == ["one", "", "look"]
    assert [run["what"] for run in shown["runs"]] == ["PrivBoostClassifier"] * 2 + ["evaluate"]
    assert 1.4 < shown["spent"]["epsilon"] <= 1.6
    words = act("budget show s.db people")
    assert "epsilon 1.4" in words
    assert "of 1.6 is spent" in words
    assert "of all runs together, at its delta 1e-06" in words
    assert "the sum of the runs' own, 2.19" in words
    low = act("budget limit s.db people --limit-epsilon 0.01")
    assert "times all of the account" in low.splitlines()[1]
    assert "one row" in words
    assert "no terminal can confirm it" in act("budget close s.db people", code=2)
    assert "closed" in act("budget close s.db people --yes")
    assert "is closed" in act(TRAIN + " --model c", code=5)
    store = BudgetStore("s.db")
    assert load_model("a").privacy.entry == store.account("people").balance().entries[0].key


def test_limits(act):
    act("budget open s.db people --limit-epsilon 3 --limit-delta 1e-6 --filter renyi")
    assert "already" in act("budget open s.db people --limit-epsilon 3 --limit-delta 1e-6", code=5)
    assert "has the limit epsilon 3" in act(
        TRAIN + " --model a --limit-epsilon 9 --limit-delta 1e-6", code=2
    )
    said = act("budget limit s.db people --limit-epsilon 0.1 --limit-delta 1e-6")
    assert "of 0.1 is spent" in said
    assert "does not cover" in act(TRAIN + " --model a", code=5)


def test_a_unit_can_be_named_until_something_is_spent(act):
    make_domain(unit={"column": "person", "max_rows": 2}).to_json("d.json")
    act("budget open s.db people --limit-epsilon 3 --limit-delta 1e-6")
    refused = act(TRAIN + " --model a", code=5)
    assert "protects one row; this run would protect all rows of one person" in refused
    assert "privboost budget unit" in refused
    assert "all rows of one person" in act("budget unit s.db people person")
    account = BudgetStore("s.db").account("people")
    with pytest.raises(BudgetError, match="would protect one row"):  # a run of before the change
        account.charge(Price(1e-3), "a run", 0.1, 1e-7)
    assert not account.balance().entries
    act(TRAIN + " --model a")
    refused = act("budget unit s.db people", code=5)
    assert "has entries, whose noise protects all rows of one person" in refused
    assert account.balance().rules.unit == "person"


def test_a_search_and_a_learned_domain(act):
    act("budget open s.db people --limit-epsilon 5 --limit-delta 1e-5 --filter renyi")
    said = act(
        "search t.parquet --candidates c.json --model a --domain d.json --epsilon 1 "
        "--expected-runs 2 --set interactions=false --budget s.db --dataset people"
    )
    assert "best parameters" in said
    assert "differential privacy" in said
    act(
        "train t.parquet --target income --epsilon 3 --model b --set n_estimators=3 "
        "--set interactions=false --quiet --budget s.db --dataset people"
    )
    (shown,) = json.loads(act("budget show s.db --json"))
    assert [run["what"] for run in shown["runs"]] == ["PrivateSearchCV", "PrivBoostClassifier"]


def test_a_stream(act):
    about = "--budget s.db --dataset people --quiet"
    act(
        "train t.parquet --domain d.json --recipe sbdt --epsilon 1 --model a --stream x "
        f"--set n_estimators=3 --limit-epsilon 2 --limit-delta 1e-6 {about}"
    )
    make_frame(300, seed=1).to_parquet("u.parquet")
    assert "all batches of a stream" in act(
        "extend x u.parquet --model b --epsilon 1 --quiet", code=5
    )
    act(f"extend x u.parquet --model b --epsilon 1 {about}")
    (shown,) = json.loads(act("budget show s.db --json"))
    assert len(shown["runs"]) == 1


@pytest.mark.parametrize("recipe", ["dpxgb", "lazybb"])
def test_an_account_is_opened_so_that_the_run_fits(act, recipe):
    act(
        f"train t.parquet --domain d.json --recipe {recipe} --epsilon 0.3 --model a --quiet "
        "--budget s.db --dataset people --limit-epsilon 3 --limit-delta 1e-5 --set n_estimators=2"
    )
    (shown,) = json.loads(act("budget show s.db --json"))
    assert shown["filter"] == "renyi"
    assert ("replace" in shown["relation"]) == (recipe == "lazybb")


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (
            "train t.parquet --domain d.json --epsilon 1 --model a --dataset x",
            2,
            "go with --budget",
        ),
        (
            "train t.parquet --domain d.json --epsilon 1 --model a --budget s.db",
            2,
            "needs --dataset",
        ),
        (TRAIN + " --model a", 3, "no such store"),
        (TRAIN + " --model a --limit-epsilon 1", 2, "a limit is"),
        (TRAIN + " --model s.db --limit-epsilon 1 --limit-delta 1e-6", 2, "must be different"),
        (TRAIN + " --model a --seed 1 --limit-epsilon 1 --limit-delta 1e-6", 5, "seeded run"),
        ("budget show s.db", 3, "no such store"),
        ("budget show t.parquet", 3, "damaged, or no store"),
        ("budget open s.db people --limit-epsilon -1 --limit-delta 1e-6", 2, "limit's epsilon"),
        (
            "search t.parquet --candidates t.parquet --model a --domain d.json --epsilon 1",
            2,
            "JSON",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_line(act, line, code, words):
    said = act(line, code)
    assert words in said
    assert "Traceback" not in said
