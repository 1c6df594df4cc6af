"""Recognition of Dask and Spark frames; their packages are imported with the first frame."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

from privboost.engine.backend import Backend, OpenBackend, open_local
from privboost.tables.loading import Load
from privboost.tables.remote import RemoteTable

_TABLES = {
    "dask": "privboost.clusters.dask_backend",
    "pyspark": "privboost.clusters.spark_backend",
}
"""By the package of a frame's type: the module whose `open_frame` returns a `RemoteTable`, and
whose `map_rows` predicts."""


def is_remote(data: Any) -> bool:
    """Whether a table's rows are stored by a cluster."""
    return isinstance(data, RemoteTable) or _package(data) in _TABLES


def open_remote(data: Any) -> Any:
    """Return the remote table of a cluster's frame; return anything else unchanged."""
    if isinstance(data, RemoteTable) or not is_remote(data):
        return data
    return import_module(_TABLES[_package(data)]).open_frame(data)


def map_rows(model: Any, method: str, data: Any) -> Any:
    """Apply a model's method to a cluster's rows: lazily, as a frame of the cluster."""
    return import_module(_TABLES[_package(data)]).map_rows(model, method, data)


def open_where_rows_lie(n_threads: int) -> OpenBackend:
    """Return a function that opens a cluster's backend for its tables, else a local one."""
    return partial(_open, n_threads=n_threads)


def _open(loads: Sequence[Load], n_threads: int) -> Backend:
    source = loads[-1].source
    if isinstance(source, RemoteTable):
        backend: Backend = source.open_backend(loads)
        return backend
    return open_local(loads, n_threads)


def _package(data: Any) -> str:
    return type(data).__module__.split(".")[0]
