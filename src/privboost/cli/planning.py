"""Commands that need no rows: `recommend`, `calibrate` and `compile`."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

import privboost
from privboost._core.progress import waiting
from privboost.cli.options import AsJson, Delta, DomainFile, Epsilon, Recipe
from privboost.cli.output import is_terminal, print_json, print_result
from privboost.cli.registry import BEGIN, command
from privboost.recipes import RECIPES


@command("privboost recommend d.json --epsilon 0.5 --rows 30000 --readable", panel=BEGIN)
def recommend(
    domain: DomainFile,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    rows: Annotated[int | None, "About how many rows there are, if that is public."] = None,
    streams: Annotated[bool, "Rows come later, and are to be added."] = False,
    readable: Annotated[bool, "People are to read the model as a whole."] = False,
    pure: Annotated[bool, "The guarantee is to have no delta."] = False,
    parties: Annotated[bool, "Parties keep their rows: no machine may see them."] = False,
    as_json: AsJson = False,
) -> None:
    """Pick a recipe from public facts, and say why. No row is read."""
    found = privboost.recommend(
        domain,
        epsilon,
        delta,
        rows=rows,
        streams=streams,
        readable=readable,
        pure=pure,
        trusted_server=not parties,
    )
    print_result(found, as_json)


@command(
    "privboost calibrate --epsilon 1 --delta 1e-6 --rounds 100",
    "privboost calibrate --epsilon 1 --rounds 100 --sampling-rate 0.1 --json",
    panel=BEGIN,
)
def calibrate(
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    rounds: Annotated[int, "Releases with Gaussian noise."] = 0,
    sampling_rate: Annotated[float, "The probability that a row is sampled in a round."] = 1.0,
    selections: Annotated[int, "Selections by the exponential mechanism."] = 0,
    selection_share: Annotated[
        float, "The share of the budget, on mu squared, for selections."
    ] = 0.7,
    laplace: Annotated[int, "Releases with Laplace noise."] = 0,
    accountant: Annotated[str, "auto, gdp, game, pld, rdp, pure or advanced."] = "auto",
    as_json: AsJson = False,
) -> None:
    """Compute how much noise a budget needs, before any data are read."""
    from privboost.accounting.calibration import calibrate_releases

    with waiting(is_terminal(), "calibrating the noise"):
        found = calibrate_releases(
            epsilon,
            delta,
            rounds=rounds,
            sampling_rate=sampling_rate,
            selections=selections,
            selection_share=selection_share,
            laplace=laplace,
            accountant=accountant,
        )
    print_result(found, as_json)


_ROWS = 600


@command("privboost compile --recipe privboost", panel=BEGIN, name="compile")
def compile_kernels(
    *,
    recipe: Annotated[list[Recipe] | None, "The recipe to compile for; repeatable."] = None,
    as_json: AsJson = False,
) -> None:
    """Compile kernels ahead of time, for images and for file systems that are read-only later.

    Each recipe is trained on synthetic rows. The compiled code is written next to the package, or
    to NUMBA_CACHE_DIR, and read from there by every process on the same kind of processor.
    """
    from privboost._core.compilation import count_compilations, writable_folder

    folder = writable_folder()
    if folder is None:
        raise ValueError("no folder for compiled code can be written; set NUMBA_CACHE_DIR")
    with count_compilations() as count:
        _train_all([str(each) for each in recipe or Recipe])
    if as_json:
        print_json({"folder": str(folder), "compiled": len(count)})
    else:
        typer.echo(f"compiled {len(count)} functions; the cache is {folder}")


def _train_all(names: list[str]) -> None:
    """Train the estimators of recipes on synthetic rows, and predict with them."""
    import pyarrow as pa

    from privboost._core.threads import compile_loops

    numbers = [row / _ROWS for row in range(_ROWS)]
    table = pa.table(
        {
            "number": numbers,
            "flag": [row % 3 == 0 for row in range(_ROWS)],
            "kind": ["abc"[row % 3] for row in range(_ROWS)],
            "classes": [int(number > 0.5) for number in numbers],
            "value": [number**2 for number in numbers],
            "event": [row % 2 == 0 for row in range(_ROWS)],
        }
    )
    features = {
        "number": {"kind": "numeric", "bounds": [0, 1]},
        "flag": {"kind": "boolean"},
        "kind": {"kind": "categorical", "categories": ["a", "b", "c"]},
    }
    targets: dict[str, dict[str, Any]] = {
        "classes": {"name": "classes", "classes": [0, 1]},
        "number": {"name": "value", "bounds": [0, 1]},
        "survival": {"name": "value", "bounds": [0.01, 1], "event": "event"},
    }
    for name in names:
        for task, estimator in RECIPES[name].estimators.items():
            domain = {"version": 1, "features": features, "target": targets[task]}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = getattr(privboost, estimator)(5.0, 1e-6, domain, n_jobs=1)
                made.fit(table).predict(table)
    compile_loops()
