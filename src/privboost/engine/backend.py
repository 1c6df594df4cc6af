"""Backends: the protocol of objects that hold the rows of a fit, and the local one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Protocol

import numpy as np

from privboost._core.threads import ThreadPool
from privboost.data.loading import Load, load_rows
from privboost.data.rows import Rows
from privboost.engine.queries import Query
from privboost.engine.shard import Shard
from privboost.engine.updates import Update


class Backend(Protocol):
    """Holds the rows of one fit and their scores. Only the curator may call `sum`."""

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over all rows."""

    def apply(self, update: Update) -> None:
        """Have every shard follow an update."""

    def tally(self) -> dict[bytes, int]:
        """Return the count of rows of each text, under the number of its column and a space.

        For the curator's threshold alone; a backend that cannot add counts refuses.
        """

    def close(self) -> None:
        """Release the rows."""


class OpenBackend(Protocol):
    """Opens a backend: the type of an estimator's `backend` parameter.

    Rows are loaded where they are stored: each partition of a source runs the loader by itself.
    Rows of one protected unit may be in several partitions; the backend then joins them by the
    unit's canonical name (`Loader.name_units`) before their number is bounded, and leaves out units
    of an earlier load. A backend that can do neither must refuse loaders with a unit.
    """

    def __call__(self, loads: Sequence[Load]) -> Backend:
        """Load the rows."""


class LocalBackend:
    """One CPU shard, with as many threads as are worth their start; sums do not depend on them.

    Parameters
    ----------
    blocks : sequence of Rows
        The rows.
    n_threads : int
        The largest number of threads.
    """

    def __init__(self, blocks: Sequence[Rows], n_threads: int = 1) -> None:
        self._pool = ThreadPool(n_threads)
        self._shard: Shard | None = Shard(blocks, self._pool)

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        return self._held().sum(query)

    def apply(self, update: Update) -> None:
        """Have the shard follow an update."""
        self._held().apply(update)

    def tally(self) -> dict[bytes, int]:
        """Return the count of rows of each text."""
        return self._held().tally()

    def close(self) -> None:
        """Release the rows and the threads."""
        self._shard = None
        self._pool.close()

    def _held(self) -> Shard:
        if self._shard is None:
            raise RuntimeError("the backend is closed")
        return self._shard


def open_local(loads: Sequence[Load], n_threads: int = 1) -> LocalBackend:
    """Load rows, with as many threads as will work on them."""
    loaded = load_rows(loads, n_threads)
    return LocalBackend([block for each in loaded for block in each.blocks], n_threads)


class RecordingBackend:
    """Forwards all calls and logs the updates, which restore the scores of the same rows."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.log: list[Update] = []

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        return self._backend.sum(query)

    def apply(self, update: Update) -> None:
        """Have every shard follow an update, and log it."""
        self._backend.apply(update)
        self.log.append(update)

    def tally(self) -> dict[bytes, int]:
        """Return the count of rows of each text."""
        return self._backend.tally()

    def close(self) -> None:
        """Release the rows."""
        self._backend.close()


def add_sums(answers: Iterable[np.ndarray]) -> np.ndarray:
    """Add the integer sums of several shards."""
    return reduce(np.add, answers)


def add_tallies(tallies: Iterable[dict[bytes, int]]) -> dict[bytes, int]:
    """Add the counts of several shards."""
    total: Counter[bytes] = Counter()
    for tally in tallies:
        total.update(tally)
    return dict(total)
