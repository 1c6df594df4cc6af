"""What commands print: text for people, JSON for machines, tables."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from privboost.cli.exits import Status, say
from privboost.cli.files import check_files, check_output, leave_output
from privboost.errors import FitWarning
from privboost.forms import printable

_WIDE = 200
"""How wide a table is where nobody looks at it."""
_MOST_FINDINGS = 3
"""How many findings are printed after training; `explain` has them all."""


def is_watched() -> bool:
    """Whether somebody looks at the standard error stream: progress is shown to nobody else."""
    return sys.stderr is not None and sys.stderr.isatty()


def print_json(form: Any) -> None:
    """Print a form as one JSON document."""
    typer.echo(json.dumps(form, indent=1, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under headings."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(each)) for each in row))  # as it stands: brackets are no markup
    Console(width=None if sys.stdout.isatty() else _WIDE).print(table)


def check_out(read: Iterable[Path | None], out: Path | None, force: bool) -> None:
    """Refuse what cannot be written, before anything is done: to a file, or to the output."""
    if out is None:
        check_output()
    else:
        check_files(read, [out], [out] if force else ())


@contextmanager
def _done(path: Path) -> Iterator[None]:
    """Print what was done: that it cannot be printed is no failure of what was done."""
    try:
        yield
        sys.stdout.flush()
    except OSError:
        leave_output()
        say(f"{path} is written; what there is to say of it could not be printed")


def print_written(out: Path, words: str, as_json: bool, **more: Any) -> None:
    """Say what was written, and where."""
    with _done(out):
        if as_json:
            print_json({"out": str(out), **more})
        else:
            typer.echo(printable(f"{out}: {words}"))


def print_model(path: Path, model: Any, as_json: bool, strict: bool, **more: Any) -> None:
    """Say what was trained, what it promises and to whom, what to look at, and what to act on.

    What there is to look at follows from released values, and costs nothing.
    """
    from privboost.models.findings import find_defects

    privacy, found, defects = model.privacy, model.findings(), find_defects(model)
    with _done(path):
        if as_json:
            form = {"model": str(path), **more, "findings": [finding.text for finding in found]}
            form |= {"warnings": [asdict(finding) for finding in defects]}
            print_json(form | {"privacy": privacy.to_dict()})
        else:
            texts = [finding.text for finding in found if finding not in defects]
            typer.echo("\n".join([f"{path}: {privacy.guarantee}", *_advice(path, privacy, texts)]))
    end_with_warnings(model, defects, strict)


@contextmanager
def warnings_held_back() -> Iterator[None]:
    """Hold warnings of the result back until it is written; `end_with_warnings` gives them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        yield


def end_with_warnings(result: Any, findings: Sequence[Any], strict: bool) -> None:
    """Warn of findings about a result that is written; with `strict`, leave because of them."""
    from privboost.models.findings import warn_of_defects

    warn_of_defects(result, findings)
    if strict and findings:
        raise SystemExit(Status.warned.value)


def _advice(path: Path, privacy: Any, findings: Sequence[str]) -> list[str]:
    """Say whom a model protects if nobody named a unit, and what to look at first."""
    said = []
    if privacy.unit is None and not privacy.public_rows and not privacy.seeded:
        said.append(
            "protects one row: if people have several, name their column in the domain's unit"
        )
    said += [f"look at this: {text}" for text in findings[:_MOST_FINDINGS]]
    if len(findings) > _MOST_FINDINGS:
        left = len(findings) - _MOST_FINDINGS
        said.append(f"and at {left} things more: privboost explain {path}")
    return said
