"""Privacy reports and model cards on the command line."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from privboost.cli.options import AsJson, Force, ModelFile, Out
from privboost.cli.printing import check_out, print_written


class Form(StrEnum):
    """The forms of a report for people."""

    text = "text"
    html = "html"
    markdown = "markdown"


def report(
    model: ModelFile,
    form: Annotated[
        Form, typer.Option("--format", help="The form; html and markdown are model cards.")
    ] = Form.text,
    name: Annotated[str | None, typer.Option(help="On a card: what people call the model.")] = None,
    evaluation: Annotated[
        list[Path] | None,
        typer.Option(help="On a card: what `evaluate --json` wrote; repeatable."),
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Say what a model's training leaked at most: a report, or a model card. Costs no privacy."""
    from privboost.files import write_file
    from privboost.models.files import load_model

    added = evaluation or []
    if as_json and form is not Form.text:
        raise ValueError("--json is a form of its own: leave --format out")
    if form is Form.text and (name is not None or added):
        raise ValueError("--name and --evaluation are for cards: --format html or markdown")
    check_out((model, *added), out, force)
    if as_json:
        text = load_model(model).privacy.to_json()
    elif form is Form.text:
        text = str(load_model(model).privacy)
    else:
        text = _write_card(model, form, name or "", added)
    if out is None:
        typer.echo(text)
    else:
        write_file(out, f"{text}\n".encode())
        what = "a report" if form is Form.text else "a model card"
        print_written(out, f"{what} of {model}", as_json)


def _write_card(model: Path, form: Form, name: str, evaluations: list[Path]) -> str:
    from privboost.evaluation.model_card import model_card
    from privboost.evaluation.result import Evaluation

    found = [Evaluation.from_json(path) for path in evaluations]
    card = model_card(model, name=name, evaluations=found)
    return card.to_html() if form is Form.html else card.to_markdown()
