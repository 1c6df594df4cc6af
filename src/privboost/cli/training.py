"""Commands that spend a budget: `train`, `extend`, `search` and `evaluate`."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

import privboost
from privboost._core.files import write_file
from privboost._core.progress import reading
from privboost.cli.exits import notify
from privboost.cli.options import (
    DEFAULT_RECIPE,
    OUTPUT,
    PRIVACY,
    TABLE,
    TRAINING,
    AccountOptions,
    DataFile,
    Delta,
    DomainRows,
    Epsilon,
    Jobs,
    KnownDomain,
    ModelFile,
    NewModel,
    OfDomainRows,
    OfRecipe,
    Out,
    Parameters,
    PublicRows,
    ResultOptions,
    RunOptions,
    StreamAccountOptions,
    StrictOptions,
    TableOptions,
    Task,
    WeightOptions,
    account_kind,
    unit_column,
)
from privboost.cli.output import (
    check_files,
    find_defects,
    finish,
    print_json,
    print_model,
    print_paid,
    print_written,
    save_paid,
    saving_too,
    signals_delayed,
    spending,
    warnings_delayed,
)
from privboost.cli.registry import SPEND, command, option
from privboost.recipes import ESTIMATORS, RECIPES

if TYPE_CHECKING:
    from privboost import Domain

AnyRecipe = StrEnum("AnyRecipe", ["auto", *RECIPES])  # type: ignore[misc]  # no literal names


@dataclass(frozen=True)
class DomainOptions:
    """The domain of a table to train on, or what is known without one."""

    panel: ClassVar[str] = TABLE

    domain: Annotated[Path | None, "What is public about the table (JSON)."] = None
    target: Annotated[str | None, "Without a domain: the column to predict; one is learned."] = None
    task: Annotated[Task, "Without a domain: the kind of target."] = Task.classes
    classes: Annotated[
        str | None,
        "Without a domain: the classes, such as 0,1 (or a JSON list); they cost nothing.",
    ] = None
    domain_given: Annotated[
        Path | None, "Without a domain: the part of one that is known (JSON)."
    ] = None
    domain_rows: OfDomainRows = DomainRows.same

    def load(self) -> Domain | None:
        """Return the domain, or None if one is to be learned."""
        if self.domain is not None and self.target is not None:
            raise ValueError("give --domain or --target, not both: a domain names its target")
        if self.domain is not None and self.domain_given is not None:
            raise ValueError("give --domain or --domain-given, not both: a domain is given whole")
        if self.domain is None and self.target is None:
            raise ValueError("give --domain, or --target to have a domain learned privately")
        return None if self.domain is None else privboost.Domain.from_json(self.domain)

    def apply(self, estimator: Any) -> None:
        """Set an estimator's parameters about the domain; classes are 0,1 or a JSON list."""
        estimator.set_params(domain_rows=self.domain_rows.value, domain_given=self.domain_given)
        if self.classes is None:
            return
        if "classes" not in estimator.get_params():
            raise ValueError("--classes is for classes; the target is a number")
        text = self.classes
        try:
            labels = json.loads(text if text.lstrip().startswith("[") else f"[{text}]")
        except json.JSONDecodeError:  # strings without quotes
            labels = [label.strip() for label in text.split(",")]
        estimator.set_params(classes=labels)


@dataclass(frozen=True)
class RecipeOptions:
    """The recipe of a model."""

    panel: ClassVar[str] = TRAINING

    recipe: Annotated[
        AnyRecipe,
        "How to boost: see docs/recipes.md; auto picks one by public facts, and says why.",
    ] = AnyRecipe[DEFAULT_RECIPE.name]
    preset: Annotated[str | None, "A published variant of the recipe, such as TR_cyc."] = None
    rows: Annotated[int | None, "For auto and --dry-run: the number of rows, if it is public."] = (
        None
    )

    def choose(
        self, domain: Domain | None, epsilon: float, delta: float | None, streams: bool
    ) -> str:
        """Return the recipe; print the reasons of a recommended one."""
        chosen = str(self.recipe.value)
        if chosen == "auto":
            if domain is None:
                raise ValueError("--recipe auto needs --domain: it goes by what is public")
            delta = 1e-6 if delta is None else delta
            found = privboost.recommend(domain, epsilon, delta, rows=self.rows, streams=streams)
            chosen = ESTIMATORS[type(found.estimator).__name__].rsplit(".", 1)[-1]
            notify(f"--recipe {chosen}: {'; '.join(found.reasons)}")
        if streams and chosen != "sbdt":
            raise ValueError("--stream needs --recipe sbdt")
        return chosen

    def make(self, chosen: str, task: str, **parameters: Any) -> Any:
        """Return the estimator of the chosen recipe, or of its preset."""
        kind = estimator_class(chosen, task)
        if self.preset is None:
            return kind(**parameters)
        if not hasattr(kind, "from_preset"):
            raise ValueError(f"--preset: the recipe {chosen} has none")
        return kind.from_preset(self.preset, **parameters)


