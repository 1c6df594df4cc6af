"""Threads: how many to use, a pool for Python functions, and numba's threads for kernels.

The blocks of a kernel are divided into contiguous shares. A `prange` loop starts threads, and each
takes one share after the other, so that a thread that starts late or is slow takes fewer. Which
library runs the loop is numba's choice (TBB where the package `tbb` is installed, else OpenMP, else
numba's own work queue); sums are exact integers, so results do not depend on who takes what.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import joblib
import numba
import numpy as np
from numba import prange, types
from numba.extending import intrinsic

from privboost._core.compilation import compiled, looped

_T = TypeVar("_T")
_S = TypeVar("_S")

LOOK_UPS, COMPILED_LOOK_UPS = 150_000, 20_000
"""Table look-ups that are worth one thread, in Python functions and in kernels; four times as many
are worth two threads, and so on, because starting threads and waiting for the last one takes longer
the more there are."""
FEW_ROWS = 2**16
"""Kernels work on fewer rows in one thread."""
_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Environment variables that set how OpenMP's idle threads wait."""
_SHORT_SPIN = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "40000"}

_start_lock, _launch_lock = Lock(), Lock()
_is_forked = False


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


class Kernel(NamedTuple):
    """A compiled function of a range of blocks, and a parallel loop that calls it for shares.

    Attributes
    ----------
    serial : compiled function
        Takes the first block, the one after the last, the number of the thread, and the arguments.
        A thread calls it several times.
    parallel : compiled function
        Takes where shares begin (and the last ends), an int64 array with the number of the next
        share, a bool array in which each thread that is done is marked, and the tuple of the
        arguments.
    """

    serial: Callable[..., None]
    parallel: Callable[..., None]


KERNELS: list[Kernel] = []
"""All kernels of the modules that have been imported."""


def _make_take(typing_context, counter):  # type: ignore[no-untyped-def]
    """Return the first number of an int64 array, and add 1 to it in the same instant."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        one = context.get_constant(types.int64, 1)
        return builder.atomic_rmw("add", array.data, one, "monotonic")

    return types.int64(counter), generate


_take: Any = intrinsic(_make_take)


def kernel(function: Callable[..., None]) -> Kernel:
    """Compile a function of a range of blocks, with a loop that runs shares of them in threads.

    The loop alone is compiled with `parallel=True`, which takes long, and only where it is needed.
    """
    serial = compiled(function)

    def run_all(cuts, counter, done, arguments):  # type: ignore[no-untyped-def]
        for thread in prange(done.size):
            share = _take(counter)
            while share < cuts.size - 1:
                serial(cuts[share], cuts[share + 1], np.int64(thread), *arguments)
                share = _take(counter)
            done[thread] = True

    # Names of functions become symbols of machine code, which must differ from each other.
    run_all.__name__ = run_all.__qualname__ = f"{function.__name__}_in_shares"
    run_all.__module__ = function.__module__
    KERNELS.append(Kernel(serial, looped(run_all)))
    return KERNELS[-1]


def compile_loops() -> None:
    """Compile the parallel loop of each kernel for the argument types it has been called with."""
    words, marks = types.int64[::1], types.boolean[::1]
    for serial, parallel in KERNELS:
        for _, _, _, *arguments in serial.signatures:  # type: ignore[attr-defined]
            task = types.Tuple(arguments)  # type: ignore[no-untyped-call]
            parallel.compile((words, words, marks, task))  # type: ignore[attr-defined]


def run_serially(kernel: Kernel, first: int, last: int, arguments: tuple[Any, ...]) -> None:
    """Run a kernel on a range of blocks in the caller's thread."""
    kernel.serial(first, last, 0, *_flatten(arguments))


