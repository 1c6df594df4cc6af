"""Registry of commands: each is declared once, with its help panel, options and examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import partial, wraps
from typing import Annotated, Any, NamedTuple, get_type_hints

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


class Command(NamedTuple):
    """One registered command: its name as typed ("domain learn"), its function, and its help.

    `panel` is its heading in the help, "" for a command of a group; the tests parse `examples`.
    """

    name: str
    run: Callable[..., None]
    panel: str
    examples: tuple[str, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """Return typer's settings."""
        own = {"name": self.name.split()[-1], "epilog": "\n\n".join(("Examples:", *self.examples))}
        return own | ({"rich_help_panel": self.panel} if self.panel else {})


def option(
    text: str, panel: str | None = None, *names: str, show_default: bool | str = True
) -> Any:
    """Return typer's option with a help text and a heading in the help, perhaps with its name."""
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=show_default)


COMMANDS: dict[str, Command] = {}
"""Registered commands by name."""


def command(
    *examples: str, panel: str = "", name: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that registers a command, under the name of its function by default.

    A command without a panel belongs to the group that its module is named after.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        own = name or function.__name__
        full = own if panel else f"{function.__module__.rsplit('.', 1)[-1]} {own}"
        COMMANDS[full] = Command(full, flatten_options(function), panel, examples)
        return function

    return register


def flatten_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function with one parameter per option where `function` takes option groups.

    An option group is a dataclass. Its fields, and parameters, are annotated with the help text of
    the option and the heading it stands under (else the group's `panel`), or with typer's own
    declaration. All options are keywords, so that required ones may follow optional ones; a flag
    has no "--no-flag".
    """
    parameters, hints = inspect.signature(function).parameters, _hints(function)
    groups = {name: hints[name] for name in parameters if is_dataclass(hints[name])}
    flat: dict[str, inspect.Parameter] = {}
    for name, parameter in parameters.items():
        options = {name: (hints[name], parameter.default)}
        if name in groups:
            own = _hints(groups[name])
            options = {each.name: (own[each.name], each.default) for each in fields(groups[name])}
        for each, (hint, default) in options.items():
            default = inspect.Parameter.empty if default is MISSING else default
            metadata = getattr(hint, "__metadata__", (None,))
            if isinstance(metadata[0], str):
                own_name = f"--{each.rstrip('_').replace('_', '-')}"
                text, panel = (*metadata, getattr(groups.get(name), "panel", None))[:2]
                hint = Annotated[hint.__origin__, option(text, panel, own_name)]
            flat[each] = inspect.Parameter(
                each, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
            )

    @wraps(function)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        function(**values)

    run.__signature__ = inspect.Signature([*flat.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in flat.items()} | {"return": None}
    return run


_hints = partial(get_type_hints, include_extras=True)


def build_app(**settings: Any) -> typer.Typer:
    """Return the command line with all registered commands."""
    app = typer.Typer(no_args_is_help=True, **settings)
    for panel in PANELS:
        for each in COMMANDS.values():
            if each.panel == panel:
                app.command(**each.settings)(each.run)
    for group, text in GROUPS.items():
        own = typer.Typer(no_args_is_help=True, add_completion=False, help=text)
        for each in COMMANDS.values():
            if each.name.startswith(f"{group} "):
                own.command(**each.settings)(each.run)
        app.add_typer(own, name=group, rich_help_panel="Groups of commands")
    return app
