"""The command line: train, predict, evaluate, report, and a demonstration."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from privboost.cli_budget import (
    Budget,
    NewDelta,
    NewEpsilon,
    OfDataset,
    RunName,
    account_of,
    budget_app,
    kind_for,
)
from privboost.cli_estimators import fail, kind_of, read_parameters, spending
from privboost.cli_files import check_files, check_output, print_csv, read_separator, write_table
from privboost.cli_options import (
    FIRST_RECIPE,
    DataFile,
    Delta,
    DomainRows,
    Epsilon,
    Force,
    Form,
    Jobs,
    LedgerFile,
    Missing,
    ModelFile,
    Parameters,
    PublicRows,
    Quiet,
    Recipe,
    Rows,
    Seed,
    Separator,
    Task,
    WeightBound,
    Weights,
)
from privboost.cli_search import search

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Boosted models for private tables, with differential privacy.",
)

app.add_typer(budget_app, name="budget")
app.command()(search)


@app.command()
def train(
    data: DataFile,
    model: Annotated[Path, typer.Option(help="Where to write the model.")],
    epsilon: Epsilon,
    delta: Annotated[
        float | None,
        typer.Option(help="The privacy budget's delta.", show_default="1e-6; sarus: 0"),
    ] = None,
    domain: Annotated[
        Path | None, typer.Option(help="What is public about the table (JSON).")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Without a domain: the column to predict; one is learned.")
    ] = None,
    task: Annotated[
        Task, typer.Option(help="Without a domain: what the target is.")
    ] = Task.classes,
    domain_given: Annotated[
        Path | None,
        typer.Option(help="Without a domain: the part of one that is known (JSON)."),
    ] = None,
    recipe: Annotated[
        Recipe, typer.Option(help="How to boost: see docs/recipes.md.")
    ] = FIRST_RECIPE,
    preset: Annotated[
        str | None, typer.Option(help="A published variant of the recipe, such as TR_cyc.")
    ] = None,
    stream: Annotated[
        Path | None,
        typer.Option(help="With sbdt: begin a stream, and write its private state here."),
    ] = None,
    domain_rows: DomainRows = Rows.same,
    public_rows: PublicRows = False,
    set_: Parameters = None,
    weights: Weights = None,
    weight_bound: WeightBound = None,
    missing: Missing = None,
    separator: Separator = None,
    jobs: Jobs = 1,
    ledger: LedgerFile = None,
    budget: Budget = None,
    dataset: OfDataset = None,
    limit_epsilon: NewEpsilon = None,
    limit_delta: NewDelta = None,
    name: RunName = None,
    seed: Seed = None,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Train a model on a private table. Spends the budget."""
    from privboost.tables.domain import Domain
    from privboost.tables.features import ClassTarget
    from privboost.tables.file_sources import open_file

    if weights is not None and weight_bound is None:
        raise ValueError("--weights needs --weight-bound: the largest weight, publicly known")
    if domain is not None and target is not None:
        raise ValueError("give --domain or --target, not both: a domain names its target")
    if domain is not None and domain_given is not None:
        raise ValueError("give --domain or --domain-given, not both: a domain is given whole")
    if domain is None and target is None:
        raise ValueError("give --domain, or --target to have a domain learned privately")
    public = None if domain is None else Domain.from_json(domain)
    classes = task is Task.classes if public is None else isinstance(public.target, ClassTarget)
    if stream is not None and recipe != "sbdt":
        raise ValueError("--stream needs --recipe sbdt")
    kind = kind_of(recipe, classes)
    if preset is not None and not hasattr(kind, "from_preset"):
        raise ValueError(f"--preset: the recipe {recipe} has none")
    make = kind if preset is None else partial(kind.from_preset, preset)
    estimator = make(epsilon=epsilon, domain=public, random_state=seed)
    estimator.set_params(**({} if delta is None else {"delta": delta}))
    estimator.set_params(n_jobs=jobs, ledger=ledger, verbose=not quiet)
    estimator.set_params(domain_rows=domain_rows.value, domain_given=domain_given)
    estimator.set_params(public_rows=public_rows)
    if "sample_weight_bound" in estimator.get_params():
        estimator.set_params(sample_weight_bound=weight_bound)
    elif weights is not None or weight_bound is not None:
        raise ValueError(f"--recipe {recipe} takes no weights")
    estimator.set_params(**read_parameters(set_ or [], estimator.get_params()))
    table = open_file(data, missing or [], separator=read_separator(separator))
    written = [model] if stream is None else [model, stream]
    check_files(
        (data, domain, domain_given, ledger, budget), written, written if force else ()
    )  # before it costs
    account = account_of(
        budget,
        dataset,
        limit_epsilon,
        limit_delta,
        name,
        _unit_column(public, domain_given),
        **kind_for(recipe, estimator.delta),
    )
    estimator.set_params(budget=account)
    with spending(epsilon, estimator.delta, public_rows):
        act = estimator.fit if stream is None else estimator.partial_fit
        act(table, target, **({} if weights is None else {"sample_weight": weights}))
        if stream is not None:
            estimator.save_stream(stream)
        estimator.save(model)
    typer.echo(f"{model}: {estimator.privacy_.guarantee}")


