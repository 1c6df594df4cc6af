"""Which cluster holds a table's rows; no cluster's package is imported before one of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

from privboost.engine.backend import Backend, OpenBackend, open_local
from privboost.tables.loading import Load
from privboost.tables.remote import RemoteTable

_TABLES = {
    "dask": "privboost.clusters.dask_table",
    "pyspark": "privboost.clusters.spark_table",
}
"""By the package of a frame's type: the module whose `open_frame` makes a `RemoteTable` of it,
and whose `map_rows` predicts."""


def is_remote(data: Any) -> bool:
    """Whether a table's rows lie with a cluster."""
    return isinstance(data, RemoteTable) or _package(data) in _TABLES


def open_remote(data: Any) -> Any:
    """Return the remote table of a cluster's frame; anything else stays as it is."""
    if isinstance(data, RemoteTable) or not is_remote(data):
        return data
    return import_module(_TABLES[_package(data)]).open_frame(data)


def map_rows(model: Any, method: str, data: Any) -> Any:
    """Return what a model's method says of a cluster's rows: lazily, as a frame of the cluster."""
    return import_module(_TABLES[_package(data)]).map_rows(model, method, data)


def open_where_rows_lie(n_threads: int) -> OpenBackend:
    """Return what opens a backend: a cluster's for its own tables, else this machine's threads."""
    return partial(_open, n_threads=n_threads)


def _open(loads: Sequence[Load], n_threads: int) -> Backend:
    source = loads[-1].source
    if isinstance(source, RemoteTable):
        backend: Backend = source.open_backend(loads)
        return backend
    return open_local(loads, n_threads)


def _package(data: Any) -> str:
    return type(data).__module__.split(".")[0]
