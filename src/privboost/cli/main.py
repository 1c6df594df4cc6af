"""The commands, in the order in which people need them, and how the process ends."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from privboost.cli.budget import budget_app
from privboost.cli.calibrate import calibrate
from privboost.cli.demo import demo
from privboost.cli.domain import domain_app
from privboost.cli.evaluate import evaluate
from privboost.cli.examples import epilog_of
from privboost.cli.exits import STATUSES, Status, fail, leave, say
from privboost.cli.explain import explain
from privboost.cli.export import export
from privboost.cli.extend import extend
from privboost.cli.federation import federation_app
from privboost.cli.files import leave_output
from privboost.cli.predict import predict
from privboost.cli.recommend import recommend
from privboost.cli.report import report
from privboost.cli.search import search
from privboost.cli.train import train
from privboost.progress import listening

_DEBUG = "--debug"
_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Begin": (demo, recommend, calibrate),
    "Spend the budget": (train, extend, search, evaluate),
    "Use a model, at no price": (predict, explain, report, export),
}
_GROUPS = {"domain": domain_app, "budget": budget_app, "federation": federation_app}

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Boosted models for private tables, with differential privacy.",
    epilog="Ends with "
    + "; ".join(f"{status.value}, {means}" for status, means in STATUSES.items())
    + ".",
)
for panel, commands in _COMMANDS.items():
    for command in commands:
        named = epilog_of(command.__name__)
        app.command(epilog=named, rich_help_panel=panel)(command)
for group, commands_of_group in _GROUPS.items():
    for each in commands_of_group.registered_commands:
        each.epilog = epilog_of(f"{group} {each.name or each.callback.__name__}")  # type: ignore[union-attr]
    app.add_typer(commands_of_group, name=group, rich_help_panel="Groups of commands")


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[
        bool,
        typer.Option(
            _DEBUG,
            help="Show where an error came from, which may quote rows; anywhere in the line.",
        ),
    ] = False,
) -> None:
    if version:
        from privboost import __version__

        typer.echo(f"privboost {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; say errors and warnings in a line, without a trace."""
    warnings.showwarning = _say_warning
    words = sys.argv[1:]
    line = [word for word in words if word != _DEBUG]
    # Who is told to end, as a container is, tidies up and says what it cost, as with Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        raise SystemExit(_run(line, debug=len(line) < len(words)))
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(line: list[str], debug: bool) -> int:
    """Return the status with which the process ends."""
    try:
        with listening(say):
            status: int | None = app(args=line, prog_name="privboost", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted", Status.interrupted)
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # typer's own end where nobody reads
            leave_output()
            return Status.unread
        raise
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # it is the help
            typer.echo(error.format_message())  # type: ignore[attr-defined]
            return Status.usage
        leave(error, debug)
    if status == Status.interrupted:  # newer typers return it in silence
        say("interrupted")
    return status or Status.done


def _say_warning(message: Warning | str, *about: Any, **more: Any) -> None:
    say(f"warning: {message}")
