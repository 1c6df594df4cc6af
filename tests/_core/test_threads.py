"""Threads: none is left running, results do not depend on them, and processes may fork."""

import gc
import os
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import TypingError

from privboost._core import compilation, threads
from privboost._core.threads import ThreadPool, count_threads, kernel, run_serially, run_shares
from privboost.engine import blocks
from privboost.engine.backend import LocalBackend
from privboost.engine.updates import Start
from tests import fits
from tests.engine.test_queries import CASES, queries, rows_for, updates
from tests.tables import NUMBER, THREE, make_frame

CUTS = np.array([0, 20, 20, 70, 90, 91, 100])
"""Six shares, of which one is empty."""


@kernel
def mark(first, last, number, values, times, who, sums):
    for i in range(first, last):
        times[i] += 1
        who[i] = number
        sums[number] += values[i]


@kernel
def allocate(first, last, number, sizes, done):
    room = np.empty(sizes[first], dtype=np.int64)
    room[:1] = 1
    done[first] += room[:1].sum()


@kernel
def cannot_be_compiled(first, last, number, sums):
    sums[number] = "none"


def run_once(cuts=CUTS):
    """Run `mark`, and check that each share was processed once, under its number."""
    cuts = np.asarray(cuts)
    values, (times, who) = np.arange(cuts[-1]) ** 2, np.zeros((2, cuts[-1]), dtype=np.int64)
    sums = np.zeros(len(cuts) - 1, dtype=np.int64)
    run_shares(mark, cuts, (values, (times, who), sums))
    assert (times == 1).all()
    assert all(len(np.unique(who[first:last])) <= 1 for first, last in pairwise(cuts))
    np.testing.assert_array_equal(sums, np.bincount(who, values, len(sums)))


def in_process(code, **environment):
    """Run code in a process of its own; it must print "done"."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | {"NUMBA_NUM_THREADS": "4"} | environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


def of_crews():
    return [each for each in threading.enumerate() if each.name.startswith("privboost")]


def all_gone():
    for thread in of_crews():
        thread.join(10)
    return not of_crews()


@pytest.fixture
def three():
    with_three = ThreadPool(3)
    yield with_three
    with_three.close()


def test_all_work_at_once_and_answers_have_their_order(three):
    meeting = threading.Barrier(3)
    assert three.do([lambda k=k: (meeting.wait(300), k)[1] for k in range(3)]) == [0, 1, 2]
    assert three.map_in_order(iter(range(50)), lambda k: k * k, 3) == [k * k for k in range(50)]
    assert three.map_in_order(iter(()), lambda k: k, 3) == []


@pytest.mark.parametrize("fails", [0, 2])
def test_whatever_fails_nobody_is_left_at_work(three, fails):
    done = []

    def act(k):
        if k == fails:
            raise KeyError("planted")
        time.sleep(0.05)
        done.append(k)

    with pytest.raises(KeyError, match="planted"):
        three.do([lambda k=k: act(k) for k in range(3)])
    assert len(done) == 2
    assert three.do([lambda: 1] * 3) == [1, 1, 1]


def test_an_interruption_waits_for_running_threads(three, monkeypatch):
    real, done, interrupted = threads.wait, [], []

    def wait(futures):
        if len(interrupted) < 2:
            interrupted.append(1)
            raise KeyboardInterrupt
        return real(futures)

    def act():
        time.sleep(0.05)
        done.append(1)

    monkeypatch.setattr(threads, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        three.do([act] * 3)
    assert done == [1] * 3


def test_nobody_takes_more_once_something_failed(three):
    taken = []

    def act(k):
        taken.append(k)
        time.sleep(0.01)
        if k == 1:
            raise KeyError("planted")

    with pytest.raises(KeyError, match="planted"):
        three.map_in_order(iter(range(1000)), act, 3)
    assert len(taken) < 1000  # which would take seconds


def test_two_callers_can_share_a_crew(three):
    found = {}

    def call(name):
        found[name] = [three.do([lambda k=k: (name, k) for k in range(3)]) for _ in range(50)]

    callers = [threading.Thread(target=call, args=(name,)) for name in "ab"]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(300)
    for name in "ab":
        assert found[name] == [[(name, k) for k in range(3)]] * 50


def test_threads_are_made_when_they_are_needed_and_end_with_their_crew():
    before = set(of_crews())
    own = ThreadPool(4)
    own.do([lambda: 1])
    assert set(of_crews()) == before
    own.do([lambda: 1] * 3)
    made = set(of_crews()) - before
    assert 1 <= len(made) <= 2
    del own
    gc.collect()
    for thread in made:
        thread.join(10)
        assert not thread.is_alive()


def test_small_work_wakes_nobody_and_large_work_all():
    assert [ThreadPool(8).size_for(n * threads.LOOK_UPS) for n in (0, 1, 4, 16, 1e6)] == [
        1,
        1,
        2,
        4,
        8,
    ]


def test_jobs_are_an_upper_bound(monkeypatch):
    monkeypatch.setattr(threads, "_cores", lambda: 4)
    assert [count_threads(n) for n in (None, 1, 3, 99, -1, -2, -99)] == [4, 1, 3, 4, 4, 3, 1]
    for wrong in (0, True, 1.5, "2"):
        with pytest.raises(ValueError, match="n_jobs"):
            count_threads(wrong)


@pytest.mark.usefixtures("eager_threads")
def test_predictions_do_not_depend_on_threads(tmp_path):
    frame = make_frame(3000, target=THREE)
    model = fits.ALL["privboost, three classes"](frame.iloc[:500]).model_
    frame.to_csv(tmp_path / "t.csv", index=False)
    expected = model.predict_proba(frame, n_jobs=1)
    for table in (frame, tmp_path / "t.csv"):
        np.testing.assert_array_equal(model.predict_proba(table, n_jobs=3), expected)
    assert len(model.predict(frame.iloc[:0], n_jobs=3)) == 0
    assert all_gone()


@pytest.mark.usefixtures("eager_threads")
def test_a_fit_lets_its_threads_go():
    fits.ALL["privboost, three classes"](make_frame(500, target=THREE))
    assert all_gone()


@pytest.mark.parametrize("cuts", [[0, 9], [0, 4, 9], [0, 0, 9, 9], [0, 0, 0, 0, 0], CUTS])
def test_each_share_is_processed_once(cuts):
    before = numba.get_num_threads()
    run_once(cuts)
    run_once(cuts)
    assert numba.get_num_threads() == before


def test_more_shares_than_threads_are_processed():
    run_once(np.arange(200))


def test_a_serial_run_is_share_0():
    times, who, sums = np.zeros((3, 100), dtype=np.int64)
    run_serially(mark, 0, 100, (np.arange(100), times, who, sums))
    assert (times == 1).all()
    assert sums[0] == 4950


def test_few_rows_are_processed_in_one_thread():
    assert ThreadPool(8).compiled_size_for(100, threads.FEW_ROWS - 1) == 1
    assert ThreadPool(8).compiled_size_for(100, threads.FEW_ROWS) == 8


@pytest.mark.parametrize("share", [0, 1, 3])
@pytest.mark.parametrize("size", [2**45, 2**60])
def test_a_share_without_memory_is_reported(share, size):
    done = np.zeros(4, dtype=np.int64)
    sizes = np.array([size if number == share else 5 for number in range(4)])
    with pytest.raises(MemoryError, match="share of the rows"):
        run_shares(allocate, np.arange(5), (sizes, done))
    assert done[share] == 0
    run_once()


def test_threads_take_one_share_after_the_other():
    cuts = np.arange(0, 1001, 10)
    times, who, sums = np.zeros((3, 1000), dtype=np.int64)
    run_shares(mark, cuts, (np.arange(1000), times, who, sums), 3)
    assert (times == 1).all()
    assert who.max() < 3
    np.testing.assert_array_equal(sums[:3], np.bincount(who, np.arange(1000), 3))


def test_a_kernel_that_cannot_be_compiled_changes_nothing():
    before = numba.get_num_threads()
    with pytest.raises(TypingError):
        run_shares(cannot_be_compiled, CUTS, (np.zeros(6, dtype=np.int64),))
    assert numba.get_num_threads() == before
    run_once()


_FORK = """
import os
from tests._core.test_threads import run_once
{before}
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    run_once()
    print("done")
