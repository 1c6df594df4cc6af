"""Run tables and figures of papers.

    python -m bench.papers                        # all of them
    python -m bench.papers sbdt lazybb.figure5.2  # one paper, and one figure of another
    python -m bench.papers sbdt.figure4           # its panels, a to e
    python -m bench.papers --list
    python -m bench.papers sbdt --runs 2 --jobs 16

Each figure gives a JSON file and, where matplotlib is installed, a plot in `bench/results/papers/`,
published points hollow beside ours, with standard errors.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec

from bench.papers.figure import Figure
from bench.papers.measuring import measure, tell

PAPERS = ("sbdt", "dpxgb", "sarus", "lazybb", "adassp")


def figures(asked: list[str]) -> list[Figure]:
    """Return the figures that names mean: a paper's, one by its name, or all panels of one."""
    papers = dict.fromkeys(name.partition(".")[0] for name in asked or PAPERS)
    found = [
        figure for paper in papers for figure in import_module(f"bench.papers.{paper}").FIGURES
    ]
    return [one for one in found if not asked or any(_means(name, one.name) for name in asked)]


def _means(asked: str, name: str) -> bool:
    return asked in (name, name.rstrip("abcdef"), name.partition(".")[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="a paper, or a figure by its whole name")
    parser.add_argument("--runs", type=int, help="runs of each point (else the figure's own)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--list", action="store_true", help="only print the names")
    options = parser.parse_args()
    if unknown := [n for n in options.names if n.partition(".")[0] not in PAPERS]:
        parser.error(f"no paper is named {unknown[0]!r}; there are {', '.join(PAPERS)}")
    if options.runs is not None and options.runs < 1:
        parser.error("--runs must be at least 1")
    chosen = figures(options.names)
    if not chosen:
        parser.error("no figure has that name; --list prints them")
    if options.list:
        for figure in chosen:
            print(f"{figure.name:20} {figure.title}")
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        for figure in chosen:
            results = measure(figure, options.runs or figure.runs, pool)
            tell(figure, results)
            if find_spec("matplotlib"):
                import_module("bench.papers.drawing").draw(figure, results)


if __name__ == "__main__":
    main()
