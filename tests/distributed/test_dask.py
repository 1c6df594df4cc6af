"""Rows with Dask's workers: real processes, which give the same bytes as one machine."""

import os
import re
import signal
import time
import uuid
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

distributed = pytest.importorskip("distributed", reason="Dask is not installed: extra 'dask'")
dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed: extra 'dask'")

from privboost import (
    ClusterError,
    Domain,
    PrivateSearchCV,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    SchemaError,
    __version__,
    evaluate,
)
from privboost.dask import from_worker_files
from privboost.distributed.dask_backend import DaskCluster
from privboost.distributed.dask_worker import LoadSpec, code_part
from privboost.models.model import model_bytes
from tests import fits
from tests.distributed.dask_frames import in_parts, start
from tests.distributed.hooked import Hooked
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

ROWS = 700
QUICK = 240
"""Seconds within which an error must come, also on a busy machine."""


def train(kind, table, target=CLASSES, weighted=False, unit=None, domain=None, **how):
    settings = {"epsilon": 3.0, "delta": 1e-6, "n_estimators": 4, "random_state": 7} | how
    if weighted:
        settings |= {"sample_weight_bound": 2.0}
    model = kind(**settings, domain=domain or make_domain(target, unit))
    return model.fit(table, **({"sample_weight": "weight"} if weighted else {}))


def bytes_of(*args, **how):
    return model_bytes(train(*args, **how).model_)


def same_bytes(fit):
    """Check that rows with workers give the bytes of one machine, however they are cut."""
    frame = fit.frame(ROWS)
    expected = model_bytes(fit(frame, n_estimators=4).model_)
    for parts in (3, 7):
        table = dd.from_pandas(frame, npartitions=parts, sort=False)
        assert table.npartitions == parts
        assert model_bytes(fit(table, n_estimators=4).model_) == expected


def test_every_recipe_gives_the_same_bytes(client, basic_fit):
    same_bytes(basic_fit)


SAMPLED = ["sbdt 0, two classes", "sbdt 1, three classes", "sbdt 3, two classes"]
SAMPLED += ["SarusXGBClassifier 4", "BoostedAdaSSPClassifier 3", "PrivBoostRegressor, poisson"]
SAMPLED += ["SBDTRegressor, poisson"]
SAMPLED += ["PrivBoostClassifier 6", "SBDTClassifier 9", "PrivBoostSurvival, units"]
SAMPLED += ["PrivBoostRegressor, intervals", "PrivBoostClassifier, sets"]
SAMPLED += ["PrivBoostRegressor, relative", "PrivBoostRegressor, pure intervals"]


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_filters_and_sketches_give_the_same_bytes(client, name):
    same_bytes(fits.ALL[name])


@pytest.mark.parametrize(("most", "subsample"), [(20, 1.0), (1, 0.4)])
def test_units_in_several_partitions_are_brought_together(client, most, subsample):
    unit = {"column": "person", "max_rows": most}
    frame = make_frame(ROWS)
    how = {"unit": unit, "subsample": subsample, "weighted": True}
    expected = bytes_of(SBDTClassifier, frame, **how)
    assert expected != bytes_of(SBDTClassifier, frame, **how | {"unit": None})
    for sizes in ([1, 200, 300], [100] * 6):
        assert bytes_of(SBDTClassifier, in_parts(frame, sizes), **how) == expected


def test_empty_partitions_and_empty_tables(client):
    frame = make_frame(ROWS)
    expected = bytes_of(SBDTClassifier, frame, subsample=0.5)
    table = in_parts(frame, [0, 300, 0, 0, 400])
    assert bytes_of(SBDTClassifier, table, subsample=0.5) == expected
    for unit in (None, {"column": "person", "max_rows": 2}):
        nobody = bytes_of(PrivBoostClassifier, frame[:0], unit=unit)
        assert bytes_of(PrivBoostClassifier, in_parts(frame[:0], [0]), unit=unit) == nobody


