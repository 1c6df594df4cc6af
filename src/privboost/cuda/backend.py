"""The backend on this machine's GPUs: `backend="cuda"`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from privboost.crew import Crew
from privboost.cuda.card import Device, find_devices, open_device
from privboost.cuda.coding import leave_numbers
from privboost.cuda.dealing import LEAST_ROWS, MOST_ROWS, Assignment, devices_for, distribute
from privboost.cuda.shard import DeviceShard
from privboost.engine.backend import LocalBackend, OpenBackend, add_answers
from privboost.engine.queries import Query
from privboost.engine.shard import tally_texts
from privboost.engine.updates import Update
from privboost.tables.cutting import tells_length
from privboost.tables.loading import Coded, Load, load_rows
from privboost.tables.rows import Rows

FEW_ROWS = 2**16
"""With fewer rows, one CPU thread is as fast as a device."""

_What = TypeVar("_What")


class CudaBackend:
    """Rows on devices; sums are those of any other backend, bit for bit.

    Parameters
    ----------
    blocks : sequence of Rows
        The rows, in host memory.
    devices : sequence of Device, optional
        The devices; by default as many of this machine as the rows are worth.
    most_rows : int
        The most rows of a shard.
    least_rows : int
        The fewest rows of each of several devices.
    n_threads : int
        The host threads that copy rows.
    """

    def __init__(
        self,
        blocks: Sequence[Rows],
        devices: Sequence[Device] | None = None,
        most_rows: int = MOST_ROWS,
        least_rows: int = LEAST_ROWS,
        n_threads: int = 1,
    ) -> None:
        if devices is None:
            numbers = find_devices()
            used = devices_for(sum(map(len, blocks)), len(numbers), least_rows)
            devices = [open_device(number) for number in numbers[:used]]
        self._devices = devices
        self._texts = [block.texts for block in blocks]
        assigned = distribute(blocks, devices, most_rows, least_rows)
        self._crew = Crew(len(assigned))
        threads = max(n_threads // len(assigned), 1)
        self._workers = self._all(lambda own: _Worker(own, threads), assigned)

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        return add_answers(self._all(lambda worker: worker.sum(query), self._workers))

    def apply(self, update: Update) -> None:
        """Have every shard follow an update."""
        self._all(lambda worker: worker.apply(update), self._workers)

    def _all(self, act: Callable[[Any], _What], each: Sequence[Any]) -> list[_What]:
        """Call a function on all elements concurrently, on the first in this thread."""
        return self._crew.do([partial(act, own) for own in each])

    def tally(self) -> dict[bytes, int]:
        """Return the count of rows of each text; texts stay in host memory."""
        return tally_texts(self._texts)

    def close(self) -> None:
        """Release the rows and the threads."""
        self._workers, self._texts = [], []
        self._crew.close()
        for device in self._devices:
            with device.activated():
                device.free_memory()


class _Worker:
    """A host thread's shards of one device, which it works on one after the other."""

    def __init__(self, assigned: Assignment, n_threads: int) -> None:
        self._device = assigned.device
        with self._device.activated():
            self._shards = [
                DeviceShard(assigned.device, blocks, n_threads) for blocks in assigned.shards
            ]

    def sum(self, query: Query) -> np.ndarray:
        with self._device.activated():
            return add_answers(shard.sum(query) for shard in self._shards)

    def apply(self, update: Update) -> None:
        with self._device.activated():
            for shard in self._shards:
                shard.apply(update)


def open_cuda(n_threads: int = 1) -> OpenBackend:
    """Return a function that opens a backend on devices; raise here, before rows are read, if none.

    Few rows stay on the CPU, where the same sums are faster.

    Parameters
    ----------
    n_threads : int
        The host threads that read rows, and code the columns that devices do not.
    """
    open_device(find_devices()[0])

    def open_backend(loads: Sequence[Load]) -> CudaBackend | LocalBackend:
        left, rows = leave_numbers(loads) if _are_many(loads) else (loads, None)
        loaded = load_rows(left, n_threads, rows)
        blocks = [block for each in loaded for block in each.blocks]
        if rows is None and sum(map(len, blocks)) < FEW_ROWS:
            return LocalBackend(blocks, n_threads)
        return CudaBackend(blocks, n_threads=n_threads)

    return open_backend


def _are_many(loads: Sequence[Load]) -> bool:
    """Whether the lengths of tables that are known without reading are enough for a device."""
    rows = 0
    for load in loads:
        if isinstance(load.source, Coded):
            rows += sum(map(len, load.source.blocks))
        elif tells_length(load.source):
            rows += load.source.count_rows()
    return rows >= FEW_ROWS
