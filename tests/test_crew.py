"""Threads that work together: none is left behind, none is woken in vain."""

import gc
import threading
import time

import numpy as np
import pytest

from privboost import crew
from privboost.crew import Crew, count_threads
from tests.identity import fit
from tests.tables import THREE, make_frame


def of_crews():
    return [each for each in threading.enumerate() if each.name == "privboost"]


def all_gone():
    for thread in of_crews():
        thread.join(10)
    return not of_crews()


@pytest.fixture
def three():
    with_three = Crew(3)
    yield with_three
    with_three.close()


def test_all_work_at_once_and_answers_have_their_order(three):
    meeting = threading.Barrier(3)
    assert three.do([lambda k=k: (meeting.wait(300), k)[1] for k in range(3)]) == [0, 1, 2]
    assert three.share_out(iter(range(50)), lambda k: k * k, 3) == [k * k for k in range(50)]
    assert three.share_out(iter(()), lambda k: k, 3) == []


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


def test_whoever_was_woken_is_waited_for_also_when_waking_is_interrupted(three, monkeypatch):
    real, done = three._queue, []

    def queue(number):
        if number == 1:
            raise KeyboardInterrupt
        return real(number)

    def act():
        time.sleep(0.05)
        done.append(1)

    monkeypatch.setattr(three, "_queue", queue)
    with pytest.raises(KeyboardInterrupt):
        three.do([act] * 3)
    assert done == [1]


def test_nobody_takes_more_once_something_failed(three):
    taken = []

    def act(k):
        taken.append(k)
        time.sleep(0.01)
        if k == 1:
            raise KeyError("planted")

    with pytest.raises(KeyError, match="planted"):
        three.share_out(iter(range(1000)), act, 3)
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
    own = Crew(4)
    own.do([lambda: 1])
    assert set(of_crews()) == before
    own.do([lambda: 1] * 3)
    made = set(of_crews()) - before
    assert len(made) == 2
    del own
    gc.collect()
    for thread in made:
        thread.join(10)
        assert not thread.is_alive()


def test_small_work_wakes_nobody_and_large_work_all():
    assert [Crew(8).size_for(n * crew.LOOK_UPS) for n in (0, 1, 4, 16, 1e6)] == [1, 1, 2, 4, 8]


def test_jobs_are_an_upper_bound(monkeypatch):
    monkeypatch.setattr(crew, "_cores", lambda: 4)
    assert [count_threads(n) for n in (None, 1, 3, 99, -1, -2, -99)] == [4, 1, 3, 4, 4, 3, 1]
    for wrong in (0, True, 1.5, "2"):
        with pytest.raises(ValueError, match="n_jobs"):
            count_threads(wrong)


@pytest.mark.usefixtures("eager_threads")
def test_predictions_do_not_depend_on_threads(tmp_path):
    frame = make_frame(3000, target=THREE)
    model = fit(THREE, False, frame.iloc[:500]).model_
    frame.to_csv(tmp_path / "t.csv", index=False)
    expected = model.predict_proba(frame, n_jobs=1)
    for table in (frame, tmp_path / "t.csv"):
        np.testing.assert_array_equal(model.predict_proba(table, n_jobs=3), expected)
    assert len(model.predict(frame.iloc[:0], n_jobs=3)) == 0
    assert all_gone()


@pytest.mark.usefixtures("eager_threads")
def test_a_fit_lets_its_threads_go():
    fit(THREE, False, make_frame(500, target=THREE))
    assert all_gone()
