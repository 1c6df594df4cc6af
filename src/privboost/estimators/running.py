"""What parameters of every run mean: who holds the rows, where charges are recorded."""

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
    """Return a table, which may lie with a cluster; refuse one that cannot go where it is to."""
    table = open_remote(data)
    if isinstance(table, RemoteTable) and isinstance(backend, str) and backend == "cuda":
        raise CardError('rows that lie with a cluster stay there: leave backend="auto"')
    return table


def choose_backend(backend: Any, threads: int) -> OpenBackend:
    """Return who is to hold the rows."""
    if backend == "auto":
        return open_where_rows_lie(threads)
    if backend == "cuda":
        return open_cuda(threads)
    if callable(backend):
        opened: OpenBackend = backend
        return opened
    raise ValueError('backend must be "auto", "cuda" or a callable that takes loads of rows')


def ledger_path(ledger: Any) -> Path | None:
    """Return the file that charges are recorded in, if there is one."""
    if ledger is not None and not isinstance(ledger, str | Path):
        raise TypeError("ledger must be the path of a file, or None")
    if ledger is None:
        return None
    check_file("ledger", ledger)
    return Path(ledger)
