"""Measure speed.

    python -m bench.speed                       # fits beside peers, growth, primitives
    python -m bench.speed fits --threads 1 2 4 --case "1,000 trees"
    python -m bench.speed growth --rows 1000000 --columns 20 --rounds 50
    python -m bench.speed cores                 # what threads bring, up to ten million rows
    python -m bench.speed scale --rows 50000000 # some GB in the temporary folder

Each part gives `bench/results/speed_<part>.json`; single cases are told only. Contenders take
turns on one machine; compare ratios, not seconds of different machines.
"""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from typing import Any

from bench import runner
from bench.speed import cores

PARTS = ("fits", "growth", "primitives")
LARGE = ("cores", "scale")
"""Parts that take long, and gigabytes."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts", nargs="*", help=f"{', '.join(PARTS)} (else all these), cores, scale"
    )
    parser.add_argument("--threads", nargs="+", type=int, help="of fits, cores and scale")
    parser.add_argument("--turns", type=int, default=3, help="the best of so many (default 3)")
    parser.add_argument("--case", default="", help="words in the title of the fits to compare")
    parser.add_argument(
        "--rows", type=int, help="of growth (200,000), cores and scale (50,000,000)"
    )
    parser.add_argument("--columns", type=int, default=10, help="of growth (default 10)")
    parser.add_argument("--rounds", type=int, default=100, help="of growth (default 100)")
    asked = parser.parse_args()
    if unknown := [part for part in asked.parts if part not in PARTS + LARGE]:
        parser.error(f"no part is named {unknown[0]!r}; there are {', '.join(PARTS + LARGE)}")
    for part in asked.parts or PARTS:
        settings, busy = _settings(part, asked), os.getloadavg()[0]
        timings = import_module(f"bench.speed.{part}").measure(**settings)
        if not (part == "fits" and asked.case):
            runner.write(f"speed_{part}", settings | {"load_before": round(busy, 1)}, timings)


def _settings(part: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Return what a part's `measure` takes."""
    threads = asked.threads or [1, 2]
    if part == "fits":
        return {"threads": threads, "turns": asked.turns, "words": asked.case}
    if part == "growth":
        size = {"rows": asked.rows or 200_000, "columns": asked.columns, "rounds": asked.rounds}
        return size | {"turns": asked.turns}
    if part == "cores":
        rows = [asked.rows] if asked.rows else list(cores.ROWS)
        own = asked.threads or cores.threads_here()
        return {"rows": rows, "threads": own, "turns": asked.turns}
    if part == "scale":
        return {"rows": asked.rows or 50_000_000, "threads": max(threads)}
    return {"turns": asked.turns}


if __name__ == "__main__":
    main()
