"""Entry points for frames of Dask and Spark, whose packages are imported with the first frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

from privboost.data.loading import Load
from privboost.data.table import RemoteTable
from privboost.engine.backend import Backend, OpenBackend, open_local

_TABLES = {
    "dask": "privboost.distributed.dask_backend",
    "pyspark": "privboost.distributed.spark_backend",
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


def open_backend_of(n_threads: int) -> OpenBackend:
    """Return a function that opens a cluster's backend for its tables, else a local one."""

    def open_backend(loads: Sequence[Load]) -> Backend:
        source = loads[-1].source
        if isinstance(source, RemoteTable):
            backend: Backend = source.open_backend(loads)
            return backend
        return open_local(loads, n_threads)

    return open_backend


def _package(data: Any) -> str:
    return type(data).__module__.split(".")[0]


def accepts_remote_frames(
    method: Callable[[Any, Any, bool, int | None], Any],
) -> Callable[..., Any]:
    """Let a model's method accept a cluster's frame too: lazily, partition by partition."""

    @wraps(method)
    def predict(model: Any, data: Any, return_std: bool = False, n_jobs: int | None = None) -> Any:
        if not is_remote(data):
            return method(model, data, return_std, n_jobs)
        if return_std:
            raise ValueError(
                "return_std: standard errors are not available for frames of a cluster"
            )
        return import_module(_TABLES[_package(data)]).map_rows(model, method.__name__, data)

    return predict
