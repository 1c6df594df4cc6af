"""Commands that use a model and cost nothing: `predict`, `explain`, `report` and `export`."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import privboost
from privboost._core.files import new_file
from privboost._core.progress import reading
from privboost.cli.options import (
    OUTPUT,
    DataFile,
    ModelFile,
    Out,
    OutputOptions,
    ProgressOptions,
    TableOptions,
)
from privboost.cli.output import print_written, write_text
from privboost.cli.registry import USE, command

_PLOTS = (".png", ".pdf", ".svg")


Format = StrEnum("Format", ["text", "html", "markdown"])


@command(
    "privboost predict m.privboost new.parquet --keep id --out predicted.parquet",
    "privboost predict m.privboost new.csv --json",
    panel=USE,
)
def predict(
    *,
    model: ModelFile,
    data: DataFile,
    out: Annotated[
        Path | None, "A .csv, .parquet or .jsonl file; else standard output, as CSV.", OUTPUT
    ] = None,
    keep: Annotated[
        list[str] | None,
        "A column of the table to pass through, such as an id; repeatable.",
        OUTPUT,
    ] = None,
    std: Annotated[bool, "Add columns with the standard errors due to noise.", OUTPUT] = False,
    interval: Annotated[
        float | None,
        "Add columns with prediction intervals (of classes, sets) of this coverage, say 0.9.",
        OUTPUT,
    ] = None,
    rate: Annotated[
        bool,
        "Add a column with the rate: the prediction for an exposure of 1, where the model has one.",
        OUTPUT,
    ] = False,
    raw_text: Annotated[
        bool, "In CSV, write strings unchanged that a spreadsheet would run as formulas.", OUTPUT
    ] = False,
    table: TableOptions,
    output: ProgressOptions,
) -> None:
    """Predict the rows of a table: the prediction and, for classes, probabilities or scores.

    Rows are read and written in a stream. With --json, rows are printed as lines of JSON.
    """
    from privboost.cli.prediction import check_suffix, file_writer, output_writer, predict_parts

    if out is not None:
        check_suffix(out)
        output.check((data, model), out)
    trained = privboost.load_model(model)
    source = table.open(data, every_line=True)
    parts = predict_parts(trained, source, keep or (), std, interval, rate)
    schema = next(parts).schema
    writer = (
        output_writer(schema, output.as_json, raw_text)
        if out is None
        else file_writer(out, schema, raw_text)
    )
    rows = 0
    with reading(output.verbose, source), writer as write:
        for part in parts:
            write(part)
            rows += part.num_rows
    if out is not None:
        columns: list[str] = schema.names
        what = f"{rows} rows of {', '.join(columns)}"
        print_written(out, what, output.as_json, rows=rows, columns=columns)


@command(
    "privboost explain m.privboost",
    "privboost explain m.privboost --plot shapes.png",
    panel=USE,
)
def explain(
    *,
    model: ModelFile,
    plot: Annotated[Path | None, "A .png, .pdf or .svg file for a plot of it.", OUTPUT] = None,
    most: Annotated[int, "How many shapes, pairs and trees to draw."] = 8,
    out: Out = None,
    output: OutputOptions,
) -> None:
    """Explain a model: its effects, importances and findings. Costs no privacy."""
    if plot is not None and plot.suffix.lower() not in _PLOTS:
        raise ValueError(f"{plot}: a .png, .pdf or .svg file is needed")
    if most < 0:
        raise ValueError("--most must be 0 or more")
    output.check((model,), out, *(() if plot is None else (plot,)))
    found = privboost.load_model(model).explain_global()
    if plot is not None:
        os.environ["MPLBACKEND"] = "agg"  # no screen is needed
        figure = found.plot(most)[0].figure
        with new_file(plot) as file:
            figure.savefig(file, format=plot.suffix[1:].lower(), dpi=120)
    text = found.to_json() if output.as_json else found.to_text()
    write_text(text, out, f"what {model} has learned", output.as_json)


@command(
    "privboost report m.privboost",
    "privboost report m.privboost --format html --evaluation found.json --out card.html",
    panel=USE,
)
def report(
    *,
    model: ModelFile,
    format_: Annotated[Format, "The format; html and markdown are model cards."] = Format.text,
    name: Annotated[str | None, "On a model card: what people call the model."] = None,
    evaluation: Annotated[
        list[Path] | None, "On a model card: what `evaluate --json` wrote; repeatable."
    ] = None,
    out: Out = None,
    output: OutputOptions,
) -> None:
    """Print what a model's training leaked at most: a report, or a model card. Costs no privacy."""
    paths = evaluation or []
    if output.as_json and format_ is not Format.text:
        raise ValueError("--json is a format of its own: leave --format out")
    if format_ is Format.text and (name is not None or paths):
        raise ValueError("--name and --evaluation are for model cards: --format html or markdown")
    output.check((model, *paths), out)
    if format_ is Format.text:
        privacy = privboost.load_model(model).privacy
        text = privacy.to_json() if output.as_json else str(privacy)
    else:
        evaluations = [privboost.Evaluation.from_json(path) for path in paths]
        card = privboost.model_card(model, name=name or "", evaluations=evaluations)
        text = card.to_html() if format_ is Format.html else card.to_markdown()
    what = "a report" if format_ is Format.text else "a model card"
    write_text(text, out, f"{what} of {model}", output.as_json)


@command(
    "privboost export m.privboost m.onnx",
    "privboost export m.privboost m.sql",
    panel=USE,
)
def export(
    *,
    model: ModelFile,
    out: Annotated[Path, typer.Argument(help="A file that ends in .onnx or .sql.")],
    output: OutputOptions,
) -> None:
    """Write a model for other programs: an ONNX graph, or a SELECT."""
    output.check((model,), out)
    privboost.export_model(privboost.load_model(model), out)
    print_written(out, f"{model} for other programs", output.as_json)
