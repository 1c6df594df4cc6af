"""Runs that fail: what was reserved counts as spent, and nothing else does."""

import copy
import json
import pickle
import warnings

import numpy as np
import pytest

from privboost import (
    BudgetError,
    BudgetStore,
    Domain,
    LazyBBClassifier,
    PrivacyWarning,
    PrivateSearchCV,
    PrivBoostClassifier,
    SBDTClassifier,
    load_model,
)
from privboost.engine.backend import LocalBackend
from privboost.models.model import model_bytes
from tests.tables import make_domain, make_frame, opens

HOW = {"epsilon": 2.0, "delta": 1e-6, "n_estimators": 3, "max_depth": 2}
COLUMNS = ["age", "step", "flag", "income"]
ENDED = "failed midway ends a stream"


def rows(seed=0):
    return make_frame(200, seed)


def estimator(**how):
    return SBDTClassifier(**(HOW | {"domain": make_domain()} | how))


def dies(*_, **__):
    raise KeyboardInterrupt


def dying(openings=0, sums=0):
    """Return a backend that dies after so many openings, or in the last one after some sums."""
    opened = []

    class Dying(LocalBackend):
        left = sums

        def sum(self, query):
            if len(opened) > openings:
                self.left -= 1
                if self.left < 0:
                    raise KeyboardInterrupt
            return super().sum(query)

    def open_backend(loads):
        opened.append(True)
        if len(opened) > openings and not sums:
            raise KeyboardInterrupt
        return opens(Dying)(loads)

    return open_backend


def entries(path):
    """Return the kinds of a ledger file's lines."""
    if not path.exists():
        return []
    return [json.loads(line)["entry"] for line in path.read_text().splitlines()]


def need_ended(model, *args):
    """Check that a stream is over, in memory and in every copy."""
    assert model.n_batches_ == 0
    copies = (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)))
    for each in (model, *copies):
        with pytest.raises(ValueError, match=ENDED):
            each.partial_fit(*args)


LEARNING = {
    "opening the rows to learn a domain": {"backend": lambda: dying(0)},
    "the first sum for a domain": {"backend": lambda: dying(0, 1)},
    "planning with the domain": {"patch": "privboost.estimators.preparation.Encoder.of"},
    "the schema": {"patch": "privboost.estimators.preparation.check_schema"},
    "the exchange": {"patch": "privboost.accounting.ledger.Ledger.exchange"},
    "opening the rows to train": {"backend": lambda: dying(1)},
    "training": {"backend": lambda: dying(1, 2)},
}


@pytest.mark.parametrize("where", LEARNING)
@pytest.mark.parametrize("calls", ["partial_fit", "fit"])
def test_a_first_batch_that_dies_in_or_after_domain_inference_ends_the_stream(
    where, calls, tmp_path, monkeypatch
):
    """Its rows have paid for a domain: taken again, they would be reported once."""
    ledger, frame = tmp_path / "ledger", rows()[COLUMNS]
    how = {"epsilon": 20.0, "delta": 1e-3, "domain": None, "ledger": ledger}
    model = estimator(**how)
    with monkeypatch.context() as patch:
        if "backend" in LEARNING[where]:
            model.set_params(backend=LEARNING[where]["backend"]())
        else:
            from privboost.accounting.ledger import Ledger

            reserve = Ledger.reserve

            def reserve_and_break(self, plan):
                reserve(self, plan)
                patch.setattr(LEARNING[where]["patch"], dies)

            patch.setattr(Ledger, "reserve", reserve_and_break)
        with pytest.raises(KeyboardInterrupt):
            getattr(model, calls)(frame, "income")
    assert entries(ledger)[0] == "reserve"
    model.set_params(backend="auto")
    written = ledger.read_bytes()
    need_ended(model, frame, "income")
    assert ledger.read_bytes() == written
    assert not hasattr(model, "model_")


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("where", ["reading the rows", "opening a backend", "training"])
def test_a_batch_that_dies_after_its_reservation_ends_the_stream(
    batch, where, tmp_path, monkeypatch
):
    ledger, model = tmp_path / "ledger", estimator()
    if batch == 2:
        model.partial_fit(rows(1))
    model.set_params(ledger=ledger)
    if where != "reading the rows":
        model.set_params(backend=dying(0, 2 if where == "training" else 0))
    with monkeypatch.context() as patch:
        if where == "reading the rows":
            patch.setattr("privboost.estimators.streaming.load_rows", dies)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(rows())
    assert entries(ledger)[0] == "reserve"
    model.set_params(backend="auto")
    need_ended(model, rows())


@pytest.mark.parametrize(("batch", "learned"), [(1, False), (1, True), (2, False)])
def test_a_batch_that_an_account_refuses_leaves_the_stream(batch, learned, tmp_path):
    store = BudgetStore(tmp_path / "store")
    account = store.open("people", epsilon=30.0, delta=1e-2)
    how = {"delta": 1e-3, "budget": account}
    if learned:
        given = {"target": {"classes": ["low", "high"]}}
        how |= {"domain": None, "domain_given": given}
    model = estimator(**how)
    given = [(rows(seed)[COLUMNS] if learned else rows(seed), "income") for seed in range(2)]
    if batch == 2:
        model.partial_fit(*given[0])
    account.set_limit(0.1, 1e-2)
    before = model.n_batches_, len(account.balance().entries)
    with pytest.raises(BudgetError):
        model.partial_fit(*given[1])
    assert (model.n_batches_, len(account.balance().entries)) == before
    account.set_limit(30.0, 1e-2)
    if learned:
        model.set_params(budget=None)  # else its noise would be too fine
    model.partial_fit(*given[1])
    assert model.n_batches_ == batch
    assert not any("failed" in said for said in model.privacy_.assumptions)


