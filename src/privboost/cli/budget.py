"""Commands of accounts: `budget open`, `show`, `limit`, `unit` and `close`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import privboost
from privboost.cli.exits import Status, fail
from privboost.cli.options import AsJson
from privboost.cli.output import check_standard_output, print_json, print_result
from privboost.cli.registry import command

StoreFile = Annotated[Path, typer.Argument(help="The file of the store.")]
Dataset = Annotated[str, typer.Argument(help="The data set.")]
LimitEpsilon = Annotated[float, "The most that may ever be spent."]
LimitDelta = Annotated[float, "Its delta."]


Relation = StrEnum("Relation", {"add_remove": "add-remove", "replace_one": "replace-one"})
Filter = StrEnum("Filter", ["gaussian", "renyi"])


@command(
    "privboost budget open budgets.db visits --limit-epsilon 3 --limit-delta 1e-5", name="open"
)
def open_account(
    store: StoreFile,
    dataset: Dataset,
    limit_epsilon: LimitEpsilon,
    limit_delta: LimitDelta,
    unit: Annotated[str | None, "The column that identifies protected units; else a row."] = None,
    relation: Annotated[Relation, "Which tables are neighbours."] = Relation.add_remove,
    filter_: Annotated[Filter, "Composition of runs: renyi takes every recipe."] = Filter.gaussian,
    as_json: AsJson = False,
) -> None:
    """Open the account of a data set; the store is created if there is none."""
    opened = privboost.BudgetStore(store).open(
        dataset,
        limit_epsilon,
        limit_delta,
        unit=unit,
        relation=relation.value,
        filter=filter_.value,
    )
    print_result(opened.balance(), as_json)


@command("privboost budget show budgets.db visits --json")
def show(
    store: StoreFile,
    dataset: Annotated[str | None, typer.Argument(help="A data set; else all of them.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what was spent, on what and by whom, and what is left."""
    opened = privboost.BudgetStore(store)
    found = opened.balances() if dataset is None else [opened.account(dataset).balance()]
    check_standard_output()
    if as_json:
        print_json([balance.to_dict() for balance in found])
        return
    typer.echo("\n\n".join(map(str, found)) or "no account is open")


@command("privboost budget limit budgets.db visits --limit-epsilon 4")
def limit(
    store: StoreFile,
    dataset: Dataset,
    limit_epsilon: Annotated[
        float | None, "The most that may ever be spent; else as it was."
    ] = None,
    limit_delta: Annotated[float | None, "Its delta; else as it was."] = None,
    as_json: AsJson = False,
) -> None:
    """Change the limit of an account."""
    account = privboost.BudgetStore(store).account(dataset)
    before = account.balance().rules
    epsilon = before.epsilon if limit_epsilon is None else limit_epsilon
    delta = before.delta if limit_delta is None else limit_delta
    account.set_limit(epsilon, delta)
    if not as_json:
        typer.echo(f"the limit was epsilon {before.epsilon:g}, delta {before.delta:g}")
    print_result(account.balance(), as_json)


@command("privboost budget unit budgets.db visits patient")
def unit(
    store: StoreFile,
    dataset: Dataset,
    column: Annotated[
        str | None, typer.Argument(help="The column that identifies protected units; else a row.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change whom an account protects, while nothing is spent."""
    account = privboost.BudgetStore(store).account(dataset)
    account.set_unit(column)
    print_result(account.balance(), as_json)


@command("privboost budget close budgets.db visits --yes")
def close(
    store: StoreFile,
    dataset: Dataset,
    yes: Annotated[bool, "Do not ask for confirmation."] = False,
    as_json: AsJson = False,
) -> None:
    """Close an account for good: nothing can be spent on the data set any more."""
    account = privboost.BudgetStore(store).account(dataset)
    if not yes:
        if not sys.stdin.isatty():
            raise ValueError(
                "an account is closed for good, and no terminal can confirm it: give --yes"
            )
        if not typer.confirm(f"Close the account of {dataset!r} for good?", err=True):
            fail("the account stays open", Status.failed)
    account.close()
    print_result(account.balance(), as_json)