@app.command()
def extend(
    stream: Annotated[Path, typer.Argument(help="The private state of a stream; it is replaced.")],
    data: DataFile,
    model: Annotated[Path, typer.Option(help="Where to write the model.")],
    epsilon: Annotated[float, typer.Option(help="The privacy budget of the new rows.")],
    delta: Delta = 1e-6,
    target: Annotated[
        str | None, typer.Option(help="The column to predict, if the domain was learned.")
    ] = None,
    domain_rows: DomainRows = Rows.same,
    set_: Parameters = None,
    weights: Weights = None,
    weight_bound: WeightBound = None,
    missing: Missing = None,
    separator: Separator = None,
    jobs: Jobs = 1,
    ledger: LedgerFile = None,
    budget: Budget = None,
    dataset: OfDataset = None,
    name: RunName = None,
    seed: Seed = None,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Train on rows that came later; rows of earlier batches go on while their budget lasts.

    Parameters are those of the batch before, but for what --set changes.
    """
    from privboost.estimators.streams import load_stream, take_stream
    from privboost.tables.features import ClassTarget
    from privboost.tables.file_sources import open_file
    from privboost.unit import column_of

    began, before = load_stream(stream)
    classes = isinstance(before.domain.target, ClassTarget)
    estimator = kind_of("sbdt", classes)(epsilon, delta, random_state=seed)
    estimator.set_params(**began.parameters)
    estimator.set_params(
        n_jobs=jobs,
        ledger=ledger,
        verbose=not quiet,
        domain_rows=domain_rows.value,
        sample_weight_bound=weight_bound,
    )
    estimator.set_params(**read_parameters(set_ or [], estimator.get_params()))
    table = open_file(data, missing or [], separator=read_separator(separator))
    column = column_of(before.domain.unit)
    estimator.set_params(budget=account_of(budget, dataset, None, None, name, column))
    check_files((data, ledger, budget), [model, stream], [model, stream] if force else [stream])
    found: list[int] = []
    with spending(epsilon, delta):
        with take_stream(stream, lambda: found in ([], [estimator.n_batches_])) as taken:
            estimator.load_stream(taken)  # what was taken: another process may have gone on
            found.append(estimator.n_batches_)
            if estimator.n_batches_ != began.n_batches:
                raise ValueError(f"{stream} was extended by another process meanwhile: try again")
            estimator.partial_fit(
                table, target, **({} if weights is None else {"sample_weight": weights})
            )
            estimator.save_stream(stream)  # it holds the new model, should the last line fail
        estimator.save(model)
    typer.echo(f"{model}: {estimator.privacy_.guarantee}")


@app.command()
def predict(
    model: ModelFile,
    data: DataFile,
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .parquet file; else standard output, as CSV.")
    ] = None,
    std: Annotated[
        bool,
        typer.Option(
            "--std", help="Add the standard errors that noise gives, as columns (PrivBoost alone)."
        ),
    ] = False,
    missing: Missing = None,
    separator: Separator = None,
    force: Force = False,
) -> None:
    """Predict the rows of a table: the prediction and, for classes, probabilities or scores."""
    import pyarrow as pa

    from privboost.cli_columns import error_columns, prediction_columns
    from privboost.models.files import load_model
    from privboost.tables.file_sources import open_file

    if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"{out}: a .csv or .parquet file is needed")
    if out is not None:
        check_files((data, model), [out], [out] if force else ())
    trained = load_model(model)
    table = open_file(data, missing or [], every_line=True, separator=read_separator(separator))
    columns = prediction_columns(trained, table) | (error_columns(trained, table) if std else {})
    if out is None:
        print_csv(pa.table(columns))
    else:
        write_table(pa.table(columns), out)


@app.command()
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
        float | None, typer.Option(help="Of a number: what residuals are clipped to.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, not a table.")] = False,
    out: Annotated[Path | None, typer.Option(help="A file; else standard output.")] = None,
    public_rows: PublicRows = False,
    missing: Missing = None,
    separator: Separator = None,
    jobs: Jobs = 1,
    ledger: LedgerFile = None,
    budget: Budget = None,
    dataset: OfDataset = None,
    limit_epsilon: NewEpsilon = None,
    limit_delta: NewDelta = None,
    name: RunName = None,
    seed: Seed = None,
    force: Force = False,
) -> None:
    """Say how good a model is on a private table. Spends the budget."""
    from privboost.evaluation.evaluate import evaluate
    from privboost.files import write_file
    from privboost.models.files import load_model
    from privboost.tables.file_sources import open_file
    from privboost.unit import column_of

    if out is None:
        check_output()  # before it costs
    else:
        check_files((model, data, ledger, budget), [out], [out] if force else ())
    trained = load_model(model)
    table = open_file(data, missing or [], separator=read_separator(separator))
    column = column_of(trained.domain.unit)
    account = account_of(budget, dataset, limit_epsilon, limit_delta, name, column)
    with spending(epsilon, delta, public_rows):
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
            typer.echo(text)
        else:
            write_file(out, f"{text}\n".encode())


@app.command()
def report(
    model: ModelFile,
    form: Annotated[Form, typer.Option("--format", help="The form.")] = Form.text,
    out: Annotated[Path | None, typer.Option(help="A file; else standard output.")] = None,
    force: Force = False,
) -> None:
    """Say what a model's training leaked at most."""
    from privboost.files import write_file
    from privboost.models.files import load_model

    if out is not None:
        check_files((model,), [out], [out] if force else ())
    privacy = load_model(model).privacy
    write = {Form.text: privacy.__str__, Form.json: privacy.to_json, Form.html: privacy.to_html}
    text = write[form]()
    if out is None:
        check_output()
        typer.echo(text)
    else:
        write_file(out, text.encode())


@app.command()
def calibrate(
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    rounds: Annotated[int, typer.Option(help="Releases with Gaussian noise.")] = 0,
    sampling_rate: Annotated[
        float, typer.Option(help="The chance of a row to be used in a round.")
    ] = 1.0,
    selections: Annotated[int, typer.Option(help="Choices by the exponential mechanism.")] = 0,
    selection_share: Annotated[
        float, typer.Option(help="The part of the budget, on mu squared, that selections have.")
    ] = 0.7,
    laplace: Annotated[int, typer.Option(help="Releases with Laplace noise.")] = 0,
    accountant: Annotated[
        str, typer.Option(help="auto, gdp, game, pld, rdp, pure or advanced.")
    ] = "auto",
) -> None:
    """Say how much noise a budget needs, before any data are touched."""
    from privboost.privacy.calibration import calibrate_releases

    typer.echo(
        calibrate_releases(
            epsilon,
            delta,
            rounds=rounds,
            sampling_rate=sampling_rate,
            selections=selections,
            selection_share=selection_share,
            laplace=laplace,
            accountant=accountant,
        )
    )


@app.command()
def demo() -> None:
    """Train on the Adult data set at several budgets and print what each buys."""
    from privboost.demo import run_demo

    run_demo()


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from privboost import __version__

        typer.echo(f"privboost {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; say errors and warnings in a line, without a trace."""
    warnings.showwarning = _say_warning
    try:
        app()
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        fail(f"{error.strerror}{place}" if error.strerror else str(error), 1)
    except (ValueError, TypeError) as error:
        fail(str(error), 1)
    except OverflowError as error:
        fail(f"a number is too large: {error}", 1)
    except ArithmeticError:  # whose own words name nothing
        fail("a number is too small or too large to compute with", 1)
    except RecursionError:
        fail("a parameter or a file is nested too deeply", 1)
    except MemoryError:  # its own words may say how many rows there are
        fail("there is not enough memory", 1)


def _unit_column(domain: Any, given: Path | None) -> str | None:
    """Return the column that tells protected units apart, where a domain or a part of one says."""
    from privboost.learning.given import open_given
    from privboost.unit import Unit, column_of

    if domain is not None:
        return column_of(domain.unit)
    form = None if given is None else open_given("domain_given", given).get("unit")
    return None if form is None else column_of(Unit.from_dict(form))


def _say_warning(message: Warning | str, *about: Any, **more: Any) -> None:
    typer.echo(f"privboost: warning: {message}", err=True)
