"""The Dask backend: one actor on each worker holds a shard; frames are tables.

The driver holds no row. It notices lost workers, loads their rows again, and replays the updates.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

import dask
import dask.dataframe as dd
import narwhals.stable.v1 as nw
import numpy as np
from distributed import Client, Future, KilledWorker, default_client

from privboost import __version__
from privboost._core.errors import ClusterError, SchemaError
from privboost.data.loading import Load, Loader
from privboost.data.table import Batch, FrameTable, RemoteTable
from privboost.distributed.dask_worker import (
    Failure,
    LoadSpec,
    WorkerActor,
    code_part,
    count_part,
    pick_bucket,
    predict_part,
)
from privboost.distributed.partitions import (
    CHANGED,
    NO_PRIVBOOST,
    coding_of,
    loads_of,
    other_version,
)
from privboost.engine.backend import Backend, add_sums, add_tallies
from privboost.engine.queries import Query
from privboost.engine.updates import Update

_MOST_LOSSES = 10
"""Attempts of one call: a cluster that loses more workers meanwhile is unusable."""
_PATIENCE = 1.0
"""Seconds without a reply after which the driver checks that the worker is alive."""
_SILENCE = 30.0
"""Seconds after which a silent scheduler counts as gone."""
_ABSENCE = 10.0
"""Seconds that a task waits for the only worker that may run it."""
_GONE = "the Dask scheduler cannot be reached"
_STRANDED = "the only worker that can read a partition is no longer there"


class LostError(Exception):
    """A worker is lost, and its data with it."""


class DaskCluster:
    """The workers of a client, and calls of them that survive lost workers."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @classmethod
    def active(cls) -> DaskCluster:
        """Return the workers of the active client."""
        try:
            client = default_client()
        except ValueError:
            client = None
        if client is None or client.asynchronous:
            raise ClusterError(
                "a Dask frame needs an active client that is not asynchronous: make one first, "
                "as in client = distributed.Client()"
            )
        return cls(client)

    def threads(self) -> dict[str, int]:
        """Return the threads of each live worker, by its address."""
        found = None
        if self.client.status == "running":
            found = _try(
                lambda: self.client.sync(self.client.scheduler.ncores, callback_timeout=_SILENCE)
            )
        if not isinstance(found, dict):
            raise ClusterError(_GONE)
        if not found:
            raise ClusterError("the Dask cluster has no worker left")
        return dict(sorted(found.items()))

    def compute(self, tasks: Sequence[Any]) -> list[Future]:
        """Start some tasks."""
        futures = _try(lambda: self.client.compute(list(tasks)))
        if isinstance(futures, Exception):
            raise ClusterError(
                f"the active client cannot compute the frame ({type(futures).__name__}): data "
                "persisted with another client is gone with it"
            )
        begun: list[Future] = futures
        return begun

    def check_versions(self) -> None:
        """Refuse workers that have another privboost, or none."""

        # A closure is pickled by value, so it also runs on workers without privboost.
        def worker_version() -> str:
            try:
                import privboost
            except Exception:
                return ""
            return privboost.__version__

        found = self.client.run(worker_version, workers=list(self.threads()), on_error="return")
        for version in found.values():
            if isinstance(version, Exception):
                continue  # the worker is gone by now
            if not version:
                raise ClusterError(NO_PRIVBOOST)
            if version != __version__:
                raise ClusterError(other_version(version, __version__))

    def call(self, actor: Any, method: str, *arguments: Any) -> Any:
        """Call an actor without waiting; return None if Dask knows that it is lost."""
        call = _try(lambda: getattr(actor, method)(*arguments))
        return None if isinstance(call, Exception) else call

    def result(self, call: Any, future: Future, worker: str) -> Any:
        """Return the result of an actor's call; raise `LostError` if its worker is lost."""
        while call is not None:
            result = _try(lambda: call.result(timeout=_PATIENCE))
            if not isinstance(result, Exception):
                return _unwrapped(result)
            lost = future.status != "finished" or worker not in self.threads()
            if lost or not isinstance(result, TimeoutError):
                break
        raise LostError

    def wait(self, future: Future, columns: Sequence[str], worker: str | None = None) -> Any:
        """Return the result of a task that reads columns of a frame: an error may name them.

        Raises `LostError` if the only worker that may run it is lost, or a dependency with another
        one, and `ClusterError` if no live worker may compute a dependency.
        """
        looked, stranded = time.monotonic(), False
        while True:
            before, done = future.status, _try(lambda: future.result(timeout=_PATIENCE))
            if not isinstance(done, Exception):
                return _unwrapped(done)
            there, status = self.threads(), future.status
            if worker is not None and worker not in there:
                raise LostError
            if isinstance(done, TimeoutError) and (status == "finished" or status != before):
                continue  # it has ended by now
            if status == "pending":
                if time.monotonic() - looked > _ABSENCE:
                    was, stranded = stranded, self._is_stranded(future)
                    if was and stranded:
                        raise ClusterError(_STRANDED)
                    looked = time.monotonic()
                continue
            if status != "error" or isinstance(done, KilledWorker):
                raise LostError
            raise _unreadable(done, columns)

    def _is_stranded(self, future: Future) -> bool:
        """Whether a task depends on one that no live worker may run."""
        key = future.key

        # A closure is pickled by value: a scheduler may have no privboost.
        def look(dask_scheduler: Any) -> bool:
            ahead, seen = [dask_scheduler.tasks.get(key)], set()
            while ahead:
                task = ahead.pop()
                if task is None or task in seen:
                    continue
                if task.state == "no-worker":
                    return True
                seen.add(task)
                ahead.extend(task.dependencies)
            return False

        return _try(lambda: self.client.run_on_scheduler(look)) is True

    def forget(self, futures: Sequence[Future]) -> None:
        """Release results on the workers, even if other references to them exist.

        An error's frames may hold some, for example.
        """
        _try(lambda: self.client.cancel(list(futures), force=True))  # a lost cluster holds none


