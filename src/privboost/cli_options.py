"""What options of several commands mean."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from privboost.recipes import RECIPES

DataFile = Annotated[
    Path, typer.Argument(help="A .parquet, .csv or .tsv file, or a folder of such files.")
]
ModelFile = Annotated[Path, typer.Argument(help="A model file.")]
Missing = Annotated[
    list[str] | None, typer.Option(help='A text that means "missing" in a CSV file; repeatable.')
]
Separator = Annotated[
    str | None,
    typer.Option(help="What stands between the cells of a CSV file, such as ';' or '\\t'."),
]
Epsilon = Annotated[float, typer.Option(help="The privacy budget.")]
Delta = Annotated[float, typer.Option(help="The privacy budget's delta.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another parameter, as name=value; a mapping is JSON. Repeatable."),
]
Weights = Annotated[str | None, typer.Option(help="The column of sample weights.")]
WeightBound = Annotated[
    float | None, typer.Option(help="The largest weight a row may have; public knowledge.")
]
Jobs = Annotated[int, typer.Option(help="Threads; -1 for all cores.")]
LedgerFile = Annotated[
    Path | None, typer.Option(help="A file that records every charge before its release.")
]
Seed = Annotated[
    int | None, typer.Option(help="For tests and demonstrations: NO privacy guarantee.")
]
PublicRows = Annotated[
    bool,
    typer.Option(
        "--public-rows", help="All rows are public: with --epsilon inf, no noise and NO privacy."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")]


class Form(StrEnum):
    """The forms of a report."""

    text = "text"
    json = "json"
    html = "html"


Recipe = StrEnum("Recipe", list(RECIPES))  # type: ignore[misc]  # its names are not written here
FIRST_RECIPE = next(iter(Recipe))


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
    typer.Option(help="From which rows a learned domain was learned; same adds its price."),
]
