"""Searches on the command line."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from privboost.cli.accounts import account_of
from privboost.cli.estimators import kind_of, read_parameters, spending
from privboost.cli.files import check_files, open_rows, save_paid
from privboost.cli.options import (
    FIRST_RECIPE,
    AsJson,
    Budget,
    DataFile,
    Delta,
    DomainRows,
    Epsilon,
    Force,
    Jobs,
    KnownDomain,
    LedgerFile,
    Missing,
    NewDelta,
    NewEpsilon,
    NewModel,
    OfDataset,
    OfRecipe,
    Parameters,
    Rows,
    RunName,
    Seed,
    Separator,
    Strict,
)
from privboost.cli.printing import end_with_warnings, print_json, warnings_held_back


def search(
    data: DataFile,
    candidates: Annotated[
        Path, typer.Option(help='A JSON file with what is tried: [{"n_estimators": 50}, …].')
    ],
    model: NewModel,
    domain: KnownDomain,
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    recipe: OfRecipe = FIRST_RECIPE,
    expected_runs: Annotated[
        float, typer.Option(help="How many runs there are on average; their number is hidden.")
    ] = 10.0,
    validation_share: Annotated[
        float, typer.Option(help="The part of the units that runs are scored on.")
    ] = 0.25,
    scoring: Annotated[
        str | None, typer.Option(help="What decides: auc, accuracy, log_loss, rmse, …")
    ] = None,
    domain_rows: DomainRows = Rows.same,
    set_: Parameters = None,
    missing: Missing = None,
    separator: Separator = None,
    jobs: Jobs = None,
    ledger: LedgerFile = None,
    budget: Budget = None,
    dataset: OfDataset = None,
    limit_epsilon: NewEpsilon = None,
    limit_delta: NewDelta = None,
    name: RunName = None,
    seed: Seed = None,
    as_json: AsJson = False,
    strict: Strict = False,
    force: Force = False,
) -> None:
    """Choose parameters privately, and keep the winner's model. Spends the budget."""
    from privboost.models.findings import find_defects
    from privboost.search.search import PrivateSearchCV
    from privboost.tables.domain import Domain
    from privboost.tables.features import ClassTarget
    from privboost.unit import column_of

    public = Domain.from_json(domain)
    kind = kind_of(recipe, isinstance(public.target, ClassTarget))
    estimator = kind(domain=public, n_jobs=jobs, domain_rows=domain_rows.value)
    estimator.set_params(**read_parameters(set_ or [], estimator.get_params()))
    tried = _read_candidates(candidates)
    table = open_rows(data, missing, separator)
    read = (data, domain, candidates, ledger, budget)
    check_files(read, [model], [model] if force else ())  # before it costs
    column = column_of(public.unit)
    own = PrivateSearchCV(
        estimator,
        tried,
        epsilon,
        delta,
        expected_runs=expected_runs,
        validation_share=validation_share,
        scoring=scoring,
        random_state=seed,
        ledger=ledger,
        budget=account_of(
            budget, dataset, limit_epsilon, limit_delta, name, column, filter="renyi"
        ),
    )
    with spending(epsilon, delta), warnings_held_back():
        own.fit(table)
        save_paid(own.best_estimator_.save, model)
    trained = own.best_estimator_.model_
    defects = find_defects(trained)
    if as_json:
        print_json(
            {
                "model": str(model),
                "parameters": own.best_params_,
                "scoring": own.scoring_,
                "score": {"value": own.best_score_, "std": own.best_score_std_},
                "warnings": [asdict(finding) for finding in defects],
                "privacy": own.privacy_.to_dict(),
            }
        )
    else:
        typer.echo(f"{model}: {own.privacy_.guarantee}")
        score = f"{own.best_score_:.3g} ± {own.best_score_std_:.2g}"
        typer.echo(f"best parameters {json.dumps(own.best_params_)}")
        typer.echo(f"{own.scoring_} {score}: noisy, and the best of several, so rather too good")
    end_with_warnings(trained, defects, strict)


def _read_candidates(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{path} is no JSON file with a list of candidates") from None
