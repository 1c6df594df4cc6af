"""Clusters on this machine: Dask's workers as processes, Spark in local mode."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SPARK = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@contextmanager
def dask_workers(workers: int, memory: str | int = 0) -> Iterator[Any]:
    """Start so many workers of one thread; yield their client."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=memory,
            dashboard_address=None,
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def spark_session(cores: int, **settings: str) -> Iterator[Any]:
    """Start Spark with so many tasks at once; yield the session."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]").config(map=SPARK | settings)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
