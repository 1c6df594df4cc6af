"""Distribution of rows over devices, and over device memory and host memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privboost.cuda.card import Device
from privboost.cuda.streaming import StreamingDevice
from privboost.tables.rows import Rows

MOST_ROWS = 2**31
"""Of a shard: kernels number them in 32 bits."""
LEAST_ROWS = 2**20
"""Of a device, where there are several: fewer are sooner done by one alone."""

_STREAMS = 2
"""Queues of rows that are brought to a device: while one copies, kernels work in the other."""
_BESIDE = 48
"""Bytes of a row beside its codes: label, weight, score, budget, leaf, what a command needs."""
_STREAMED = 2**23
"""Rows that are brought at once, at most: the bus is busy while the next are named."""
_LEAST_STREAMED = 2**16
"""At least, whatever the device can spare."""


@dataclass(frozen=True, eq=False)
class Lot:
    """What one thread is to ask about: a device, and the blocks of each shard there."""

    device: Device
    shards: list[list[Rows]]


def deal(
    blocks: Sequence[Rows],
    devices: Sequence[Device],
    most_rows: int = MOST_ROWS,
    least_rows: int = LEAST_ROWS,
) -> list[Lot]:
    """Deal rows out: equal shares for devices, of which what does not fit is brought each time.

    Parameters
    ----------
    blocks : sequence of Rows
        The rows; each device has some that follow each other.
    devices : sequence of Device
        Of which as many are used as have work.
    most_rows : int
        Of a shard.
    least_rows : int
        Of a device, where there are several.
    """
    rows = sum(map(len, blocks))
    used = devices[: devices_for(rows, len(devices), least_rows)]
    lots: list[Lot] = []
    for device, own in zip(used, _shares(blocks, len(used)), strict=True):
        lots += _on_device(device, own, most_rows)
    return lots


def devices_for(rows: int, devices: int, least_rows: int = LEAST_ROWS) -> int:
    """Return how many devices have work."""
    return min(devices, max(rows // least_rows, 1))


def _shares(blocks: Sequence[Rows], count: int) -> list[list[Rows]]:
    """Part blocks into shares of about as many rows, in order."""
    ends = np.cumsum([0, *map(len, blocks)])
    middle = (ends[:-1] + ends[1:]) / 2
    share_of = np.minimum(middle * count // max(int(ends[-1]), 1), count - 1).astype(int)
    return [
        [block for block, own in zip(blocks, share_of, strict=True) if own == k]
        for k in range(count)
    ]


def _on_device(device: Device, blocks: list[Rows], most_rows: int) -> Iterator[Lot]:
    """Yield the lots of one device; the first is of rows that lie there."""
    row_bytes = _BESIDE + (sum(1 + wide for wide in blocks[0].layout.wide) if blocks else 0)
    held, rest = _first(blocks, device.free() // row_bytes)
    if held or not rest:
        yield Lot(device, list(_parts(held, most_rows)) or [[]])
    at_once = device.spare // (2 * _STREAMS) // row_bytes
    at_once = min(max(min(at_once, _STREAMED), _LEAST_STREAMED), most_rows)
    parts = list(_parts(rest, at_once))
    for k in range(min(_STREAMS, len(parts))):
        yield Lot(StreamingDevice(device), parts[k::_STREAMS])


def _first(blocks: list[Rows], rows: int) -> tuple[list[Rows], list[Rows]]:
    """Part blocks in two: the first have at most so many rows."""
    ends = np.cumsum([0, *map(len, blocks)])
    count = int(np.searchsorted(ends, rows, side="right")) - 1
    return blocks[:count], blocks[count:]


def _parts(blocks: Sequence[Rows], most_rows: int) -> Iterator[list[Rows]]:
    """Part blocks into lists of at most so many rows each, or one block."""
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
