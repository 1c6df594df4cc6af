"""Many rows from Parquet files through Dask on one machine: time and memory.

The files (2 GB for 50 million rows) are written into a folder of their own, and deleted after.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.clusters.memory import Peaks
from bench.clusters.places import dask_workers
from bench.clusters.tables import domain, part, write_parts
from bench.clusters.watching import fit
from privboost import PrivBoostClassifier, SBDTClassifier

FEW_ROWS = 2000


def measure(
    rows: int = 50_000_000,
    columns: int = 10,
    parts: int = 50,
    rounds: int = 20,
    workers: int = 2,
    memory: str = "5GiB",
    folder: str = "",
) -> Iterator[dict[str, Any]]:
    """Yield time and memory of each recipe; each has workers of its own, which remember nothing."""
    how = {"epsilon": 1.0, "delta": 1e-9, "domain": domain(columns), "n_estimators": rounds}
    with TemporaryDirectory(dir=folder or None) as made:
        start = time.perf_counter()
        files = write_parts(Path(made), rows, columns, parts)
        held = sum(file.stat().st_size for file in files.iterdir())
        yield {"who": "files", "seconds": round(time.perf_counter() - start, 1), "bytes": held}
        for who, kind, more in (
            ("PrivBoost", PrivBoostClassifier, {"interactions": False}),
            ("S-BDT", SBDTClassifier, {}),
        ):
            fit(kind, how | more, [part(FEW_ROWS, columns)])
            yield {"who": who} | _fit(kind, how | more, files, workers, memory)


def _fit(kind: Any, how: dict[str, Any], files: Path, workers: int, memory: str) -> dict[str, Any]:
    """Fit with workers that have no more than so much memory; scheduler and driver are one."""
    import dask.dataframe as dd

    with dask_workers(workers, memory) as client:
        pids = [os.getpid(), *client.run(os.getpid).values()]
        with Peaks(pids) as before:
            time.sleep(1)
        with Peaks(pids) as peaks:
            found = fit(kind, how, [dd.read_parquet(files)])
        driver, *others = peaks.each
        return found | {
            "driver_bytes": driver,
            "worker_bytes": others,
            "together_bytes": peaks.together,
            "bytes_before": before.each,
        }
