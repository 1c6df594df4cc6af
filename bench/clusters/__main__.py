"""Measure clusters.

    python -m bench.clusters rounds       # what a round costs beyond its rows
    python -m bench.clusters partitions   # one table in more and more partitions
    python -m bench.clusters rows         # 50 million rows from Parquet files, some GB in --folder
    python -m bench.clusters peers        # beside LightGBM and XGBoost on the same workers
    python -m bench.clusters workers      # more and more workers of Dask
    python -m bench.clusters costs        # what a row costs, in time of the processor
    python -m bench.clusters at_once      # what rounds of several questions cost and save

Each tells what it finds as lines of JSON, and gives `bench/results/clusters_<what>.json`. Packages
of clusters are not among those of the other benches: `pip install -e ".[dask,spark,bench]"`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
from importlib import import_module
from typing import Any

from bench import runner

WHAT = ("rounds", "partitions", "rows", "peers", "workers", "costs", "at_once")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.clusters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=WHAT)
    for name, default in _settings(parser.parse_known_args()[0].what).items():
        many = {"nargs": "+", "type": type(default[0])} if isinstance(default, tuple) else {}
        parser.add_argument(
            f"--{name}",
            default=default,
            help=f"default {default}",
            **(many or {"type": type(default)}),
        )
    settings = vars(parser.parse_args())
    what, busy = settings.pop("what"), os.getloadavg()[0]
    found = []
    for one in import_module(f"bench.clusters.{what}").measure(**settings):
        one |= {"load": round(os.getloadavg()[0], 1)}
        print(json.dumps(one), flush=True)
        found.append(one)
    runner.write(f"clusters_{what}", settings | {"load_before": round(busy, 1)}, found)


def _settings(what: str) -> dict[str, Any]:
    """Return what a measurement takes, and what it is unless told."""
    taken = inspect.signature(import_module(f"bench.clusters.{what}").measure).parameters
    return {name: parameter.default for name, parameter in taken.items()}


if __name__ == "__main__":
    main()
