"""Coded rows on a device: each column is one contiguous array over all blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import methodcaller
from typing import Any

import numpy as np

from privboost.cuda.card import Device
from privboost.cuda.coding import Uncoded, code_on_device
from privboost.losses import UNKNOWN_LABEL
from privboost.tables.rows import Rows

_LOT = 2**21
_LARGE = 2**18
"""Rows that are joined before they are copied; larger blocks are copied by themselves."""
_PADDING = 64
"""Rows are padded with zeros to a multiple of this: kernels read several at once."""


class DeviceRows:
    """The rows of one shard.

    Attributes
    ----------
    device : Device
        The device.
    n : int
        The number of rows.
    layout : Layout or None
        The layout of the columns; None without blocks.
    columns : list of arrays
        The codes of each feature.
    label, weight, start : arrays, the latter two optional
        As in `tables.rows.Rows`.
    ids : array or None
        The rows' ids, unless they count up from `first_id`.
    first_id : int or None
        The first id; None for rows without ids.
    cohorts : list of (int, int, int)
        The begin, the end and the number of each range of rows of one cohort.
    """

    def __init__(self, device: Device, blocks: Sequence[Rows], n_threads: int = 1) -> None:
        self.device, self.n = device, sum(map(len, blocks))
        self.layout = blocks[0].layout if blocks else None
        wide = self.layout.wide if self.layout else ()
        self.columns = [
            self._column(blocks, methodcaller("column", f), np.uint16 if two else np.uint8)
            for f, two in enumerate(wide)
        ]
        code_on_device(device, self.columns, list(_uncoded(blocks)), n_threads)
        self.label = self._column(blocks, lambda block: block.label, np.uint8)
        self.weight = self._optional(blocks, lambda block: block.weight, np.uint16)
        self.start = self._optional(blocks, lambda block: block.start, np.int32)
        self.first_id, self.ids = self._ids(blocks)
        self.cohorts = list(_cohorts(blocks))

    @cached_property
    def n_unknown(self) -> int:
        """The number of rows with an unknown label."""
        label = self.device.fetch(self.label) if self.device.resident else self.label
        return int(np.count_nonzero(label == UNKNOWN_LABEL))

    def allocate(self, kind: Any) -> Any:
        """Return zeros, one for each row, that stay."""
        return self.device.allocate(padded(self.n), kind)

    def scratch(self, kind: Any) -> Any:
        """Return zeros, one for each row, for one message."""
        return self.device.scratch(padded(self.n), kind)

    def _column(self, blocks: Sequence[Rows], of: Callable[[Rows], Any], kind: Any) -> Any:
        """Copy one column of all blocks to the device, except blocks that the device will code."""
        column, first = self.allocate(kind), 0
        for known, run in groupby(blocks, lambda block: of(block) is not None):
            if not known:
                first += sum(map(len, run))
                continue
            for lot in _lots(run):
                values = np.concatenate([of(block) for block in lot]) if lot[1:] else of(lot[0])
                self.device.write(column, first, values.astype(kind, copy=False))
                first += len(values)
        return column

    def _optional(self, blocks: Sequence[Rows], of: Callable[[Rows], Any], kind: Any) -> Any:
        there = {of(block) is not None for block in blocks}
        if len(there) > 1:
            raise ValueError("either all blocks have weights, and numeric labels, or none has")
        return self._column(blocks, of, kind) if True in there else None

    def _ids(self, blocks: Sequence[Rows]) -> tuple[int | None, Any]:
        if not blocks or any(block.ids is None for block in blocks):
            return None, None
        first = at = int(_ids_of(blocks[0])[0]) if len(blocks[0]) else 0
        for block in blocks:
            if not isinstance(block.ids, range) or block.ids != range(at, at + len(block)):
                return 0, self._column(blocks, _ids_of, np.uint32)
            at += len(block)
        return first, None


def _ids_of(block: Rows) -> np.ndarray:
    return np.asarray(block.ids, dtype=np.uint32)


def padded(rows: int) -> int:
    """Return the padded number of rows."""
    return -(-rows // _PADDING) * _PADDING


def _uncoded(blocks: Sequence[Rows]) -> Iterator[tuple[int, Uncoded]]:
    first = 0
    for block in blocks:
        if isinstance(block.codes, Uncoded):
            yield first, block.codes
        first += len(block)


def _lots(blocks: Iterable[Rows]) -> Iterator[list[Rows]]:
    """Group small blocks."""
    lot: list[Rows] = []
    rows = 0
    for block in blocks:
        lot.append(block)
        rows += len(block)
        if rows >= _LOT or len(block) >= _LARGE:
            yield lot
            lot, rows = [], 0
    if lot:
        yield lot


def _cohorts(blocks: Sequence[Rows]) -> Iterator[tuple[int, int, int]]:
    first = begin = 0
    for k, block in enumerate(blocks):
        first += len(block)
        if k + 1 == len(blocks) or blocks[k + 1].cohort != block.cohort:
            yield begin, first, block.cohort
            begin = first
