"""The command line's words about accounts: opened, shown, limited and closed."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from privboost.cli_files import check_output

budget_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Accounts of data sets: what was spent on them, by whom, and what is left.",
)

StoreFile = Annotated[Path, typer.Argument(help="The file of the store.")]
Dataset = Annotated[str, typer.Argument(help="The data set.")]
LimitEpsilon = Annotated[float, typer.Option(help="The most that may ever be spent.")]
LimitDelta = Annotated[float, typer.Option(help="Its delta.")]
Budget = Annotated[
    Path | None,
    typer.Option(help="A store of accounts, of which that of --dataset is charged first."),
]
OfDataset = Annotated[
    str | None, typer.Option("--dataset", help="With --budget: the data set that the rows are of.")
]
NewEpsilon = Annotated[
    float | None,
    typer.Option("--limit-epsilon", help="With --budget: open the account, with this limit."),
]
NewDelta = Annotated[float | None, typer.Option("--limit-delta", help="The delta of that limit.")]
RunName = Annotated[
    str | None, typer.Option("--name", help="With --budget: what the run is called there.")
]


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
    typer.echo(str(opened.statement()))


@budget_app.command()
def show(
    store: StoreFile,
    dataset: Annotated[str | None, typer.Argument(help="A data set; else all of them.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Print what was spent, on what and by whom, and what is left."""
    from privboost.accounts.store import BudgetStore

    opened = BudgetStore(store)
    found = opened.statements() if dataset is None else [opened.account(dataset).statement()]
    check_output()
    if as_json:
        typer.echo(json.dumps([statement.to_dict() for statement in found], indent=1))
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
) -> None:
    """Change the limit of an account."""
    from privboost.accounts.store import BudgetStore

    account = BudgetStore(store).account(dataset)
    before = account.statement().rules
    epsilon = before.epsilon if limit_epsilon is None else limit_epsilon
    delta = before.delta if limit_delta is None else limit_delta
    account.set_limit(epsilon, delta)
    typer.echo(f"the limit was epsilon {before.epsilon:g}, delta {before.delta:g}")
    typer.echo(str(account.statement()))


@budget_app.command()
def close(store: StoreFile, dataset: Dataset) -> None:
    """Let nothing be spent on a data set any more, for good."""
    from privboost.accounts.store import BudgetStore

    account = BudgetStore(store).account(dataset)
    account.close()
    typer.echo(str(account.statement()))


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
        typer.echo(f"privboost: {budget}: opened a new account for {dataset!r}", err=True)
        if not there:
            typer.echo(
                f"privboost: {budget} was not there, and is a NEW store: if there was one before, "
                "put it back, for what was spent is not in this one",
                err=True,
            )
    account = store.account(dataset)
    rules = account.statement().rules
    if limit_epsilon is not None and (rules.epsilon, rules.delta) != limit:
        raise ValueError(
            f"the account of {dataset!r} has the limit epsilon {rules.epsilon:g}, delta "
            f"{rules.delta:g}: leave --limit-epsilon and --limit-delta out, or change it first "
            "with privboost budget limit"
        )
    return account if name is None else account.named(name)
