"""Threads that work together on one machine: how many pay, and how they are woken."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

import joblib
import numpy as np

from privboost.watch import Watch

_T = TypeVar("_T")
_S = TypeVar("_S")

LOOK_UPS, COMPILED_LOOK_UPS = 150_000, 20_000
"""So many look-ups are worth one thread, four times as many are worth two, and so on: the more
threads there are, the more of them wait for the last one, and the longer it takes to wake all. What
is compiled as a whole is handed out sooner than what threads do by Python."""

_Task = tuple[Callable[[], None], "SimpleQueue[None]"]


def count_threads(n_jobs: Any) -> int:
    """Return how many threads `n_jobs` allows: at most one for each core of this process."""
    cores = _cores()
    if n_jobs is None:
        return cores
    if not isinstance(n_jobs, int | np.integer) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError("n_jobs must be a whole number other than 0, or None")
    return min(int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs)), cores)


def _cores() -> int:
    """Return how many cores this process may use, in a container with a quota as well."""
    return int(joblib.cpu_count())


class Crew:
    """Some threads that wait for work. They are made when they are first needed.

    No kernel that they call may use threads of numba's own, whose simplest kind ends the process
    when two threads call it.

    Parameters
    ----------
    most : int
        How many threads may work at once, the caller's among them.
    """

    def __init__(self, most: int = 1) -> None:
        self.most = most
        self._queues: list[SimpleQueue[_Task | None]] = []
        self._watch = Watch(most)
        weakref.finalize(self, _dismiss, self._queues)

    def size_for(self, look_ups: float) -> int:
        """Return how many threads pay for so many look-ups, at most as many as there may be."""
        return self._size(look_ups / LOOK_UPS)

    def compiled_size_for(self, look_ups: float) -> int:
        """The same for what is compiled as a whole."""
        return self._size(look_ups / COMPILED_LOOK_UPS)

    def _size(self, worth: float) -> int:
        return min(self.most, max(1, round(math.sqrt(worth))))

    def run(
        self, act: Callable[..., int], cuts: np.ndarray, task: tuple[Any, ...], threads: int
    ) -> None:
        """Have all shares of some compiled work done; see `watch.Watch.run`."""
        self._watch.run(act, cuts, task, threads)

    def do(self, acts: Sequence[Callable[[], _T]]) -> list[_T]:
        """Do everything at once, the first here, and return what came of each.

        Whatever fails, nobody is left at work.
        """
        if len(acts) == 1:
            return [acts[0]()]
        found: dict[int, _T] = {}
        failed: list[BaseException] = []
        ended: list[None] = []
        signal: SimpleQueue[None] = SimpleQueue()

        def do_one(number: int) -> None:
            try:
                found[number] = acts[number]()
            except BaseException as error:
                failed.append(error)

        def do_there(number: int) -> None:
            do_one(number)
            ended.append(None)

        try:
            for number in range(1, len(acts)):
                self._queue(number - 1).put((partial(do_there, number), signal))
            do_one(0)
            while len(ended) < len(acts) - 1:  # a signal follows each end, so that none is missed
                signal.get()
        except BaseException as error:  # an interruption: it must wait for whoever was woken
            failed.append(error)
            failed.extend(self._come_to_rest())
        if failed:
            raise failed[0]
        return [found[number] for number in range(len(acts))]

    def share_out(self, things: Iterator[_S], act: Callable[[_S], _T], threads: int) -> list[_T]:
        """Do something with each of many things, each thread with the next; in their order."""
        if threads == 1:
            return [act(thing) for thing in things]
        numbered, lock = enumerate(things), Lock()
        found: dict[int, _T] = {}
        failed: list[None] = []

        def work() -> None:
            try:
                while not failed:
                    with lock:
                        number, thing = next(numbered, (-1, None))
                    if number < 0:
                        return
                    found[number] = act(thing)  # type: ignore[arg-type]
            except BaseException:
                failed.append(None)
                raise

        self.do([work] * threads)
        return [found[number] for number in range(len(found))]

    def _come_to_rest(self) -> list[BaseException]:
        """Wait until all threads have done what they were told; return what interrupted that."""
        interruptions: list[BaseException] = []
        while True:
            try:
                signal: SimpleQueue[None] = SimpleQueue()
                for queue in self._queues:
                    queue.put((_do_nothing, signal))
                for _ in self._queues:
                    signal.get()
                return interruptions
            except BaseException as error:
                interruptions.append(error)

    def close(self) -> None:
        """Let the threads go."""
        self._watch.close()
        _dismiss(self._queues)
        self._queues.clear()

    def _queue(self, number: int) -> SimpleQueue[_Task | None]:
        """Return by which queue a thread is told what to do."""
        while len(self._queues) <= number:
            queue: SimpleQueue[_Task | None] = SimpleQueue()
            try:
                Thread(target=_serve, args=(queue,), name="privboost", daemon=True).start()
                self._queues.append(queue)
            except BaseException:  # an interruption: nobody knows of the thread
                queue.put(None)
                raise
        return self._queues[number]


def _serve(queue: SimpleQueue[_Task | None]) -> None:
    """Do what a queue says until it says nothing more."""
    while (task := queue.get()) is not None:
        act, signal = task
        act()
        del task, act  # a thread that waits must not hold rows
        signal.put(None)


def _do_nothing() -> None:
    """Come after everything that was to be done before."""


def _dismiss(queues: list[SimpleQueue[_Task | None]]) -> None:
    for queue in queues:
        queue.put(None)
