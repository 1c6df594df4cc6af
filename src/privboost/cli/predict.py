"""Predictions on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privboost.cli.files import check_files, open_rows
from privboost.cli.options import (
    OUTPUT,
    AsJson,
    DataFile,
    Force,
    Missing,
    ModelFile,
    Quiet,
    Separator,
)
from privboost.cli.printing import is_watched, print_written


def predict(
    model: ModelFile,
    data: DataFile,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .csv, .parquet or .jsonl file; else standard output, as CSV.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of the table to pass through, such as an id; repeatable.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    std: Annotated[
        bool,
        typer.Option(
            "--std",
            help="Add the standard errors that noise gives, as columns.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    raw_text: Annotated[
        bool,
        typer.Option(
            "--raw-text",
            help="In CSV, leave texts as they are that a spreadsheet would run: no apostrophe "
            "before =, +, -, @.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    missing: Missing = None,
    separator: Separator = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Predict the rows of a table: the prediction and, for classes, probabilities or scores.

    Rows are read and written in a stream. With --json, rows are printed as lines of JSON.
    """
    from privboost.cli.prediction import predict_parts
    from privboost.cli.table_writer import check_suffix, file_writer, output_writer
    from privboost.models.files import load_model
    from privboost.progress import reading

    if out is not None:
        check_suffix(out)
        check_files((data, model), [out], [out] if force else ())
    trained = load_model(model)
    table = open_rows(data, missing, separator, every_line=True)
    parts = predict_parts(trained, table, keep or (), std)
    schema = next(parts).schema
    writer: Any = (
        output_writer(schema, as_json, raw_text)
        if out is None
        else file_writer(out, schema, raw_text)
    )
    rows = 0
    with reading(is_watched() and not quiet, table), writer as write:
        for part in parts:
            write(part)
            rows += part.num_rows
    if out is not None:
        columns: list[str] = schema.names
        print_written(
            out, f"{rows} rows of {', '.join(columns)}", as_json, rows=rows, columns=columns
        )
