"""Coded rows on a device: each column is one contiguous array over all blocks.

Numeric columns are binned on the device, which receives them as they are in memory: a number's code
is the count of its feature's edges below it, as in `data.encoding`. The CPU codes all other
columns: categories, dates, strings, and columns with nulls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import methodcaller
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from privboost._core.addresses import NUMBERS
from privboost._core.threads import run_shares
from privboost.cuda.device import CODE, COLUMN, Device, Task, aligned, spread
from privboost.data.encoding import Encoder
from privboost.data.features import NumericFeature
from privboost.data.loading import Coded, Load, RowLoader
from privboost.data.rows import Codes, Layout, Rows, id_array, labels_of_part, need_ids_below
from privboost.data.table import Batch
from privboost.data.values import plain_numbers
from privboost.engine import block_kernels
from privboost.losses.base import UNKNOWN_LABEL
from privboost.randomness.sampling import Sample

_VALUES = 2**24
"""Numbers that are copied to the device at once."""
_MOST_ROWS = 2**19
_FEW_ROWS = 2**15
"""Fewer rows are coded faster on the CPU."""
_MOST_EDGES = 2**13
"""The most edges of the columns of one launch: they are in shared memory."""
_SLOTS, _SLOT = 3, 2**24
"""Buffers of pinned memory, and bytes of each: a multiple of the alignment of columns."""
_MOST_GAPS = 2
"""Columns of one array are copied as one range of at most so many times their size."""


@dataclass(frozen=True, eq=False)
class Uncoded:
    """Columns in place of `Codes`, until a device has coded the numbers.

    Attributes
    ----------
    layout : Layout
        The layout of all columns.
    edges : tuple of float64 arrays
        The bin edges of each feature.
    numbers : mapping from feature to array
        Plain numbers, not copied.
    codes : mapping from feature to array
        The codes of all other features.
    """

    layout: Layout
    edges: tuple[np.ndarray, ...]
    numbers: Mapping[int, np.ndarray]
    codes: Mapping[int, np.ndarray]

    def __len__(self) -> int:
        return len(next(iter((self.numbers or self.codes).values())))

    def column(self, feature: int) -> np.ndarray | None:
        """Return the codes of a feature; None if it is not coded yet."""
        return self.codes.get(feature)


@dataclass(frozen=True, eq=False)
class NumberLoader:
    """Wraps a loader so that numbers are left for a device to code.

    Attributes
    ----------
    whole : RowLoader
        The loader. It has no unit: the rows of a unit are bounded by their codes.
    few_rows : int
        Batches of fewer rows are coded on the CPU.
    """

    unit: ClassVar[None] = None
    by_place: ClassVar[bool] = False

    whole: RowLoader
    few_rows: int = _FEW_ROWS

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self.whole.columns

    def read(self, batch: Batch, first: int) -> Rows:
        """Code some rows, of which the first has this index in its table."""
        encoder = self.whole.encoder
        found = {
            k: plain_numbers(batch[feature.name])
            for k, feature in enumerate(encoder.domain.features)
            if isinstance(feature, NumericFeature)
        }
        numbers = {k: values for k, values in found.items() if values is not None}
        if not numbers or len(batch[encoder.domain.feature_names[0]]) < self.few_rows:
            return self.whole.read(batch, first)
        others = self._coded_here(encoder, batch, frozenset(numbers))
        codes = Uncoded(encoder.layout, encoder.edges, numbers, others)
        return self.whole.join(cast(Codes, codes), batch, first)

    def _coded_here(
        self, encoder: Encoder, batch: Batch, without: frozenset[int]
    ) -> dict[int, np.ndarray]:
        """Code the other features on the CPU."""
        rest = [k for k in range(len(encoder.edges)) if k not in without]
        if not rest:
            return {}
        if without not in self._parts:
            domain = encoder.domain
            features = tuple(domain.features[k] for k in rest)
            edges = tuple(encoder.edges[k] for k in rest)
            self._parts[without] = Encoder(replace(domain, features=features), edges)
        codes = self._parts[without].code(batch)
        return {k: codes.column(own) for own, k in enumerate(rest)}

    @cached_property
    def _parts(self) -> dict[frozenset[int], Encoder]:
        """Encoders of some features, by the features they leave out."""
        return {}

    def name_units(self, batch: Batch) -> pa.Array:
        """Return the canonical name of each row's unit."""
        return self.whole.name_units(batch)

    def to_bytes(self) -> bytes:
        """Return the wrapped loader as bytes for another process."""
        return self.whole.to_bytes()


