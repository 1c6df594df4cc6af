"""Dask's workers as the driver sees them: who is there, and waiting that comes to an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from distributed import Client, Future, KilledWorker, default_client

from privboost.clusters.dask_worker import Failure, own_version
from privboost.clusters.parts import NO_PRIVBOOST, other_version
from privboost.errors import ClusterError, SchemaError

_PATIENCE = 1.0
"""After so many seconds without an answer, somebody asks whether the worker is still there."""
_SILENCE = 30.0
"""A scheduler that says nothing for so many seconds is gone."""
_ABSENCE = 10.0
"""So many seconds a task waits for the only worker that could do it, should it come back."""
_GONE = "the Dask scheduler cannot be reached"
_STRANDED = "a partition can be read by a worker alone that is no longer there"


class LostError(Exception):
    """A worker is gone, and what it held with it."""


class DaskCluster:
    """The workers of a client.

    Parameters
    ----------
    client : distributed.Client
        The client.
    """

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
        """Return the threads of each worker that is there, by its address."""
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
        """Have workers begin some tasks."""
        futures = _try(lambda: self.client.compute(list(tasks)))
        if isinstance(futures, Exception):
            raise ClusterError(
                f"the active client cannot compute the frame ({type(futures).__name__}): what was "
                "persisted with another one is gone with it"
            )
        begun: list[Future] = futures
        return begun

    def check_versions(self) -> None:
        """Refuse workers that have another privboost, or none."""

        # Within this method, so that it travels whole to workers that have no privboost.
        def tell() -> str:
            try:
                from privboost import __version__
            except Exception:
                return ""
            return __version__

        found = self.client.run(tell, workers=list(self.threads()), on_error="return")
        for version in found.values():
            if isinstance(version, Exception):
                continue  # the worker is gone by now
            if not version:
                raise ClusterError(NO_PRIVBOOST)
            if version != own_version():
                raise ClusterError(other_version(version, own_version()))

    def ask(self, actor: Any, question: str, *message: Any) -> Any:
        """Ask an actor, and do not wait; return None if Dask knows that it is lost."""
        call = _try(lambda: getattr(actor, question)(*message))
        return None if isinstance(call, Exception) else call

    def answer(self, call: Any, future: Future, worker: str) -> Any:
        """Wait for what an actor answers to a call.

        Raises
        ------
        LostError
            If its worker is gone.
        """
        while call is not None:
            answer = _try(lambda: call.result(timeout=_PATIENCE))
            if not isinstance(answer, Exception):
                return _judge(answer)
            lost = future.status != "finished" or worker not in self.threads()
            if lost or not isinstance(answer, TimeoutError):
                break
        raise LostError

    def wait(self, future: Future, columns: Sequence[str], worker: str | None = None) -> Any:
        """Wait for a task that reads columns of a frame.

        Parameters
        ----------
        future : Future
            The task.
        columns : sequence of str
            What it reads: names that an error may tell.
        worker : str, optional
            The address of the only worker that can do it.

        Raises
        ------
        LostError
            If that worker is gone, or something that was needed was lost with another.
        ClusterError
            If something is needed that nobody who is there may compute.
        """
        looked, stranded = time.monotonic(), False
        while True:
            done = _try(lambda: future.result(timeout=_PATIENCE))
            if not isinstance(done, Exception):
                return _judge(done)
            there = self.threads()
            if worker is not None and worker not in there:
                raise LostError
            if future.status in ("pending", "finished"):  # since then, perhaps
                if time.monotonic() - looked > _ABSENCE:
                    was, stranded = stranded, self._is_stranded(future)
                    if was and stranded:
                        raise ClusterError(_STRANDED)
                    looked = time.monotonic()
                continue
            if future.status != "error" or isinstance(done, KilledWorker):
                raise LostError
            raise _unreadable(done, columns)

    def _is_stranded(self, future: Future) -> bool:
        """Whether a task waits for one that no worker may do."""
        key = future.key

        # Within this method, so that it travels whole: a scheduler may have no privboost.
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
        """Have workers let go of results and of all that was made of them.

        Whoever else refers to them (an error's frames, say).
        """
        _try(lambda: self.client.cancel(list(futures), force=True))  # a lost cluster has none


def _try(act: Callable[[], Any]) -> Any:
    """Return an error instead of raising it: what is raised in its place has no other behind it."""
    try:
        return act()
    except Exception as error:
        return error


def _judge(result: Any) -> Any:
    if isinstance(result, Failure):
        raise (SchemaError if result.of_schema else ClusterError)(result.reason)
    return result


def _unreadable(error: Exception, columns: Sequence[str]) -> Exception:
    """Say that a partition cannot be computed; what its own error says may be private."""
    said = str(error)
    missing = said if isinstance(error, KeyError) else said.partition("\n  Missing: ")[2]
    for name in columns:  # pandas and Dask write them so
        if repr(name) in missing:
            return SchemaError(f"a partition has no column {name!r}")
    return ClusterError(
        f"a partition of the frame cannot be computed ({type(error).__name__}): compute it without "
        "privboost to see why"
    )