def test_domains_are_learned_where_rows_lie(client):
    table = dd.from_pandas(make_frame(3000).drop(columns=["person", "place"]), npartitions=5)
    local = table.compute()
    how = {"epsilon": 8.0, "delta": 1e-4, "n_estimators": 4, "random_state": 7}
    expected, found = (PrivBoostClassifier(**how).fit(each, "income") for each in (local, table))
    assert model_bytes(found.model_) == model_bytes(expected.model_)
    own = {"target": "income", "epsilon": 8.0, "delta": 1e-4, "random_state": 7}
    assert Domain.learn(table, **own).to_dict() == Domain.learn(local, **own).to_dict()


def test_max_rows_of_a_unit_are_learned_where_rows_lie(client):
    local = make_frame(3000).drop(columns="place")
    own = {"target": "income", "epsilon": 8.0, "delta": 1e-4, "random_state": 7}
    own["given"] = {"unit": {"column": "person", "max_rows": None, "weighting": "units"}}
    local["person"] = [f"p{k // 4}" for k in range(3000)]
    expected = Domain.learn(local, **own)
    assert expected.unit.max_rows == 4
    table = dd.from_pandas(local.sample(frac=1, random_state=1), npartitions=5, sort=False)
    assert Domain.learn(table, **own).to_dict() == expected.to_dict()


