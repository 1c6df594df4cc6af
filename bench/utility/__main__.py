"""Measure methods on tables, against ε.

    python -m bench.utility                                  # everything, which takes hours
    python -m bench.utility grid --tables adult cardio --methods privboost sbdt --runs 5
    python -m bench.utility grid --tables cardio:5000 --epsilon 0.3 1 --jobs 8
    python -m bench.utility curve large                      # the flagship's curves, and ε = 100
    python -m bench.utility --list                           # what there is to run
    python -m bench.utility.ablation                         # the flagship without its ideas

Each run is a line in `bench/results/runs/utility.jsonl`; what is there is not run again, unless
`--again` is given. Files of other machines may lie beside it. `python -m bench.results` makes
summaries and pages of them.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor

from bench import data
from bench.utility.measuring import measure, to_do
from bench.utility.methods import METHODS
from bench.utility.plan import PARTS, points


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.utility",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", help="grid, curve, large (else all three)")
    parser.add_argument("--tables", nargs="+", metavar="TABLE")
    parser.add_argument("--methods", nargs="+", choices=METHODS, metavar="METHOD")
    parser.add_argument("--epsilon", nargs="+", type=float)
    parser.add_argument("--runs", type=int, default=5, help="runs of each point (default 5)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--again", action="store_true", help="run what is there already, too")
    parser.add_argument("--list", action="store_true", help="only print what would be run")
    return parser


def main() -> None:
    parser = arguments()
    asked = parser.parse_args()
    if unknown := [part for part in asked.parts if part not in PARTS]:
        parser.error(f"no part is named {unknown[0]!r}; there are {', '.join(PARTS)}")
    bases = {*data.names(), "interactions"}
    if unknown := [name for name in asked.tables or () if name.split(":")[0] not in bases]:
        parser.error(f"no table is named {unknown[0]!r}; there are {', '.join(sorted(bases))}")
    absent = [name for name, method in METHODS.items() if not method.installed]
    if unknown := [name for name in asked.methods or () if name in absent]:
        parser.error(f"{METHODS[unknown[0]].release} is not installed")
    methods = asked.methods or [name for name in METHODS if name not in absent]
    for name in absent:
        print(f"{METHODS[name].title} is not installed, and left out")
    chosen = points(asked.parts or PARTS, asked.tables, methods, asked.epsilon)
    tasks = to_do(chosen, range(asked.runs), asked.again)
    print(f"{len(chosen)} points of {asked.runs} runs; {len(tasks)} runs to do", flush=True)
    if asked.list:
        for point, seed in tasks:
            print(*point, seed)
        return
    with ProcessPoolExecutor(asked.jobs) as pool:
        failed = measure(tasks, pool)
    if failed:
        parser.exit(1, f"{failed} runs failed\n")


if __name__ == "__main__":
    main()
