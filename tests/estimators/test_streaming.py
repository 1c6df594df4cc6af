"""Streams: rows that come in batches, each with a budget for life."""

import copy
import os
import pickle
import stat
import threading
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from privboost import BudgetError, ModelFileError, SBDTClassifier, SBDTRegressor, load_model
from privboost._core.errors import DomainError, SchemaError
from privboost.data.domain import Domain
from privboost.engine.backend import LocalBackend
from privboost.estimators import stream_files
from privboost.estimators.stream_files import take_stream
from privboost.models.model import model_bytes
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame, opens

HOW = {"epsilon": 2.0, "delta": 1e-6, "n_estimators": 20, "max_depth": 3, "random_state": 5}


def stream(target=CLASSES, unit=None, **how):
    kind = SBDTRegressor if "bounds" in target else SBDTClassifier
    return kind(domain=make_domain(target, unit), **(HOW | how))


def batches(target=CLASSES, count=3, rows=300):
    return [make_frame(rows, seed, target) for seed in range(count)]


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
@pytest.mark.parametrize("subsample", [1.0, 0.2])
def test_a_stream_can_be_saved_and_taken_up_again(target, subsample, tmp_path):
    first, second, third = batches(target)
    model = stream(target, subsample=subsample).partial_fit(first).partial_fit(second)
    model.save_stream(tmp_path / "state")
    again = stream(target, subsample=subsample).load_stream(tmp_path / "state")
    assert model_bytes(again.model_) == model_bytes(model.model_)
    model.partial_fit(third)
    again.partial_fit(third)
    assert model_bytes(again.model_) == model_bytes(model.model_)
    assert model.model_.scores.n_trees == 60


def test_every_unit_has_the_guarantee_for_the_whole_stream():
    model = stream(random_state=None)
    for batch in batches():
        model.partial_fit(batch)
    report = model.privacy_
    assert report.guarantee == "(2, 1e-06)-differential privacy"
    assert [r.what.split(":")[0] for r in report.releases if "all trees" in r.what] == [
        "batch 1",
        "batch 2",
        "batch 3",
    ]
    assert any("one batch of the stream" in said for said in report.assumptions)
    text = str(report)
    assert "within" in text


def test_batches_of_other_deltas_have_no_curve_together(tmp_path):
    """At the largest δ it would promise less than the largest ε, which is of a smaller one."""
    first, second, _ = batches()
    model = stream(epsilon=2.0, delta=1e-9).partial_fit(first)
    report = model.set_params(epsilon=1.0, delta=1e-4).partial_fit(second).privacy_
    assert (report.epsilon, report.delta) == (pytest.approx(2.0, rel=1e-2), 1e-4)
    assert report.curve is None
    model.save(tmp_path / "a.model")
    assert load_model(tmp_path / "a.model").privacy == report


def test_old_rows_go_on_contributing_while_their_budget_lasts():
    """The late batch has one class only; without the old rows the other one is unlearned."""
    frame = make_frame(6000)
    frame = frame[frame["income"].isin(["low", "high"])]
    early, late = frame[frame["income"] == "low"], frame[frame["income"] == "high"]
    test = make_frame(3000, 7)
    test = test[test["income"].isin(["low", "high"])]
    how = {"epsilon": 5.0, "n_estimators": 60, "reg_lambda": 20.0}
    kept = stream(**how).partial_fit(early).partial_fit(late)
    naive = stream(**how).partial_fit(early).forget_rows().partial_fit(late)
    chances = [m.predict_proba(test)[:, list(m.classes_).index("high")] for m in (kept, naive)]
    truth = (test["income"] == "high").to_numpy()
    errors = [np.mean((chance - truth) ** 2) for chance in chances]
    assert errors[0] < 0.9 * errors[1]


