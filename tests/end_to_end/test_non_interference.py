"""Where every answer is zero, nothing that a caller can reach depends on the rows."""

import copy
import io
import pickle
from contextlib import redirect_stderr
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from privboost import PrivateSearchCV, PrivBoostClassifier, evaluate
from privboost._core.compilation import announce_compilation
from privboost._core.pickling import fresh_copy
from privboost.engine.shard import Shard
from tests import fits
from tests.fits import UNIT, Fit
from tests.hostile import HostileBackend
from tests.non_interference import check, make_tables, silence, walk
from tests.tables import CLASSES, NUMBER, SURVIVAL, make_domain, make_frame

PURE_SAMPLES = {"delta": 0.0, "subsample": 0.3}
OWN = [
    Fit("random trees", "sbdt", CLASSES, False, {"candidates": "hessian", "subsample": 0.3}),
    Fit("filter", "sbdt", NUMBER, False, {"extra_estimators": 5}, UNIT),
    Fit("pure samples", "sarus", CLASSES, False, PURE_SAMPLES),
    Fit("pairs", "privboost", CLASSES, False, {"interactions": ["age*job", "gain*age"]}),
    Fit("directions", "sbdt", CLASSES, False, {"features": 2, "monotone": {"age": 1, "gain": -1}}),
    Fit("counts", "privboost", NUMBER, True, {"loss": "poisson", "exposure": "age"}),
    Fit("counts by trees", "sbdt", NUMBER, True, {"loss": "poisson", "extra_estimators": 5}),
    Fit("medians by trees", "dpxgb", NUMBER, False, {"loss": "absolute"}),
    Fit("quantiles", "privboost", NUMBER, False, {"loss": "quantile", "quantile": 0.9}),
    Fit("times", "privboost", SURVIVAL, True, {"scale": 0.7}),
    Fit("votes", "lazybb", CLASSES, False, {"accountant": "rdp"}),
    Fit("intervals", "privboost", NUMBER, False, {"conformal_fraction": 0.5}),
    Fit("relative", "privboost", NUMBER, False, {"loss": "gamma", "conformal_fraction": 0.5}),
    Fit("linear", "adassp", CLASSES, False, {"class_weight": "balanced"}),
]
FITS = fits.BASIC | {fit.name: fit for fit in OWN}
SAME_LENGTH = {"plain", "with NaN", "all missing", "unseen", "other rows"}
PANDAS = ("plain", "with NaN", "one row", "unseen", "other rows", "long")
"""Votes are private under the exchange of one row: how many there are is public."""


@pytest.fixture(autouse=True)
def zeros(monkeypatch):
    with announce_compilation(False):  # else the first fit of a machine says a line more
        pass
    silence(monkeypatch, Shard)


def make(name, **how):
    return FITS[name].estimator(**{"n_estimators": 6, "random_state": 5, "verbose": True} | how)


def tables_for(name, folder):
    tables = make_tables(folder, FITS[name].target)
    if FITS[name].recipe != "lazybb":
        return tables
    return {which: own for which, own in tables.items() if which in SAME_LENGTH}


@pytest.mark.parametrize("name", FITS)
def test_after_a_fit(name, tmp_path):
    if name in fits.BASIC and (reason := fits.refusal(name)):
        pytest.skip(reason)
    ledger = tmp_path / "ledger.jsonl"

    def fit(table):
        ledger.unlink(missing_ok=True)
        estimator = make(name, ledger=ledger)
        return estimator.fit(table, **FITS[name].weights), ledger.read_bytes()

    check(fit, tables_for(name, tmp_path), tmp_path)


