"""The demonstration from its first fit to its page."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from privboost.datasets import Dataset, load_adult
from privboost.demo.page import demo_page
from privboost.demo.results import (
    DELTA,
    PrivateResult,
    Result,
    compile_flagship,
    limit_result,
    majority_result,
    private_result,
)
from privboost.files import write_file

BUDGETS = (0.1, 1.0, 3.0)


def run_demo(
    out: Path, data: Dataset | None = None, n_estimators: int | None = None
) -> list[Result]:
    """Train at several budgets, and write a page; return what is compared.

    Parameters
    ----------
    out : path
        Where the page goes; its folder is there.
    data : Dataset, optional
        Adult by default, or some of its rows.
    n_estimators : int, optional
        Answers that each model asks for; by default as many as the flagship does.
    """
    steps = Console(stderr=True, highlight=False)
    steps.quiet = not steps.is_terminal
    data = load_adult() if data is None else data
    steps.print("The first fit compiles; later runs find what it compiled.")
    compile_flagship(data)
    private = []
    for epsilon in BUDGETS:
        private.append(private_result(data, epsilon, n_estimators))
        _say(steps, private[-1])
    majority, limit = majority_result(data), limit_result(data)
    _say(steps, limit)
    rows = (data.train.num_rows, data.test.num_rows)
    write_file(out, demo_page(majority, private, limit, rows).encode())
    return [majority, *private, limit]


def print_results(results: list[Result], out: Path) -> None:
    """Print a table of what was compared, and where the page is."""
    console = Console(highlight=False, markup=False)
    console.print(_table(results))
    console.print(
        '"without privacy": scikit-learn\'s HistGradientBoostingClassifier with 40 steps '
        "on one thread, which promises nothing."
    )
    console.print(f"Plots, findings and privacy reports: {out}", soft_wrap=True)


def _say(steps: Console, result: Result | PrivateResult) -> None:
    steps.print(f"{result.name}: trained in {result.seconds:.2f} s")


def _table(results: list[Result]) -> Table:
    table = Table(title=f"Adult (census income): test part, delta = {DELTA:g}")
    for heading in ("", "AUC", "accuracy", "seconds"):
        table.add_column(heading, justify="right" if heading else "left")
    for own in results:
        table.add_row(own.name, f"{own.auc:.4f}", f"{own.accuracy:.4f}", f"{own.seconds:.2f}")
    return table