def test_parameters_may_change_between_batches_but_not_what_rows_were_told():
    first, second, _ = batches()
    model = stream().partial_fit(first)
    model.set_params(n_estimators=7, max_depth=5, learning_rate=0.05, features="uniform")
    model.partial_fit(second)
    assert model.model_.scores.n_trees == 27
    before = model_bytes(model.model_)
    for change, words in (
        ({"gradient_clip": 0.9}, "gradient_clip and hessian_clip must equal"),
        ({"subsample": 0.5}, "does not cover"),
        ({"n_estimators": 1, "epsilon": 200.0}, "does not cover"),  # far less noise
        ({"n_estimators": 66_000}, "no releases left|too large"),
    ):
        with pytest.raises((ValueError, BudgetError), match=words):
            clone_of(model).set_params(**change).partial_fit(second)
    assert model_bytes(model.model_) == before


def clone_of(model):
    """A second hand on the same stream, for tests of refusals only."""
    other = clone(model)
    other._stream, other.model_ = model._stream, model.model_
    return other


def test_another_domain_is_refused_before_anything_is_spent(tmp_path):
    first, second, _ = batches()
    ledger = tmp_path / "ledger"
    model = stream(ledger=ledger).partial_fit(first)
    written = ledger.read_bytes()
    other = make_domain().to_dict()
    other["features"]["age"]["bounds"] = [0, 99]
    model.set_params(domain=Domain.from_dict(other))
    with pytest.raises(DomainError, match="must equal the first batch's"):
        model.partial_fit(second)
    assert ledger.read_bytes() == written


def test_after_fit_the_budget_has_ended():
    first, second, _ = batches()
    model = stream().fit(first)
    with pytest.raises(ValueError, match="fit spends the whole budget"):
        model.partial_fit(second)
    with pytest.raises(ValueError, match="no stream"):
        model.save_stream("nowhere")
    with pytest.raises(ValueError, match="no stream"):
        model.forget_rows()
    started = stream().partial_fit(first)
    started.fit(first)  # begins anew
    with pytest.raises(ValueError, match="fit spends"):
        started.partial_fit(second)


def test_copies_and_pickles_have_no_rows():
    first, second, _ = batches()
    model = stream().partial_fit(first)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.predict(first), model.predict(first))
        with pytest.raises(ValueError, match="has no stream to continue"):
            other.partial_fit(second)
    codes = model._stream.blocks[0].codes.narrow[0].tobytes()
    assert codes not in pickle.dumps(model)
    assert codes not in model_bytes(model.model_)
    assert "RowStream" in repr(vars(model))  # and no more than its name


def test_a_state_belongs_to_its_owner_and_a_broken_one_is_refused(tmp_path):
    model = stream().partial_fit(batches()[0])
    model.save_stream(tmp_path / "state")
    assert stat.S_IMODE(os.stat(tmp_path / "state").st_mode) == 0o600
    (tmp_path / "state.part").write_bytes(b"left over")  # with another mode
    model.save_stream(tmp_path / "state")
    assert stat.S_IMODE(os.stat(tmp_path / "state").st_mode) == 0o600
    (tmp_path / "broken").write_bytes((tmp_path / "state").read_bytes()[:-9])
    model.save(tmp_path / "model")
    for wrong in ("broken", "model"):
        with pytest.raises(ModelFileError, match="damaged"):
            stream().load_stream(tmp_path / wrong)


def test_a_stream_of_numbers_is_not_one_of_classes(tmp_path):
    stream(NUMBER).partial_fit(batches(NUMBER)[0]).save_stream(tmp_path / "state")
    model = stream()
    with pytest.raises(DomainError, match="a classifier needs"):
        model.load_stream(tmp_path / "state")
    assert not hasattr(model, "model_")


def test_forgotten_rows_are_gone(tmp_path):
    first, second, _ = batches()
    model = stream().partial_fit(first).forget_rows()
    assert model._stream.blocks == []
    model.save_stream(tmp_path / "state")
    again = stream().load_stream(tmp_path / "state").partial_fit(second)
    assert model_bytes(again.model_) == model_bytes(model.partial_fit(second).model_)


@pytest.mark.parametrize("max_rows", [1, 3])
def test_a_unit_that_returns_is_left_out(max_rows):
    unit = {"column": "person", "max_rows": max_rows}
    first, second, _ = batches()
    first = first[first["person"].isin(list("abcd"))]
    late = second[second["person"].isin(list("cdefg"))]
    new = second[second["person"].isin(list("efg"))]
    one = stream(unit=unit).partial_fit(first).partial_fit(late)
    two = stream(unit=unit).partial_fit(first).partial_fit(new)
    assert model_bytes(one.model_) == model_bytes(two.model_)
    assert sum(map(len, one._stream.blocks)) <= max_rows * 7


