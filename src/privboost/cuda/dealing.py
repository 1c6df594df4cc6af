"""Distribution of rows over devices, and over device memory and host memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from privboost.cuda.card import Device
from privboost.cuda.streaming import StreamingDevice
from privboost.tables.rows import Rows

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
