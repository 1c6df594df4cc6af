"""Threads on watch: each share is done once, by whoever is awake or asleep, and nobody stays."""

import faulthandler
import gc
import os
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from numba import TypingError

from privboost import crew, watch
from privboost.compiling import compiled
from privboost.engine import blocks
from privboost.engine.backend import LocalBackend
from privboost.engine.updates import Start
from privboost.watch import Watch, run_shares
from tests.engine.test_queries import CASES, queries, rows_for, updates
from tests.tables import NUMBER

CUTS = np.array([0, 20, 20, 70, 90, 91, 100])
"""Six shares, of which one is empty."""


@compiled
def _mark(first, last, number, values, times, who, sums):
    for i in range(first, last):
        times[i] += 1
        who[i] = number
        sums[number] += values[i]


@compiled
def mark(mail, cuts, task):
    return run_shares(mail, cuts, _mark, task)


@compiled
def _meet(first, last, number, here, sizes, done):
    """Wait until all shares are in somebody's hands, then ask for memory."""
    watch._store(here.ctypes.data + first * 8, 1)
    for share in range(here.size):
        while watch._load(here.ctypes.data + share * 8) == 0:
            watch._let_others()
    room = np.empty(sizes[number], dtype=np.int64)
    room[:1] = 1
    done[number] += room[:1].sum()


@compiled
def meet(mail, cuts, task):
    return run_shares(mail, cuts, _meet, task)


@compiled
def _cannot_be_compiled(first, last, number, sums):
    sums[number] = "none"


@compiled
def cannot_be_compiled(mail, cuts, task):
    return run_shares(mail, cuts, _cannot_be_compiled, task)


def need_once(own, cuts=CUTS, threads=4):
    """Have a round of `mark` done, and see that each share was done once, by one thread."""
    cuts = np.asarray(cuts)
    values, (times, who) = np.arange(cuts[-1]) ** 2, np.zeros((2, cuts[-1]), dtype=np.int64)
    sums = np.zeros(threads, dtype=np.int64)
    own.run(mark, cuts, (values, times, who, sums), threads)
    assert (times == 1).all()
    assert all(len(np.unique(who[first:last])) <= 1 for first, last in pairwise(cuts))
    np.testing.assert_array_equal(sums, np.bincount(who, values, threads))


def some_cuts(rng):
    return sorted([0, 100, *(rng.randrange(101) for _ in range(rng.randrange(9)))])


def meet_all(own, sizes, done):
    """Have each of some threads do one share, for which it asks for so much memory."""
    here, cuts = np.zeros(len(sizes), dtype=np.int64), np.arange(len(sizes) + 1)
    own.run(meet, cuts, (here, np.array(sizes), done), len(sizes))


def on_watch():
    return {each for each in threading.enumerate() if each.name == "privboost"}


def all_gone(threads):
    for thread in threads:
        thread.join(120)
    return not any(thread.is_alive() for thread in threads)


def word(own, number, place):
    """Read what stands in a mailbox, or before all of them."""
    box = own._mail - own._room.ctypes.data + number * watch._LINE + place
    return own._room[box : box + watch._WORD].view(np.int64)[0]


def all_asleep(own):
    """Wait until all threads sleep; nobody may be wanted then."""
    until, numbers = time.monotonic() + 120, range(1, len(own._queues) + 1)
    while not all(word(own, number, watch._ASLEEP) for number in numbers):
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return word(own, 0, watch._WANTED) == watch._NOBODY


@pytest.fixture(autouse=True)
def _no_waiting_for_good(capfd):
    """Who waits in compiled code cannot be interrupted: rather no process than one without end."""
    with capfd.disabled():
        terminal = os.dup(2)
    faulthandler.dump_traceback_later(600, exit=True, file=terminal)
    yield
    faulthandler.cancel_dump_traceback_later()
    os.close(terminal)


@pytest.fixture
def four():
    with_four = Watch(4)
    yield with_four
    with_four.close()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("cuts", [[0, 9], [0, 4, 9], [0, 0, 9, 9], [0, 0, 0, 0, 0], CUTS])
def test_all_shares_are_done_once_and_in_their_places(four, cuts, threads):
    need_once(four, cuts, threads)
    need_once(four, cuts, threads)


