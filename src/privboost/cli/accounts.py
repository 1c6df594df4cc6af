"""From options to accounts of data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privboost.cli.exits import say


def unit_column_of(domain: Any, given: Path | None) -> str | None:
    """Return the column that tells protected units apart, where a domain or a part of one says."""
    from privboost.learning.given import open_given
    from privboost.unit import Unit, column_of

    if domain is not None:
        return column_of(domain.unit)
    form = None if given is None else open_given("domain_given", given).get("unit")
    return None if form is None else column_of(Unit.from_dict(form))


def kind_for(recipe: str, delta: float) -> dict[str, str]:
    """Return what an account must be so that a recipe can be charged to it."""
    if recipe == "lazybb":
        return {"filter": "renyi", "relation": "replace-one"}
    return {"filter": "renyi"} if recipe in ("dpxgb", "sarus") or delta == 0 else {}


def account_of(
    budget: Path | None,
    dataset: str | None,
    limit_epsilon: float | None,
    limit_delta: float | None,
    name: str | None,
    unit: str | None,
    **kind: Any,
) -> Any:
    """Return the account that options name, opened where they give a limit; None without one.

    `kind` says what else an account is opened with: its filter and relation.
    """
    from privboost.accounts.store import BudgetStore

    limit = (limit_epsilon, limit_delta)
    if budget is None:
        if dataset is not None or name is not None or limit != (None, None):
            raise ValueError("--dataset, --name and the limits go with --budget")
        return None
    if dataset is None:
        raise ValueError("--budget needs --dataset: the data set that the rows are of")
    if (limit_epsilon is None) != (limit_delta is None):
        raise ValueError("a limit is --limit-epsilon and --limit-delta")
    store = BudgetStore(budget)
    there = budget.exists()
    if limit_epsilon is not None and (not there or dataset not in store.datasets()):
        store.open(dataset, limit_epsilon, limit_delta or 0.0, unit=unit, **kind)
        say(f"{budget}: opened a new account for {dataset!r}")
        if not there:
            say(
                f"{budget} was not there, and is a NEW store: if there was one before, put it "
                "back, for what was spent is not in this one"
            )
    account = store.account(dataset)
    rules = account.balance().rules
    if limit_epsilon is not None and (rules.epsilon, rules.delta) != limit:
        raise ValueError(
            f"the account of {dataset!r} has the limit epsilon {rules.epsilon:g}, delta "
            f"{rules.delta:g}: leave --limit-epsilon and --limit-delta out, or change it first "
            "with privboost budget limit"
        )
    return account if name is None else account.named(name)
