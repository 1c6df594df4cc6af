"""How a command ends: a status that scripts can go by, and one line that says what to do."""

from __future__ import annotations

import traceback
from enum import IntEnum
from typing import Any, NoReturn

import typer

from privboost.errors import (
    BudgetError,
    DomainError,
    FitWarning,
    ModelFileError,
    SchemaError,
    StoreError,
)
from privboost.forms import printable

CLI_ERROR: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)
"""What is wrong with a line that was typed; newer typers bring a copy of click's own class."""


class Status(IntEnum):
    """What a process leaves behind."""

    done = 0
    failed = 1
    usage = 2
    file = 3
    table = 4
    budget = 5
    warned = 6
    interrupted = 130
    unread = 141


STATUSES = {
    Status.done: "done",
    Status.failed: "something else failed: memory, a cluster, a card, a party, a missing package",
    Status.usage: "the line that was typed: an option, or a parameter's value",
    Status.file: "a file: missing, there already, damaged, locked, or a full disk",
    Status.table: "a domain, or a table that does not fit it",
    Status.budget: "the privacy budget: nothing was released beyond it",
    Status.warned: "--strict: all is done and written, and a warning says what is wrong with it",
    Status.interrupted: "interrupted (Ctrl-C), or told to end",
    Status.unread: "whoever read the output stopped, as head does: nothing is said",
}
"""What each status means."""


def say(message: str) -> None:
    """Say something beside the output, in a line."""
    typer.echo(f"privboost: {printable(message)}", err=True)


def fail(message: str, status: Status) -> NoReturn:
    """Say what is wrong in a line, and leave."""
    say(message)
    raise SystemExit(status.value)


def leave(error: Exception, debug: bool) -> NoReturn:
    """Leave because of an error: one line, and with `debug` where it came from."""
    if debug:
        traceback.print_exception(error)
    fail(words_of(error), status_of(error))


def status_of(error: Exception) -> Status:
    """Return the status for an error."""
    match error:
        case _ if isinstance(error, CLI_ERROR):
            return Status.usage
        case OSError() | ModelFileError() | StoreError():
            return Status.file
        case SchemaError() | DomainError():
            return Status.table
        case BudgetError():
            return Status.budget
        case FitWarning():  # made an error by Python's own -W
            return Status.warned
        case _ if not _has_our_words(error):
            return Status.failed
        case ValueError() | TypeError() | ArithmeticError() | RecursionError():
            return Status.usage
        case _:
            return Status.failed


def words_of(error: Exception) -> str:
    """Return a line for an error. What others raise may quote rows, and is not repeated."""
    match error:
        case _ if isinstance(error, CLI_ERROR):
            path = error.ctx.command_path if getattr(error, "ctx", None) else "privboost"
            said = error.format_message().replace("Value error, ", "").rstrip(".")
            return f"{said}: see {path} --help"
        case OSError() if error.strerror:
            place = f": {error.filename}" if error.filename else ""
            return f"{error.strerror}{place}"
        case OverflowError():
            return f"a number is too large: {error}"
        case ArithmeticError():  # whose own words name nothing
            return "a number is too small or too large to compute with"
        case RecursionError():
            return "a parameter or a file is nested too deeply"
        case MemoryError():  # its own words may say how many rows there are
            return "there is not enough memory"
        case UnicodeError():
            return "a text is not UTF-8"
        case _ if _has_our_words(error):
            return " ".join(str(error).split("\n"))
        case _:
            return (
                f"an error of privboost's own ({type(error).__name__}): --debug shows where it "
                "came from, and may quote rows"
            )


def _has_our_words(error: Exception) -> bool:
    """Whether an error is ours, or one of Python's that we raise with words of our own."""
    home = type(error).__module__.split(".")[0]
    ours = (ValueError, TypeError, ImportError, OSError, ArithmeticError, RecursionError)
    return home == "privboost" or (home == "builtins" and isinstance(error, ours))
