"""Threads on watch: they look for compiled work by themselves, without Python's lock.

A thread that waits for Python's lock is woken by whoever gives it back, one thread after the other:
for sixteen threads that takes as long as a round on a million rows. Here a compiled function hands
shares of its work to threads that are in compiled code already and look at their mailboxes, which
takes some microseconds. Who has found nothing for some milliseconds goes to sleep, and is woken by
Python once.
"""

from __future__ import annotations

import os
import platform
import time
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from privboost.compiling import compiled

_WORD, _LINE = 8, 128
"""Bytes of a number in a mailbox, and of a mailbox: two never share what processors fetch."""
_TICKET, _DONE, _ASLEEP, _FAILED, _FUNCTION, _CUTS, _SHARES, _TASK = range(0, 8 * _WORD, _WORD)
"""Where the numbers of a mailbox lie: how often its thread was asked to help and how often it has,
whether it sleeps, how many shares failed the last time; what to call, where shares begin, how many
there are, and the task."""
_WANTED, _HELPERS, _EDITION_AT, _NEXT = 0, _WORD, 2 * _WORD, 8 * _WORD
"""What stands before the mailboxes: whether threads are wanted, how many, by which edition of this
file they look, and the next share."""
_EDITION = zlib.crc32(Path(__file__).read_bytes())
"""numba keeps functions that were compiled with those of this file, and does not see it change."""
_NOBODY, _SOME, _OVER = 0, 1, -1
"""Whether threads are wanted, or may leave for good."""
_LOOKS = 64
_PATIENCE = 1500
"""How often a thread looks before it lets others have its core, and how often it does that before
it goes to sleep: some milliseconds, more than most recipes think between two rounds."""
_PAUSES = dict.fromkeys(("x86_64", "amd64"), "llvm.x86.sse2.pause")
"""How processors are told that a thread waits: who shares a core with it is as fast as alone."""

_NO_MEMORY = "a thread had not the memory for its share of a round"

_I64 = ir.IntType(64)
_SHARE = ir.FunctionType(ir.IntType(32), [_I64] * 4)
"""A function of a share: where it begins and ends, its number, and where the task lies."""


def run_shares(mail: int, cuts: np.ndarray, kernel: Any, task: tuple[Any, ...]) -> int:
    """Have a kernel work on shares, each from one cut to the next; for kernels.

    Threads take one share after the other, so that whoever is slow takes fewer.

    Parameters
    ----------
    mail : int
        Where the mailboxes of a `Watch` lie; 0 if nobody helps.
    cuts : int64 array
        Where shares begin, and where the last ends.
    kernel : compiled function
        Takes where a share begins and ends, the number of the thread that works on it, and all of
        the task. The thread may come again with another share.
    task : tuple
        What all shares have in common.

    Returns
    -------
    int
        How many failed, for want of memory.
    """
    for number in range(len(cuts) - 1):
        kernel(cuts[number], cuts[number + 1], 0, *task)
    return 0


@overload(run_shares)
def _run_shares(mail, cuts, kernel, task):
    def run(mail, cuts, kernel, task):
        return _hand_out(mail, cuts, _function_of(kernel, task), _address_of(task))

    return run


def _place(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _I64.as_pointer())


