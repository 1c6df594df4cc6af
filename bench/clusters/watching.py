"""What a fit does with its backend: how long rows took to load, and how long each round."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from privboost.data.loading import Load
from privboost.distributed.frames import open_backend_of
from privboost.engine.backend import Backend


@dataclass
class Watch:
    """Opens the backend of a fit, and passes everything on to it.

    Attributes
    ----------
    threads : int
        Of a table on this machine.
    clock : callable
        What tells seconds.
    loading : float
        Seconds until the rows were there.
    rounds : list of float
        Seconds of each question, and of what rows were told after it.
    """

    threads: int = 1
    clock: Callable[[], float] = time.perf_counter
    loading: float = 0.0
    rounds: list[float] = field(default_factory=list)
    _backend: Any = None

    def __call__(self, loads: Sequence[Load]) -> Backend:
        """Take the rows."""
        start = self.clock()
        self._backend = open_backend_of(self.threads)(loads)
        self.loading = self.clock() - start
        return self

    def sum(self, query: Any) -> Any:
        """Pass a question on."""
        start = self.clock()
        answer = self._backend.sum(query)
        self.rounds.append(self.clock() - start)
        return answer

    def apply(self, update: Any) -> None:
        """Pass an update on: it belongs to the round before."""
        start = self.clock()
        self._backend.apply(update)
        if self.rounds:
            self.rounds[-1] += self.clock() - start

    def tally(self) -> dict[bytes, int]:
        """Pass the question of texts on."""
        found: dict[bytes, int] = self._backend.tally()
        return found

    def close(self) -> None:
        """Pass it on."""
        self._backend.close()


def fit(
    kind: Any,
    how: dict[str, Any],
    table: Sequence[Any],
    threads: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Fit an estimator to a table; return the seconds of all and of loading, and a round's ms.

    A round is the median of all but the first, in which processes load their compiled code.
    """
    watch = Watch(threads, clock)
    start = clock()
    kind(backend=watch, **how).fit(*table)
    seconds = clock() - start
    later = watch.rounds[1:]
    return {
        "seconds": round(seconds, 3),
        "loading": round(watch.loading, 3),
        "rounds": len(watch.rounds),
        "round_ms": round(1e3 * median(later), 3),
        "least_ms": round(1e3 * min(later), 3),
        "all_rounds": round(sum(watch.rounds), 3),
    }
