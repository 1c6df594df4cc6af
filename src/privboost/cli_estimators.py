"""From options to estimators, and what is said when one is interrupted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from privboost.recipes import RECIPES


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong in a line, and leave."""
    typer.echo(f"privboost: {message}", err=True)
    raise SystemExit(code)


def kind_of(recipe: str, classes: bool) -> Any:
    """Return the estimator of a recipe."""
    import privboost

    name = RECIPES[recipe].estimators.get("classes" if classes else "number")
    if name is None:
        raise ValueError(f"--recipe {recipe} is for classes; the target is a number")
    return getattr(privboost, name)


@contextmanager
def spending(epsilon: float, delta: float, public_rows: bool = False) -> Iterator[None]:
    """Say what an interruption has cost."""
    try:
        yield
    except KeyboardInterrupt:
        if public_rows:
            fail("interrupted", 130)
        fail(
            f"interrupted; epsilon {epsilon:g} and delta {delta:g} count as spent: all was "
            "reserved before the first row was read",
            130,
        )


_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


def read_parameters(settings: list[str], known: dict[str, Any]) -> dict[str, Any]:
    """Read name=value pairs, a value as JSON or else as text."""
    own = {
        "epsilon",
        "delta",
        "domain",
        "domain_given",
        "domain_rows",
        "public_rows",
        "random_state",
        "n_jobs",
        "backend",
        "ledger",
        "budget",
        "verbose",
    }
    own.add("sample_weight_bound")  # options of their own
    names = sorted(set(known) - own)
    parameters = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in names:
            raise typer.BadParameter(f"{setting!r}: name=value with one of {', '.join(names)}")
        try:
            parameters[name] = json.loads(_PYTHON_WORDS.get(text, text))
        except json.JSONDecodeError:
            parameters[name] = text
    return parameters
