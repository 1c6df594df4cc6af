"""What partitions cost: one table in more and more of them, with Dask and with Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.clusters.places import dask_workers, spark_session
from bench.clusters.tables import domain, write_parts
from bench.clusters.watching import fit
from privboost import PrivBoostClassifier

WORKERS = 2


def measure(
    rows: int = 200_000,
    columns: int = 10,
    rounds: int = 20,
    parts: tuple[int, ...] = (2, 4, 8, 16, 64),
    many: int = 4_000_000,
) -> Iterator[dict[str, Any]]:
    """Yield times by the number of partitions; at last those of many rows in few of them."""
    how = {"epsilon": 1.0, "delta": 1e-9, "domain": domain(columns)}
    how |= {"n_estimators": rounds, "interactions": False}
    sizes = [*((rows, count) for count in parts), (many, WORKERS * 2)]
    with TemporaryDirectory() as folder:
        files = [
            write_parts(Path(folder) / f"{size}-{count}", size, columns, count)
            for size, count in sizes
        ]
        with dask_workers(WORKERS):
            import dask.dataframe as dd

            yield from _fits("Dask", how, sizes, [dd.read_parquet(path) for path in files])
        one_file_each = {"spark.sql.files.openCostInBytes": str(2**30)}
        with spark_session(WORKERS, **one_file_each) as spark:
            frames = [spark.read.parquet(str(path)) for path in files]
            yield from _fits("Spark", how, sizes, frames)


def _fits(
    where: str, how: dict[str, Any], sizes: Sequence[tuple[int, int]], frames: Sequence[Any]
) -> Iterator[dict[str, Any]]:
    fit(PrivBoostClassifier, how, [frames[0]])  # processes load their compiled code
    for (rows, count), frame in zip(sizes, frames, strict=True):
        found = fit(PrivBoostClassifier, how, [frame])
        yield {"where": where, "rows": rows, "parts": count} | found
