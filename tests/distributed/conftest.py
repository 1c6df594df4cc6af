"""One Dask cluster and one Spark session for all tests of clusters."""

import os
import shutil
import sys

import pytest


@pytest.fixture(scope="session")
def client():
    """A client of two workers, which come back when they are killed."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: extra 'dask'")
    from tests.distributed.dask_frames import start

    with start(2) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="session")
def needs_spark():
    """Skip where there is no Spark."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: extra 'spark'")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("Spark needs Java, and there is none")


@pytest.fixture(scope="session")
def spark(needs_spark, tmp_path_factory):
    """A session whose tasks may fail, with a log of events."""
    from pyspark.sql import SparkSession

    events = tmp_path_factory.mktemp("events")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    patch = pytest.MonkeyPatch()
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    made = SparkSession.builder.master("local[2,2]").config(map=settings).getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    made.events = events
    yield made
    made.stop()
    patch.undo()