def leave_numbers(loads: Sequence[Load]) -> tuple[Sequence[Load], int | None]:
    """Return loads that leave numbers uncoded, and the rows of a block; None if some load cannot.

    Rows of many columns are coded on the CPU, so that copies stay small.
    """
    rows = _VALUES // max((len(load.loader.columns) for load in loads), default=1)
    if rows < _FEW_ROWS or not all(_has_numbers(load) for load in loads):
        return loads, None
    left = [Load(NumberLoader(cast(RowLoader, load.loader)), load.source) for load in loads]
    return left, min(rows, _MOST_ROWS)


def _has_numbers(load: Load) -> bool:
    loader = load.loader
    if not isinstance(loader, RowLoader) or isinstance(load.source, Coded):
        return False
    features = loader.encoder.domain.features
    return loader.unit is None and any(isinstance(each, NumericFeature) for each in features)


def code_on_device(
    device: Device, columns: Sequence[Any], blocks: Sequence[tuple[int, Uncoded]], n_threads: int
) -> None:
    """Code the numbers of blocks on a device.

    Parameters
    ----------
    device : Device
        The device.
    columns : sequence of arrays
        The codes of each feature, which are written.
    blocks : sequence of (int, Uncoded)
        The index of each block's first row, and the block.
    n_threads : int
        The host threads that copy numbers to pinned memory.
    """
    if not blocks:
        return
    # Plan the next copies while threads copy.
    with ThreadPoolExecutor(1) as ahead:
        stage = _Stage(device, n_threads)
        plans = ahead.map(_Plan, [block.numbers for _, block in blocks])
        for (first, block), plan in zip(blocks, plans, strict=True):
            there = None  # free the last copy first
            there = stage.copy_into(plan)
            for group in _groups(block, min(_MOST_EDGES, device.shared_memory // 8)):
                _launch(device, columns, first, block, group, plan, device.address(there))
        device.synchronize()


class _Stage:
    """Pinned buffers between host and device: while one is sent, the next is filled.

    Threads fill buffers in compiled code, without Python's lock.
    """

    def __init__(self, device: Device, n_threads: int) -> None:
        self._device, self._threads = device, n_threads
        self._slots: deque[tuple[np.ndarray, Any]] = deque()

    def copy_into(self, plan: _Plan) -> Any:
        """Copy the columns of a plan to the device asynchronously; return the array there."""
        device, there = self._device, self._device.empty_bytes(plan.size)
        for begin in range(0, plan.size, _SLOT):
            slot, end = self._next_slot(), min(begin + _SLOT, plan.size)
            for at, values in plan.copies_between(begin, end):
                target = slot[at : at + values.nbytes].view(values.dtype)
                cuts = np.arange(self._threads + 1) * len(values) // self._threads
                run_shares(block_kernels.copy_numbers, cuts, (values, target))
            device.copy_into(slot[: end - begin], there, begin)
            self._slots.append((slot, device.record_event()))
        return there

    def _next_slot(self) -> np.ndarray:
        """Return a buffer whose copy is complete."""
        if len(self._slots) < _SLOTS:
            return self._device.pinned_bytes(_SLOT)
        slot, mark = self._slots.popleft()
        if mark is not None:
            mark.synchronize()
        return slot


def _launch(
    device: Device,
    columns: Sequence[Any],
    first: int,
    block: Uncoded,
    group: list[int],
    plan: _Plan,
    there: int,
) -> None:
    """Launch the kernel that codes some columns of a block."""
    edges = [block.edges[feature] for feature in group]
    own = np.array(list(map(len, edges)))
    parts = np.zeros(len(group), dtype=COLUMN)
    offsets = np.array([plan.offsets[feature] for feature in group], dtype=np.int64)
    parts["values"], parts["stride"] = there + offsets[:, 0], offsets[:, 1]
    parts["out"] = np.array([device.target(columns[f]) for f in group], dtype=np.uint64) + first
    parts["kind"] = [NUMBERS.index(block.numbers[f].dtype.str[1:]) for f in group]
    parts["first"], parts["n_edges"] = np.cumsum(own) - own, own
    task = Task(CODE, n=len(block), n_columns=len(group), n_edges=own.sum())
    task.set(columns=task.put(parts), edges=task.put(np.concatenate(edges)))
    device.launch("code_numbers", task, shared=8 * int(own.sum()), **spread(device, len(block)))


def _groups(block: Uncoded, most: int) -> Iterator[list[int]]:
    """Group columns so that the edges of a group fit into shared memory."""
    group: list[int] = []
    edges = 0
    for feature in block.numbers:
        edges += len(block.edges[feature])
        if group and edges > most:
            yield group
            group, edges = [], len(block.edges[feature])
        group.append(feature)
    yield group


class _Plan:
    """The layout of columns of numbers in one buffer.

    Columns of one array, interleaved or adjacent, are copied as one range of bytes. Others are
    copied one by one.

    Attributes
    ----------
    offsets : dict from feature to (int, int)
        The offset of each column in the buffer, and the stride of its numbers, in bytes.
    size : int
        Bytes of the buffer.
    copies : list of (int, array)
        The offset of each copy, and its source.
    """

    def __init__(self, numbers: Mapping[int, np.ndarray]) -> None:
        self.offsets: dict[int, tuple[int, int]] = {}
        self.size = 0
        self.copies: list[tuple[int, np.ndarray]] = []
        families: dict[int, list[int]] = {}
        for feature, values in numbers.items():
            families.setdefault(id(_owner(values)), []).append(feature)
        for features in families.values():
            self._add(numbers, features)

    def _add(self, numbers: Mapping[int, np.ndarray], features: list[int]) -> None:
        """Add the columns of one array."""
        columns = [numbers[feature] for feature in features]
        owner, starts = _owner(columns[0]), [_start(column) for column in columns]
        ends = [_ends(column, start) for column, start in zip(columns, starts, strict=True)]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        first, used = _start(owner), sum(column.nbytes for column in columns)
        inside = first <= low and high <= first + owner.nbytes
        plain = owner.flags.forc and not owner.dtype.hasobject
        if inside and plain and high - low <= _MOST_GAPS * used:
            whole = owner if owner.flags.c_contiguous else owner.T
            at = self.size + low % 16  # numbers stay aligned
            self.copies.append((at, whole.reshape(-1).view(np.uint8)[low - first : high - first]))
            for feature, column, start in zip(features, columns, starts, strict=True):
                self.offsets[feature] = at + start - low, column.strides[0]
            self.size = aligned(at + high - low)
            return
        for feature, column in zip(features, columns, strict=True):
            self.copies.append((self.size, column))
            self.offsets[feature] = self.size, column.itemsize
            self.size = aligned(self.size + column.nbytes)

    def copies_between(self, begin: int, end: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the copies within a range of the buffer, with offsets from its begin."""
        for at, values in self.copies:
            low, high = max(begin - at, 0), min(end - at, values.nbytes)
            if low < high:
                own = slice(low // values.itemsize, high // values.itemsize)
                yield at + low - begin, values[own]


def _owner(column: np.ndarray) -> np.ndarray:
    """Return the array that owns a column's memory."""
    return column.base if type(column.base) is np.ndarray else column


def _start(column: np.ndarray) -> int:
    """Return the address of a column's first number."""
    return int(column.__array_interface__["data"][0])


def _ends(column: np.ndarray, start: int) -> tuple[int, int]:
    """Return the addresses of the begin and the end of a column."""
    last = (len(column) - 1) * column.strides[0]
    return start + min(last, 0), start + max(last, 0) + column.itemsize


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
    label, weight, minus_label : arrays, the latter two optional
        As in `data.rows.Rows`.
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
        self.minus_label = self._optional(blocks, lambda block: block.minus_label, np.int32)
        self.first_id, self.ids = self._ids(blocks)
        self.cohorts = list(_cohorts(blocks))

    @cached_property
    def n_unknown(self) -> int:
        """The number of rows with an unknown label."""
        label = self.device.fetch(self.label) if self.device.resident else self.label
        return int(np.count_nonzero(label == UNKNOWN_LABEL))

    def use_part(self, put_aside: Sample, aside: bool) -> None:
        """Make the labels of rows unknown unless they are put aside, or unless they are not."""
        labels = self.all_labels
        ids: Any = None
        if self.first_id is not None:
            ids = range(self.first_id, self.first_id + self.n)
        if self.ids is not None:
            ids = self.to_host(self.ids)
        self.device.write(self.label, 0, labels_of_part(ids, labels, put_aside, aside))
        self.__dict__.pop("n_unknown", None)

    @cached_property
    def all_labels(self) -> np.ndarray:
        """The labels of all rows in host memory, before any row is put aside."""
        return self.to_host(self.label)

    def to_host(self, column: Any) -> np.ndarray:
        """Return a copy of one number for each row."""
        there = self.device.fetch(column) if self.device.resident else column
        return np.array(there[: self.n])

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
        need_ids_below(at)
        return first, None


def _ids_of(block: Rows) -> np.ndarray:
    return id_array(block.ids)


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
