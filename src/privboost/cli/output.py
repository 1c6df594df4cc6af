"""Files and text that commands write: refused before anything is spent, not lost afterwards."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from privboost._core.checks import printable
from privboost._core.errors import FitWarning
from privboost._core.files import check_link, check_place, write_file
from privboost._core.progress import counting_charges
from privboost.cli.exits import Status, fail, notify

_WIDTH = 200
"""Width of a printed table where the standard output is no terminal."""
_MAX_FINDINGS = 3
"""Number of findings printed after training; `explain` prints all."""


def is_terminal() -> bool:
    """Whether the standard error stream is a terminal: progress is shown nowhere else."""
    return sys.stderr is not None and sys.stderr.isatty()


# Checks before anything is done


def check_files(
    read: Iterable[Path | None], written: Sequence[Path], replace: Iterable[Path] = ()
) -> None:
    """Refuse to overwrite a file that is read, to write one file twice, or to replace one unasked.

    A folder that is read stands for all files in it; `replace` are files that may exist already.
    """
    for path in written:
        check_link(path)
    sources = [path.resolve() for path in read if path is not None]
    files = [*sources, *(path.resolve() for path in written)]
    if len(set(files)) < len(files):
        raise ValueError("the files that are read and those that are written must be different")
    folders = {path for path in sources if path.is_dir()}
    for path in files:
        if not folders.isdisjoint(path.parents):
            raise ValueError(f"{path.name} lies in a folder that is read as a table: move it out")
    for path in written:
        if not path.parent.is_dir():
            raise FileNotFoundError(f"no such folder: {path.parent}")
        check_place(path)
        with TemporaryFile(dir=path.resolve().parent):
            pass
        if path.is_file() and path not in replace:
            raise FileExistsError(f"{path} exists already: --force replaces it")


def check_standard_output() -> None:
    """Refuse to write to a standard output that is closed."""
    if sys.stdout is None:
        raise OSError("the standard output is closed: give --out, or open it")


# Results that a budget was spent on


_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
_ENDING = (signal.default_int_handler, signal.SIG_DFL)
"""Handlers of signals that end a command; a signal that is ignored or delayed stays so."""


@contextmanager
def signals_delayed() -> Iterator[None]:
    """Delay Ctrl-C and termination until a result that was paid for is written.

    The command then exits as interrupted. Inside another such block nothing more is delayed.
    """
    main = threading.current_thread() is threading.main_thread()  # only it may handle signals
    own = [each for each in _SIGNALS if main and signal.getsignal(each) in _ENDING]
    received: list[int] = []
    before = {each: signal.signal(each, lambda number, _: received.append(number)) for each in own}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    if received:
        fail("interrupted; what was paid for is written all the same", Status.interrupted)


@contextmanager
def spending(
    epsilon: float, delta: float, public_rows: bool = False, others_pay: bool = False
) -> Iterator[None]:
    """Report what an interruption cost; with `others_pay`, parties may have reserved it all."""
    try:
        with counting_charges() as charges:
            yield
    except KeyboardInterrupt:
        if public_rows:
            fail("interrupted", Status.interrupted)
        if not (charges.count or others_pay):
            fail("interrupted before anything was reserved: nothing is spent", Status.interrupted)
        fail(
            f"interrupted; epsilon {epsilon:g} and delta {delta:g} count as spent: all was "
            "reserved before the first row was read",
            Status.interrupted,
        )


def save_paid(save: Callable[[Path], Any], path: Path) -> None:
    """Write a result that a budget was spent on, or else a copy in the temporary folder.

    Interruptions wait until it is written.

    Raises
    ------
    OSError
        If `path` failed; the message names the copy, which only its owner can read.
    """
    with signals_delayed():
        try:
            save(path)
        except OSError as error:
            reason = error.strerror or str(error)
            spare = _save_copy(save, path, reason)
            raise OSError(f"{path}: {reason}; what was paid for is in {spare}: move it") from None


@contextmanager
def saving_too(save: Callable[[Path], Any], path: Path) -> Iterator[None]:
    """Write a second paid result even if writing the first, inside, fails; report both errors."""
    try:
        yield
    except BaseException as error:
        try:
            save_paid(save, path)
        except OSError as other:
            if isinstance(error, OSError):
                raise OSError(f"{error}; {other}") from None
            raise error from other
        raise


def _save_copy(save: Callable[[Path], Any], path: Path, reason: str) -> Path:
    try:
        spare = Path(mkdtemp(prefix="privboost-")) / path.name
        save(spare)
    except OSError:
        raise OSError(
            f"{path}: {reason}; nor could it be written elsewhere: what it cost is spent"
        ) from None
    return spare


def print_paid(text: str, name: str) -> None:
    """Print a result that a budget was spent on, or else write a copy in the temporary folder.

    `name` is the file name of the copy.
    """
    try:
        print(text, flush=True)
    except (OSError, KeyboardInterrupt) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        reason = "interrupted" if interrupted else getattr(error, "strerror", "") or str(error)
        with signals_delayed():
            discard_output()
            spare = _save_copy(
                lambda path: write_file(path, f"{text}\n".encode()), Path(name), reason
            )
            message = f"standard output: {reason}; what was paid for is in {spare}: move it"
            if interrupted:
                fail(message, Status.interrupted)
            raise OSError(message) from None


def discard_output() -> None:
    """Send the rest of the standard output nowhere, after it failed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # buffered text included


