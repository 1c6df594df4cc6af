"""Rows that lie with Spark: a real session, and the bytes of the local backend."""

import base64
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: extra 'spark'")

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import SQLTransformer

from privboost import (
    Domain,
    PrivateSearchCV,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    evaluate,
)
from privboost._core.errors import ClusterError, ModelFileError, SchemaError
from privboost.distributed import spark_backend, spark_worker
from privboost.distributed.spark_backend import SparkBackend, open_frame
from privboost.models.model import model_bytes
from privboost.spark import SparkEstimator, SparkModel, score_column
from tests import fits
from tests.distributed.spark_frames import ROWS, make_table, to_spark
from tests.tables import CLASSES, NUMBER, THREE, make_domain


def make(kind, target=CLASSES, unit=None, **how):
    shared = {"epsilon": 3.0, "delta": 1e-6, "n_estimators": 3, "random_state": 7}
    return kind(**(shared | {"domain": make_domain(target, unit)} | how))


def n_persisted(spark):
    return spark.sparkContext._jsc.getPersistentRDDs().size()


PEOPLE = {"column": "person", "max_rows": 20}


def same_bytes(spark, fit, **how):
    table = make_table(fit.target)
    here, there = (fit(rows, **how) for rows in (table, to_spark(spark, table)))
    assert model_bytes(there.model_) == model_bytes(here.model_)
    assert n_persisted(spark) == 0


def test_every_recipe_gives_the_same_bytes(spark, basic_fit):
    more = {"interactions": False, "at_once": 8} if basic_fit.recipe == "privboost" else {}
    same_bytes(spark, basic_fit, n_estimators=2, **more)


ALSO = ["sbdt 4, three classes", "DPXGBClassifier 1", "PrivBoostRegressor, units"]
ALSO += ["PrivBoostRegressor, intervals", "PrivBoostRegressor, relative"]
ALSO += ["PrivBoostSurvival, pure"]


@pytest.mark.parametrize("name", ALSO)
def test_interactions_samples_and_filters_give_the_same_bytes(spark, name):
    same_bytes(spark, fits.ALL[name], n_estimators=2)


@pytest.mark.parametrize("unit", [None, PEOPLE], ids=["row", "unit"])
def test_evaluations_are_those_of_one_machine(spark, unit):
    table = make_table(CLASSES)
    model = make(PrivBoostClassifier, CLASSES, unit=unit, interactions=False).fit(table)
    how = {"epsilon": 1.0, "by": ["job", "age"], "random_state": 3}
    assert evaluate(model, to_spark(spark, table), **how) == evaluate(model, table, **how)
    assert n_persisted(spark) == 0


def test_a_search_has_the_winner_of_one_machine(spark):
    table = make_table()

    def search(rows, unit=PEOPLE | {"max_rows": 1}):
        base = make(SBDTClassifier, unit=unit, n_estimators=2, max_depth=2)
        base.set_params(random_state=None)
        how = {"expected_runs": 1.2, "random_state": 3}
        return PrivateSearchCV(base, [{"subsample": 0.5}], 1.0, 1e-6, **how).fit(rows)

    found = [search(table), search(to_spark(spark, table, [0, 0, 1, 599, ROWS]))]
    assert found[0].best_score_ == found[1].best_score_
    assert len({model_bytes(each.best_estimator_.model_) for each in found}) == 1
    assert n_persisted(spark) == 0
    with pytest.raises(ValueError, match="needs a unit column"):
        search(to_spark(spark, table), unit=None)


@pytest.mark.parametrize("cuts", [[0, ROWS], [0, 0, 1, 599, ROWS]], ids=len)
def test_any_partitions_give_the_same_sample(spark, cuts):
    table, how = make_table(), {"subsample": 0.5, "n_estimators": 2}
    here = make(SBDTClassifier, **how).fit(table)
    there = make(SBDTClassifier, **how).fit(to_spark(spark, table, cuts))
    assert model_bytes(there.model_) == model_bytes(here.model_)


def test_a_domain_is_learned_the_same(spark):
    table = make_table().drop_columns(["person", "weight"])
    how = {"domain": None, "epsilon": 30.0, "interactions": False, "at_once": 8}
    here = make(PrivBoostClassifier, **how).fit(table, "income")
    there = make(PrivBoostClassifier, **how).fit(to_spark(spark, table), "income")
    assert there.domain_ == here.domain_
    assert model_bytes(there.model_) == model_bytes(here.model_)


def test_max_rows_of_a_unit_are_learned_the_same(spark):
    table = make_table().drop_columns(["weight"])
    unit = {"column": "person", "max_rows": None, "weighting": "units"}
    how = {"given": {"unit": unit, "target": CLASSES}, "random_state": 7}
    here, there = (
        Domain.learn(rows, "income", 30.0, 1e-6, **how) for rows in (table, to_spark(spark, table))
    )
    assert here.unit.max_rows > 1
    assert there.to_dict() == here.to_dict()