def write_files(folder, frame, count=3):
    """Cut a frame into files of its own order; return their paths."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{k}.parquet" for k in range(count)]
    for path, rows in zip(paths, np.array_split(np.arange(len(frame)), count), strict=True):
        frame.iloc[rows].to_parquet(path)
    return paths


@pytest.mark.parametrize("form", ["folder", "list", "glob"])
def test_files_that_workers_read(client, tmp_path, form):
    frame = make_frame(ROWS)
    expected = bytes_of(SBDTClassifier, frame, subsample=0.5)
    paths = write_files(tmp_path / "all", frame)
    given = {"folder": tmp_path / "all", "list": paths, "glob": str(tmp_path / "all" / "*")}
    assert bytes_of(SBDTClassifier, dd.read_parquet(given[form]), subsample=0.5) == expected
    assert bytes_of(SBDTClassifier, given["list"], subsample=0.5) == expected  # on this machine


def in_own_folders(client, folder, frame):
    """Cut a frame into files, and give each worker some that no other can find.

    Paths are relative, and workers stand in folders of their own.
    """
    workers = list(client.scheduler_info()["workers"])
    files = {}
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), len(workers))):
        own = folder / f"worker {k}"
        own.mkdir()
        client.run(os.chdir, str(own), workers=[workers[k]])
        files[workers[k]] = [
            path.relative_to(own) for path in write_files(own / f"{k}", frame.iloc[rows], 2)
        ]
    return files


def test_files_that_one_worker_alone_can_read(tmp_path, monkeypatch):
    frame = make_frame(ROWS)
    how = {"subsample": 0.5, "n_estimators": 8}
    expected = bytes_of(SBDTClassifier, frame, **how)
    monkeypatch.setattr("privboost.distributed.dask_backend._ABSENCE", 0.5)
    with start(2) as cluster, distributed.Client(cluster) as client:
        files = in_own_folders(client, tmp_path, frame)
        table = from_worker_files(files)
        assert table.npartitions == 4
        assert bytes_of(SBDTClassifier, table, **how) == expected
        names = [*make_domain().feature_names, "income"]
        chosen = from_worker_files(files, names)
        assert list(chosen.columns) == names
        assert bytes_of(SBDTClassifier, chosen, **how) == expected
        kill = partial(kill_one, client)
        with pytest.raises(ClusterError, match="no longer there"):
            train(SBDTClassifier, table, backend=Hooked(kill), **how)
        with pytest.raises(ClusterError, match="no worker at"):
            from_worker_files(files)
        with pytest.raises(ValueError, match="at least one file"):
            from_worker_files({})


def kill_one(client):
    """Kill a worker; another one, with another address, will take its place."""
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def test_the_example_of_the_page_runs(client, tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "clusters.md"
    section = page.read_text(encoding="utf-8").split("\n## Dask\n")[1]
    example = section.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    make_domain().to_json("my.domain.json")
    in_parts(make_frame(ROWS), [300]).to_parquet("visits")
    exec(example.replace("Client()", "Client.current()"), {"__name__": "__main__"})
    assert len(pd.read_parquet("chances")) == ROWS


@pytest.mark.parametrize(
    ("kind", "target"),
    [(PrivBoostClassifier, CLASSES), (PrivBoostClassifier, THREE), (PrivBoostRegressor, NUMBER)],
)
def test_predictions_are_lazy_and_those_of_one_machine(client, kind, target):
    frame = make_frame(ROWS, target=target)
    model = train(kind, frame, target)
    table = in_parts(frame, [100, 0, 300])
    names = ["predict"]
    names += ["predict_proba", "decision_function"] if kind is PrivBoostClassifier else []
    for name in names:
        found, expected = getattr(model, name)(table), getattr(model, name)(frame)
        assert isinstance(found, dd.Series if expected.ndim == 1 else dd.DataFrame)
        there = found.compute()
        np.testing.assert_array_equal(there.to_numpy(), expected)
        pd.testing.assert_index_equal(there.index, frame.index)
        if expected.ndim == 2:
            assert list(found.columns) == list(model.classes_)
    with pytest.raises(ValueError, match="return_std"):
        model.model_.predict(table, return_std=True)


@pytest.mark.parametrize("unit", [None, {"column": "person", "max_rows": 2}], ids=["row", "unit"])
@pytest.mark.parametrize("target", [THREE, NUMBER], ids=["classes", "number"])
def test_evaluations_are_those_of_one_machine(client, target, unit):
    kind = PrivBoostRegressor if target is NUMBER else PrivBoostClassifier
    frame = make_frame(ROWS, target=target)
    model = train(kind, frame, target, unit=unit)
    how = {"epsilon": 1.0, "by": ["job", "age"], "random_state": 3}
    assert evaluate(model, in_parts(frame, [10, 200, 0]), **how) == evaluate(model, frame, **how)


def test_a_search_has_the_winner_of_one_machine(client):
    frame = make_frame(ROWS).assign(person=[k // 3 for k in range(ROWS)])
    tried = [{"n_estimators": 3}, {"n_estimators": 6}]

    def search(rows, unit={"column": "person", "max_rows": 3}):  # noqa: B006
        base = PrivBoostClassifier(domain=make_domain(unit=unit), interactions=False)
        how = {"expected_runs": 1.5, "random_state": 3}
        return PrivateSearchCV(base, tried, 1.0, 1e-6, **how).fit(rows)

    found = [search(frame), search(in_parts(frame, [10, 200, 0]))]
    assert found[0].best_score_ == found[1].best_score_
    assert len({model_bytes(each.best_estimator_.model_) for each in found}) == 1
    with pytest.raises(ValueError, match="needs a unit column"):
        search(in_parts(frame, [10, 200, 0]), unit=None)


def test_large_names_of_units_are_the_same_in_every_partition():
    """pandas makes floats of a partition's whole numbers where one is missing."""
    names = [2**60 + 100 * k for k in range(20)]
    whole = make_frame(20).assign(person=names)
    holed = make_frame(20).assign(person=[*map(float, names[:-1]), np.nan])
    loaders = []

    def keep(loads):
        loaders.append(loads[0].loader)
        raise InterruptedError

    domain = make_domain(unit={"column": "person", "max_rows": 1})
    with pytest.raises(InterruptedError):
        PrivBoostClassifier(1.0, 1e-6, domain, backend=keep).fit(whole)
    (loader,) = loaders
    declared = whole[list(loader.columns)].iloc[:0]
    order = LoadSpec(loader.to_bytes(), declared, __version__, 1)
    one, two = (code_part(part[list(loader.columns)], order, 0, 20) for part in (whole, holed))
    told = [[name for block in part.units for name in block.to_pylist()] for part in (one, two)]
    assert told[1] == [*told[0][:-1], None]


def test_partitions_that_dask_would_join_are_read_apart(client, tmp_path):
    frame = make_frame(ROWS)
    for part in range(9):
        frame[part * 60 : (part + 1) * 60].to_parquet(tmp_path / f"{part}.parquet")
    table = dd.read_parquet(tmp_path).assign(more=1)
    table = table[table.age > 30]
    kept = frame[:540][frame[:540].age > 30]
    assert bytes_of(PrivBoostClassifier, table) == bytes_of(PrivBoostClassifier, kept)


def test_nothing_stays_with_workers(client):
    train(PrivBoostClassifier, in_parts(make_frame(ROWS), [300]))
    await_none(client)


