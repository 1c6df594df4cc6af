"""What Spark's workers do, without Spark: any process may be asked about any partition."""

import math
from itertools import pairwise
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from privboost import (
    DPXGBClassifier,
    PrivateSearchCV,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    __version__,
    evaluate,
)
from privboost._core.errors import ClusterError
from privboost.distributed import spark_worker
from privboost.distributed.partitions import read_rows, write_rows
from privboost.distributed.spark_worker import Chunk, Part, Request
from privboost.engine.backend import add_sums
from privboost.models.model import model_bytes
from tests.tables import CLASSES, NUMBER, make_domain, make_frame

CUTS = [0, 0, 130, 131, 400]
RUNS = frozenset({"run"})


class Processes:
    """Three processes of which each question meets any; now and then one forgets everything."""

    def __init__(self, loads):
        (load,) = loads
        self._rng = np.random.default_rng(4)
        self._held, self._log = [{}, {}, {}], []
        data = load.loader.to_bytes()
        self._rows = []
        table = pa.table(dict(next_batch(load)))
        counted = [b - a for a, b in pairwise(CUTS)] if load.loader.by_place else None
        for number, (a, b) in enumerate(pairwise(CUTS)):
            batches = table.slice(a, b - a).to_batches(max_chunksize=50)
            with mock.patch.object(spark_worker, "_own_number", lambda own=number: own):
                coded = list(spark_worker.code(__version__, data, counted, batches))
            self._rows.append([batch["rows"][0].as_py() for batch in coded])
        self._survey()
        if load.loader.by_place:
            self._firsts = [0] * len(self._parts)
        if load.loader.unit is not None:
            dealt = [[] for _ in self._rows]
            for number, blobs in enumerate(self._rows):
                for owner, bucket in spark_worker.distribute(
                    self._parts, self._firsts, number, blobs
                ):
                    dealt[owner].append((owner, bucket))
            for buckets in dealt:
                self._rng.shuffle(buckets)
            self._rows = [
                list(spark_worker.bound([data] * len(dealt), buckets)) for buckets in dealt
            ]
            self._survey()
            self._firsts = [0] * len(self._parts)

    def _survey(self):
        surveyed = [next(spark_worker.survey(*each)) for each in enumerate(self._rows)]
        self._parts = [part for _, part in surveyed]
        self._firsts = np.cumsum([0] + [part.n_rows for part in self._parts]).tolist()[:-1]

    def sum(self, query):
        cut = int(self._rng.integers(0, len(self._log) + 1))
        chunks = tuple(
            Chunk(a, b, SimpleNamespace(value=self._log[a:b]))
            for a, b in ((0, cut // 2), (cut // 2, cut))
        )
        question = Request(
            "run",
            RUNS,
            __version__,
            self._parts,
            self._firsts,
            chunks,
            tuple(self._log[cut:]),
            query.to_bytes(),
        )
        return add_sums([self._ask(question, number) for number in range(len(self._parts))])

    def _ask(self, question, number):
        place = int(self._rng.integers(0, 3))
        if self._rng.random() < 0.05:
            self._held[place].clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spark_worker, "_HELD", self._held[place])
            ((_, answer),) = spark_worker.answer(question, [(number, self._parts[number])])
            if answer is None:
                ((_, answer),) = spark_worker.load_and_answer(question, number, self._rows[number])
        return answer

    def apply(self, update):
        self._log.append(update.to_bytes())

    def close(self):
        self._held, self._rows = [{}, {}, {}], []


def next_batch(load):
    """All rows of a small table in one batch."""
    (piece,) = load.source.pieces(load.loader.columns, 1000)
    return next(batch for batch in piece.batches() if len(next(iter(batch.values()))))


@pytest.mark.parametrize(
    ("kind", "how", "unit"),
    [
        (PrivBoostClassifier, {"n_estimators": 12}, None),
        (DPXGBClassifier, {"n_estimators": 3, "max_depth": 4, "accountant": "rdp"}, None),
        (SBDTClassifier, {"subsample": 0.4, "extra_estimators": 3, "batch_size": 2}, None),
        (SBDTClassifier, {"subsample": 0.4}, {"column": "person", "max_rows": 1}),
        (PrivBoostClassifier, {"n_estimators": 12}, {"column": "person", "max_rows": 20}),
    ],
)
def test_processes_that_missed_rounds_answer_the_same(kind, how, unit):
    table = pa.Table.from_pandas(make_frame(400), preserve_index=False)

    def run(**where):
        shared = {"epsilon": 3.0, "delta": 1e-6, "n_estimators": 4, "random_state": 7}
        return kind(**(shared | how), domain=make_domain(CLASSES, unit), **where).fit(table)

    assert model_bytes(run(backend=Processes).model_) == model_bytes(run().model_)


@pytest.mark.parametrize("unit", [None, {"column": "person", "max_rows": 2}], ids=["row", "unit"])
@pytest.mark.parametrize("target", [CLASSES, NUMBER], ids=["classes", "number"])
def test_evaluations_are_those_of_one_machine(target, unit):
    kind = PrivBoostRegressor if target is NUMBER else PrivBoostClassifier
    table = pa.Table.from_pandas(make_frame(400, target=target), preserve_index=False)
    how = {"n_estimators": 4, "random_state": 7}
    model = kind(3.0, 1e-6, make_domain(target, unit), **how).fit(table)
    asked = {"epsilon": 1.0, "by": ["job", "age"], "random_state": 3}
    assert evaluate(model, table, backend=Processes, **asked) == evaluate(model, table, **asked)
    public = {"epsilon": math.inf, "public_rows": True, "by": "job"}
    assert evaluate(model, table, backend=Processes, **public) == evaluate(model, table, **public)


def test_rows_that_changed_and_other_versions_are_refused():
    part, question = Part(1, b"x"), Request("run", RUNS, "0.0", [Part(1, b"y")], [0], (), (), None)
    with pytest.raises(ClusterError, match="other rows than"):
        next(spark_worker.answer(question, [(0, part)]))
    for load in (
        lambda: next(spark_worker.load_and_answer(question, 0, [])),
        lambda: next(spark_worker.code("0.0", b"", None, [])),
    ):
        with pytest.raises(ClusterError, match=r"the driver has 0\.0"):
            load()


def test_a_process_holds_the_rows_of_all_runs_that_are_open(monkeypatch):
    monkeypatch.setattr(spark_worker, "_HELD", held := {("one", 0): 1, ("two", 0): 2})
    assert list(spark_worker.forget(frozenset({"one", "two"}), [0])) == [0]
    assert len(held) == 2
    assert list(spark_worker.forget(frozenset({"two"}), [0])) == [0]
    assert list(held) == [("two", 0)]


def test_rows_come_back_from_their_bytes():
    kept = []

    def keep(loads):
        kept.append(Processes(loads))
        return kept[0]

    unit = {"column": "person", "max_rows": 20}
    model = PrivBoostClassifier(1.0, 1e-6, make_domain(CLASSES, unit), n_estimators=1, backend=keep)
    rows = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Processes, "close", lambda self: rows.extend(self._rows))
        model.fit(pa.Table.from_pandas(make_frame(400), preserve_index=False))
    blobs = [blob for each in rows for blob in each]
    assert len(blobs) > 1
    for blob in blobs:
        assert write_rows(*read_rows(blob)) == blob