def _try(act: Callable[[], Any]) -> Any:
    """Return an error instead of raising it, so that the error raised instead has no context."""
    try:
        return act()
    except Exception as error:
        return error


def _unwrapped(result: Any) -> Any:
    if isinstance(result, Failure):
        raise (SchemaError if result.of_schema else ClusterError)(result.reason)
    return result


def _unreadable(error: Exception, columns: Sequence[str]) -> Exception:
    """Return the error about a partition that fails; its own error may quote private data."""
    text = str(error)
    missing = text if isinstance(error, KeyError) else text.partition("\n  Missing: ")[2]
    for name in columns:  # pandas and Dask write them so
        if repr(name) in missing:
            return SchemaError(f"a partition has no column {name!r}")
    return ClusterError(
        f"a partition of the frame cannot be computed ({type(error).__name__}): compute it without "
        "privboost to see why"
    )


@dataclass(eq=False)
class ActorHandle:
    """One actor as the driver knows it.

    It holds every n-th partition from its number on, or the units of the bucket of that number.
    """

    number: int
    worker: str = ""
    future: Future | None = None  # keeps the actor alive
    actor: Any = None  # None before it is loaded, and after it is lost
    followed: int = 0  # updates of the log that it has followed


class DaskBackend:
    """One actor on each worker. The driver holds no row, and a lost actor is loaded again.

    Updates are logged and sent with the next query, so a round is one message to each worker, and
    an actor that was loaded again replays the whole log. The batches of a stream are several
    frames.
    """

    def __init__(self, cluster: DaskCluster, loads: Sequence[tuple[DaskTable, Loader]]) -> None:
        self._cluster, self._loads = cluster, loads
        self._log: list[bytes] = []
        cluster.check_versions()
        threads = cluster.threads()
        most = max(threads.values())
        self._specs = [
            LoadSpec(loader.to_bytes(), source.declared(loader.columns), __version__, most)
            for source, loader in loads
        ]
        self._by_unit = loads[0][1].unit is not None
        self._partitions = [
            (number, part)
            for number, (source, _) in enumerate(loads)
            for part in range(len(source.lengths))
        ]
        actors = len(threads) if self._by_unit else min(len(threads), len(self._partitions))
        self._handles = [ActorHandle(number) for number in range(actors)]
        try:
            self._all("follow")
        except BaseException:
            self.close()
            raise

    def sum(self, query: Query) -> np.ndarray:
        return add_sums(self._all("sum", query.to_bytes()))

    def apply(self, update: Update) -> None:
        """Log an update, which is sent with the next query."""
        self._log.append(update.to_bytes())

    def tally(self) -> dict[bytes, int]:
        return add_tallies(self._all("tally"))

    def close(self) -> None:
        for handle in self._handles:
            self._leave(handle)
        self._handles, self._log = [], []

    def _leave(self, handle: ActorHandle) -> None:
        """Release an actor."""
        if handle.future is not None:
            self._cluster.forget([handle.future])
        handle.future, handle.actor, handle.followed = None, None, 0

    def _all(self, method: str, *arguments: bytes) -> list[Any]:
        """Call a method of every actor; a lost actor is loaded again, and called again."""
        results: dict[ActorHandle, Any] = {}
        for _ in range(_MOST_LOSSES):
            pending = [handle for handle in self._handles if handle not in results]
            self._load([handle for handle in pending if handle.actor is None])
            there = [handle for handle in pending if handle.actor is not None]
            results |= self._call_all(there, method, arguments)
            if len(results) == len(self._handles):
                return list(results.values())
        raise ClusterError("the Dask cluster keeps losing workers")

    def _call_all(
        self, handles: Sequence[ActorHandle], method: str, arguments: Sequence[bytes]
    ) -> dict[ActorHandle, Any]:
        """Call some actors concurrently; return the results of those that are not lost."""
        calls = {
            handle: self._cluster.call(
                handle.actor, method, handle.followed, self._log[handle.followed :], *arguments
            )
            for handle in handles
        }
        results = {}
        for handle, call in calls.items():
            try:
                results[handle] = self._cluster.result(call, handle.future, handle.worker)
                handle.followed = len(self._log)
            except LostError:
                self._leave(handle)
        return results

    def _load(self, handles: Sequence[ActorHandle]) -> None:
        """Load the rows of some actors; the handles of those lost meanwhile stay empty."""
        if not handles:
            return
        workers = list(self._cluster.threads())
        actors_on = Counter(handle.worker for handle in self._handles if handle not in handles)
        for handle in handles:  # on the worker with the fewest actors
            handle.worker = min(workers, key=lambda worker: actors_on[worker])
            actors_on[handle.worker] += 1
        wanted = sorted({key for handle in handles for key in self._own(handle)})
        tasks = [
            source.coding_tasks(loader, spec)
            for (source, loader), spec in zip(self._loads, self._specs, strict=True)
        ]
        futures = self._cluster.compute([tasks[number][part] for number, part in wanted])
        coded = dict(zip(wanted, futures, strict=True))
        shares = {handle: self._share(coded, handle) for handle in handles}
        try:
            for handle, share in shares.items():
                handle.future = self._cluster.client.submit(
                    WorkerActor, self._specs, share, workers=[handle.worker], actor=True, pure=False
                )
            for handle in handles:
                self._await(handle)
        except BaseException:
            self._cluster.forget(futures)
            raise
        for future in [*futures, *chain(*chain(*shares.values()))]:
            future.release()  # actors hold the rows now

    def _await(self, handle: ActorHandle) -> None:
        """Wait for an actor, and compare the digests of its partitions with earlier ones."""
        columns = [name for _, loader in self._loads for name in loader.columns]
        try:
            actor = self._cluster.wait(handle.future, columns, handle.worker)
            call = self._cluster.call(actor, "digests")
            digests = self._cluster.result(call, handle.future, handle.worker)
        except LostError:
            self._leave(handle)
            return
        for (number, part), digest in zip(self._own(handle), digests, strict=True):
            source, loader = self._loads[number]
            if not source.is_same(coding_of(loader), part, digest):
                raise ClusterError(CHANGED)
        handle.actor = actor

    def _own(self, handle: ActorHandle) -> list[tuple[int, int]]:
        """Return the partitions of an actor's rows: the index of the load, and of the partition."""
        if self._by_unit:
            return self._partitions
        return self._partitions[handle.number :: len(self._handles)]

    def _share(
        self, coded: dict[tuple[int, int], Future], handle: ActorHandle
    ) -> list[list[Future]]:
        """Return an actor's rows of each frame: whole partitions, or the units of its bucket."""
        shares: list[list[Future]] = [[] for _ in self._loads]
        pick, buckets = self._cluster.client.submit, len(self._handles)
        for key in self._own(handle):
            future = coded[key]
            if self._by_unit:
                future = pick(pick_bucket, future, handle.number, buckets, pure=False)
            shares[key[0]].append(future)
        return shares