@intrinsic
def _load(typing_context, address):
    """Read a number that other threads write; all see such reads and writes in one order."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_place(builder, arguments[0]), "seq_cst", _WORD)

    return types.int64(types.int64), generate


@intrinsic
def _store(typing_context, address, value):
    """Write such a number."""

    def generate(context, builder, signature, arguments):
        address, value = arguments
        builder.store_atomic(value, _place(builder, address), "seq_cst", _WORD)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), generate


@intrinsic
def _add_one(typing_context, address):
    """Add 1 to such a number, and return what it was."""

    def generate(context, builder, signature, arguments):
        place = _place(builder, arguments[0])
        return builder.atomic_rmw("add", place, _I64(1), "seq_cst")

    return types.int64(types.int64), generate


@intrinsic
def _address_of(typing_context, task):
    """Keep a task until the caller returns, and tell where."""

    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(cgutils.alloca_once_value(builder, arguments[0]), _I64)

    return types.int64(task), generate


@intrinsic
def _function_of(typing_context, kernel, task):
    """Compile a kernel for such tasks, and return where a function lies that calls it."""

    def generate(context, builder, signature, arguments):
        share = types.int64, types.int64, types.int64
        found = kernel.dispatcher.get_compile_result(types.none(*share, *task.types))
        context.active_code_library.add_linking_library(found.library)
        name = builder.module.get_unique_name("share")
        function = ir.Function(builder.module, _SHARE, name=name)
        function.linkage = "internal"
        inside = ir.IRBuilder(function.append_basic_block())
        *numbers, address = function.args
        kind = context.get_value_type(task)
        values = inside.load(inside.inttoptr(address, kind.as_pointer()))
        handed = [inside.extract_value(values, k) for k in range(len(task.types))]
        status, _ = context.call_internal_no_propagate(
            inside, found.fndesc, found.signature, [*numbers, *handed]
        )
        inside.ret(inside.zext(status.is_error, ir.IntType(32)))
        return builder.ptrtoint(function, _I64)

    return types.int64(kernel, task), generate


@intrinsic
def _call(typing_context, function, first, last, number, task):
    """Work on a share; 1 if that failed."""

    def generate(context, builder, signature, arguments):
        function, *share = arguments
        failed = builder.call(builder.inttoptr(function, _SHARE.as_pointer()), share)
        return builder.zext(failed, _I64)

    return types.int64(*[types.int64] * 5), generate


@intrinsic
def _pause(typing_context):
    """Wait for some nanoseconds, and leave the core to whoever shares it."""

    def generate(context, builder, signature, arguments):
        name = _PAUSES.get(platform.machine().lower())
        if name is not None:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.none(), generate


if hasattr(os, "sched_yield"):
    _let_others = types.ExternalFunction("sched_yield", types.int32())
else:

    @compiled
    def _let_others():
        """Go on: this system has no word for it."""


@compiled
def _take_shares(mail, function, cuts, shares, number, task):
    """Work on shares that nobody has taken, until there are none; return how many failed."""
    failed, share = 0, _add_one(mail + _NEXT)
    while share < shares:
        place = cuts + share * _WORD
        failed += _call(function, _load(place), _load(place + _WORD), number, task)
        share = _add_one(mail + _NEXT)
    return failed


@compiled
def _hand_out(mail, cuts, function, task):
    """Ask helpers to take shares, take some as well, and wait.

    Return how many failed; −1 if mailboxes are those of another edition of this file.
    """
    if mail == 0:
        return _call(function, cuts[0], cuts[-1], 0, task)
    if _load(mail + _EDITION_AT) != _EDITION:
        return -1
    shares, begin, helpers = cuts.size - 1, cuts.ctypes.data, _load(mail + _HELPERS)
    _store(mail + _NEXT, 0)
    for number in range(1, helpers + 1):
        box = mail + number * _LINE
        _store(box + _FUNCTION, function)
        _store(box + _CUTS, begin)
        _store(box + _SHARES, shares)
        _store(box + _TASK, task)
        _store(box + _TICKET, _load(box + _TICKET) + 1)
    failed = _take_shares(mail, function, begin, shares, 0, task)
    for number in range(1, helpers + 1):
        box = mail + number * _LINE
        while _load(box + _DONE) != _load(box + _TICKET):
            for _ in range(_LOOKS):
                if _load(box + _DONE) == _load(box + _TICKET):
                    break
                _pause()
            else:
                _let_others()
        failed += _load(box + _FAILED)
    return failed


@compiled
def _stand_watch(mail, number):
    """Look into a mailbox, and do what is asked for, until there has been nothing for a while.

    A caller who wants threads says so before looking who sleeps, and a thread looks again whether
    it is wanted after it has said that it sleeps: whoever is not seen sleeping stays to the end.
    """
    box = mail + number * _LINE
    _store(box + _ASLEEP, 0)
    done, idle = _load(box + _DONE), 0
    while True:
        ticket = _load(box + _TICKET)
        for _ in range(_LOOKS):
            if ticket != done:
                break
            _pause()
            ticket = _load(box + _TICKET)
        if ticket != done:
            shares = _load(box + _CUTS), _load(box + _SHARES)
            function, task = _load(box + _FUNCTION), _load(box + _TASK)
            _store(box + _FAILED, _take_shares(mail, function, *shares, number, task))
            done, idle = ticket, 0
            _store(box + _DONE, done)
            continue
        _let_others()
        idle += 1
        if idle > _PATIENCE or _load(mail + _WANTED) == _OVER:
            _store(box + _ASLEEP, 1)
            if _load(mail + _WANTED) != _SOME and _load(box + _TICKET) == done:
                return
            _store(box + _ASLEEP, 0)
            idle = 0


@compiled
def _want(mail, count, asleep):
    """Say that so many threads are wanted, and find out who sleeps."""
    _store(mail + _HELPERS, count)
    _store(mail + _WANTED, _SOME)
    for number in range(1, count + 1):
        asleep[number - 1] = _load(mail + number * _LINE + _ASLEEP)


@compiled
def _say(mail, word):
    """Say whether threads are wanted."""
    _store(mail + _WANTED, word)


class Watch:
    """Some threads that look for shares of compiled work. They are made when first needed.

    Parameters
    ----------
    most : int
        How many threads may work at once, the caller's among them.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._make_ready()

    def _make_ready(self) -> None:
        """Begin without threads, and with mailboxes that nobody looks into."""
        self._process = os.getpid()
        self._queues: list[SimpleQueue[bool]] = []
        self._room = np.zeros(_LINE * (self._most + 1), dtype=np.uint8)
        self._mail = -(-self._room.ctypes.data // _LINE) * _LINE
        self._asleep = np.zeros(self._most, dtype=np.int64)
        self._box(0)[_EDITION_AT // _WORD] = _EDITION
        self._dismissal = weakref.finalize(self, _dismiss, self._queues, self._room, self._mail)

    def _box(self, number: int) -> np.ndarray:
        """Return the numbers of a mailbox, or those before all of them."""
        first = number * _LINE + self._mail - self._room.ctypes.data
        box: np.ndarray = self._room[first : first + _LINE].view(np.int64)
        return box

    def run(
        self, act: Callable[..., int], cuts: np.ndarray, task: tuple[Any, ...], threads: int
    ) -> None:
        """Have all shares of some work done.

        Parameters
        ----------
        act : compiled function
            Takes mail, cuts and a task, and calls `run_shares` with them.
        cuts, task
            See `run_shares`.
        threads : int
            How many may work, the caller's among them.
        """
        cuts = np.ascontiguousarray(cuts, dtype=np.int64)
        helpers = min(threads, len(cuts) - 1, self._most) - 1
        alone = helpers < 1 or config.DISABLE_JIT  # type: ignore[attr-defined]
        failed = -1 if alone else self._run(act, cuts, task, helpers)
        if failed < 0:
            run_alone(act, cuts, task)
        elif failed:
            raise MemoryError(_NO_MEMORY)

    def _run(
        self, act: Callable[..., int], cuts: np.ndarray, task: tuple[Any, ...], helpers: int
    ) -> int:
        if os.getpid() != self._process:  # a fork: its threads are the other process's
            self._dismissal.detach()
            self._lock = Lock()
            self._make_ready()
        with self._lock:
            while len(self._queues) < helpers:
                self._begin()
            try:
                _want(self._mail, helpers, self._asleep)
                for number in np.flatnonzero(self._asleep[:helpers]):
                    self._queues[number].put(True)
                return act(self._mail, cuts, task)  # from here to its end nothing can interrupt
            finally:
                _say(self._mail, _NOBODY)

    def _begin(self) -> None:
        """Make one more thread; it sleeps."""
        _compile_all()
        number, queue = len(self._queues) + 1, SimpleQueue[bool]()
        box = self._box(number)
        box[_ASLEEP // _WORD] = 1
        how = (queue, box, self._box(0), self._mail, number)
        try:
            Thread(target=_serve, args=how, name="privboost", daemon=True).start()
            self._queues.append(queue)
        except BaseException:  # an interruption: nobody knows of the thread
            queue.put(False)
            raise

    def close(self) -> None:
        """Let the threads go, when what they work on is done."""
        with self._lock:
            self._dismissal()
            self._make_ready()


def run_alone(act: Callable[..., int], cuts: np.ndarray, task: tuple[Any, ...]) -> None:
    """Have all shares of some work done by the caller's thread; see `Watch.run`."""
    if act(0, cuts, task):
        raise MemoryError(_NO_MEMORY)


def _compile_all() -> None:
    """Compile what threads on watch need, before any of them is waited for."""
    mail = types.int64
    _want.compile((mail, types.int64, types.int64[::1]))
    _say.compile((mail, types.int64))
    _stand_watch.compile((mail, types.int64))


def _serve(
    queue: SimpleQueue[bool], box: np.ndarray, before: np.ndarray, mail: int, number: int
) -> None:
    """Stand watch whenever a queue says so, until it says that it is over.

    Mailboxes are there as long as somebody looks into them.
    """
    while queue.get():
        try:
            _stand_watch(mail, number)
        except BaseException:
            _give_up(box, before)


def _give_up(box: np.ndarray, before: np.ndarray) -> None:
    """Say that a thread sleeps, and that its shares failed, as long as somebody waits for them."""
    while True:
        box[_ASLEEP // _WORD] = 1
        if before[_WANTED // _WORD] != _SOME:
            return
        box[_FAILED // _WORD] = 1
        box[_DONE // _WORD] = box[_TICKET // _WORD]
        time.sleep(0.001)


def _dismiss(queues: list[SimpleQueue[bool]], room: np.ndarray, mail: int) -> None:
    """Let threads go; those on watch leave at once."""
    if queues:
        _say(mail, _OVER)
    for queue in queues:
        queue.put(False)
