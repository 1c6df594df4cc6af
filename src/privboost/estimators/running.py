"""Parameters of every run: the table, the backend and the ledger's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privboost.boosting.checks import check_file
from privboost.clusters.recognition import open_remote, open_where_rows_lie
from privboost.cuda.backend import open_cuda
from privboost.engine.backend import OpenBackend
from privboost.errors import CardError
from privboost.tables.remote import RemoteTable


def open_table(data: Any, backend: Any) -> Any:
    """Return a table, perhaps one of a cluster; refuse a backend that it cannot use."""
    table = open_remote(data)
    if isinstance(table, RemoteTable) and isinstance(backend, str) and backend == "cuda":
        raise CardError('rows of a cluster stay there: leave backend="auto"')
    return table


def choose_backend(backend: Any, threads: int) -> OpenBackend:
    """Return the function that opens a backend on loads of rows."""
    if backend == "auto":
        return open_where_rows_lie(threads)
    if backend == "cuda":
        return open_cuda(threads)
    if callable(backend):
        opened: OpenBackend = backend
        return opened
    raise ValueError('backend must be "auto", "cuda" or a callable that takes loads of rows')


def ledger_path(ledger: Any) -> Path | None:
    """Return the path of the ledger's file, or None."""
    if ledger is not None and not isinstance(ledger, str | Path):
        raise TypeError("ledger must be the path of a file, or None")
    if ledger is None:
        return None
    check_file("ledger", ledger)
    return Path(ledger)
