"""The command line: all commands, and how the process ends."""

from __future__ import annotations

import signal
import sys
import traceback
import warnings
from typing import Annotated, Any

import typer

import privboost
from privboost._core.progress import message_listener
from privboost.cli import (  # noqa: F401  # importing them registers their commands
    budget,
    domain,
    federation,
    models,
    planning,
    training,
)
from privboost.cli.exits import Status, describe_error, fail, notify, status_of
from privboost.cli.output import discard_output
from privboost.cli.registry import build_app

_DEBUG = "--debug"

app = build_app(
    pretty_exceptions_enable=False,
    help="Boosted models for private tables, with differential privacy.",
    epilog=f"Exit status: {'; '.join(f'{own.value}, {own.meaning}' for own in Status)}.",
)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[
        bool,
        typer.Option(
            _DEBUG,
            help="Show the traceback of an error, which may quote rows; anywhere in the line.",
        ),
    ] = False,
) -> None:
    if version:
        typer.echo(f"privboost {privboost.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; print errors and warnings in a line, without a traceback."""
    warnings.showwarning = _print_warning
    arguments = [argument for argument in sys.argv[1:] if argument != _DEBUG]
    # Termination, as of a container, cleans up and reports the cost as Ctrl-C does.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        raise SystemExit(_run(arguments, debug=len(arguments) < len(sys.argv) - 1))
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(arguments: list[str], debug: bool) -> int:
    """Run one command; return the exit status."""
    try:
        with message_listener(notify):
            status: int | None = app(args=arguments, prog_name="privboost", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted", Status.interrupted)
    except SystemExit as exit_:
        if isinstance(exit_.__context__, BrokenPipeError):  # typer's own, if the reader stops
            discard_output()
            return Status.unread
        raise
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            typer.echo(error.format_message())  # type: ignore[attr-defined]
            return Status.usage
        if debug:
            traceback.print_exception(error)
        fail(describe_error(error), status_of(error))
    if status == Status.interrupted:  # newer versions of typer return it silently
        notify("interrupted")
    return status or Status.done


def _print_warning(message: Warning | str, *about: Any, **more: Any) -> None:
    notify(f"warning: {message}")