@command(
    "privboost train visits.parquet --domain d.json --epsilon 1 --model m.privboost",
    "privboost train visits.csv --target readmitted --epsilon 1 --model m.privboost",
    "privboost train v.csv --domain d.json --epsilon 1 --model m --recipe auto --dry-run",
    panel=SPEND,
)
def train(
    *,
    data: DataFile,
    epsilon: Epsilon,
    model: NewModel,
    delta: Annotated[
        float | None, option("The budget's delta.", PRIVACY, show_default="1e-6; sarus: 0")
    ] = None,
    domain: DomainOptions,
    table: TableOptions,
    weights: WeightOptions,
    recipe: RecipeOptions,
    set_: Parameters = None,
    jobs: Jobs = None,
    public_rows: PublicRows = False,
    run: RunOptions,
    account: AccountOptions,
    stream: Annotated[
        Path | None, "With sbdt: begin a stream, and write its private state here.", OUTPUT
    ] = None,
    dry_run: Annotated[
        bool, "Print the guarantee and price; read no row, and spend nothing.", PRIVACY
    ] = False,
    output: ResultOptions,
) -> None:
    """Train a model on a private table. Spends the budget."""
    from privboost.estimators.stream_files import check_begin

    public = domain.load()
    chosen = recipe.choose(public, epsilon, delta, streams=stream is not None)
    task = domain.task.value if public is None else public.target.task
    own = {"epsilon": epsilon, "domain": public, "random_state": run.seed}
    estimator = recipe.make(chosen, task, **own)
    estimator.set_params(**({} if delta is None else {"delta": delta}), public_rows=public_rows)
    estimator.set_params(n_jobs=jobs, ledger=run.ledger, verbose=output.verbose)
    domain.apply(estimator)
    fit_arguments = weights.apply(estimator, chosen)
    estimator.set_params(**read_parameters(set_, estimator))
    source = table.open(data)
    read = (data, domain.domain, domain.domain_given, run.ledger, account.budget)
    output.check(read, *([model] if stream is None else [model, stream]))
    if stream is not None:
        check_begin(stream)
    if dry_run and (stream is not None or account.limit_epsilon is not None):
        raise ValueError(
            "--dry-run begins no stream, and opens no account: leave --stream and the limits out"
        )
    units = unit_column(public, domain.domain_given)
    estimator.set_params(budget=account.open(units, **account_kind(chosen, estimator.delta)))
    if dry_run:
        _preview(estimator, source, weights.weights, recipe.rows, output.as_json)
        return
    fit = estimator.fit if stream is None else estimator.partial_fit
    with spending(epsilon, estimator.delta, public_rows), warnings_delayed():
        fit(source, domain.target, **fit_arguments)
        with signals_delayed():
            if stream is not None:
                with saving_too(estimator.save, model):
                    save_paid(estimator.save_stream, stream)
            save_paid(estimator.save, model)
    more = {} if stream is None else {"stream": str(stream)}
    print_model(model, estimator.model_, output.as_json, output.strict, recipe=chosen, **more)


def _preview(
    estimator: Any, source: Any, weights: str | None, rows: int | None, as_json: bool
) -> None:
    """Print the guarantee and price of a fit, after the checks that need no row."""
    from privboost.data.loading import check_fit

    if estimator.domain is not None:  # without one there is no preview, which says so
        check_fit(estimator.domain, source, weights)
    preview = estimator.preview(weighted=weights is not None, n_rows=rows)
    if not as_json:
        typer.echo(str(preview))
        return
    document = {"privacy": preview.privacy.to_dict()}
    if preview.after is not None:
        document |= {"before": preview.before.to_dict(), "after": preview.after.to_dict()}
    print_json(document)