def test_all_work_at_once(four):
    for threads in (4, 2, 3):
        done = np.zeros(threads, dtype=np.int64)
        meet_all(four, [1] * threads, done)
        assert done.tolist() == [1] * threads


def test_what_is_not_compiled_is_done_share_after_share():
    times, who, sums = np.zeros((3, 100), dtype=np.int64)
    assert run_shares(0, CUTS, _mark.py_func, (np.arange(100), times, who, sums)) == 0
    assert (times == 1).all()
    assert sums[0] == 4950


def test_nobody_is_made_for_one_share_or_one_thread(four):
    before = on_watch()
    need_once(four, [0, 100])
    need_once(four, [0, 0])
    need_once(four, CUTS, threads=1)
    assert not on_watch() - before
    need_once(four, [0, 50, 100])
    assert len(on_watch() - before) == 1


def test_threads_that_went_to_sleep_are_woken(four):
    for cuts in (CUTS, CUTS[:3], [0, 10], CUTS):
        need_once(four, cuts)
        assert all_asleep(four)
    meet_all(four, [1] * 4, np.zeros(4, dtype=np.int64))


def test_rounds_may_come_when_threads_fall_asleep(four):
    rng = Random(0)
    for _ in range(300):
        need_once(four, some_cuts(rng), rng.randrange(1, 5))
        time.sleep(rng.choice([0, 0, rng.random() * 0.01]))


def test_two_callers_can_share_a_watch(four):
    failed = []

    def call(seed):
        rng = Random(seed)
        try:
            for _ in range(300):
                need_once(four, some_cuts(rng), rng.randrange(1, 5))
        except BaseException as error:
            failed.append(error)

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(2)]
    for caller in callers:
        caller.start()
    assert all_gone(callers)
    assert failed == []


@pytest.mark.parametrize("thread", [0, 1, 3])
@pytest.mark.parametrize("size", [2**45, 2**60, -1])
def test_a_thread_that_has_not_the_memory_is_told_of(four, thread, size):
    done = np.zeros(4, dtype=np.int64)
    with pytest.raises(MemoryError, match="share of a round"):
        meet_all(four, [size if number == thread else 5 for number in range(4)], done)
    assert done.tolist() == [int(number != thread) for number in range(4)]
    need_once(four)
    meet_all(four, [5] * 4, done)  # what failed once is not remembered
    assert done.sum() == 7


def test_a_caller_alone_that_has_not_the_memory_is_told_of(four):
    with pytest.raises(MemoryError, match="share of a round"):
        meet_all(four, [2**45], np.zeros(1, dtype=np.int64))


def test_a_kernel_that_cannot_be_compiled_leaves_nobody_awake(four):
    need_once(four)
    with pytest.raises(TypingError):
        four.run(cannot_be_compiled, CUTS, (np.zeros(4, dtype=np.int64),), 4)
    assert all_asleep(four)
    need_once(four)


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("asleep", [False, True])
def test_an_interruption_between_wanting_and_working_leaves_nobody_awake(four, asleep):
    need_once(four)
    assert not asleep or all_asleep(four)
    with pytest.raises(KeyboardInterrupt):
        four.run(interrupt, CUTS, (), 4)
    assert all_asleep(four)
    need_once(four)


class _Interrupted:
    """A queue whose thread is woken just before an interruption."""

    def __init__(self, queue):
        self._queue = queue

    def put(self, word):
        self._queue.put(word)
        interrupt()


def test_an_interruption_while_threads_are_woken_leaves_nobody_awake(four):
    need_once(four)
    assert all_asleep(four)
    queues, four._queues[1] = list(four._queues), _Interrupted(four._queues[1])
    with pytest.raises(KeyboardInterrupt):
        four.run(mark, CUTS, (), 4)
    four._queues[:] = queues
    assert all_asleep(four)
    for _ in range(3):
        need_once(four)


def test_an_interruption_before_anybody_is_wanted_changes_nothing(four, monkeypatch):
    need_once(four)
    with monkeypatch.context() as patch:
        patch.setattr(watch, "_want", interrupt)
        with pytest.raises(KeyboardInterrupt):
            four.run(mark, CUTS, (), 4)
    assert all_asleep(four)
    need_once(four)


