"""Later batches of a stream, on the command line."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from privboost.cli.accounts import account_of
from privboost.cli.estimators import kind_of, read_parameters, set_weights, spending
from privboost.cli.files import check_files, held_back, open_rows, save_paid, saving_too
from privboost.cli.options import (
    PRIVACY,
    TABLE,
    AsJson,
    Budget,
    DataFile,
    Delta,
    DomainRows,
    Force,
    Jobs,
    LedgerFile,
    Missing,
    NewModel,
    OfDataset,
    Parameters,
    Quiet,
    Rows,
    RunName,
    Seed,
    Separator,
    Strict,
    WeightBound,
    Weights,
)
from privboost.cli.printing import is_watched, print_model, warnings_held_back


def extend(
    stream: Annotated[Path, typer.Argument(help="The private state of a stream; it is replaced.")],
    data: DataFile,
    epsilon: Annotated[
        float,
        typer.Option(help="The privacy budget of the new rows.", rich_help_panel=PRIVACY),
    ],
    model: NewModel,
    delta: Delta = 1e-6,
    target: Annotated[
        str | None,
        typer.Option(
            help="The column to predict, if the domain was learned.", rich_help_panel=TABLE
        ),
    ] = None,
    domain_rows: DomainRows = Rows.same,
    set_: Parameters = None,
    weights: Weights = None,
    weight_bound: WeightBound = None,
    missing: Missing = None,
    separator: Separator = None,
    jobs: Jobs = None,
    ledger: LedgerFile = None,
    budget: Budget = None,
    dataset: OfDataset = None,
    name: RunName = None,
    seed: Seed = None,
    as_json: AsJson = False,
    strict: Strict = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Train on rows that came later; rows of earlier batches go on while their budget lasts.

    Parameters are those of the batch before, but for what --set changes.
    """
    from privboost.estimators.streams import load_stream, take_stream
    from privboost.tables.features import ClassTarget
    from privboost.unit import column_of

    began, before = load_stream(stream)
    classes = isinstance(before.domain.target, ClassTarget)
    estimator = kind_of("sbdt", classes)(epsilon, delta, random_state=seed)
    estimator.set_params(**began.parameters)
    estimator.set_params(
        n_jobs=jobs,
        ledger=ledger,
        verbose=is_watched() and not quiet,
        domain_rows=domain_rows.value,
    )
    given = set_weights(estimator, "sbdt", weights, weight_bound)
    estimator.set_params(**read_parameters(set_ or [], estimator.get_params()))
    table = open_rows(data, missing, separator)
    column = column_of(before.domain.unit)
    estimator.set_params(budget=account_of(budget, dataset, None, None, name, column))
    check_files((data, ledger, budget), [model, stream], [model, stream] if force else [stream])
    found: list[int] = []
    with spending(epsilon, delta), warnings_held_back(), ExitStack() as until_written:
        with take_stream(stream, lambda: found in ([], [estimator.n_batches_])) as taken:
            estimator.load_stream(taken)  # what was taken: another process may have gone on
            found.append(estimator.n_batches_)
            if estimator.n_batches_ != began.n_batches:
                raise ValueError(f"{stream} was extended by another process meanwhile: try again")
            estimator.partial_fit(table, target, **given)
            until_written.enter_context(held_back())
            with saving_too(estimator.save, model):
                save_paid(estimator.save_stream, stream)
        save_paid(estimator.save, model)
    print_model(model, estimator.model_, as_json, strict, stream=str(stream))