def test_a_saved_stream_knows_who_came_before(tmp_path):
    unit = {"column": "person", "max_rows": 2}
    first, second, third = (
        batch.assign(person=np.arange(300) % 40 + 30 * k) for k, batch in enumerate(batches())
    )
    third["person"] = third["person"].astype(float).astype(object)  # the same people, otherwise
    model = stream(unit=unit).partial_fit(first).partial_fit(second)
    model.save_stream(tmp_path / "state")
    again = stream(unit=unit).load_stream(tmp_path / "state").partial_fit(third)
    assert model_bytes(again.model_) == model_bytes(model.partial_fit(third).model_)
    kept = [sum(map(len, cohort.rows.blocks)) for cohort in again._stream.cohorts]
    assert kept == [80, 60, 60]


@pytest.mark.parametrize("person", ["p0", "p\ud800"], ids=["a text", "what is no text"])
def test_no_value_changes_the_kind_of_the_unit_column(person):
    unit = {"column": "person", "max_rows": 2}
    first, second, _ = batches()
    model = stream(unit=unit).partial_fit(first.assign(person=np.arange(300)))
    texts = [person, *(f"p{k}" for k in range(1, 300))]
    second = second.assign(person=pd.array(texts, dtype="string[python]"))
    with pytest.raises(SchemaError, match="kind 'text'"):
        model.partial_fit(second)


def test_a_batch_that_dies_midway_ends_the_stream():
    first, second, _ = batches()
    model = stream().partial_fit(first)

    class Dying(LocalBackend):
        answers = 0

        def sum(self, query):
            self.answers += 1
            if self.answers > 5:
                raise KeyboardInterrupt
            return super().sum(query)

    model.set_params(backend=opens(Dying))
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(second)
    model.set_params(backend="auto")
    with pytest.raises(ValueError, match="failed midway ends a stream"):
        model.partial_fit(second)
    assert len(model.predict(second)) == 300


def test_rows_of_all_batches_are_sampled_by_coins_of_their_own():
    first, second, third = batches()
    model = stream(subsample=0.3)
    for batch in (first, second, third):
        model.partial_fit(batch)
    ids = np.concatenate([np.asarray(block.ids) for block in model._stream.blocks])
    assert len(set(ids.tolist())) == len(ids) == 900


def test_weights_are_for_every_batch_or_for_none():
    first, second, _ = batches()
    model = stream(sample_weight_bound=2.0).partial_fit(first, sample_weight="weight")
    with pytest.raises(ValueError, match="every batch of a stream or to none"):
        model.partial_fit(second)
    model.partial_fit(second, sample_weight="weight")


def test_classes_must_be_the_domains():
    first, *_ = batches()
    with pytest.raises(ValueError, match="classes must be"):
        stream().partial_fit(first, classes=["low", "mid"])
    stream().partial_fit(first, classes=["high", "low"])


def test_a_domain_may_be_learned_from_the_first_batch():
    first, second, _ = batches(rows=2000)
    columns = ["age", "step", "flag", "income"]
    model = SBDTClassifier(20.0, 1e-3, n_estimators=10, random_state=1)
    model.partial_fit(first[columns], "income").partial_fit(second[columns], "income")
    assert model.privacy_.epsilon <= 20.0
    assert model.model_.scores.n_trees == 20
    for how in ({"subsample": 0.5}, {"init_noise": "laplace"}):
        other = SBDTClassifier(20.0, 1e-3, n_estimators=10, **how)
        report = other.fit(first[columns], "income").privacy_
        assert 19.5 < report.epsilon <= 20.0
        assert report.delta == pytest.approx(1e-3)


def test_a_failed_batch_leaves_the_stream_as_it_was():
    first, second, _ = batches()
    model, other = stream().partial_fit(first), stream().partial_fit(first)
    with pytest.raises(ValueError, match="no column"):
        model.partial_fit(second.drop(columns="age"))
    model.partial_fit(second)
    assert model_bytes(model.model_) == model_bytes(other.partial_fit(second).model_)


