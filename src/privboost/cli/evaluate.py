"""Evaluations on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from privboost.cli.accounts import account_of
from privboost.cli.estimators import spending
from privboost.cli.files import open_rows, print_paid, save_paid
from privboost.cli.options import (
    AsJson,
    Budget,
    DataFile,
    Delta,
    Epsilon,
    Force,
    Jobs,
    LedgerFile,
    Missing,
    ModelFile,
    NewDelta,
    NewEpsilon,
    OfDataset,
    Out,
    PublicRows,
    Quiet,
    RunName,
    Seed,
    Separator,
    Strict,
)
from privboost.cli.printing import (
    check_out,
    end_with_warnings,
    is_watched,
    print_written,
    warnings_held_back,
)


def evaluate(
    model: ModelFile,
    data: DataFile,
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    by: Annotated[
        list[str] | None,
        typer.Option(help="A feature by whose values rows are looked at as well; repeatable."),
    ] = None,
    score_cells: Annotated[
        int | None, typer.Option(help="Cells of scores that rows are told apart by.")
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(
            help="Of a number: what residuals are clipped to; chosen privately if left out."
        ),
    ] = None,
    missing: Missing = None,
    separator: Separator = None,
    public_rows: PublicRows = False,
    ledger: LedgerFile = None,
    seed: Seed = None,
    budget: Budget = None,
    dataset: OfDataset = None,
    limit_epsilon: NewEpsilon = None,
    limit_delta: NewDelta = None,
    name: RunName = None,
    jobs: Jobs = None,
    out: Out = None,
    as_json: AsJson = False,
    strict: Strict = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Say how good a model is on a private table. Spends the budget.

    Charged to an account (--budget) noise is Gaussian, which adds up best: errors are wider then.
    """
    from privboost.evaluation.evaluate import evaluate
    from privboost.files import write_file
    from privboost.models.files import load_model
    from privboost.progress import reading
    from privboost.unit import column_of

    check_out((model, data, ledger, budget), out, force)  # before it costs
    trained = load_model(model)
    table = open_rows(data, missing, separator)
    column = column_of(trained.domain.unit)
    account = account_of(budget, dataset, limit_epsilon, limit_delta, name, column)
    with spending(epsilon, delta, public_rows), warnings_held_back():
        with reading(is_watched() and not quiet, table):
            found = evaluate(
                trained,
                table,
                epsilon=epsilon,
                delta=delta,
                by=by or (),
                score_cells=score_cells,
                clip=clip,
                public_rows=public_rows,
                random_state=seed,
                n_jobs=jobs,
                ledger=ledger,
                budget=account,
            )
        text = found.to_json() if as_json else str(found)
        if out is None:
            print_paid(text, "evaluation.json" if as_json else "evaluation.txt")
        else:
            save_paid(lambda path: write_file(path, f"{text}\n".encode()), out)
    if out is not None:
        said = {"warnings": found.to_dict()["warnings"]}
        print_written(out, f"an evaluation at {found.privacy.guarantee}", as_json, **said)
    end_with_warnings(found, found.findings(), strict)