@contextmanager
def warnings_delayed() -> Iterator[None]:
    """Suppress warnings about a result until it is written; `finish` gives them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        yield


def find_defects(model: Any) -> tuple[Any, ...]:
    """Return the findings of a model that call for action."""
    from privboost.models import findings

    return tuple(findings.find_defects(model))


def finish(result: Any, defects: Iterable[Any], strict: bool) -> None:
    """Warn of the defects of a result that is written; with `strict`, exit because of them."""
    from privboost.models.findings import warn_of_defects

    defects = tuple(defects)
    warn_of_defects(result, defects)
    if strict and defects:
        raise SystemExit(Status.warned.value)


# Text


def print_json(value: Any) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))


def print_result(result: Any, as_json: bool) -> None:
    """Print an object that has `to_dict`, as JSON or as text."""
    if as_json:
        print_json(result.to_dict())
    else:
        typer.echo(str(result))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under headings."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(each)) for each in row))  # plain: brackets are no markup
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(table)


def write_text(text: str, out: Path | None, what: str, as_json: bool) -> None:
    """Print a text, or write it to a file and print what the file holds."""
    if out is None:
        typer.echo(text)
    else:
        write_file(out, f"{text}\n".encode())
        print_written(out, what, as_json)


def print_written(out: Path, what: str, as_json: bool, **more: Any) -> None:
    """Print which file was written, and what it holds."""
    with _printing(out):
        if as_json:
            print_json({"out": str(out), **more})
        else:
            typer.echo(printable(f"{out}: {what}"))


def print_model(path: Path, model: Any, as_json: bool, strict: bool, **more: Any) -> None:
    """Print the guarantee and findings of a model that is written; warn of its defects.

    Findings follow from released values, and cost nothing.
    """
    privacy, findings, defects = model.privacy, model.findings(), find_defects(model)
    with _printing(path):
        if as_json:
            document = {"model": str(path), **more, "findings": [own.text for own in findings]}
            document |= {"warnings": [asdict(own) for own in defects]}
            print_json(document | {"privacy": privacy.to_dict()})
        else:
            lines = [f"{path}: {privacy.guarantee}"]
            if privacy.unit is None and not privacy.public_rows and not privacy.seeded:
                lines.append(
                    "protects one row: if people have several, name their column in the domain's "
                    "unit"
                )
            texts = [own.text for own in findings if own not in defects]
            lines += [f"look at this: {text}" for text in texts[:_MAX_FINDINGS]]
            if (left := len(texts) - _MAX_FINDINGS) > 0:
                lines.append(f"and {left} more findings: privboost explain {path}")
            typer.echo("\n".join(lines))
    finish(model, defects, strict)


@contextmanager
def _printing(path: Path) -> Iterator[None]:
    """Print a summary of a file; a standard output that fails is no failure of the command."""
    try:
        yield
        sys.stdout.flush()
    except OSError:
        discard_output()
        notify(f"{path} is written; its summary could not be printed")