def await_none(client):
    def held(dask_worker):
        return [*dask_worker.state.actors, *dask_worker.data]

    until = time.monotonic() + QUICK
    while any(client.run(held).values()):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.parametrize("unit", [None, {"column": "person", "max_rows": 1}])
def test_a_killed_worker_changes_nothing(client, unit):
    frame = make_frame(ROWS)
    how = {"unit": unit, "subsample": 0.5, "n_estimators": 8}
    expected = bytes_of(SBDTClassifier, frame, **how)

    table, kill = in_parts(frame, [100, 200, 300]), partial(kill_one, client)
    assert bytes_of(SBDTClassifier, table, backend=Hooked(kill), **how) == expected
    client.wait_for_workers(2, timeout=300)


@pytest.mark.parametrize("end", ["workers", "scheduler"])
def test_a_lost_cluster_is_an_error_and_no_hang(end):
    with start(1) as cluster, distributed.Client(cluster, set_as_default=True):
        lost = []

        def lose():
            cluster.scale(0) if end == "workers" else cluster.close()
            lost.append(time.monotonic())

        table = in_parts(make_frame(ROWS), [300])
        with pytest.raises(ClusterError, match=r"no worker left|cannot be reached"):
            train(PrivBoostClassifier, table, backend=Hooked(lose))
        assert time.monotonic() - lost[0] < QUICK


class Late:
    """A task that comes to its end just after the patience with it has ended."""

    status = "pending"

    def __init__(self, error=None):
        self._error = error

    def result(self, timeout):
        if self.status == "pending":
            self.status = "error" if self._error else "finished"
            raise TimeoutError
        if self._error:
            raise self._error
        return "done"


def test_a_task_that_ends_late_is_not_taken_for_lost(client):
    cluster = DaskCluster(client)
    assert cluster.wait(Late(), ()) == "done"
    with pytest.raises(SchemaError, match="'age'"):
        cluster.wait(Late(KeyError("age")), ["age"])
    with pytest.raises(ClusterError, match="TimeoutError"):
        cluster.wait(Late(TimeoutError()), ["age"])


def test_versions_must_be_the_same(client):
    def put(version):
        import privboost

        privboost.__version__ = version

    own = __import__("privboost").__version__
    first = next(iter(client.scheduler_info()["workers"]))
    client.run(put, "0.0.1", workers=[first])
    try:
        with pytest.raises(ClusterError, match=r"0\.0\.1"):
            train(PrivBoostClassifier, in_parts(make_frame(ROWS), [300]))
    finally:
        client.run(put, own, workers=[first])


def test_labels_and_weights_are_columns(client):
    table = in_parts(make_frame(ROWS), [300])
    model = PrivBoostClassifier(1.0, 1e-6, make_domain(), sample_weight_bound=2.0)
    with pytest.raises(SchemaError, match="must be columns of it"):
        model.fit(table, table["income"])
    with pytest.raises(SchemaError, match="must be columns of it"):
        model.fit(table, sample_weight=table["weight"])
    with pytest.raises(TypeError, match="must be a DataFrame"):
        model.fit(table["age"])


def at_one(change):
    """Change the second partition, behind Dask's back."""

    def act(part, partition_info=None):
        return part if partition_info["number"] != 1 else change(part)

    return act


ODD = [
    lambda part: part.assign(age=pd.Timestamp("2020-01-01"), job=np.nan),
    lambda part: part.assign(age=pd.Series([1j] * len(part), part.index), job=pd.NaT),
    lambda part: part.assign(age=None, job=pd.Series(None, part.index, dtype="Float64")),
]


@pytest.mark.parametrize("change", ODD)
def test_what_a_partition_holds_instead_is_read_by_value(client, change):
    """An inferred type follows from values, so it must not raise."""
    frame = make_frame(ROWS)
    local = frame.copy()
    local.loc[300:499, "age"], local.loc[300:499, "job"] = np.nan, None
    table = in_parts(frame, [300, 200]).map_partitions(at_one(change), meta=frame[:0])
    assert bytes_of(PrivBoostClassifier, table) == bytes_of(PrivBoostClassifier, local)