else:
    run_once()
    os._exit(0)
"""


@pytest.mark.parametrize("layer", ["omp", "workqueue"])
@pytest.mark.parametrize("before", ["run_once()", ""])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_can_work(layer, before):
    in_process(_FORK.format(before=before), NUMBA_THREADING_LAYER=layer)


_TWO_CALLERS = """
import threading
from tests._core.test_threads import run_once
failed = []
def call():
    try:
        for _ in range(300):
            run_once()
    except BaseException as error:
        failed.append(error)
callers = [threading.Thread(target=call) for _ in range(2)]
for caller in callers:
    caller.start()
for caller in callers:
    caller.join()
print(*failed or ["done"])
"""


@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_two_python_threads_can_run_kernels_at_once(layer):
    in_process(_TWO_CALLERS, NUMBA_THREADING_LAYER=layer)


_WAITING = """
import os
from tests._core.test_threads import run_once
run_once()
assert os.environ.get("OMP_WAIT_POLICY") == {kept!r}
print("done")
"""


@pytest.mark.parametrize("own", [{}, {"OMP_WAIT_POLICY": "active"}])
def test_the_environment_is_left_as_it_was(own):
    in_process(_WAITING.format(kept=own.get("OMP_WAIT_POLICY")), **own)


@pytest.mark.parametrize("large", [1, 2**15])
@pytest.mark.parametrize(("target", "loss", "n_outputs", "weighted"), CASES)
def test_sums_of_several_threads_equal_those_of_one(
    monkeypatch, target, loss, n_outputs, weighted, large
):
    monkeypatch.setattr(threads, "COMPILED_LOOK_UPS", 1)
    monkeypatch.setattr(threads, "FEW_ROWS", 1)
    monkeypatch.setattr(blocks, "_LARGE", large)
    encoder, rows = rows_for(target, weighted)
    one, two, many = (LocalBackend(rows, count) for count in (1, 2, 9))
    for update in [Start(loss, n_outputs), *updates(encoder.layout, loss, n_outputs)]:
        for backend in (one, two, many):
            backend.apply(update)
    for query in queries(encoder.layout, n_outputs, 1 if target is NUMBER else 2):
        expected = one.sum(query)
        for backend in (two, many):
            np.testing.assert_array_equal(backend.sum(query), expected)
    for backend in (one, two, many):
        backend.close()


def test_damaged_cache_files_are_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setattr(compilation, "cache_folders", lambda: [tmp_path])

    def make():
        return compilation.compiled(_twice)

    assert make()(21) == 42
    (kept,) = tmp_path.glob("*.nbc")
    whole = kept.read_bytes()
    for damaged in (b"", whole[:100], b"cprivboost\nno_such_name\n."):
        kept.write_bytes(damaged)
        assert make()(21) == 42
        assert kept.read_bytes() != damaged


def _twice(number):
    return 2 * number
