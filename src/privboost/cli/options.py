"""Options, each declared once, and groups of options with the objects that they open."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

import privboost
from privboost.cli.exits import notify
from privboost.cli.output import check_files, check_standard_output, is_terminal
from privboost.cli.registry import option
from privboost.recipes import RECIPES

if TYPE_CHECKING:
    from privboost import BudgetAccount, Domain

PRIVACY = "Privacy"
TABLE = "The table"
TRAINING = "Training"
ACCOUNT = "Accounts"
OUTPUT = "Output"
"""Headings under which a command's help lists options."""

Recipe = StrEnum("Recipe", list(RECIPES))  # type: ignore[misc]  # names are not literals
DEFAULT_RECIPE = next(iter(Recipe))
Task = StrEnum("Task", ["classes", "number"])
DomainRows = StrEnum("DomainRows", ["same", "other"])

DataFile = Annotated[
    Path, typer.Argument(help="A .parquet, .csv or .tsv file, or a folder of such files.")
]
ModelFile = Annotated[Path, typer.Argument(help="A model file.")]
DomainFile = Annotated[Path, typer.Argument(help="A domain (JSON).")]
Epsilon = Annotated[float, "The privacy budget.", PRIVACY]
Delta = Annotated[float, "The budget's delta.", PRIVACY]
KnownDomain = Annotated[Path, "What is public about the table (JSON)."]
Target = Annotated[str, "The column to predict."]
PublicRows = Annotated[
    bool, "All rows are public: with --epsilon inf, no noise and NO privacy.", PRIVACY
]
OfDomainRows = Annotated[
    DomainRows, "Rows that a learned domain was learned from; same adds its price.", PRIVACY
]
OfRecipe = Annotated[Recipe, "How to boost: see docs/recipes.md.", TRAINING]
Parameters = Annotated[
    list[str] | None,
    "Another parameter, as name=value; a mapping or list is JSON. Repeatable.",
    TRAINING,
]
Jobs = Annotated[int | None, "Threads, at most; by default as many as pay.", TRAINING]
NewModel = Annotated[Path, "Where to write the model.", OUTPUT]
AsJson = Annotated[bool, option("Print JSON, for machines.", OUTPUT, "--json")]
Out = Annotated[Path | None, "A file; else standard output.", OUTPUT]
Force = Annotated[bool, "Replace files that exist already.", OUTPUT]
Separator = Annotated[
    str | None, "The character between the cells of a CSV file, such as ';' or '\\t'.", TABLE
]
Weights = Annotated[str | None, "The column of sample weights.", TABLE]
LimitEpsilon = Annotated[float | None, "With --budget: open the account, with this limit.", ACCOUNT]
LimitDelta = Annotated[float | None, "The delta of that limit.", ACCOUNT]


@dataclass(frozen=True)
class TableOptions:
    """How a table is read."""

    panel: ClassVar[str] = TABLE

    missing: Annotated[
        list[str] | None, 'A string that means "missing" in a CSV file; repeatable.'
    ] = None
    separator: Separator = None

    def open(self, data: Path, every_line: bool = False) -> Any:
        """Return the table of a file or folder."""
        from privboost.data.files import open_file

        separator = "\t" if self.separator == r"\t" else self.separator
        if separator is not None and len(separator) != 1:
            raise ValueError(r"--separator must be one character; \t is a tab")
        return open_file(
            data, missing=self.missing or [], every_line=every_line, separator=separator
        )


@dataclass(frozen=True)
class RunOptions:
    """Record and randomness of one run."""

    panel: ClassVar[str] = PRIVACY

    ledger: Annotated[Path | None, "A file that records every charge before its release."] = None
    seed: Annotated[int | None, "For tests and demonstrations: NO privacy guarantee."] = None


@dataclass(frozen=True)
class WeightOptions:
    """Sample weights."""

    panel: ClassVar[str] = TABLE

    weights: Weights = None
    weight_bound: Annotated[
        float | None, "The largest weight a row may have; public knowledge."
    ] = None

    def apply(self, estimator: Any, recipe: str) -> dict[str, str]:
        """Set an estimator's bound of weights; return the weight arguments of `fit`."""
        if self.weights is not None and self.weight_bound is None:
            raise ValueError("--weights needs --weight-bound: the largest weight, publicly known")
        if "sample_weight_bound" in estimator.get_params():
            estimator.set_params(sample_weight_bound=self.weight_bound)
        elif self.weights is not None or self.weight_bound is not None:
            raise ValueError(f"--recipe {recipe} takes no weights")
        return {} if self.weights is None else {"sample_weight": self.weights}


