"""The command `compile`: kernels compiled ahead of time."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

import privboost
from privboost.cli.options import AsJson, Recipe
from privboost.cli.output import print_json
from privboost.cli.registry import BEGIN, command, option
from privboost.recipes import RECIPES

_ROWS = 600


@command("privboost compile --recipe privboost", panel=BEGIN, name="compile")
def compile_kernels(
    *,
    recipe: Annotated[list[Recipe] | None, option("The recipe to compile for; repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compile kernels ahead of time, for images and for file systems that are read-only later.

    Each recipe is trained on synthetic rows. The compiled code is written next to the package, or
    to NUMBA_CACHE_DIR, and read from there by every process on the same kind of processor.
    """
    from privboost.compiling import count_compilations, writable_folder

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
    import numpy as np
    import pyarrow as pa

    from privboost.crew import compile_loops

    numbers = np.linspace(0, 1, _ROWS)
    columns = {
        "number": numbers,
        "flag": np.arange(_ROWS) % 3 == 0,
        "kind": np.array(["a", "b", "c"])[np.arange(_ROWS) % 3],
        "weight": np.ones(_ROWS),
        "classes": (numbers > 0.5).astype(np.int64),
        "value": numbers**2,
    }
    table = pa.table(columns)
    features = {
        "number": {"kind": "numeric", "bounds": [0, 1]},
        "flag": {"kind": "boolean"},
        "kind": {"kind": "categorical", "categories": ["a", "b", "c"]},
    }
    targets: dict[str, dict[str, Any]] = {
        "classes": {"name": "classes", "classes": [0, 1]},
        "number": {"name": "value", "bounds": [0, 1]},
    }
    for name in names:
        for task, estimator in RECIPES[name].estimators.items():
            domain = {"version": 1, "features": features, "target": targets[task]}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = getattr(privboost, estimator)(5.0, 1e-6, domain, n_jobs=1)
                made.fit(table).predict(table)
    compile_loops()
