"""Explanations on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privboost.cli.files import check_files, check_output
from privboost.cli.options import OUTPUT, AsJson, Force, ModelFile, Out
from privboost.cli.printing import print_written

_PICTURES = (".png", ".pdf", ".svg")


def explain(
    model: ModelFile,
    plot: Annotated[
        Path | None,
        typer.Option(help="A .png, .pdf or .svg file for a picture of it.", rich_help_panel=OUTPUT),
    ] = None,
    most: Annotated[int, typer.Option(help="How many shapes, pairs and trees to draw.")] = 8,
    out: Out = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Say what a model has learned, and what is worth a look. Costs no privacy."""
    from privboost.files import write_file
    from privboost.models.files import load_model

    written = [path for path in (out, plot) if path is not None]
    if plot is not None and plot.suffix.lower() not in _PICTURES:
        raise ValueError(f"{plot}: a .png, .pdf or .svg file is needed")
    if most < 0:
        raise ValueError("--most must be 0 or more")
    check_files((model,), written, written if force else ())
    if out is None:
        check_output()
    found = load_model(model).explain_global()
    if plot is not None:
        _draw(found, plot, most)
    text = found.to_json() if as_json else found.to_text()
    if out is None:
        typer.echo(text)
    else:
        write_file(out, f"{text}\n".encode())
        print_written(out, f"what {model} has learned", as_json)


def _draw(found: Any, path: Path, most: int) -> None:
    """Write a picture of an explanation, whole or not at all."""
    from privboost.explanations.axes import pyplot
    from privboost.files import new_file

    pyplot().switch_backend("agg")  # no screen is needed
    figure = found.plot(most)[0].figure
    with new_file(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=120)
