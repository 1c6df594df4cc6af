"""Training on the command line: a model, and perhaps the first batch of a stream."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from privboost.cli.accounts import account_of, kind_for, unit_column_of
from privboost.cli.estimators import (
    kind_of,
    read_parameters,
    set_classes,
    set_weights,
    spending,
)
from privboost.cli.exits import say
from privboost.cli.files import check_files, held_back, open_rows, save_paid, saving_too
from privboost.cli.options import (
    FIRST_RECIPE,
    OUTPUT,
    PRIVACY,
    TABLE,
    TRAINING,
    AsJson,
    Budget,
    DataFile,
    DomainRows,
    Epsilon,
    Force,
    Jobs,
    LedgerFile,
    Missing,
    NewDelta,
    NewEpsilon,
    NewModel,
    OfDataset,
    Parameters,
    PublicRows,
    Quiet,
    Rows,
    RunName,
    Seed,
    Separator,
    Strict,
    Task,
    WeightBound,
    Weights,
)
from privboost.cli.printing import is_watched, print_json, print_model, warnings_held_back
from privboost.recipes import RECIPES

AnyRecipe = StrEnum("AnyRecipe", ["auto", *RECIPES])  # type: ignore[misc]  # names of others


def train(
    data: DataFile,
    epsilon: Epsilon,
    model: NewModel,
    delta: Annotated[
        float | None,
        typer.Option(
            help="The budget's delta.", show_default="1e-6; sarus: 0", rich_help_panel=PRIVACY
        ),
    ] = None,
    domain: Annotated[
        Path | None,
        typer.Option(help="What is public about the table (JSON).", rich_help_panel=TABLE),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Without a domain: the column to predict; one is learned.", rich_help_panel=TABLE
        ),
    ] = None,
    task: Annotated[
        Task, typer.Option(help="Without a domain: what the target is.", rich_help_panel=TABLE)
    ] = Task.classes,
    classes: Annotated[
        str | None,
        typer.Option(
            help="Without a domain: the classes, such as 0,1 (or a JSON list); they cost nothing.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    domain_given: Annotated[
        Path | None,
        typer.Option(
            help="Without a domain: the part of one that is known (JSON).", rich_help_panel=TABLE
        ),
    ] = None,
    missing: Missing = None,
    separator: Separator = None,
    weights: Weights = None,
    weight_bound: WeightBound = None,
    recipe: Annotated[
        AnyRecipe,
        typer.Option(
            help="How to boost: see docs/recipes.md; auto picks one by public facts, and says why.",
            rich_help_panel=TRAINING,
        ),
    ] = AnyRecipe[FIRST_RECIPE.name],
    preset: Annotated[
        str | None,
        typer.Option(
            help="A published variant of the recipe, such as TR_cyc.", rich_help_panel=TRAINING
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            help="For auto and --dry-run: how many rows there are, where that may be known.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    set_: Parameters = None,
    jobs: Jobs = None,
    domain_rows: DomainRows = Rows.same,
    public_rows: PublicRows = False,
    ledger: LedgerFile = None,
    seed: Seed = None,
    budget: Budget = None,
    dataset: OfDataset = None,
    limit_epsilon: NewEpsilon = None,
    limit_delta: NewDelta = None,
    name: RunName = None,
    stream: Annotated[
        Path | None,
        typer.Option(
            help="With sbdt: begin a stream, and write its private state here.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what it would promise and cost; read no row, and spend nothing.",
            rich_help_panel=PRIVACY,
        ),
    ] = False,
    as_json: AsJson = False,
    strict: Strict = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Train a model on a private table. Spends the budget."""
    from privboost.estimators.streams import check_begin
    from privboost.tables.beside import need_fit
    from privboost.tables.domain import Domain

    if domain is not None and target is not None:
        raise ValueError("give --domain or --target, not both: a domain names its target")
    if domain is not None and domain_given is not None:
        raise ValueError("give --domain or --domain-given, not both: a domain is given whole")
    if domain is None and target is None:
        raise ValueError("give --domain, or --target to have a domain learned privately")
    public = None if domain is None else Domain.from_json(domain)
    chosen = recipe.value
    if chosen == "auto":
        chosen = _pick(public, epsilon, delta, rows, streams=stream is not None)
    if stream is not None and chosen != "sbdt":
        raise ValueError("--stream needs --recipe sbdt")
    make = _maker(chosen, preset, _has_classes(public, task))
    estimator = make(epsilon=epsilon, domain=public, random_state=seed)
    estimator.set_params(**({} if delta is None else {"delta": delta}))
    estimator.set_params(n_jobs=jobs, ledger=ledger, verbose=is_watched() and not quiet)
    estimator.set_params(domain_rows=domain_rows.value, domain_given=domain_given)
    estimator.set_params(public_rows=public_rows)
    set_classes(estimator, classes)
    given = set_weights(estimator, chosen, weights, weight_bound)
    estimator.set_params(**read_parameters(set_ or [], estimator.get_params()))
    table = open_rows(data, missing, separator)
    written = [model] if stream is None else [model, stream]
    read = (data, domain, domain_given, ledger, budget)
    check_files(read, written, written if force else ())  # before it costs
    if stream is not None:
        check_begin(stream)
    if dry_run and (stream is not None or limit_epsilon is not None):
        raise ValueError(
            "--dry-run begins no stream, and opens no account: leave --stream and the limits out"
        )
    account = account_of(
        budget,
        dataset,
        limit_epsilon,
        limit_delta,
        name,
        unit_column_of(public, domain_given),
        **kind_for(chosen, estimator.delta),
    )
    estimator.set_params(budget=account)
    if dry_run:
        if public is not None:  # without one there is no preview, which says so
            need_fit(public, table, weights)
        _print_preview(estimator.preview(weighted=weights is not None, n_rows=rows), as_json)
        return
    with spending(epsilon, estimator.delta, public_rows), warnings_held_back():
        act = estimator.fit if stream is None else estimator.partial_fit
        act(table, target, **given)
        with held_back():
            if stream is not None:
                with saving_too(estimator.save, model):
                    save_paid(estimator.save_stream, stream)
            save_paid(estimator.save, model)
    more = {} if stream is None else {"stream": str(stream)}
    print_model(model, estimator.model_, as_json, strict, recipe=chosen, **more)