def test_no_size_of_a_file_is_written_where_colours_are_forced(tmp_path, monkeypatch):
    """Bars of bytes are for terminals, whatever an environment says of colours."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    tables = make_tables(tmp_path)
    for which in ("csv", "csv, all missing", "parquet"):
        screen = io.StringIO()
        with redirect_stderr(screen):
            make("privboost, two classes").fit(tables[which])
        assert "byte" not in screen.getvalue()
        assert str(tables[which].stat().st_size) not in screen.getvalue()


@pytest.mark.parametrize(
    "name", ["privboost, two classes", "filter", "dpxgb, two classes", "linear"]
)
def test_after_a_fit_that_failed(name, tmp_path, monkeypatch):
    """An answer that never comes, in the middle of training."""
    answer = Shard.sum
    asked = iter(range(10**9))

    def fail(shard, query):
        if next(asked) % 4 == 3:
            raise RuntimeError("lost")
        return answer(shard, query)

    monkeypatch.setattr(Shard, "sum", fail)

    def fit(table):
        estimator = make(name)
        with pytest.raises(RuntimeError, match="lost"):
            estimator.fit(table, **FITS[name].weights)
        while next(asked) % 4 != 3:  # so that the next one fails at the same place
            pass
        return estimator

    check(fit, tables_for(name, tmp_path), tmp_path)


@pytest.mark.parametrize("failing", [False, True])
def test_a_stream(failing, tmp_path, monkeypatch):
    """Two batches; or a second that fails. In memory the rows are there, in copies they are not."""

    def fit(table):
        estimator = make("random trees", subsample=1.0)
        estimator.partial_fit(make_frame(200, seed=7)).partial_fit(table)
        if failing:
            with monkeypatch.context() as patch:
                patch.setattr(Shard, "sum", _lose)
                with pytest.raises(RuntimeError, match="lost"):
                    estimator.partial_fit(table)
        return estimator

    check(fit, tables_for("random trees", tmp_path), tmp_path)


def _lose(shard, query):
    raise RuntimeError("lost")


@pytest.mark.parametrize(
    "name", ["privboost, two classes", "privboost, numbers", "dpxgb, two classes"]
)
def test_a_domain_that_is_learned(name, tmp_path):
    """Of tables with the same columns and types; classes are given, which no answer would find."""
    given = {"features": {"flag": {"kind": "categorical", "categories": [0, 1]}}}
    given |= {} if "number" in name else {"target": FITS[name].target}

    def fit(table):
        estimator = make(name, domain=None, domain_given=given, epsilon=20.0)
        return estimator.fit(table.drop(columns=["person", "weight"]), "income")

    tables = tables_for(name, tmp_path)
    check(fit, {which: tables[which] for which in PANDAS}, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["privboost, two classes", "random trees", "dpxgb, two classes", "votes", "adassp, numbers"],
)
def test_after_an_evaluation(name, tmp_path):
    """The caller's model, which met private rows, and what was found."""
    target = FITS[name].target
    trained = make(name, domain=make_domain(target)).fit(make_frame(400, seed=8, target=target))
    kept = pickle.dumps(trained)

    def run(table):
        model = pickle.loads(kept)
        return model, evaluate(model, table, epsilon=1.0, random_state=3, by=["job", "age"])

    check(run, make_tables(tmp_path, target), tmp_path, exports=())


def test_predictions_leave_nothing_in_copies(tmp_path):
    """Whoever predicts for private rows and sends the model on sends nothing of them along."""
    trained = make("dpxgb, two classes").fit(make_frame(400, seed=8))
    copies = set()
    for table in make_tables(tmp_path).values():
        model = pickle.loads(pickle.dumps(trained))
        model.predict_proba(table)
        model.explain_local(table if not isinstance(table, Path) else make_frame(3))
        copies.add((pickle.dumps(model), pickle.dumps(copy.copy(model.model_))))
    assert len(copies) == 1


def test_after_a_search(tmp_path):
    def run(table):
        base = PrivBoostClassifier(domain=make_domain(unit=UNIT), interactions=False)
        candidates = {"n_estimators": [4, 6]}
        search = PrivateSearchCV(base, candidates, 1.0, 1e-6, expected_runs=2, random_state=5)
        return search.fit(table)

    check(run, make_tables(tmp_path), tmp_path)


@pytest.mark.parametrize("name", ["privboost, three classes", "filter", "dpxgb, two classes"])
def test_on_a_backend_of_many_parties(name, tmp_path):
    """Deaths and cuts are drawn, so that how often rows are loaded again differs as well."""

    def fit(table):
        estimator = make(name, backend=HostileBackend)
        estimator.fit(table, **FITS[name].weights)
        return estimator.set_params(backend="auto")

    check(fit, tables_for(name, tmp_path), tmp_path, exports=())


def test_the_walk_sees_what_caches_hold():
    """A cache that some rows fill, as encoders once had: the walk, the pickle or both tell."""
    model = make("dpxgb, two classes").fit(make_frame(600)).model_
    before = walk(model)
    model.encoder.__dict__["_found"] = {(0, 1): None}
    assert walk(model) != before
    assert walk(pickle.loads(pickle.dumps(model))) == walk(fresh_copy(model))


def test_copies_hold_declared_fields_only():
    for name in ("privboost, two classes", "random trees", "dpxgb, two classes", "votes", "linear"):
        estimator = make(name).fit(make_frame(600, target=FITS[name].target))
        estimator.predict(make_frame(600))
        estimator.explain_global()
        seen = list(_dataclasses(pickle.loads(pickle.dumps(estimator)), set()))
        assert len(seen) > 5
        for each in seen:
            assert set(vars(each)) <= {field.name for field in fields(each)}, type(each)


def _dataclasses(value, seen):
    """Yield all dataclasses that hang on an object."""
    if id(value) in seen or isinstance(value, type):
        return
    seen.add(id(value))
    if is_dataclass(value):
        yield value
    below = value.values() if isinstance(value, dict) else value
    for each in below if isinstance(value, dict | list | tuple) else vars_of(value):
        yield from _dataclasses(each, seen)


def vars_of(value):
    return list(getattr(value, "__dict__", {}).values())
