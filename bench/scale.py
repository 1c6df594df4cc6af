"""A table of 50 million rows × 20 columns, streamed from Parquet: time and memory.

The file (some GB) is written once into the system's temporary folder. Memory should be the codes
(one byte a cell), five bytes a row for label and score, and one batch.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from bench import runner
from privboost import (
    BoostedAdaSSPClassifier,
    Domain,
    LazyBBClassifier,
    PrivBoostClassifier,
    SBDTClassifier,
)

COLUMNS = 20
RECIPES = {
    "flagship": (PrivBoostClassifier, {}),
    "trees": (SBDTClassifier, {"features": "uniform", "max_depth": 6}),
    "linear": (BoostedAdaSSPClassifier, {}),
    "votes": (LazyBBClassifier, {"density": 0.2}),
    "filter": (SBDTClassifier, {"features": "uniform", "max_depth": 6, "extra_estimators": 20}),
}


def domain() -> Domain:
    numbers = {f"x{k}": {"kind": "numeric", "bounds": [-4, 4]} for k in range(COLUMNS - 4)}
    words = {
        f"c{k}": {"kind": "categorical", "categories": ["a", "b", "c"], "missing": True}
        for k in range(4)
    }
    target = {"name": "y", "classes": [0, 1]}
    return Domain.from_dict({"version": 1, "features": numbers | words, "target": target})


def write_table(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    words = pa.array(["a", "b", "c", "d"])
    writer = None
    for start in range(0, rows, 2**20):
        n = min(2**20, rows - start)
        columns = {f"x{k}": rng.normal(size=n).astype(np.float32) for k in range(COLUMNS - 4)}
        score = columns["x0"] - columns["x1"]
        for k in range(4):
            columns[f"c{k}"] = pa.DictionaryArray.from_arrays(rng.integers(0, 4, n), words)
        columns["y"] = (score + rng.logistic(size=n) > 0).astype(np.int8)
        batch = pa.table(columns)
        writer = writer or pa.parquet.ParquetWriter(path, batch.schema, compression="NONE")
        writer.write_table(batch)
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--recipe", choices=RECIPES, default="flagship")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    path = Path(tempfile.gettempdir()) / f"privboost_scale_{options.rows}.parquet"
    if not path.exists():
        write_table(path, options.rows)
    kind, settings = RECIPES[options.recipe]
    model = kind(1.0, 1e-9, domain(), n_estimators=options.rounds, n_jobs=options.jobs, **settings)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    start = time.perf_counter()
    model.fit(path)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    codes = options.rows * (COLUMNS + 5)
    print(f"{options.rows:,} rows × {COLUMNS}, {options.rounds} rounds: {seconds:.1f} s")
    print(f"peak memory {peak / 1e9:.2f} GB, {before / 1e9:.2f} GB of it before the fit")
    print(f"codes, labels and scores alone: {codes / 1e9:.2f} GB")
    results = {"seconds": seconds, "peak_bytes": peak, "bytes_before": before, "codes": codes}
    runner.write(f"scale_{options.recipe}", vars(options), results)


if __name__ == "__main__":
    main()
