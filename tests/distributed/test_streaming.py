"""Streams whose batches lie with a cluster: the bytes of one machine, batch by batch."""

import os
import signal
from itertools import pairwise

import pytest

from privboost import ClusterError, SBDTClassifier, SBDTRegressor, SchemaError
from privboost.models.model import model_bytes
from tests.distributed.hooked import Hooked
from tests.distributed.spark_frames import make_table, to_spark
from tests.tables import CLASSES, NUMBER, make_domain

ROWS = 240
PEOPLE = {"column": "person", "max_rows": 3}


def on_dask(parts):
    def send(request, table):
        request.getfixturevalue("client")
        import dask.dataframe as dd

        return dd.from_pandas(table.to_pandas(), npartitions=parts, sort=False)

    return send


def on_spark(request, table):
    cuts = [0, 100, 100, 180, table.num_rows]
    return to_spark(request.getfixturevalue("spark"), table, cuts)


PLACES = [
    pytest.param(on_dask(3), id="dask-3"),
    pytest.param(on_dask(7), id="dask-7"),
    pytest.param(on_spark, id="spark-4"),
]
ONE_OF_EACH = [PLACES[0], PLACES[2]]


def begin(target=CLASSES, unit=None, **how):
    kind = SBDTRegressor if "bounds" in target else SBDTClassifier
    shared = {"epsilon": 3.0, "delta": 1e-6, "n_estimators": 2, "max_depth": 3, "random_state": 7}
    return kind(domain=make_domain(target, unit), **(shared | how))


def batches(target=CLASSES, count=3):
    return [make_table(target, ROWS, seed) for seed in range(count)]


def known_people(tables):
    """In each batch, new people and some who came before."""
    out = []
    for k, table in enumerate(tables):
        frame = table.to_pandas()
        frame["person"] = [
            None if one is None else f"{one}{k if n % 3 else 0}"
            for n, one in enumerate(table["person"].to_pylist())
        ]
        out.append(type(table).from_pandas(frame, schema=table.schema, preserve_index=False))
    return out


CASES = [
    pytest.param(NUMBER, None, 2, {"sample_weight_bound": 2.0}, id="weights"),
    pytest.param(CLASSES, PEOPLE | {"max_rows": 1}, 3, {"subsample": 0.4}, id="units"),
    pytest.param(CLASSES, PEOPLE | {"weighting": "units"}, 2, {}, id="shared weights"),
]


@pytest.mark.parametrize(("target", "unit", "count", "how"), CASES)
@pytest.mark.parametrize("send", PLACES)
def test_every_batch_gives_the_same_bytes(request, send, target, unit, count, how):
    weight = "weight" if "sample_weight_bound" in how else None
    here, there = begin(target, unit, **how), begin(target, unit, **how)
    for table in known_people(batches(target, count)):
        here.partial_fit(table, sample_weight=weight)
        there.partial_fit(send(request, table), sample_weight=weight)
        assert model_bytes(there.model_) == model_bytes(here.model_)
    assert there._stream.next_id == here._stream.next_id == count * ROWS
    assert there._stream.blocks == []


@pytest.mark.parametrize("unit", [None, PEOPLE])
@pytest.mark.parametrize("send", ONE_OF_EACH)
def test_forgotten_rows_are_gone_and_their_units_known(request, send, unit, tmp_path):
    first, second, _ = known_people(batches())
    here = begin(unit=unit).partial_fit(first).forget_rows().partial_fit(second)
    there = begin(unit=unit).partial_fit(send(request, first))
    with pytest.raises(ValueError, match="such a stream ends with its process"):
        there.save_stream(tmp_path / "state")
    there.forget_rows()
    if unit is None:
        there.save_stream(tmp_path / "state")
        there = begin().load_stream(tmp_path / "state")
    there.partial_fit(send(request, second))
    assert model_bytes(there.model_) == model_bytes(here.model_)


@pytest.mark.parametrize("send", ONE_OF_EACH)
def test_a_domain_is_learned_from_the_first_batch(request, send):
    names = ["age", "step", "flag", "income"]
    first, second, _ = (table.select(names) for table in batches())
    how = {"epsilon": 20.0, "delta": 1e-3, "n_estimators": 3, "random_state": 1}
    here = SBDTClassifier(**how).partial_fit(first, "income").partial_fit(second, "income")
    there = SBDTClassifier(**how).partial_fit(send(request, first), "income")
    there.partial_fit(send(request, second), "income")
    assert model_bytes(there.model_) == model_bytes(here.model_)


def test_a_stream_stays_where_it_began(request, tmp_path):
    table, other, _ = batches()
    sends = [lambda _, rows: rows, on_dask(3), on_spark]
    for k, send in enumerate(sends):
        ledger = tmp_path / f"ledger {k}"
        model = begin(ledger=ledger).partial_fit(send(request, table))
        before = ledger.read_text()
        for elsewhere in sends[:k] + sends[k + 1 :]:
            with pytest.raises(SchemaError, match="stays where it began"):
                model.partial_fit(elsewhere(request, other))
        assert ledger.read_text() == before
        assert model.partial_fit(send(request, other)).n_batches_ == 2


def from_file(request, place, path, table):
    """A frame of two partitions that is read from a file whenever it is computed."""
    table.to_pandas().to_parquet(path)
    name, cuts = str(path), list(pairwise([0, 100, ROWS]))
    if place == "dask":
        request.getfixturevalue("client")
        import dask.dataframe as dd

        def read(cut):
            import pandas as pd

            return pd.read_parquet(name)[slice(*cut)]

        return dd.from_map(read, cuts, meta=table.to_pandas()[:0])
    spark = request.getfixturevalue("spark")

    def rows(cut):
        import pyarrow.parquet as pq

        return [tuple(row.values()) for row in pq.read_table(name).to_pylist()[slice(*cut)]]

    schema = to_spark(spark, table).schema
    return spark.createDataFrame(spark.sparkContext.parallelize(cuts, 2).flatMap(rows), schema)


@pytest.mark.parametrize("place", ["dask", "spark"])
def test_rows_that_changed_since_their_batch_are_refused(request, place, tmp_path):
    """Else they would pay for what others took part in.

    What was reserved by then is not given back: the stream has ended, although nothing was asked.
    """
    first, second, other = batches()
    model = begin().partial_fit(from_file(request, place, tmp_path / "one", first))
    later = from_file(request, place, tmp_path / "two", second)
    other.to_pandas().to_parquet(tmp_path / "one")
    with pytest.raises(ClusterError, match="other rows than"):
        model.partial_fit(later)
    first.to_pandas().to_parquet(tmp_path / "one")
    with pytest.raises(ValueError, match="ends a stream"):
        model.partial_fit(later)


def test_a_worker_that_is_killed_in_a_later_batch_changes_nothing(request):
    client, send = request.getfixturevalue("client"), on_dask(3)
    here, there = (begin(unit=PEOPLE, n_estimators=6) for _ in range(2))
    first, second, _ = known_people(batches())
    there.partial_fit(send(request, first))

    def kill():
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    there.set_params(backend=Hooked(kill)).partial_fit(send(request, second))
    here.partial_fit(first).partial_fit(second)
    assert model_bytes(there.model_) == model_bytes(here.model_)
    client.wait_for_workers(2, timeout=300)
