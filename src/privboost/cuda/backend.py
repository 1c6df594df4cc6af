"""The backend of this machine's devices: `backend="cuda"`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from privboost.crew import Crew
from privboost.cuda.card import Device, find_devices, open_device
from privboost.cuda.coding import leave_numbers
from privboost.cuda.dealing import LEAST_ROWS, MOST_ROWS, Lot, deal, devices_for
from privboost.cuda.shard import DeviceShard
from privboost.engine.backend import LocalBackend, OpenBackend, add_answers
from privboost.engine.queries import Query
from privboost.engine.shard import tally_texts
from privboost.engine.updates import Update
from privboost.tables.cutting import tells_length
from privboost.tables.loading import Coded, Load, load_rows
from privboost.tables.rows import Rows

FEW_ROWS = 2**16
"""So many rows are as soon done by a device as by one thread of a processor."""

_What = TypeVar("_What")


class CudaBackend:
    """Rows on devices; the answers are those of any other backend, bit for bit.

    Parameters
    ----------
    blocks : sequence of Rows
        The rows, in this machine's memory.
    devices : sequence of Device, optional
        Where they go; by default all devices of this machine that have work.
    most_rows : int
        Rows of a shard.
    least_rows : int
        Rows of a device, where there are several.
    n_threads : int
        How many threads bring rows there.
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
        lots = deal(blocks, devices, most_rows, least_rows)
        self._crew = Crew(len(lots))
        threads = max(n_threads // len(lots), 1)
        self._lanes = self._all(lambda lot: _Lane(lot, threads), lots)

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        return add_answers(self._all(lambda lane: lane.sum(query), self._lanes))

    def apply(self, update: Update) -> None:
        """Tell every shard what has been released."""
        self._all(lambda lane: lane.apply(update), self._lanes)

    def _all(self, act: Callable[[Any], _What], lots: Sequence[Any]) -> list[_What]:
        """Act on all lots at once, on the first in this thread."""
        return self._crew.do([partial(act, lot) for lot in lots])

    def tally(self) -> dict[bytes, int]:
        """Return how many rows have each text; texts stay in this machine's memory."""
        return tally_texts(self._texts)

    def close(self) -> None:
        """Let go of the rows and the threads."""
        self._lanes, self._texts = [], []
        self._crew.close()
        for device in self._devices:
            with device.at_work():
                device.rest()


class _Lane:
    """Shards of one device that one thread asks one after the other."""

    def __init__(self, lot: Lot, n_threads: int) -> None:
        self._device = lot.device
        with self._device.at_work():
            self._shards = [DeviceShard(lot.device, blocks, n_threads) for blocks in lot.shards]

    def sum(self, query: Query) -> np.ndarray:
        with self._device.at_work():
            return add_answers(shard.sum(query) for shard in self._shards)

    def apply(self, update: Update) -> None:
        with self._device.at_work():
            for shard in self._shards:
                shard.apply(update)


def open_cuda(n_threads: int = 1) -> OpenBackend:
    """Return what opens a backend on devices; refuse here, before rows are read, if there are none.

    Few rows stay with the processor: their answers, which are the same, are sooner there.

    Parameters
    ----------
    n_threads : int
        How many threads of this machine read rows, and code what devices do not.
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
    """Whether tables tell, without being read, that they have rows enough for a device."""
    rows = 0
    for load in loads:
        if isinstance(load.source, Coded):
            rows += sum(map(len, load.source.blocks))
        elif tells_length(load.source):
            rows += load.source.count_rows()
    return rows >= FEW_ROWS