def run_shares(
    kernel: Kernel, cuts: np.ndarray, arguments: tuple[Any, ...], threads: int | None = None
) -> None:
    """Run a kernel on shares of its blocks, in several threads.

    Several Python threads may call this at once. A forked process works in one thread, because GNU
    OpenMP cannot be used there once the parent process has used it.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    cuts : int64 array
        The first block of each share, and the block after the last.
    arguments : tuple
        The kernel's further arguments; tuples among them are passed element by element.
    threads : int, optional
        The number of threads; by default one for each share.
    """
    threads = len(cuts) - 1 if threads is None else threads
    if threads <= 1 or len(cuts) <= 2 or _is_forked or numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        run_serially(kernel, int(cuts[0]), int(cuts[-1]), arguments)
        return
    done, counter = np.zeros(threads, dtype=np.bool_), np.zeros(1, dtype=np.int64)
    wanted = min(threads, numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    with _loaded_layer():
        before = numba.get_num_threads()
        if wanted != before:
            numba.set_num_threads(wanted)
        try:
            kernel.parallel(cuts, counter, done, _flatten(arguments))
        except SystemError:  # how numba reports an error in the caller's own thread
            pass
        finally:
            if wanted != before:
                numba.set_num_threads(before)
    if not done.all():  # numba drops errors of other threads
        raise MemoryError("a thread could not allocate the memory for its share of the rows")


@cache
def _loaded_layer() -> AbstractContextManager[Any]:
    """Load numba's threading layer once, and return a context in which it may be called.

    OpenMP reads how idle threads wait from the environment when its library is loaded. Idle threads
    should spin some microseconds, which the next kernel often takes to come, and then sleep:
    spinning on slows down other work on the same cores. An application that sets one of the
    variables itself, or has loaded the library before, keeps its own choice.
    """
    with _start_lock:
        ours = not any(name in os.environ for name in _WAITING)
        if ours:
            os.environ |= _SHORT_SPIN
        try:
            numba.get_num_threads()
        finally:
            if ours:
                for name in _SHORT_SPIN:
                    del os.environ[name]
    # The work queue is the one layer that two threads must not enter at once.
    layer = numba.threading_layer()  # type: ignore[attr-defined]
    return _launch_lock if layer == "workqueue" else nullcontext()


def _flatten(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments without nested tuples, which `prange` loops cannot take."""
    flat: list[Any] = []
    for each in arguments:
        if isinstance(each, tuple):
            flat.extend(_flatten(each))
        else:
            flat.append(each)
    return tuple(flat)


def _note_fork() -> None:
    global _is_forked
    _is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


class ThreadPool:
    """A pool of threads for Python functions. Threads start when they are first needed.

    Parameters
    ----------
    most : int
        How many threads may work at once, including the caller's.
    """

    def __init__(self, most: int = 1) -> None:
        self.most = most
        self._executor: ThreadPoolExecutor | None = None

    def size_for(self, look_ups: float) -> int:
        """Return how many threads are worth starting for Python functions with so many look-ups."""
        return self._size(look_ups / LOOK_UPS)

    def compiled_size_for(self, look_ups: float, rows: int) -> int:
        """Return how many threads are worth starting for a kernel with look-ups for each row.

        On few rows one thread is as fast, and the loops for several need not be compiled.
        """
        return 1 if rows < FEW_ROWS else self._size(look_ups * rows / COMPILED_LOOK_UPS)

    def _size(self, worth: float) -> int:
        return min(self.most, max(1, round(math.sqrt(worth))))

    def do(self, acts: Sequence[Callable[[], _T]]) -> list[_T]:
        """Call functions at once, the first in the caller's thread, and return their results.

        No function is still running when this returns or raises, interruptions included.
        """
        first, *others = acts
        if not others:
            return [first()]
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max(1, self.most - 1), "privboost")
        futures: list[Future[_T]] = []
        try:
            for act in others:
                futures.append(self._executor.submit(act))
            result = first()
        finally:
            _wait_for_all(futures)
        return [result, *(future.result() for future in futures)]

    def map_in_order(self, things: Iterator[_S], act: Callable[[_S], _T], threads: int) -> list[_T]:
        """Call a function with each item of an iterator, in so many threads; results in order.

        Each thread takes the next item; none takes another one after a failure.
        """
        if threads == 1:
            return [act(thing) for thing in things]
        numbered, lock = enumerate(things), Lock()
        found: dict[int, _T] = {}
        failed: list[None] = []

        def work() -> None:
            try:
                while not failed:
                    with lock:
                        item = next(numbered, None)
                    if item is None:
                        return
                    found[item[0]] = act(item[1])
            except BaseException:
                failed.append(None)
                raise

        self.do([work] * threads)
        return [found[number] for number in range(len(found))]

    def close(self) -> None:
        """End the threads."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None


def _wait_for_all(futures: Sequence[Future[Any]]) -> None:
    """Wait until all have ended, also after an interruption, which is raised then."""
    try:
        wait(futures)
    except BaseException:
        _wait_for_all(futures)
        raise