class DaskTable(RemoteTable):
    """A Dask frame, and the workers that compute it."""

    place = "with Dask's workers"

    def __init__(self, frame: Any, cluster: DaskCluster) -> None:
        self._frame, self._cluster = frame, cluster
        self._digests: dict[tuple[bytes, int], bytes] = {}
        self._empty = FrameTable(nw.from_native(frame._meta, eager_only=True))
        self.columns = self._empty.columns

    def no_rows(self, names: Sequence[str]) -> Batch:
        """Return the named columns as the frame declares them."""
        return self._empty.no_rows(names)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(self.lengths)

    @cached_property
    def lengths(self) -> list[int]:
        """The number of rows of each partition, counted by workers from one column."""
        count = dask.delayed(count_part, pure=False)
        parts = self.parts(self.columns[:1])
        futures = self._cluster.compute([count(part) for part in parts])
        try:
            return [self._cluster.wait(future, self.columns) for future in futures]
        except LostError:  # Dask has retried
            raise ClusterError("workers were lost while the rows were counted") from None
        finally:
            self._cluster.forget(futures)

    def declared(self, names: Sequence[str]) -> Any:
        """Return the named columns of the frame without rows that declares their types."""
        return self._frame._meta[self._own(names)]

    def parts(self, names: Sequence[str]) -> list[Any]:
        """Return the named columns of each partition, lazily."""
        # Not optimised further: Dask would fuse partitions depending on the columns that are read,
        # and a row must have the same index whatever is read.
        named = self._frame[self._own(names)].simplify()
        parts: list[Any] = named.to_delayed(optimize_graph=False)
        return parts

    def coding_tasks(self, loader: Loader, spec: LoadSpec) -> list[Any]:
        """Return the task that codes each partition, lazily."""
        code, firsts = dask.delayed(code_part, pure=False), accumulate(self.lengths, initial=0)
        parts = self.parts(loader.columns)
        if len(parts) != len(self.lengths):
            raise ClusterError(CHANGED)
        return [
            code(part, spec, first, rows)
            for part, first, rows in zip(parts, firsts, self.lengths, strict=False)
        ]

    def _own(self, names: Sequence[str]) -> list[Any]:
        """Return the frame's own labels of these columns, which need not be strings."""
        return [self._frame.columns[self.columns.index(name)] for name in names]

    def open_backend(self, loads: Sequence[Load]) -> Backend:
        """Load the rows on the workers."""
        return DaskBackend(self._cluster, loads_of(loads, DaskTable))

    def is_same(self, coding: bytes, part: int, digest: bytes) -> bool:
        """Whether a partition has the rows that it had when it was first coded with this coding."""
        return self._digests.setdefault((coding, part), digest) == digest


def open_frame(frame: Any) -> DaskTable:
    """Return a Dask frame as a table."""
    _need_frame(frame)
    return DaskTable(frame, DaskCluster.active())


def map_rows(model: Any, method: str, frame: Any) -> Any:
    """Apply a model's method to each partition: lazily, as a Dask series or frame.

    The model is sent to the workers: it contains released values only.
    """
    _need_frame(frame)
    return frame.map_partitions(
        predict_part, model, method, meta=predict_part(frame._meta, model, method)
    )


def _need_frame(frame: Any) -> None:
    if not isinstance(frame, dd.DataFrame):
        raise TypeError("the Dask collection must be a DataFrame")