@dataclass(frozen=True)
class StreamAccountOptions:
    """An account that exists, and is charged before a run."""

    panel: ClassVar[str] = ACCOUNT

    budget: Annotated[
        Path | None, "A store of accounts, of which that of --dataset is charged first."
    ] = None
    dataset: Annotated[str | None, "With --budget: the data set that the rows are of."] = None
    name: Annotated[str | None, "With --budget: a name for this run."] = None

    def open(self, unit: str | None, **kind: Any) -> BudgetAccount | None:
        """Return the account, or None without --budget; see `open_account`."""
        limit = getattr(self, "limit_epsilon", None), getattr(self, "limit_delta", None)
        return open_account(self.budget, self.dataset, limit, self.name, unit, **kind)


@dataclass(frozen=True)
class AccountOptions(StreamAccountOptions):
    """An account that is charged before a run, and opened where a limit is given."""

    limit_epsilon: LimitEpsilon = None
    limit_delta: LimitDelta = None


def open_account(
    budget: Path | None,
    dataset: str | None,
    limit: tuple[float | None, float | None],
    name: str | None,
    unit: str | None,
    **kind: Any,
) -> BudgetAccount | None:
    """Return the account that options name, opened where they give a limit; None without one.

    `limit` is ε and δ of an account that is opened if there is none, with `unit`, the column of the
    protected units, and `kind`, its filter and relation. `name` is the run's in the account.
    """
    epsilon, delta = limit
    if budget is None:
        if dataset is not None or name is not None or limit != (None, None):
            raise ValueError("--dataset, --name and the limits go with --budget")
        return None
    if dataset is None:
        raise ValueError("--budget needs --dataset: the data set that the rows are of")
    if (epsilon is None) != (delta is None):
        raise ValueError("a limit is --limit-epsilon and --limit-delta")
    store = privboost.BudgetStore(budget)
    existed = budget.exists()
    if epsilon is not None and (not existed or dataset not in store.datasets()):
        store.open(dataset, epsilon, delta or 0.0, unit=unit, **kind)
        notify(f"{budget}: opened a new account for {dataset!r}")
        if not existed:
            notify(
                f"{budget} did not exist, and is a NEW store: if there was one before, restore "
                "it, since this one does not know what was spent"
            )
    account = store.account(dataset)
    rules = account.balance().rules
    if epsilon is not None and (rules.epsilon, rules.delta) != limit:
        raise ValueError(
            f"the account of {dataset!r} has the limit epsilon {rules.epsilon:g}, delta "
            f"{rules.delta:g}: leave --limit-epsilon and --limit-delta out, or change it first "
            "with privboost budget limit"
        )
    return account if name is None else account.named(name)


def account_kind(recipe: str, delta: float) -> dict[str, str]:
    """Return filter and relation of an account that a recipe can be charged to."""
    if recipe == "lazybb":
        return {"filter": "renyi", "relation": "replace-one"}
    return {"filter": "renyi"} if recipe in ("dpxgb", "sarus") or delta == 0 else {}


def known_domain(path: Path | None) -> dict[str, Any]:
    """Return the known part of a domain, from the file of --domain-given."""
    from privboost.domain_inference.partial_domain import load_partial_domain

    return dict(load_partial_domain("--domain-given", path))


def unit_column(domain: Domain | None, domain_given: Path | None) -> str | None:
    """Return the column of protected units, from a domain or the known part of one."""
    unit = None if domain is None else domain.unit
    if domain is None and domain_given is not None:
        part = known_domain(domain_given).get("unit")
        unit = None if part is None else privboost.Unit.from_dict(_with_rows(part))
    return None if unit is None else unit.column


def _with_rows(unit: Any) -> Any:
    """Return a unit that can be read, where how many of its rows are used is yet to be learned."""
    is_open = isinstance(unit, dict) and unit.get("max_rows", 0) is None
    return {**unit, "max_rows": 1} if is_open else unit


@dataclass(frozen=True)
class OutputOptions:
    """How a result is printed and written."""

    panel: ClassVar[str] = OUTPUT

    as_json: AsJson = False
    force: Force = False

    def check(self, read: tuple[Path | None, ...], *written: Path | None) -> None:
        """Refuse files that cannot be written, before anything is spent (None is stdout)."""
        if None in written:
            check_standard_output()
        files = [path for path in written if path is not None]
        check_files(read, files, files if self.force else ())


@dataclass(frozen=True)
class ProgressOptions(OutputOptions):
    """The same for commands that show progress."""

    quiet: Annotated[bool, "Show no progress."] = False

    @property
    def verbose(self) -> bool:
        """Whether to show progress: on a terminal, unless --quiet."""
        return is_terminal() and not self.quiet


@dataclass(frozen=True)
class StrictOptions(OutputOptions):
    """The same for commands whose result may come with warnings."""

    strict: Annotated[
        bool, "End with status 6 if released values show that something is wrong with the result."
    ] = False


@dataclass(frozen=True)
class ResultOptions(ProgressOptions, StrictOptions):
    """The same for commands with both."""
