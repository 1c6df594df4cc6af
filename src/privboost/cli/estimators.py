"""From options to estimators, and what is said when one is interrupted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import typer

from privboost.cli.exits import Status, fail
from privboost.progress import counting_charges
from privboost.recipes import RECIPES


def kind_of(recipe: str, classes: bool) -> Any:
    """Return the estimator of a recipe."""
    import privboost

    name = RECIPES[recipe].estimators.get("classes" if classes else "number")
    if name is None:
        raise ValueError(f"--recipe {recipe} is for classes; the target is a number")
    return getattr(privboost, name)


def set_weights(
    estimator: Any, recipe: str, weights: str | None, weight_bound: float | None
) -> dict[str, str]:
    """Tell an estimator the bound of weights; return what `fit` takes of them."""
    if weights is not None and weight_bound is None:
        raise ValueError("--weights needs --weight-bound: the largest weight, publicly known")
    if "sample_weight_bound" in estimator.get_params():
        estimator.set_params(sample_weight_bound=weight_bound)
    elif weights is not None or weight_bound is not None:
        raise ValueError(f"--recipe {recipe} takes no weights")
    return {} if weights is None else {"sample_weight": weights}


def set_classes(estimator: Any, classes: str | None) -> None:
    """Tell an estimator the classes, written as 0,1 or as a JSON list."""
    if classes is None:
        return
    if "classes" not in estimator.get_params():
        raise ValueError("--classes is for classes; the target is a number")
    try:
        found = json.loads(classes if classes.lstrip().startswith("[") else f"[{classes}]")
    except json.JSONDecodeError:  # words, without quotes
        found = [word.strip() for word in classes.split(",")]
    estimator.set_params(classes=found)


@contextmanager
def spending(
    epsilon: float, delta: float, public_rows: bool = False, others_pay: bool = False
) -> Iterator[None]:
    """Say what an interruption has cost; where others set their share aside, all may be spent."""
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


_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


def read_parameters(settings: list[str], known: dict[str, Any]) -> dict[str, Any]:
    """Read name=value pairs, a value as JSON or else as text."""
    own = {
        "epsilon",
        "delta",
        "classes",
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
            near = get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}? " if near and equals else ""
            raise typer.BadParameter(
                f"{setting!r}: {hint}name=value is needed, with one of {', '.join(names)}"
            )
        try:
            parameters[name] = json.loads(_PYTHON_WORDS.get(text, text))
        except json.JSONDecodeError:
            parameters[name] = text
    return parameters