class FailingClose:
    """A backend whose end fails, after all releases were made."""

    def __init__(self, blocks):
        self._own = LocalBackend(blocks)
        self.sum, self.apply = self._own.sum, self._own.apply

    def close(self):
        raise OSError("a worker did not answer")


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["close", "report", "keep", "extended"])
def test_nobody_goes_on_from_a_state_whose_rows_paid(where, monkeypatch):
    """Whatever fails after the releases: the old state is gone, and its budgets with it."""
    first, second, third = batches()
    model = stream().partial_fit(first)
    if where == "close":
        model.set_params(backend=opens(FailingClose))
    with monkeypatch.context() as patch:
        if where == "report":
            patch.setattr("privboost.estimators.preparation.Run.report", interrupt)
        if where == "keep":
            patch.setattr(SBDTClassifier, "_keep", interrupt)
        if where == "extended":
            patch.setattr("privboost.estimators.stream_state.RowStream.extended", interrupt)
        with pytest.raises((OSError, KeyboardInterrupt)):
            model.partial_fit(second)
    assert model.n_batches_ == 0
    model.set_params(backend="auto")
    with pytest.raises(ValueError, match="failed midway"):
        model.partial_fit(third)
    with pytest.raises(ValueError, match="no stream"):
        model.save_stream("nowhere")


def test_a_batch_refused_before_any_release_leaves_the_stream():
    first, second, _ = batches()
    model = stream().partial_fit(first)
    with pytest.raises(ValueError, match="column"):
        model.partial_fit(second.drop(columns="age"))
    assert model.n_batches_ == 1
    model.partial_fit(second)
    assert model.n_batches_ == 2


def test_two_threads_do_not_get_one_state():
    first, second, third = batches()
    inside, done = threading.Event(), threading.Event()

    class Slow(LocalBackend):
        def sum(self, query):
            inside.set()
            assert done.wait(300)
            return super().sum(query)

    model = stream().partial_fit(first)
    model.set_params(backend=opens(Slow))
    other = threading.Thread(target=model.partial_fit, args=(second,))
    other.start()
    try:
        assert inside.wait(300)
        for act in (model.partial_fit, model.fit):
            with pytest.raises(RuntimeError, match="another thread"):
                act(third)
        assert model.n_batches_ == 0
    finally:
        done.set()
        other.join()
    assert model.n_batches_ == 2


def test_a_file_is_set_aside_while_a_batch_goes_on_from_it(tmp_path):
    first, _, _ = batches()
    path = tmp_path / "state"
    model = stream().partial_fit(first)
    model.save_stream(path)
    with pytest.raises(OSError, match="before"), take_stream(path, lambda: True):
        raise OSError("before any release")
    assert stream().load_stream(path).n_batches_ == 1
    with take_stream(path, lambda: False):
        assert not path.exists()
        model.save_stream(path)
    assert [file.name for file in tmp_path.iterdir()] == ["state"]
    child = os.fork()
    if child == 0:
        with take_stream(path, lambda: True):
            os._exit(9)  # as if it were killed
    os.waitpid(child, 0)
    with pytest.raises(ModelFileError, match="one died midway"):
        stream().load_stream(path)
    assert stream().load_stream(tmp_path / "state.taken").n_batches_ == 1


def test_a_state_that_came_meanwhile_stays(tmp_path):
    path = tmp_path / "state"
    stream().partial_fit(batches()[0]).save_stream(path)

    def fail(how):
        path.write_bytes(b"newer")
        raise OSError(how)

    with pytest.raises(OSError, match="later"), take_stream(path, lambda: True):
        fail("later")
    assert path.read_bytes() == b"newer"


def test_a_state_has_one_place(tmp_path):
    """Behind a link, or under a second name, it could be gone on from again."""
    model = stream().partial_fit(batches()[0])
    path, link, twin = tmp_path / "state", tmp_path / "link", tmp_path / "twin"
    model.save_stream(path)
    link.symlink_to(path.name)
    with take_stream(link, lambda: False) as taken:
        assert not path.exists()
        assert taken == tmp_path / "state.taken"
        model.save_stream(link)
    assert link.is_symlink()
    assert path.is_file()
    os.link(path, twin)
    with pytest.raises(ModelFileError, match="another name"), take_stream(path, lambda: True):
        pass
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "state", "twin"]