@pytest.mark.parametrize("enforced", [False, True])
def test_partitions_without_a_column_are_refused(client, enforced):
    frame = make_frame(ROWS)
    lacking = at_one(lambda part: part.drop(columns="age"))
    how = {"meta": frame[:0], "enforce_metadata": enforced}
    table = in_parts(frame, [300, 200]).map_partitions(lacking, **how)
    with pytest.raises(SchemaError, match="'age'"):
        train(PrivBoostClassifier, table)
    await_none(client)


def test_columns_are_judged_before_anything_is_reserved(client, tmp_path):
    frame = make_frame(ROWS)
    ledger = tmp_path / "ledger"
    for wrong in (frame.drop(columns="age"), frame.assign(age=pd.Timestamp("2020-01-01"))):
        with pytest.raises(SchemaError, match="age"):
            train(PrivBoostClassifier, in_parts(wrong, [300]), ledger=ledger)
    assert not ledger.exists()


def grow(part, folder):
    (folder / uuid.uuid4().hex).touch()
    return part.iloc[: -len(list(folder.iterdir()))]


def test_partitions_that_change_between_readings_are_refused(client, tmp_path):
    frame = make_frame(ROWS)
    table = in_parts(frame, []).map_partitions(grow, tmp_path, meta=frame[:0])
    with pytest.raises(ClusterError, match="other rows than"):
        train(PrivBoostClassifier, table)


def test_what_another_client_persisted_is_gone_with_it(client):
    with another_client(client) as other:
        table = other.persist(in_parts(make_frame(ROWS), [300]))
        keys = [future.key for future in distributed.futures_of(table)]
        distributed.wait(table)
        assert client.run_on_scheduler(are_known, keys)
    until = time.monotonic() + 30  # a busy scheduler forgets a client a little later
    while client.run_on_scheduler(are_known, keys) and time.monotonic() < until:
        time.sleep(0.05)
    with pytest.raises(ClusterError):
        train(PrivBoostClassifier, table)


def another_client(client):
    """Connect to the same scheduler.

    What it still has to tell all clients about the test before may come with its greeting, which
    Dask asserts to come alone.
    """
    for _ in range(20):
        try:
            return distributed.Client(client.scheduler.address, set_as_default=False)
        except AssertionError:
            time.sleep(0.5)
    raise AssertionError("the scheduler's greeting never came alone")


def are_known(keys, dask_scheduler=None):
    return any(key in dask_scheduler.tasks for key in keys)


def test_without_a_client_there_is_a_clear_error(client):
    table = in_parts(make_frame(ROWS), [300])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privboost.distributed.dask_backend.default_client", no_client)
        with pytest.raises(ClusterError, match=r"distributed\.Client"):
            train(PrivBoostClassifier, table)


def no_client():
    raise ValueError("no clients found")


SECRET = "zq8secret"


def fail(part):
    raise ValueError(part["place"].iloc[0])


def test_dask_is_told_nothing_private(client, tmp_path):
    """Not by keys, which would be hashes of what is told, nor by its logs and events."""
    frame = make_frame(ROWS).assign(place=SECRET, person=SECRET)
    how = {"unit": {"column": "person", "max_rows": 1}, "subsample": 0.5}
    table = in_parts(frame, [300, 200])
    for _ in range(2):
        train(SBDTClassifier, table, **how)
    with pytest.raises(ClusterError):
        train(SBDTClassifier, table.map_partitions(grow, tmp_path, meta=frame[:0]), **how)

    def story(dask_scheduler):
        return [str(entry[0]) for entry in dask_scheduler.transition_log]

    keys = set(client.run_on_scheduler(story))
    own = [key for key in keys if re.match(r"WorkerActor|code_part|count_part|pick_bucket", key)]
    assert len(own) > 20
    for key in own:
        uuid.UUID(key.split("-", 1)[1])
        assert uuid.UUID(key.split("-", 1)[1]).version == 4  # drawn, not hashed
    told = [keys, client.get_worker_logs(), client.get_scheduler_logs(), client.get_events()]
    assert SECRET not in repr(told)


def test_a_partition_that_cannot_be_computed_is_not_quoted(client):
    frame = make_frame(ROWS).assign(place=SECRET)
    table = in_parts(frame, [300, 200]).map_partitions(at_one(fail), meta=frame[:0])
    with pytest.raises(ClusterError, match="ValueError") as caught:
        train(PrivBoostClassifier, table)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None
    await_none(client)
