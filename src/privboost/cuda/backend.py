"""The backend on this machine's GPUs: `backend="cuda"`, which distributes rows over them.

Rows that do not fit into device memory stay in host memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from privboost._core.threads import ThreadPool
from privboost.cuda.device import Device, StreamingDevice, find_devices, open_device
from privboost.cuda.rows import leave_numbers
from privboost.cuda.shard import DeviceShard
from privboost.data.loading import Coded, Load, load_rows
from privboost.data.rows import Rows
from privboost.engine.backend import LocalBackend, OpenBackend, add_sums
from privboost.engine.queries import Query
from privboost.engine.shard import tally_texts
from privboost.engine.updates import Update

MOST_ROWS = 2**31
"""The most rows of a shard: kernels index them in 32 bits."""
LEAST_ROWS = 2**20
"""The fewest rows of each of several devices: fewer are faster on one alone."""

_STREAMS = 2
"""Streams of out-of-core rows: while one copies, kernels run in the other."""
_STATE_BYTES = 48
"""Bytes of a row besides its codes: label, weight, score, budget, leaf, temporary arrays."""
_STREAMED = 2**23
"""The most out-of-core rows of a shard, which are copied at once."""
_LEAST_STREAMED = 2**16
"""The fewest."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """The shards that one host thread works on: a device, and the blocks of each shard."""

    device: Device
    shards: list[list[Rows]]


def distribute(
    blocks: Sequence[Rows],
    devices: Sequence[Device],
    most_rows: int = MOST_ROWS,
    least_rows: int = LEAST_ROWS,
) -> list[Assignment]:
    """Distribute rows evenly over devices; rows that do not fit into their memory are out of core.

    Parameters
    ----------
    blocks : sequence of Rows
        The rows; those of a device are consecutive.
    devices : sequence of Device
        The devices; only as many are used as the rows are worth.
    most_rows : int
        The most rows of a shard.
    least_rows : int
        The fewest rows of each of several devices.
    """
    rows = sum(map(len, blocks))
    used = devices[: devices_for(rows, len(devices), least_rows)]
    assigned: list[Assignment] = []
    for device, own in zip(used, _shares(blocks, len(used)), strict=True):
        assigned += _assign(device, own, most_rows)
    return assigned


def devices_for(rows: int, devices: int, least_rows: int = LEAST_ROWS) -> int:
    """Return the number of devices that so many rows are worth."""
    return min(devices, max(rows // least_rows, 1))


def _shares(blocks: Sequence[Rows], count: int) -> list[list[Rows]]:
    """Split blocks into consecutive shares of about equal rows."""
    ends = np.cumsum([0, *map(len, blocks)])
    middle = (ends[:-1] + ends[1:]) / 2
    share_of = np.minimum(middle * count // max(int(ends[-1]), 1), count - 1).astype(int)
    return [
        [block for block, own in zip(blocks, share_of, strict=True) if own == k]
        for k in range(count)
    ]


def _assign(device: Device, blocks: list[Rows], most_rows: int) -> Iterator[Assignment]:
    """Yield the shards of one device; the first are in its memory, the others out of core."""
    row_bytes = _STATE_BYTES + (sum(1 + wide for wide in blocks[0].layout.wide) if blocks else 0)
    held, rest = _first(blocks, device.free() // row_bytes)
    if held or not rest:
        yield Assignment(device, list(_parts(held, most_rows)) or [[]])
    at_once = device.spare // (2 * _STREAMS) // row_bytes
    at_once = min(max(min(at_once, _STREAMED), _LEAST_STREAMED), most_rows)
    parts = list(_parts(rest, at_once))
    for k in range(min(_STREAMS, len(parts))):
        yield Assignment(cast(Device, StreamingDevice(device)), parts[k::_STREAMS])


def _first(blocks: list[Rows], rows: int) -> tuple[list[Rows], list[Rows]]:
    """Split blocks in two, of which the first have at most so many rows."""
    ends = np.cumsum([0, *map(len, blocks)])
    count = int(np.searchsorted(ends, rows, side="right")) - 1
    return blocks[:count], blocks[count:]


def _parts(blocks: Sequence[Rows], most_rows: int) -> Iterator[list[Rows]]:
    """Split blocks into lists of at most so many rows each, or of one block."""
    part: list[Rows] = []
    rows = 0
    for block in blocks:
        rows += len(block)
        if part and rows > most_rows:
            yield part
            part, rows = [], len(block)
        part.append(block)
    if part:
        yield part


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
        self._pool = ThreadPool(len(assigned))
        threads = max(n_threads // len(assigned), 1)
        self._workers = self._all(lambda own: _Worker(own, threads), assigned)

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over all rows."""
        return add_sums(self._all(lambda worker: worker.sum(query), self._workers))

    def apply(self, update: Update) -> None:
        """Have every shard follow an update."""
        self._all(lambda worker: worker.apply(update), self._workers)

    def _all(self, act: Callable[[Any], _What], each: Sequence[Any]) -> list[_What]:
        """Call a function on all elements concurrently, on the first in this thread."""
        return self._pool.do([partial(act, own) for own in each])

    def tally(self) -> dict[bytes, int]:
        """Return the count of rows of each text; texts stay in host memory."""
        return tally_texts(self._texts)

    def close(self) -> None:
        """Release the rows and the threads."""
        self._workers, self._texts = [], []
        self._pool.close()
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
            return add_sums(shard.sum(query) for shard in self._shards)

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
        elif load.source.length_is_known:
            rows += load.source.count_rows()
    return rows >= FEW_ROWS
