"""What options of several commands mean."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from privboost.recipes import RECIPES

PRIVACY = "Privacy"
TABLE = "The table"
TRAINING = "Training"
ACCOUNT = "Accounts"
OUTPUT = "Output"
"""Under which headings options are listed."""

DataFile = Annotated[
    Path, typer.Argument(help="A .parquet, .csv or .tsv file, or a folder of such files.")
]
ModelFile = Annotated[Path, typer.Argument(help="A model file.")]
DomainFile = Annotated[Path, typer.Argument(help="A domain (JSON).")]
Epsilon = Annotated[float, typer.Option(help="The privacy budget.", rich_help_panel=PRIVACY)]
Delta = Annotated[float, typer.Option(help="The budget's delta.", rich_help_panel=PRIVACY)]
KnownDomain = Annotated[Path, typer.Option(help="What is public about the table (JSON).")]
Target = Annotated[str, typer.Option(help="The column to predict.")]
Seed = Annotated[
    int | None,
    typer.Option(
        help="For tests and demonstrations: NO privacy guarantee.", rich_help_panel=PRIVACY
    ),
]
PublicRows = Annotated[
    bool,
    typer.Option(
        "--public-rows",
        help="All rows are public: with --epsilon inf, no noise and NO privacy.",
        rich_help_panel=PRIVACY,
    ),
]
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        help="A file that records every charge before its release.", rich_help_panel=PRIVACY
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help='A text that means "missing" in a CSV file; repeatable.', rich_help_panel=TABLE
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        help="What stands between the cells of a CSV file, such as ';' or '\\t'.",
        rich_help_panel=TABLE,
    ),
]
Weights = Annotated[
    str | None, typer.Option(help="The column of sample weights.", rich_help_panel=TABLE)
]
WeightBound = Annotated[
    float | None,
    typer.Option(
        help="The largest weight a row may have; public knowledge.", rich_help_panel=TABLE
    ),
]
Budget = Annotated[
    Path | None,
    typer.Option(
        help="A store of accounts, of which that of --dataset is charged first.",
        rich_help_panel=ACCOUNT,
    ),
]
OfDataset = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        help="With --budget: the data set that the rows are of.",
        rich_help_panel=ACCOUNT,
    ),
]
NewEpsilon = Annotated[
    float | None,
    typer.Option(
        "--limit-epsilon",
        help="With --budget: open the account, with this limit.",
        rich_help_panel=ACCOUNT,
    ),
]
NewDelta = Annotated[
    float | None,
    typer.Option("--limit-delta", help="The delta of that limit.", rich_help_panel=ACCOUNT),
]
RunName = Annotated[
    str | None,
    typer.Option(
        "--name", help="With --budget: what the run is called there.", rich_help_panel=ACCOUNT
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Another parameter, as name=value; a mapping is JSON. Repeatable.",
        rich_help_panel=TRAINING,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(help="Threads, at most; by default as many as pay.", rich_help_panel=TRAINING),
]
Out = Annotated[
    Path | None, typer.Option(help="A file; else standard output.", rich_help_panel=OUTPUT)
]
NewModel = Annotated[Path, typer.Option(help="Where to write the model.", rich_help_panel=OUTPUT)]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON, for machines.", rich_help_panel=OUTPUT)
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Replace files that are there already.", rich_help_panel=OUTPUT),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="End with status 6 if released values show that something is wrong with the result.",
        rich_help_panel=OUTPUT,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.", rich_help_panel=OUTPUT)]

Recipe = StrEnum("Recipe", list(RECIPES))  # type: ignore[misc]  # its names are not written here
FIRST_RECIPE = next(iter(Recipe))
OfRecipe = Annotated[
    Recipe, typer.Option(help="How to boost: see docs/recipes.md.", rich_help_panel=TRAINING)
]


class Task(StrEnum):
    """What a target is."""

    classes = "classes"
    number = "number"


class Rows(StrEnum):
    """From which rows a domain was learned."""

    same = "same"
    other = "other"


DomainRows = Annotated[
    Rows,
    typer.Option(
        help="From which rows a learned domain was learned; same adds its price.",
        rich_help_panel=PRIVACY,
    ),
]


class Trust(StrEnum):
    """Who adds noise in a federation."""

    server = "server"
    distributed = "distributed"
