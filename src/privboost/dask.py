"""Dask frames of files that only one worker each can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import pandas as pd
import pyarrow.parquet as pq

from privboost._core.errors import ClusterError
from privboost.distributed.dask_backend import DaskCluster, LostError


def from_worker_files(
    files: Mapping[str, Sequence[str | Path]], columns: Sequence[str] | None = None
) -> Any:
    """Return a Dask frame of Parquet files, each of which only one worker can read.

    For files that every worker can read, use `dask.dataframe.read_parquet`.

    Parameters
    ----------
    files : mapping from str to sequence of paths
        From a worker's address (a key of `client.scheduler_info()["workers"]`) to its own files.
        Each file is a partition; the rows of the table are in this order.
    columns : sequence of str, optional
        The columns that are read; by default all of the first file.

    Returns
    -------
    dask.dataframe.DataFrame

    Raises
    ------
    ClusterError
        If there is no such worker. If one is lost later, a fit that needs its files again raises
        this error, too.

    Notes
    -----
    Workers start to read at once, and keep the rows as long as the frame exists.
    """
    cluster = DaskCluster.active()
    places = [(address, str(path)) for address, own in files.items() for path in own]
    if not places:
        raise ValueError("files: at least one file is needed")
    for address in files:
        if address not in cluster.threads():
            raise ClusterError(f"there is no worker at {address}")
    wanted = None if columns is None else list(columns)

    def submit(act: Any, address: str, path: str) -> Any:
        return cluster.client.submit(
            act, path, wanted, workers=[address], allow_other_workers=False, pure=False
        )

    try:
        empty = cluster.wait(submit(read_schema, *places[0]), wanted or ())
    except LostError:
        raise ClusterError("a worker was lost while it read its files") from None
    return dd.from_delayed([submit(read_rows, *place) for place in places], meta=empty)


def read_schema(path: str, columns: Sequence[str] | None) -> pd.DataFrame:
    """Return a file's columns without rows."""
    empty: pd.DataFrame = pq.read_schema(path).empty_table().to_pandas()
    return empty if columns is None else empty[list(columns)]


def read_rows(path: str, columns: Sequence[str] | None) -> pd.DataFrame:
    """Read a file."""
    return pd.read_parquet(path, columns=columns)