@command(
    "privboost extend rows.stream june.parquet --epsilon 0.5 --model m.privboost --force",
    panel=SPEND,
)
def extend(
    *,
    stream: Annotated[Path, typer.Argument(help="The private state of a stream; it is replaced.")],
    data: DataFile,
    epsilon: Annotated[float, "The privacy budget of the new rows.", PRIVACY],
    model: NewModel,
    delta: Delta = 1e-6,
    target: Annotated[
        str | None, "The column to predict, if the domain was learned.", TABLE
    ] = None,
    domain_rows: OfDomainRows = DomainRows.same,
    set_: Parameters = None,
    weights: WeightOptions,
    table: TableOptions,
    jobs: Jobs = None,
    run: RunOptions,
    account: StreamAccountOptions,
    output: ResultOptions,
) -> None:
    """Train on rows that came later; rows of earlier batches go on while their budget lasts.

    Parameters are those of the batch before, except for --set.
    """
    from privboost.estimators.stream_files import load_stream, take_stream

    state, before = load_stream(stream)
    kind = estimator_class("sbdt", before.domain.target.task)
    estimator = kind(epsilon, delta, random_state=run.seed).set_params(**state.parameters)
    estimator.set_params(n_jobs=jobs, ledger=run.ledger, verbose=output.verbose)
    estimator.set_params(domain_rows=domain_rows.value)
    fit_arguments = weights.apply(estimator, "sbdt")
    estimator.set_params(**read_parameters(set_, estimator))
    source = table.open(data)
    estimator.set_params(budget=account.open(unit_column(before.domain, None)))
    read, kept = (data, run.ledger, account.budget), [model, stream]
    check_files(read, kept, kept if output.force else [stream])
    found: list[int] = []
    with spending(epsilon, delta), warnings_delayed(), ExitStack() as until_written:
        with take_stream(stream, lambda: found in ([], [estimator.n_batches_])) as taken:
            estimator.load_stream(taken)  # the file as taken: another process may have gone on
            found.append(estimator.n_batches_)
            if estimator.n_batches_ != state.n_batches:
                raise ValueError(f"{stream} was extended by another process meanwhile: try again")
            estimator.partial_fit(source, target, **fit_arguments)
            until_written.enter_context(signals_delayed())
            with saving_too(estimator.save, model):
                save_paid(estimator.save_stream, stream)
        save_paid(estimator.save, model)
    print_model(model, estimator.model_, output.as_json, output.strict, stream=str(stream))