def test_no_rows_at_all_are_a_table_too(spark):
    table, how = make_table().slice(0, 0), {"interactions": False, "at_once": 8}
    frame = spark.createDataFrame([], to_spark(spark, table).schema)
    here, there = (make(PrivBoostClassifier, **how).fit(each) for each in (table, frame))
    assert model_bytes(there.model_) == model_bytes(here.model_)


def test_a_process_that_dies_changes_nothing(spark, tmp_path, monkeypatch):
    """It takes the shards of other partitions along; updates were broadcast or are new."""
    died = str(tmp_path / "died")

    def ask(question, surveyed):
        asked = list(surveyed)
        told = sum(chunk.stop - chunk.first for chunk in question.chunks) + len(question.newest)
        if 2 in dict(asked) and told >= 3 and not os.path.exists(died):
            with open(died, "w"):
                os._exit(1)
        return spark_worker.answer(question, asked)

    table, how = make_table(), {"interactions": False, "n_estimators": 4}
    expected = model_bytes(make(PrivBoostClassifier, **how).fit(table).model_)
    monkeypatch.setattr(spark_backend.spark_worker, "answer", ask)
    monkeypatch.setattr(spark_backend, "_MOST_NEW", 2)
    there = make(PrivBoostClassifier, **how).fit(to_spark(spark, table))
    assert os.path.exists(died)
    assert model_bytes(there.model_) == expected


def test_two_fits_at_once_share_an_application(spark, monkeypatch):
    """They ask in turns; processes are told that both are open, and hold the rows of both."""
    turns, whole, both = threading.Barrier(2), SparkBackend._ask, []

    def ask(self, query):
        turns.wait(600)
        both.append(len(spark_backend._OPEN))
        return whole(self, query)

    table, how = make_table(), {"interactions": False, "at_once": 8}
    here = make(PrivBoostClassifier, **how).fit(table)
    frame = to_spark(spark, table)
    monkeypatch.setattr(SparkBackend, "_ask", ask)
    with ThreadPoolExecutor(2) as pool:
        fits = [pool.submit(make(PrivBoostClassifier, **how).fit, frame) for _ in range(2)]
        for fit in fits:
            assert model_bytes(fit.result(600).model_) == model_bytes(here.model_)
    assert set(both) == {2}
    assert not spark_backend._OPEN
    assert n_persisted(spark) == 0


def test_lost_rows_are_made_again_or_refused(spark, tmp_path, monkeypatch):
    """A frame whose rows change when they are computed again is noticed, not summed."""
    path, lost = tmp_path / "rows", []
    path.write_text("0.1 0.9 0.5")
    name, whole = str(path), SparkBackend._ask

    def rows(_):
        with open(name) as file:
            return [(float(x), str(float(x) > 0.4)) for x in file.read().split()]

    def ask(self, query):
        lost.append(len(lost))
        if len(lost) == 3:
            for rdd in self._persisted:
                rdd.unpersist(blocking=True)
                rdd.persist()
            path.write_text(after)
        return whole(self, query)

    monkeypatch.setattr(SparkBackend, "_ask", ask)
    form = {"version": 1, "features": {"x": {"kind": "numeric", "bounds": [0, 1]}}}
    form["target"] = {"name": "y", "classes": ["False", "True"]}
    frame = spark.createDataFrame(
        spark.sparkContext.parallelize([0], 1).flatMap(rows), "x double, y string"
    )
    model = make(PrivBoostClassifier, interactions=False).set_params(domain=form)
    after = path.read_text()
    model.fit(frame)
    after, lost[:] = "0.1 0.9 0.6", []
    with pytest.raises(ClusterError, match="other rows than"):
        model.fit(frame)
    assert n_persisted(spark) == 0


def test_workers_of_another_version_are_refused(spark, monkeypatch):
    monkeypatch.setattr(spark_backend, "__version__", "0.0")
    with pytest.raises(ClusterError, match=r"the driver has 0\.0"):
        make(PrivBoostClassifier).fit(to_spark(spark, make_table()))
    assert n_persisted(spark) == 0


def test_errors_of_the_frame_quote_no_value(spark):
    frame = to_spark(spark, make_table()).selectExpr(
        "*", "assert_true(place <> 'p7', concat('value ', place)) as broken"
    )
    frame = frame.selectExpr("* except (flag, broken)", "if(broken is null, flag, 0) as flag")
    with pytest.raises(ClusterError, match="a Spark job failed") as caught:
        make(PrivBoostClassifier).fit(frame)
    assert "p7" not in str(caught.value)


