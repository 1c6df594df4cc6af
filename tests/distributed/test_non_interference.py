"""Rows that lie with Dask's or Spark's workers leave nothing of themselves with the driver."""

from functools import partial

import pytest

from privboost import PrivBoostClassifier, SBDTClassifier, evaluate
from tests.non_interference import check, silence
from tests.tables import make_domain, make_frame

UNIT = {"column": "person", "max_rows": 2}
FITS = {
    "effects": partial(PrivBoostClassifier, domain=make_domain()),
    "units": partial(SBDTClassifier, domain=make_domain(unit=UNIT)),
}


def make_tables():
    frame = make_frame(120)
    numbers = [name for name in frame if frame[name].dtype.kind == "f"]
    plain = frame.copy()
    plain[numbers] = plain[numbers].fillna(1.0)
    return {"plain": plain, "with NaN": frame, "one row": plain.iloc[:1]}


def train(fit, rows):
    estimator = fit(epsilon=1.0, delta=1e-6, n_estimators=2, random_state=5, verbose=True)
    return estimator.fit(rows)


def train_and_evaluate(fit, rows):
    estimator = train(fit, rows)
    return estimator, evaluate(estimator, rows, epsilon=1.0, random_state=3)


@pytest.mark.parametrize("name", FITS)
def test_dask(name, client, tmp_path, monkeypatch):
    from privboost.distributed.dask_backend import DaskBackend
    from tests.distributed.dask_frames import in_parts

    silence(monkeypatch, DaskBackend)
    act = partial(train_and_evaluate, FITS[name])
    check(
        lambda table: act(in_parts(table, [len(table) // 2])), make_tables(), tmp_path, exports=()
    )


def test_spark(spark, tmp_path, monkeypatch):
    from privboost.distributed.spark_backend import SparkBackend
    from tests.distributed.spark_frames import table_of, to_spark

    silence(monkeypatch, SparkBackend)

    def spread(frame):
        return to_spark(spark, table_of(frame), [0, len(frame) // 2, len(frame)])

    check(lambda table: train(FITS["units"], spread(table)), make_tables(), tmp_path, exports=())
