"""Exit statuses, and the one line that reports an error."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NoReturn

import typer

from privboost._core.checks import printable
from privboost._core.errors import (
    BudgetError,
    DomainError,
    FitWarning,
    ModelFileError,
    SchemaError,
    StoreError,
)

USAGE_ERROR: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)
"""Base class of usage errors; newer versions of typer have their own copy of click's."""


class Status(IntEnum):
    """Exit status of the process, with its meaning."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Status:
        """Keep the meaning beside the number."""
        made = int.__new__(cls, value)
        made._value_, made.meaning = value, meaning
        return made

    done = 0, "done"
    failed = 1, "another failure: memory, a cluster, a GPU, a party, a missing package"
    usage = 2, "the command line: an option, or a parameter's value"
    file = 3, "a file: missing, existing already, damaged, locked, or a full disk"
    table = 4, "a domain, or a table that does not fit it"
    budget = 5, "the privacy budget: nothing was released beyond it"
    warned = 6, "--strict: the result is complete and written, and a warning is about it"
    interrupted = 130, "interrupted (Ctrl-C), or terminated"
    unread = 141, "the reader of the output stopped, as head does: nothing is printed"


def notify(message: str) -> None:
    """Print a line on the standard error stream."""
    typer.echo(f"privboost: {printable(message)}", err=True)


def fail(message: str, status: Status) -> NoReturn:
    """Print a line on the standard error stream, and exit."""
    notify(message)
    raise SystemExit(status.value)


def status_of(error: Exception) -> Status:
    """Return the exit status for an error."""
    match error:
        case _ if isinstance(error, USAGE_ERROR):
            return Status.usage
        case OSError() | ModelFileError() | StoreError():
            return Status.file
        case SchemaError() | DomainError():
            return Status.table
        case BudgetError():
            return Status.budget
        case FitWarning():  # raised as an error by Python's own -W
            return Status.warned
        case ValueError() | TypeError() | ArithmeticError() | RecursionError() if _is_ours(error):
            return Status.usage
        case _:
            return Status.failed


def describe_error(error: Exception) -> str:
    """Return one line about an error; messages of other libraries, which may quote rows, are
    left out.
    """
    match error:
        case _ if isinstance(error, USAGE_ERROR):
            path = error.ctx.command_path if getattr(error, "ctx", None) else "privboost"
            message = error.format_message().replace("Value error, ", "").rstrip(".")
            return f"{message}: see {path} --help"
        case OSError() if error.strerror:
            return f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
        case OverflowError():
            return f"a number is too large: {error}"
        case ArithmeticError():  # whose own message names nothing
            return "a number is too small or too large to compute with"
        case RecursionError():
            return "a parameter or a file is nested too deeply"
        case MemoryError():  # its own message may contain the number of rows
            return "there is not enough memory"
        case UnicodeError():
            return "a text is not UTF-8"
        case _ if _is_ours(error):
            return " ".join(str(error).split("\n"))
        case _:
            return (
                f"internal error ({type(error).__name__}): --debug shows its traceback, which may "
                "quote rows"
            )


def _is_ours(error: Exception) -> bool:
    """Whether privboost wrote the message: our own classes, and builtin ones that we raise."""
    package = type(error).__module__.split(".")[0]
    builtin = (ValueError, TypeError, ImportError, OSError, ArithmeticError, RecursionError)
    return package == "privboost" or (package == "builtins" and isinstance(error, builtin))
