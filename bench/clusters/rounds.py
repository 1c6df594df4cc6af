"""What a round costs beyond its rows: a small table here, with Dask, and with Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench.clusters.places import dask_workers, spark_session
from bench.clusters.tables import domain, part, write_parts
from bench.clusters.watching import fit
from privboost import PrivBoostClassifier

THREADS = 2
EMPTY_JOBS = 20
FEW = {"n_estimators": 5, "interactions": False}
SPARK: dict[str, dict[str, str]] = {
    "Spark": {},
    "Spark, Unix sockets": {"spark.python.unix.domain.socket.enabled": "true"},
}


def measure(
    rows: int = 2000, columns: int = 10, parts: int = 4, turns: int = 2
) -> Iterator[dict[str, Any]]:
    """Yield the times of each place, a fit with its defaults in each turn."""
    how = {"epsilon": 1.0, "delta": 1e-6, "domain": domain(columns)}
    own = partial(fit, PrivBoostClassifier, how)
    own([part(rows, columns)], THREADS)  # processes load their compiled code, here and below
    yield from _turns("2 threads", partial(own, [part(rows, columns)], THREADS), turns)
    with TemporaryDirectory() as folder:
        files = write_parts(Path(folder), rows, columns, parts)
        with dask_workers(THREADS):
            import dask.dataframe as dd

            own([dd.read_parquet(files)])
            yield from _turns("Dask", partial(own, [dd.read_parquet(files)]), turns)
        for where, settings in SPARK.items():
            with spark_session(THREADS, **settings) as spark:
                frame = spark.read.parquet(str(files)).repartition(parts).persist()
                empty = partial(_empty_jobs, spark, parts)
                yield from _turns(f"{where}, empty jobs", empty, turns)
                fit(PrivBoostClassifier, how | FEW, [frame])
                yield from _turns(where, partial(own, [frame]), turns)


def _turns(where: str, act: Callable[[], dict[str, Any]], turns: int) -> Iterator[dict[str, Any]]:
    for turn in range(turns):
        yield {"where": where, "turn": turn} | act()


def _empty_jobs(spark: Any, parts: int) -> dict[str, float]:
    """Return what Spark needs to have Python do nothing in each partition."""
    nothing = spark.sparkContext.parallelize(range(parts), parts).mapPartitions(list)
    took = []
    for _ in range(EMPTY_JOBS):
        start = time.perf_counter()
        nothing.collect()
        took.append(time.perf_counter() - start)
    return {"round_ms": round(1e3 * median(took), 3), "least_ms": round(1e3 * min(took), 3)}