@pytest.mark.parametrize("unit", [None, {"column": "person", "max_rows": 2}])
def test_sides_of_a_search_are_those_of_one_machine(unit):
    frame = make_frame(400).assign(person=[k // 3 for k in range(400)])

    def search(**how):
        base = SBDTClassifier(domain=make_domain(unit=unit), n_estimators=2, max_depth=2, **how)
        tried = [{"subsample": 0.5 if unit is None else 1.0}]
        own = PrivateSearchCV(base, tried, 1.0, 1e-6, expected_runs=1.5, random_state=3)
        return own.fit(frame)

    here, there = search(), search(backend=Processes)
    assert there.best_score_ == here.best_score_
    assert model_bytes(there.best_estimator_.model_) == model_bytes(here.best_estimator_.model_)


def test_a_partition_that_was_counted_otherwise_is_refused():
    data = next_loader().to_bytes()
    own = mock.patch.object(spark_worker, "_own_number", return_value=0)
    with own, pytest.raises(ClusterError):
        list(spark_worker.code(__version__, data, [7], []))


def next_loader():
    seen = []

    def keep(loads):
        seen.append(loads[0].loader)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        PrivBoostClassifier(1.0, 1e-6, make_domain(), backend=keep).fit(make_frame(10))
    return seen[0]
