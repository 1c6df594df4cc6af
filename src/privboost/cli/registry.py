"""Registry of commands: each is declared once, with its help panel, options and examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer

PANELS = ("Begin", "Spend the budget", "Use a model, at no price")
BEGIN, SPEND, USE = PANELS
"""Headings under which `privboost --help` lists commands, in order."""

GROUPS = {
    "domain": "Domains: what is public about a table. Sketch, learn, check and show them.",
    "budget": "Accounts of data sets: what was spent on them, by whom, and what is left.",
    "federation": "Train across parties, each of which keeps its rows.",
}
"""Groups of commands with their help, in order."""


@dataclass(frozen=True)
class Command:
    """One registered command.

    Attributes
    ----------
    name : str
        Name as typed, with its group: "train", "domain learn".
    run : callable
        Function that typer calls.
    panel : str
        Heading in the help; "" for a command of a group.
    examples : tuple of str
        Command lines shown under the command's help; the tests parse them.
    """

    name: str
    run: Callable[..., None]
    panel: str
    examples: tuple[str, ...]


def option(
    text: str, panel: str | None = None, name: str | None = None, show_default: bool | str = True
) -> Any:
    """Return typer's option with a help text, a heading in the help, and perhaps its own name."""
    names = () if name is None else (name,)
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=show_default)


COMMANDS: dict[str, Command] = {}
"""Registered commands by name."""


def command(
    *examples: str, panel: str = "", name: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that registers a command.

    Parameters
    ----------
    *examples : str
        Command lines shown under the command's help.
    panel : str
        Heading in the help; a command without one belongs to the group its module is named after.
    name : str, optional
        Name as typed; by default that of the function.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        own = name or function.__name__
        full = own if panel else f"{function.__module__.rsplit('.', 1)[-1]} {own}"
        COMMANDS[full] = Command(full, flatten_options(function), panel, examples)
        return function

    return register


def flatten_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function with one parameter per option where `function` takes option groups.

    An option group is a dataclass whose fields are annotated as typer's options.
    """
    signature, hints = inspect.signature(function), get_type_hints(function, include_extras=True)
    groups = {name: hints[name] for name in signature.parameters if is_dataclass(hints[name])}
    flat: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name not in groups:
            flat.append(_parameter(name, hints[name], parameter.default))
            continue
        own = get_type_hints(groups[name], include_extras=True)
        flat += [
            _parameter(field.name, own[field.name], field.default) for field in fields(groups[name])
        ]

    @wraps(function)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        function(**values)

    run.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in flat} | {"return": None}
    return run


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    empty = inspect.Parameter.empty
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,  # required options may follow optional ones
        default=empty if default is MISSING else default,
        annotation=annotation,
    )


def build_app(**settings: Any) -> typer.Typer:
    """Return the command line with all registered commands."""
    app = typer.Typer(no_args_is_help=True, **settings)
    for each in sorted(COMMANDS.values(), key=_panel_number):
        if each.panel:
            app.command(each.name, epilog=_epilog(each), rich_help_panel=each.panel)(each.run)
    for group, text in GROUPS.items():
        own = typer.Typer(no_args_is_help=True, add_completion=False, help=text)
        for each in COMMANDS.values():
            if each.name.startswith(f"{group} "):
                own.command(each.name.split()[1], epilog=_epilog(each))(each.run)
        app.add_typer(own, name=group, rich_help_panel="Groups of commands")
    return app


def _panel_number(each: Command) -> int:
    return PANELS.index(each.panel) if each.panel else len(PANELS)


def _epilog(each: Command) -> str:
    return "\n\n".join(("Examples:", *each.examples))
