"""What happens to a fit, and to what it was charged, when parts of a cluster die or do not fit."""

import json
import os
import subprocess
import sys
import textwrap
import time
from hashlib import sha256
from pathlib import Path

import pytest

from privboost import ClusterError, PrivBoostClassifier, SBDTClassifier
from privboost.models.model import model_bytes
from tests.distributed.spark_frames import make_table
from tests.tables import make_domain, make_frame

LONG = 600
"""Seconds within which anything must have happened, however busy the machine is."""
HOW = {"epsilon": 3.0, "delta": 1e-6, "n_estimators": 4, "max_depth": 3, "random_state": 7}
ON_SPARK = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    from hashlib import sha256
    from pyspark.sql import SparkSession
    from privboost import ClusterError, SBDTClassifier
    from privboost.models.model import model_bytes
    from tests.distributed.hooked import Hooked
    from tests.distributed.spark_frames import make_table, to_spark
    from tests.distributed.test_faults import HOW
    from tests.tables import make_domain

    def session(master, **more):
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        made = SparkSession.builder.master(master).config(map=settings | more).getOrCreate()
        made.sparkContext.setLogLevel("OFF")
        return made
""")


def wait_until(true, what):
    until = time.monotonic() + LONG
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.1)


def run(script, *arguments, **environment):
    """Run a script in a process of its own; return how it ended, and what it said."""
    environment = {"PYSPARK_PYTHON": sys.executable} | environment
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=LONG,
    )


def check_ledger(path):
    """One reservation, and every charge up to the sum that was asked for last."""
    entries = [json.loads(line)["entry"] for line in path.read_text().splitlines()]
    assert entries[0] == "reserve"
    assert entries.count("reserve") == 1
    assert "charge" in entries
    return entries


def is_running(pid):
    """Whether a process is there, and not merely waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_driver_that_is_killed_on_dask_has_reserved_once(client, tmp_path):
    script = """
        import os, sys
        import dask.dataframe as dd
        from distributed import Client
        from privboost import PrivBoostClassifier
        from tests.distributed.hooked import Hooked
        from tests.tables import make_domain, make_frame

        with Client(sys.argv[1]):
            table = dd.from_pandas(make_frame(200), npartitions=3, sort=False)
            die = Hooked(lambda: os.kill(os.getpid(), 9), at=5)
            how = {"backend": die, "ledger": sys.argv[2]}
            PrivBoostClassifier(1.0, 1e-6, make_domain(), **how).fit(table)
    """
    ledger = tmp_path / "ledger"
    assert run(script, client.scheduler.address, ledger).returncode == -9
    entries = check_ledger(ledger)
    assert entries == ["reserve", "charge", "exchange"] + ["charge"] * 4

    def held(dask_worker):
        return [*dask_worker.state.actors, *dask_worker.data]

    wait_until(
        lambda: not any(client.run(held).values()), "workers hold rows of a driver that died"
    )


def test_a_driver_that_is_killed_on_spark_has_reserved_once(needs_spark, tmp_path):
    script = """
        spark = session("local[1]")
        Path(sys.argv[2]).write_text(str(spark.sparkContext._gateway.proc.pid))
        die = Hooked(lambda: os.kill(os.getpid(), 9), at=3)
        model = SBDTClassifier(**HOW, domain=make_domain(), backend=die, ledger=sys.argv[1])
        model.fit(to_spark(spark, make_table()))
    """
    ledger, java = tmp_path / "ledger", tmp_path / "java"
    assert run(ON_SPARK + textwrap.dedent(script), ledger, java).returncode == -9
    assert check_ledger(ledger).count("charge") == 3
    wait_until(lambda: not is_running(int(java.read_text())), "Spark outlives its driver")


def test_an_executor_of_spark_that_is_killed_changes_nothing(needs_spark):
    script = """
        def executors():
            lines = {}
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    lines[path.parent.name] = path.read_bytes()
                except OSError:
                    pass
            application = spark.sparkContext.applicationId.encode()
            return [
                int(pid)
                for pid, line in lines.items()
                if b"CoarseGrainedExecutorBackend" in line and application in line
            ]

        killed = []

        def kill():
            killed.append(executors()[0])
            os.kill(killed[0], 9)

        spark = session("local-cluster[2,1,1024]")
        model = SBDTClassifier(**HOW, domain=make_domain(), subsample=0.5, backend=Hooked(kill))
        model.fit(to_spark(spark, make_table()))
        assert killed and killed[0] not in executors()
        print(sha256(model_bytes(model.model_)).hexdigest())
        spark.stop()
    """
    done = run(ON_SPARK + textwrap.dedent(script))
    assert done.returncode == 0
    here = SBDTClassifier(**HOW, domain=make_domain(), subsample=0.5).fit(make_table())
    assert done.stdout.split()[-1] == sha256(model_bytes(here.model_)).hexdigest()


@pytest.fixture
def stub(tmp_path):
    """A folder that hides privboost from whoever has it in its path."""
    (tmp_path / "privboost").mkdir()
    text = "raise ModuleNotFoundError(\"No module named 'privboost'\", name='privboost')\n"
    (tmp_path / "privboost" / "__init__.py").write_text(text)
    return str(tmp_path)


def test_python_workers_of_spark_without_privboost_are_an_error(needs_spark, stub):
    script = """
        spark = session("local[1,1]", **{"spark.executorEnv.PYTHONPATH": sys.argv[1]})
        try:
            SBDTClassifier(**HOW, domain=make_domain()).fit(to_spark(spark, make_table()))
        except ClusterError as error:
            print("said:", error)
        spark.stop()
    """
    done = run(ON_SPARK + textwrap.dedent(script), stub)
    assert "said: a worker cannot import privboost" in done.stdout


def test_workers_of_dask_without_privboost_are_an_error(stub):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: extra 'dask'")
    from tests.distributed.dask_frames import in_parts, start

    with start(1) as cluster, distributed.Client(cluster) as client:
        command = f"-m distributed.cli.dask_worker {cluster.scheduler_address} --no-nanny"
        worker = subprocess.Popen(
            [sys.executable, *command.split(), "--local-directory", stub],
            env=os.environ | {"PYTHONPATH": stub},
        )
        try:
            client.wait_for_workers(2, timeout=LONG)
            with pytest.raises(ClusterError, match="a worker cannot import privboost"):
                PrivBoostClassifier(1.0, 1e-6, make_domain()).fit(in_parts(make_frame(200), [100]))
        finally:
            worker.terminate()
            worker.wait(LONG)


def test_workers_of_dask_with_several_threads_change_nothing():
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: extra 'dask'")
    from tests.distributed.dask_frames import in_parts, start

    frame, how = make_frame(7000), HOW | {"subsample": 0.5}
    unit = {"column": "person", "max_rows": 1}
    with start(2, threads=3) as cluster, distributed.Client(cluster):
        for domain in (make_domain(), make_domain(unit=unit)):
            here = SBDTClassifier(**how, domain=domain).fit(frame)
            there = SBDTClassifier(**how, domain=domain).fit(in_parts(frame, [6000, 500]))
            assert model_bytes(there.model_) == model_bytes(here.model_)