@command(
    "privboost search v.csv --candidates tried.json --domain d.json --epsilon 2 --model m",
    panel=SPEND,
)
def search(
    *,
    data: DataFile,
    candidates: Annotated[Path, 'A JSON file of candidates: [{"n_estimators": 50}, …].'],
    model: NewModel,
    domain: KnownDomain,
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    recipe: OfRecipe = DEFAULT_RECIPE,
    expected_runs: Annotated[float, "The mean number of runs; their number is hidden."] = 10.0,
    validation_share: Annotated[float, "The share of the units that runs are scored on."] = 0.25,
    scoring: Annotated[
        str | None, "The measure that decides: auc, accuracy, log_loss, rmse, deviance, …"
    ] = None,
    domain_rows: OfDomainRows = DomainRows.same,
    set_: Parameters = None,
    table: TableOptions,
    jobs: Jobs = None,
    run: RunOptions,
    account: AccountOptions,
    output: StrictOptions,
) -> None:
    """Choose parameters privately, and keep the winner's model. Spends the budget."""
    public = privboost.Domain.from_json(domain)
    kind = estimator_class(recipe, public.target.task)
    estimator = kind(domain=public, n_jobs=jobs, domain_rows=domain_rows.value)
    estimator.set_params(**read_parameters(set_, estimator))
    try:
        tried = json.loads(candidates.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{candidates} is no JSON file with a list of candidates") from None
    source = table.open(data)
    output.check((data, domain, candidates, run.ledger, account.budget), model)
    own = privboost.PrivateSearchCV(
        estimator,
        tried,
        epsilon,
        delta,
        expected_runs=expected_runs,
        validation_share=validation_share,
        scoring=scoring,
        random_state=run.seed,
        ledger=run.ledger,
        budget=account.open(unit_column(public, None), filter="renyi"),
    )
    with spending(epsilon, delta), warnings_delayed():
        own.fit(source)
        save_paid(own.best_estimator_.save, model)
    trained = own.best_estimator_.model_
    defects = find_defects(trained)
    if output.as_json:
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
        score = f"{own.best_score_:.3g} ± {own.best_score_std_:.2g}"
        typer.echo(f"{model}: {own.privacy_.guarantee}")
        typer.echo(f"best parameters {json.dumps(own.best_params_)}")
        typer.echo(f"{own.scoring_} {score}: noisy, and optimistic as the best of several runs")
    finish(trained, defects, output.strict)


@command(
    "privboost evaluate m.privboost later.parquet --epsilon 0.5 --by sex",
    "privboost evaluate m.privboost later.parquet --epsilon 0.5 --json --out found.json",
    panel=SPEND,
)
def evaluate(
    *,
    model: ModelFile,
    data: DataFile,
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    by: Annotated[list[str] | None, "A feature whose groups are measured too; repeatable."] = None,
    score_cells: Annotated[
        int | None, "The number of bins of scores in which rows are counted."
    ] = None,
    clip: Annotated[
        float | None, "For a number: the clip of residuals; chosen privately by default."
    ] = None,
    no_curves: Annotated[
        bool,
        "No AUC and reliability of each class beyond two; no calibration of a number by tenths.",
    ] = False,
    deviance: Annotated[
        str | None,
        "For a number: also its mean deviance, poisson, gamma or tweedie; by default that of the "
        "model's loss. none leaves it out.",
    ] = None,
    power: Annotated[
        float | None, "The power of a Tweedie deviance; the model's own, or 1.5, by default."
    ] = None,
    quantile: Annotated[
        float | None,
        "For a number: the level of the quantile that is predicted; also its pinball loss and "
        "the share of labels below. By default that of the model's loss.",
    ] = None,
    horizon: Annotated[
        float | None, "For survival times: the time at which calibration is measured."
    ] = None,
    table: TableOptions,
    public_rows: PublicRows = False,
    run: RunOptions,
    account: AccountOptions,
    jobs: Jobs = None,
    out: Out = None,
    output: ResultOptions,
) -> None:
    """Measure how good a model is on a private table. Spends the budget.

    Charged to an account (--budget) noise is Gaussian, which composes best: errors are wider then.
    """
    output.check((model, data, run.ledger, account.budget), out)
    trained = privboost.load_model(model)
    source = table.open(data)
    charged = account.open(unit_column(trained.domain, None))
    with spending(epsilon, delta, public_rows), warnings_delayed():
        with reading(output.verbose, source):
            found = privboost.evaluate(
                trained,
                source,
                epsilon=epsilon,
                delta=delta,
                by=by or (),
                score_cells=score_cells,
                curves=False if no_curves else None,
                clip=clip,
                deviance=deviance,
                power=power,
                quantile=quantile,
                horizon=horizon,
                public_rows=public_rows,
                random_state=run.seed,
                n_jobs=jobs,
                ledger=run.ledger,
                budget=charged,
            )
        text = found.to_json() if output.as_json else str(found)
        if out is None:
            print_paid(text, "evaluation.json" if output.as_json else "evaluation.txt")
        else:
            save_paid(lambda path: write_file(path, f"{text}\n".encode()), out)
    if out is not None:
        more = {"warnings": found.to_dict()["warnings"]}
        what = f"an evaluation at {found.privacy.guarantee}"
        print_written(out, what, output.as_json, **more)
    finish(found, found.findings(), output.strict)


# From options to estimators


_WITHOUT_OPTION = {"accountant", "domain_share"}
"""Arguments of all estimators that --set takes; the others have options of their own, or none."""
_OPTIONS = {
    "domain": "--domain",
    "random_state": "--seed",
    "n_jobs": "--jobs",
    "sample_weight_bound": "--weight-bound",
}
"""Options for what other libraries call by names that --set answers."""
_PYTHON_LITERALS = {"True": "true", "False": "false", "None": "null"}


def estimator_class(recipe: str, task: str) -> Any:
    """Return the estimator of a recipe for a kind of target."""
    from privboost.data.targets import TASKS_IN_WORDS

    known = RECIPES[recipe].estimators
    if task not in known:
        able = " or ".join(TASKS_IN_WORDS[own] for own in known)
        raise ValueError(f"--recipe {recipe} is for {able}; the target is {TASKS_IN_WORDS[task]}")
    return getattr(privboost, known[task])


def read_parameters(settings: list[str] | None, estimator: Any) -> dict[str, Any]:
    """Read name=value pairs of --set, a value as JSON or else as text."""
    from privboost.estimators.foreign_parameters import foreign_name_hint
    from privboost.estimators.parameters import ClassArguments, RunArguments, WeightArguments

    kinds = (RunArguments, ClassArguments, WeightArguments)
    have_options = {each.name for kind in kinds for each in fields(kind)} - _WITHOUT_OPTION
    names = sorted(set(estimator.get_params()) - have_options)
    parameters = {}
    for setting in settings or ():
        name, equals, text = setting.partition("=")
        if not equals or name not in names:
            near = get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}? " if near and equals else ""
            foreign = ""
            if equals:
                foreign = foreign_name_hint(name, [*names, *_OPTIONS], _OPTIONS, text)
            if foreign:
                raise typer.BadParameter(f"{setting!r}: {foreign}")
            raise typer.BadParameter(
                f"{setting!r}: {hint}name=value is needed, with one of {', '.join(names)}"
            )
        try:
            parameters[name] = json.loads(_PYTHON_LITERALS.get(text, text))
        except json.JSONDecodeError:
            parameters[name] = text
    return parameters
