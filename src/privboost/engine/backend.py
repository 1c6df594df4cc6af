"""Who executes queries: the protocol, and the backend of one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import reduce
from typing import Any, Protocol

import numpy as np

from privboost.engine.block import Block
from privboost.engine.commands import LinearQuery, Query, Update
from privboost.engine.shard import Shard


class Backend(Protocol):
    """Holds the rows of one fit. Only a mechanism of `privacy` may call `sum`."""

    def sum(self, query: Query | LinearQuery) -> np.ndarray:
        """Return the exact int64 sums over all rows."""

    def apply(self, update: Update) -> None:
        """Tell every shard what has been released."""

    def close(self) -> None:
        """Let go of the rows."""


class OpenBackend(Protocol):
    """Makes a backend that holds the given rows: what an estimator's `backend` parameter is."""

    def __call__(self, blocks: Sequence[Block]) -> Backend:
        """Take the rows."""


class LocalBackend:
    """One shard for each thread, on this machine. The answers do not depend on the threads.

    Parameters
    ----------
    blocks : sequence of Block
        The rows.
    n_threads : int
        How many threads work at once.
    """

    def __init__(self, blocks: Sequence[Block], n_threads: int = 1) -> None:
        self._shards = [Shard(blocks[k::n_threads]) for k in range(n_threads)]
        self._pool = ThreadPoolExecutor(n_threads - 1) if n_threads > 1 else None

    def sum(self, query: Query | LinearQuery) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        answers = self._all(lambda shard: shard.sum(query))
        return add_answers(answers)

    def apply(self, update: Update) -> None:
        """Tell every shard what has been released."""
        self._all(lambda shard: shard.apply(update))

    def _all(self, act: Callable[[Shard], Any]) -> list[Any]:
        """Have every shard act, the first in this thread."""
        if self._pool is None:
            return [act(self._shards[0])]
        others = [self._pool.submit(act, shard) for shard in self._shards[1:]]
        try:
            first = act(self._shards[0])
        finally:
            wait(others)  # nobody is left at work, whatever failed
        return [first, *(other.result() for other in others)]

    def close(self) -> None:
        """Let go of the rows and the threads."""
        self._shards = []
        if self._pool is not None:
            self._pool.shutdown()


class RecordingBackend:
    """Passes everything on, and keeps the updates: with them and the rows, the state comes back."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.log: list[Update] = []

    def sum(self, query: Query | LinearQuery) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        return self._backend.sum(query)

    def apply(self, update: Update) -> None:
        """Tell every shard what has been released."""
        self._backend.apply(update)
        self.log.append(update)

    def close(self) -> None:
        """Let go of the rows."""
        self._backend.close()


def add_answers(answers: Iterable[np.ndarray]) -> np.ndarray:
    """Add the integer answers of several shards."""
    return reduce(np.add, answers)