def _pick(domain: Any, epsilon: float, delta: float | None, rows: int | None, streams: bool) -> str:
    """Return the recipe that public facts speak for, and say why."""
    from privboost.recipes import ESTIMATORS
    from privboost.recommendation import recommend

    if domain is None:
        raise ValueError("--recipe auto needs --domain: it goes by what is public")
    found = recommend(domain, epsilon, 1e-6 if delta is None else delta, rows=rows, streams=streams)
    chosen = ESTIMATORS[type(found.estimator).__name__].rsplit(".", 1)[-1]
    say(f"--recipe {chosen}: {'; '.join(found.reasons)}")
    return chosen


def _has_classes(domain: Any, task: Task) -> bool:
    from privboost.tables.features import ClassTarget

    return task is Task.classes if domain is None else isinstance(domain.target, ClassTarget)


def _maker(recipe: str, preset: str | None, classes: bool) -> Any:
    """Return what makes a recipe's estimator."""
    kind = kind_of(recipe, classes)
    if preset is not None and not hasattr(kind, "from_preset"):
        raise ValueError(f"--preset: the recipe {recipe} has none")
    return kind if preset is None else partial(kind.from_preset, preset)


def _print_preview(preview: Any, as_json: bool) -> None:
    if not as_json:
        typer.echo(str(preview))
        return
    form = {"privacy": preview.privacy.to_dict()}
    if preview.after is not None:
        form |= {"before": preview.before.to_dict(), "after": preview.after.to_dict()}
    print_json(form)