@pytest.mark.parametrize("asleep", [False, True])
@pytest.mark.parametrize("closed", [False, True])
def test_threads_leave_soon_after_close_and_with_their_watch(asleep, closed):
    before, own = on_watch(), Watch(3)
    need_once(own, threads=3)
    assert not asleep or all_asleep(own)
    made = on_watch() - before
    assert len(made) == 2
    if closed:
        own.close()
    else:
        del own
        gc.collect()
    assert all_gone(made)


def test_who_looks_into_a_mailbox_keeps_it():
    before, others = on_watch(), []
    for _ in range(50):
        own = Watch(3)
        need_once(own, threads=3)
        size = own._room.size
        del own
        others += [np.full(size, 7, dtype=np.uint8) for _ in range(5)]  # where there is room now
    assert all_gone(on_watch() - before)
    assert (np.array(others) == 7).all()


def test_a_watch_that_was_closed_begins_anew(four):
    for _ in range(30):
        need_once(four)
        four.close()


def test_closing_waits_for_whoever_is_at_work():
    own, ended = Watch(3), []

    def go():
        while not ended:
            need_once(own, threads=3)

    caller = threading.Thread(target=go)
    caller.start()
    for _ in range(50):
        time.sleep(0.001)
        own.close()
    ended.append(None)
    caller.join(300)
    assert not caller.is_alive()
    own.close()


class CannotStand:
    """A thread of Python that fails before it is in compiled code."""

    def compile(self, kinds):
        pass

    def __call__(self, mail, number):
        raise OSError("no space left on device")


def test_a_thread_that_cannot_stand_watch_is_heard_of(four, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(watch, "_stand_watch", CannotStand())
        for _ in range(3):
            with pytest.raises(MemoryError):
                need_once(four)
    time.sleep(0.1)  # until they have seen that nobody waits for them
    need_once(four)


_FORKED = """
import os
from privboost.watch import Watch
from tests.test_watch import need_once
own = Watch(3)
need_once(own, threads=3)
if child := os.fork():
    print(os.waitpid(child, 0)[1])
else:
    need_once(own, threads=3)
    os._exit(0)
"""


def test_a_forked_process_makes_threads_of_its_own():
    how = {
        "capture_output": True,
        "text": True,
        "timeout": 100,
        "cwd": Path(__file__).parent.parent,
    }
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", _FORKED], **how)
    assert (ended.returncode, ended.stdout) == (0, "0\n"), ended.stderr


def test_watches_do_not_disturb_each_other():
    watches = [Watch(3) for _ in range(3)]
    for _ in range(50):
        for own in watches:
            need_once(own, threads=3)
    for own in watches:
        own.close()


@pytest.mark.parametrize("large", [1, 2**15])
@pytest.mark.parametrize(("target", "loss", "n_outputs", "weighted"), CASES)
def test_sums_of_several_threads_equal_those_of_one(
    monkeypatch, target, loss, n_outputs, weighted, large
):
    monkeypatch.setattr(crew, "COMPILED_LOOK_UPS", 1)
    monkeypatch.setattr(blocks, "_LARGE", large)
    encoder, rows = rows_for(target, weighted)
    one, two, many = (LocalBackend(rows, threads) for threads in (1, 2, 9))
    for update in [Start(loss, n_outputs), *updates(encoder.layout, loss, n_outputs)]:
        for backend in (one, two, many):
            backend.apply(update)
    for query in queries(encoder.layout, n_outputs, 1 if target is NUMBER else 2):
        expected = one.sum(query)
        for backend in (two, many):
            np.testing.assert_array_equal(backend.sum(query), expected)
    assert len(many._crew._watch._queues) > len(two._crew._watch._queues) > 0
    for backend in (one, two, many):
        backend.close()


_PROCESS = """
from privboost.watch import Watch
from tests.test_watch import need_once
own = Watch(4)
for _ in range(100):
    need_once(own)
print("done")
"""


def test_another_process_finds_what_was_compiled_and_ends_while_threads_stand_watch(four):
    need_once(four)
    how = {"capture_output": True, "text": True, "timeout": 100}
    folder = Path(__file__).parent.parent
    ended = subprocess.run([sys.executable, "-c", _PROCESS], cwd=folder, **how)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")