def test_a_process_that_dies_after_its_work_leaves_the_new_state(tmp_path):
    first, second, third = batches()
    path = tmp_path / "state"
    model = stream().partial_fit(first)
    model.save_stream(path)
    child = os.fork()
    if child == 0:
        with take_stream(path, lambda: True):
            model.partial_fit(second).save_stream(path)
            os._exit(9)  # as if it were killed
    os.waitpid(child, 0)
    spent = tmp_path / "state.taken"
    with pytest.raises(ModelFileError, match="was taken"), take_stream(spent, lambda: True):
        pass
    with take_stream(path, lambda: False) as taken:
        again = stream().load_stream(taken)
        assert again.n_batches_ == 2
        again.partial_fit(third).save_stream(path)
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_a_first_batch_that_died_midway_is_not_repeated():
    first, second, _ = batches()
    model = stream(backend=opens(FailingClose))
    with pytest.raises(OSError, match="worker"):
        model.partial_fit(first)
    model.set_params(backend="auto")
    with pytest.raises(ValueError, match="failed midway"):
        model.partial_fit(first)
    model.fit(second)  # a fit of its own is told as one


def test_two_batches_cannot_take_one_file(tmp_path):
    path = tmp_path / "state"
    model = stream().partial_fit(batches()[0])
    model.save_stream(path)
    with take_stream(path, lambda: True) as taken:
        model.save_stream(path)
        with pytest.raises(ModelFileError, match="another batch"), take_stream(path, lambda: True):
            pass
        assert stream().load_stream(taken).n_batches_ == 1


def left_by_the_dead(path):
    """Leave the files of a process that died after it had written the new state."""
    first, second, third = batches()
    model = stream().partial_fit(first)
    model.save_stream(path.with_name("state.taken"))
    model.partial_fit(second).save_stream(path)
    return model, third


def test_what_another_process_took_is_not_removed(tmp_path, monkeypatch):
    """Both see what a dead one left; the first removes it, and takes the state."""
    path, taken = tmp_path / "state", tmp_path / "state.taken"
    model, third = left_by_the_dead(path)
    compare = stream_files._goes_on_from
    with ExitStack() as first:

        def beaten(*paths):
            found = compare(*paths)
            monkeypatch.setattr(stream_files, "_goes_on_from", compare)
            assert first.enter_context(take_stream(path, lambda: False)) == taken
            return found

        monkeypatch.setattr(stream_files, "_goes_on_from", beaten)
        with pytest.raises(ModelFileError, match="wait until"), take_stream(path, lambda: True):
            pytest.fail("two processes have one state")
        assert stream().load_stream(taken).n_batches_ == 2
        model.partial_fit(third).save_stream(path)
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_the_end_of_a_batch_leaves_what_another_took(tmp_path):
    path, taken = tmp_path / "state", tmp_path / "state.taken"
    model = stream().partial_fit(batches()[0])
    model.save_stream(path)
    with ExitStack() as second:
        with take_stream(path, lambda: False):
            model.save_stream(path)
            taken.unlink()  # by somebody who held the batch for dead
            second.enter_context(take_stream(path, lambda: False))
        assert taken.exists()
        with pytest.raises(ModelFileError, match="wait until it ends, and try again"):
            stream().load_stream(path)
        model.save_stream(path)
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_who_is_interrupted_while_taking_leaves_the_state(tmp_path, monkeypatch):
    path, taken = tmp_path / "state", tmp_path / "state.taken"
    stream().partial_fit(batches()[0]).save_stream(path)
    unlink = Path.unlink

    def interrupted(place, **how):
        monkeypatch.setattr(Path, "unlink", unlink)
        with pytest.raises(ModelFileError, match="before it began"), take_stream(path, bool):
            pytest.fail("two processes have one state")
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "unlink", interrupted)
    with pytest.raises(KeyboardInterrupt), take_stream(path, lambda: True):
        pytest.fail("it was interrupted")
    assert not taken.exists()
    assert stream().load_stream(path).n_batches_ == 1
