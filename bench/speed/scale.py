"""A table of many rows × 20 columns, streamed from Parquet: time and memory.

The file (some GB for 50 million rows) is written once into the system's temporary folder. Memory
should be the codes (one byte a value), five bytes a row for label and score, and one batch. Each
recipe has a process of its own, so that one's memory is not counted as the next one's.
"""

from __future__ import annotations

import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import privboost
from bench.speed.clock import Timing
from privboost import Domain

COLUMNS = 20
_TREES = {"features": "uniform", "max_depth": 6}
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "PrivBoost": ("PrivBoostClassifier", {"n_estimators": 100}),
    "S-BDT": ("SBDTClassifier", _TREES | {"n_estimators": 100}),
    "S-BDT, filter": ("SBDTClassifier", _TREES | {"n_estimators": 80, "extra_estimators": 20}),
    "BoostedAdaSSP": ("BoostedAdaSSPClassifier", {"n_estimators": 25}),
    "LazyBB": ("LazyBBClassifier", {"n_estimators": 25, "density": 0.2}),
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


def measure(rows: int, threads: int) -> list[Timing]:
    """Return the time and memory of each recipe on so many rows."""
    path = Path(tempfile.gettempdir()) / f"privboost_scale_{rows}.parquet"
    if not path.exists():
        write_table(path, rows)
    case, codes = f"{rows:,} rows × {COLUMNS} from Parquet", rows * (COLUMNS + 5)
    print(f"{case}; codes, labels and scores alone: {codes / 1e9:.2f} GB", flush=True)
    timings = []
    for who in RECIPES:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = pool.submit(_fit, who, path, threads).result()
        print(f"  {who:16} {found['seconds']:8.1f} s, peak {found['peak_bytes'] / 1e9:.2f} GB")
        timings.append({"case": case, "who": who, "threads": threads, "codes": codes} | found)
    return timings


def _fit(who: str, path: Path, threads: int) -> dict[str, float]:
    name, how = RECIPES[who]
    model = getattr(privboost, name)(1.0, 1e-9, domain(), n_jobs=threads, **how)
    before = _memory()
    start = time.perf_counter()
    model.fit(path)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_bytes": _memory(), "bytes_before": before}


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
