"""Which rows go where: all of them once, in order, whatever devices hold."""

from itertools import chain

import numpy as np
import pytest

from privboost.cuda import backend
from privboost.cuda.device import StreamingDevice
from privboost.data.rows import Codes, Layout, Rows
from tests.cuda.processor_device import ProcessorDevice

LAYOUT = Layout((4, 300))
ROW_BYTES = 3 + backend._STATE_BYTES


def blocks_of(*sizes):
    return [Rows(Codes.empty(LAYOUT, rows), np.zeros(rows, dtype=np.uint8)) for rows in sizes]


def rows_of(blocks):
    return sum(map(len, blocks))


@pytest.mark.parametrize("free", [0, 130 * ROW_BYTES, 2**40])
@pytest.mark.parametrize("count", [1, 3])
def test_each_block_is_dealt_out_once(free, count, monkeypatch):
    monkeypatch.setattr(backend, "_LEAST_STREAMED", 120)
    blocks, devices = blocks_of(*[50] * 20, 7), [ProcessorDevice(free=free) for _ in range(count)]
    lots = backend.distribute(blocks, devices, least_rows=1)
    dealt = [block for lot in lots for shard in lot.shards for block in shard]
    assert sorted(map(id, dealt)) == sorted(map(id, blocks))
    streamed = [lot for lot in lots if isinstance(lot.device, StreamingDevice)]
    assert len(streamed) == (0 if free == 2**40 else 2 * count)
    for lot in streamed:
        assert max(map(rows_of, lot.shards)) <= 120
    held = [lot for lot in lots if lot not in streamed]
    assert [lot.device for lot in held] == (devices if free else [])
    if free == 2**40:
        assert dealt == blocks
        shares = [rows_of(chain(*lot.shards)) for lot in held]
        assert max(shares) - min(shares) <= 2 * 50
    assert all(rows_of(chain(*lot.shards)) * ROW_BYTES <= free for lot in held)


def test_few_rows_go_to_one_device():
    devices = [ProcessorDevice() for _ in range(8)]
    for rows, used in ((0, 1), (1000, 1), (2 * backend.LEAST_ROWS, 2), (10**9, 8)):
        assert backend.devices_for(rows, 8) == used
    (lot,) = backend.distribute([], devices)
    assert lot.shards == [[]]


def test_what_is_brought_at_once_depends_on_the_plan_and_the_device_alone():
    """Not on the number of rows: none of them can make a command fail."""
    for spare, most in ((2**14, backend._LEAST_STREAMED), (2**25, 2**25 // 4 // ROW_BYTES)):
        device = ProcessorDevice(free=0)
        device.spare = spare
        for count in (1, 5, 40):
            lots = backend.distribute(blocks_of(*[30_000] * count), [device])
            largest = max(rows_of(shard) for lot in lots for shard in lot.shards)
            assert largest == min(count, most // 30_000) * 30_000
