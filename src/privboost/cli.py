"""The command line: train, predict, report, and a demonstration."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Boosted models for private tables, with differential privacy.",
)

DataFile = Annotated[Path, typer.Argument(help="A .parquet, .csv or .tsv file.")]
ModelFile = Annotated[Path, typer.Argument(help="A model file.")]
Missing = Annotated[
    list[str] | None, typer.Option(help='A text that means "missing" in a CSV file; repeatable.')
]


class Form(StrEnum):
    """The forms of a report."""

    text = "text"
    json = "json"
    html = "html"


@app.command()
def train(
    data: DataFile,
    domain: Annotated[Path, typer.Option(help="What is public about the table (JSON).")],
    model: Annotated[Path, typer.Option(help="Where to write the model.")],
    epsilon: Annotated[float, typer.Option(help="The privacy budget.")],
    delta: Annotated[float, typer.Option(help="The privacy budget's delta.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another parameter, as name=value; repeatable."),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="The column of sample weights.")] = None,
    missing: Missing = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = 1,
    ledger: Annotated[
        Path | None, typer.Option(help="A file that records every charge before its release.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="For tests and demonstrations: NO privacy guarantee.")
    ] = None,
    quiet: Annotated[bool, typer.Option(help="No progress bar.")] = False,
) -> None:
    """Train a model on a private table. Spends the budget."""
    from privboost.domain import ClassTarget, Domain
    from privboost.estimators.privboost import PrivBoostClassifier, PrivBoostRegressor
    from privboost.tables import open_file

    public = Domain.from_json(domain)
    kind = PrivBoostClassifier if isinstance(public.target, ClassTarget) else PrivBoostRegressor
    estimator = kind(
        epsilon, delta, public, random_state=seed, n_jobs=jobs, ledger=ledger, verbose=not quiet
    )
    estimator.set_params(**_parameters(set_ or [], estimator.get_params()))
    if not model.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {model.parent}")
    estimator.fit(open_file(data, missing or []), sample_weight=weights)
    estimator.save(model)
    typer.echo(f"{model}: {estimator.privacy_.guarantee}")


@app.command()
def predict(
    model: ModelFile,
    data: DataFile,
    out: Annotated[Path | None, typer.Option(help="A CSV file; else standard output.")] = None,
    missing: Missing = None,
) -> None:
    """Predict the rows of a table: the prediction and, for classes, their probabilities."""
    import pyarrow as pa
    import pyarrow.csv

    from privboost.domain import ClassTarget
    from privboost.models.files import load_model
    from privboost.tables import open_file

    trained = load_model(model)
    table = open_file(data, missing or [])
    columns: dict[str, Any] = {"prediction": trained.predict(table)}
    if isinstance(trained.domain.target, ClassTarget):
        chances = trained.predict_proba(table).T
        for label, chance in zip(trained.domain.target.classes, chances, strict=True):
            columns[f"probability of {label}"] = chance
    pa.csv.write_csv(pa.table(columns), sys.stdout.buffer if out is None else out)


@app.command()
def report(
    model: ModelFile,
    form: Annotated[Form, typer.Option("--format", help="The form.")] = Form.text,
    out: Annotated[Path | None, typer.Option(help="A file; else standard output.")] = None,
) -> None:
    """Say what a model's training leaked at most."""
    from privboost.models.files import load_model

    privacy = load_model(model).privacy
    write = {Form.text: privacy.__str__, Form.json: privacy.to_json, Form.html: privacy.to_html}
    text = write[form]()
    if out is None:
        typer.echo(text)
    else:
        out.write_text(text, encoding="utf-8")


@app.command()
def demo() -> None:
    """Train on the Adult data set at several budgets and print what each buys."""
    from privboost.demo import run_demo

    run_demo()


def main() -> None:
    """Run the command line; say errors in a line, without a trace."""
    from privboost.errors import BudgetError, DomainError, ModelFileError, SchemaError

    try:
        app()
    except (BudgetError, DomainError, ModelFileError, SchemaError, OSError, ValueError) as error:
        typer.echo(f"privboost: {error}", err=True)
        raise SystemExit(1) from None


def _parameters(settings: list[str], known: dict[str, Any]) -> dict[str, Any]:
    """Read name=value pairs, a value as JSON or else as text."""
    own = {"epsilon", "delta", "domain", "random_state", "n_jobs", "backend", "ledger", "verbose"}
    names = sorted(set(known) - own)
    parameters = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in names:
            raise typer.BadParameter(f"{setting!r}: name=value with one of {', '.join(names)}")
        try:
            parameters[name] = json.loads(text)
        except json.JSONDecodeError:
            parameters[name] = text
    return parameters
