"""The command line's words about accounts: opened, shown, changed and closed."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from privboost.cli.exits import Status, fail
from privboost.cli.files import check_output
from privboost.cli.options import AsJson
from privboost.cli.printing import print_json

budget_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Accounts of data sets: what was spent on them, by whom, and what is left.",
)

StoreFile = Annotated[Path, typer.Argument(help="The file of the store.")]
Dataset = Annotated[str, typer.Argument(help="The data set.")]
LimitEpsilon = Annotated[float, typer.Option(help="The most that may ever be spent.")]
LimitDelta = Annotated[float, typer.Option(help="Its delta.")]


class Relation(StrEnum):
    """Which tables are neighbours."""

    add_remove = "add-remove"
    replace_one = "replace-one"


class Filter(StrEnum):
    """How runs add up."""

    gaussian = "gaussian"
    renyi = "renyi"


@budget_app.command("open")
def open_account(
    store: StoreFile,
    dataset: Dataset,
    limit_epsilon: LimitEpsilon,
    limit_delta: LimitDelta,
    unit: Annotated[
        str | None, typer.Option(help="The column that tells protected units apart; else a row.")
    ] = None,
    relation: Annotated[
        Relation, typer.Option(help="Which tables are neighbours.")
    ] = Relation.add_remove,
    filter_: Annotated[
        Filter,
        typer.Option("--filter", help="How runs add up: renyi takes every recipe."),
    ] = Filter.gaussian,
    as_json: AsJson = False,
) -> None:
    """Open the account of a data set; the store is made if there is none."""
    from privboost.accounts.store import BudgetStore

    opened = BudgetStore(store).open(
        dataset,
        limit_epsilon,
        limit_delta,
        unit=unit,
        relation=relation.value,
        filter=filter_.value,
    )
    _print(opened, as_json)


@budget_app.command()
def show(
    store: StoreFile,
    dataset: Annotated[str | None, typer.Argument(help="A data set; else all of them.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what was spent, on what and by whom, and what is left."""
    from privboost.accounts.store import BudgetStore

    opened = BudgetStore(store)
    found = opened.balances() if dataset is None else [opened.account(dataset).balance()]
    check_output()
    if as_json:
        print_json([statement.to_dict() for statement in found])
        return
    typer.echo("\n\n".join(map(str, found)) or "no account is open")


@budget_app.command()
def limit(
    store: StoreFile,
    dataset: Dataset,
    limit_epsilon: Annotated[
        float | None, typer.Option(help="The most that may ever be spent; else as it was.")
    ] = None,
    limit_delta: Annotated[float | None, typer.Option(help="Its delta; else as it was.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change the limit of an account."""
    from privboost.accounts.store import BudgetStore

    account = BudgetStore(store).account(dataset)
    before = account.balance().rules
    epsilon = before.epsilon if limit_epsilon is None else limit_epsilon
    delta = before.delta if limit_delta is None else limit_delta
    account.set_limit(epsilon, delta)
    if not as_json:
        typer.echo(f"the limit was epsilon {before.epsilon:g}, delta {before.delta:g}")
    _print(account, as_json)


@budget_app.command()
def unit(
    store: StoreFile,
    dataset: Dataset,
    column: Annotated[
        str | None, typer.Argument(help="The column that tells protected units apart; else a row.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change whom an account protects, while nothing is spent."""
    from privboost.accounts.store import BudgetStore

    account = BudgetStore(store).account(dataset)
    account.set_unit(column)
    _print(account, as_json)


@budget_app.command()
def close(
    store: StoreFile,
    dataset: Dataset,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: it is for good.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let nothing be spent on a data set any more, for good."""
    from privboost.accounts.store import BudgetStore

    account = BudgetStore(store).account(dataset)
    if not yes:
        if not sys.stdin.isatty():
            raise ValueError("to close an account is for good, and nobody can be asked: give --yes")
        if not typer.confirm(f"Close the account of {dataset!r} for good?", err=True):
            fail("the account stays open", Status.failed)
    account.close()
    _print(account, as_json)


def _print(account: Any, as_json: bool) -> None:
    statement = account.balance()
    if as_json:
        print_json(statement.to_dict())
    else:
        typer.echo(str(statement))