def test_what_does_not_fit_is_refused_before_rows_are_read(spark, tmp_path):
    frame = to_spark(spark, make_table())
    ledger = tmp_path / "ledger"
    model = make(PrivBoostClassifier, ledger=str(ledger))
    with pytest.raises(SchemaError, match="must be columns of it"):
        model.fit(frame, np.zeros(ROWS))
    with pytest.raises(SchemaError, match="'age'"):
        model.fit(frame.selectExpr("* except (age)", "array(age) as age"))
    with pytest.raises(SchemaError, match="'age'"):
        model.fit(frame.drop("age"))
    with pytest.raises(SchemaError, match="same name"):
        open_frame(frame.select("age", "age"))
    with pytest.raises(TypeError, match="stream"):
        open_frame(spark.readStream.format("rate").load())
    assert not ledger.exists()
    assert open_frame(frame).count_rows() == ROWS


def test_nothing_private_is_in_the_log_of_events(spark, monkeypatch):
    """Sums, keys of samples and messages travel in closures and results, which are not logged."""
    asked, sums = [], []
    whole = SparkBackend.sum

    def keep(self, query):
        answer = whole(self, query)
        asked.append(query)
        sums.extend(int(value) for value in answer.ravel())
        return answer

    monkeypatch.setattr(SparkBackend, "sum", keep)
    make(SBDTClassifier, subsample=0.5).fit(to_spark(spark, make_table()))
    text = "".join(
        path.read_text()
        for path in spark.events.rglob("*")
        if path.is_file() and path.stat().st_size
    )
    assert "SparkListenerTaskEnd" in text
    numbers = set(re.findall(r"\d+", text))
    large = {str(abs(value)) for value in sums if abs(value) > 2**20}
    assert len(large) > 10
    assert not large & numbers
    keys = {bytes(query.sample.key) for query in asked if query.sample is not None}
    assert keys
    for key in keys:
        for written in (key.hex(), base64.b64encode(key).decode()[:40], str(list(key))):
            assert written not in text
    assert "PVBMSG" not in text


def test_columns_of_scores_are_what_the_model_says(spark):
    table = make_table(THREE)
    frame = to_spark(spark, table)
    model = make(PrivBoostClassifier, THREE, at_once=8).fit(table).model_
    said = frame.select(
        score_column(model).alias("prediction"),
        score_column(model, "probability").alias("chances"),
        score_column(model, "score").alias("score"),
    ).collect()
    assert [row.prediction for row in said] == model.predict(table).tolist()
    np.testing.assert_array_equal([row.chances for row in said], model.predict_proba(table))
    np.testing.assert_array_equal([row.score for row in said], model.decision_function(table))
    number = make(PrivBoostRegressor, NUMBER, interactions=False).fit(make_table(NUMBER)).model_
    said = frame.select(score_column(number).alias("number")).collect()
    np.testing.assert_array_equal([row.number for row in said], number.predict(table))
    with pytest.raises(AttributeError, match="probability"):
        score_column(number, "probability")
    with pytest.raises(ValueError, match="what must be"):
        score_column(number, "odds")


def test_a_pipeline_has_private_stages(spark, tmp_path):
    table = make_table()
    private = make(PrivBoostClassifier, interactions=False, at_once=8, sample_weight_bound=2.0)
    columns = {"prediction": "said", "probability": "chances"}
    halved = SQLTransformer(statement="select * except (gain), gain * 2 as gain from __THIS__")
    stage = SparkEstimator(private, "income", "weight", columns)
    frame = to_spark(spark, table)
    fitted = Pipeline(stages=[halved, stage]).fit(frame)
    doubled = table.to_pandas().assign(gain=lambda own: own.gain * 2)
    here = private.fit(doubled, "income", "weight").model_
    assert model_bytes(fitted.stages[1].model) == model_bytes(here)
    fitted.write().save(str(tmp_path / "pipeline"))
    again = PipelineModel.load(str(tmp_path / "pipeline"))
    assert again.stages[1].uid == fitted.stages[1].uid
    assert model_bytes(again.stages[1].model) == model_bytes(here)
    for each in (fitted, again):
        said = each.transform(frame).select("said", "chances").collect()
        assert [row.said for row in said] == here.predict(doubled).tolist()
        np.testing.assert_array_equal([row.chances for row in said], here.predict_proba(doubled))


def test_a_stage_is_saved_by_itself_and_a_broken_one_refused(spark, tmp_path):
    stage = SparkModel(make(PrivBoostClassifier, interactions=False).fit(make_table()).model_)
    path = str(tmp_path / "stage")
    stage.save(path)
    with pytest.raises(Exception, match="already exists"):
        stage.save(path)
    stage.write().overwrite().save(path)
    assert SparkModel.load(path).columns == {"prediction": "prediction"}
    broken = bytearray(model_bytes(stage.model)[:-9])
    content = spark.createDataFrame([(broken,)], "content binary")
    content.write.mode("overwrite").parquet(f"{path}/model")
    with pytest.raises(ModelFileError):
        SparkModel.load(path)