def test_a_reservation_that_was_not_written_leaves_the_stream(tmp_path, monkeypatch):
    """A full disk; but where an account was charged before, the stream is over."""
    account = BudgetStore(tmp_path / "store").open("people", epsilon=30.0, delta=1e-2)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    for budget in (None, account):
        model = estimator(budget=budget).partial_fit(rows(1))
        model.set_params(ledger=tmp_path / "ledger")
        with monkeypatch.context() as patch:
            patch.setattr("privboost.accounting.ledger._append", full)
            with pytest.raises(OSError, match="No space"):
                model.partial_fit(rows())
        assert model.n_batches_ == (1 if budget is None else 0)
    need_ended(model, rows())


def test_a_fit_that_is_refused_leaves_the_stream():
    model = estimator(random_state=3).partial_fit(rows(1))
    other = estimator(random_state=3).partial_fit(rows(1))
    with pytest.raises(ValueError, match="column"):
        model.fit(rows().drop(columns="age"))
    model.partial_fit(rows())
    assert model_bytes(model.model_) == model_bytes(other.partial_fit(rows()).model_)


def failures(model):
    """Return what a report says of runs that failed."""
    return [said for said in model.privacy_.assumptions if "earlier run" in said]


@pytest.mark.parametrize(
    "kind", [SBDTClassifier, PrivBoostClassifier, LazyBBClassifier], ids=lambda kind: kind.__name__
)
def test_the_report_names_runs_that_failed_before(kind, tmp_path):
    """Their noise may have been seen, and they have no report of their own."""
    model = kind(epsilon=2.0, delta=1e-6, domain=make_domain(), n_estimators=3)
    with pytest.raises(ValueError, match="column"):
        model.fit(rows().drop(columns="age"))
    assert failures(model.fit(rows())) == []  # it was refused before anything was reserved
    model.set_params(epsilon=1.0, backend=dying(0, 1))
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows())
    model.set_params(epsilon=0.5, backend="auto")
    (said,) = failures(pickle.loads(pickle.dumps(model)).fit(rows()))
    assert "reserved epsilon 1 and delta 1e-06 and failed" in said
    assert failures(model.fit(rows())) == [said]
    model.save(tmp_path / "model")
    assert said in load_model(tmp_path / "model").privacy.assumptions
    assert failures(kind(2.0, 1e-6, domain=make_domain(), n_estimators=3).fit(rows())) == []


def test_a_stream_that_was_saved_before_a_batch_failed_names_it(tmp_path):
    model = estimator().partial_fit(rows(1))
    model.save_stream(tmp_path / "state")
    model.set_params(backend=dying(0, 2))
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(rows())
    model.set_params(backend="auto").load_stream(tmp_path / "state")
    assert len(failures(model.partial_fit(rows()))) == 1


def test_a_search_that_fails_is_named_by_the_next(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    base = PrivBoostClassifier(domain=make_domain(), backend=dying())
    search = PrivateSearchCV(base, {"n_estimators": [2]}, 1.0, 1e-6, expected_runs=2, ledger=ledger)
    with pytest.raises(KeyboardInterrupt):
        search.fit(rows())
    search.estimator.set_params(backend="auto")
    search = pickle.loads(pickle.dumps(search)).fit(rows())
    said = [each for each in search.privacy_.assumptions if "reserved epsilon 1" in each]
    assert len(said) == 1
    assert ledger.read_text().count('"reserve"') == 2


def test_what_is_remembered_is_what_the_run_began_with():
    model = estimator()

    def change(loads):
        model.set_params(epsilon=0.01)
        raise KeyboardInterrupt

    model.set_params(backend=change)
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows())
    assert model._unfinished == ("epsilon 2 and delta 1e-06",)


def silent_table():
    """A column of which no value can stand out."""
    frame = make_frame(400)[["age", "income"]]
    frame["income"] = np.where(frame["age"] > 50, "high", "low")
    frame["rare"] = [f"id {k}" for k in range(len(frame))]
    return frame


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_warning_made_an_error_loses_no_model(method):
    model = SBDTClassifier(20.0, 1e-6, n_estimators=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        with pytest.raises(PrivacyWarning, match="'rare'"):
            getattr(model, method)(silent_table(), "income")
    assert "rare" in model.domain_.feature_names
    assert not hasattr(model, "_unfinished")


def test_a_warning_made_an_error_loses_no_domain():
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        with pytest.raises(PrivacyWarning, match="'rare'") as caught:
            Domain.learn(silent_table(), "income", epsilon=20.0, delta=1e-6)
    assert caught.value.result.privacy.epsilon <= 20.0


def test_a_stream_is_not_replaced_while_it_trains(tmp_path):
    model = estimator()
    model.partial_fit(rows()).save_stream(tmp_path / "state")
    refused = []

    def meanwhile(loads):
        for act in (lambda: model.load_stream(tmp_path / "state"), model.forget_rows):
            with pytest.raises(RuntimeError, match="trained in another thread"):
                act()
            refused.append(act)
        raise KeyboardInterrupt

    model.set_params(backend=meanwhile)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(rows(1))
    assert len(refused) == 2
