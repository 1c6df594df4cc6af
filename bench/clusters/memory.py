"""How much memory processes come to hold: looked at many times a second."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import psutil

EVERY = 0.1


class Peaks:
    """While it is open, the most memory that each process, and all together, held at a look.

    Parameters
    ----------
    pids : sequence of int
        The processes.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._processes = [psutil.Process(pid) for pid in pids]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.each = [0] * len(pids)
        self.together = 0

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(EVERY):
            now = [process.memory_info().rss for process in self._processes]
            self.each = [max(pair) for pair in zip(self.each, now, strict=True)]
            self.together = max(self.together, sum(now))
