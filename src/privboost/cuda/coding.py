"""Binning of numeric columns on a device, which receives them as they are in memory.

A number's code is the count of its feature's edges below it, as in `tables.encoding`. The CPU codes
all other columns: categories, dates, strings, and columns with nulls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from privboost.addresses import NUMBERS
from privboost.crew import run_shares
from privboost.cuda.card import Device, spread
from privboost.cuda.tasks import CODE, COLUMN, Task, aligned
from privboost.engine import block_kernels
from privboost.tables.encoding import Encoder
from privboost.tables.features import NumericFeature
from privboost.tables.layout import Layout
from privboost.tables.loader import RowLoader
from privboost.tables.loading import Coded, Load
from privboost.tables.pieces import Batch
from privboost.tables.rows import Codes, Rows
from privboost.tables.values import plain_numbers

_VALUES = 2**24
"""Numbers that are brought to the device at once."""
_MOST_ROWS = 2**19
_FEW_ROWS = 2**15
"""Fewer rows are sooner coded where they lie."""
_MOST_EDGES = 2**13
"""Of columns that one kernel codes: they are near the threads of each block."""
_SLOTS, _SLOT = 3, 2**24
"""Slots of pinned memory, and bytes of each: a multiple of what columns are aligned to."""
_MOST_GAPS = 2
"""Columns of one array are brought with what lies between them, up to so many times their size."""


@dataclass(frozen=True, eq=False)
class Uncoded:
    """Stands where codes do, until a device has coded the numbers.

    Attributes
    ----------
    layout : Layout
        Of all columns.
    edges : tuple of float64 arrays
        Of each feature.
    numbers : mapping from feature to array
        Plain numbers, where they lie.
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
        """The codes of one feature; None where it has numbers."""
        return self.codes.get(feature)


@dataclass(frozen=True, eq=False)
class NumberLoader:
    """Loads rows as another loader does, and leaves numbers for a device to code.

    Attributes
    ----------
    whole : RowLoader
        The other one. Rows of units are bounded by their codes: it has no unit.
    few_rows : int
        Batches of fewer rows are coded here.
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
        """Code some rows, of which the first has this place in its table."""
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
        """Code the other features."""
        rest = [k for k in range(len(encoder.edges)) if k not in without]
        if not rest:
            return {}
        if without not in self._parts:
            domain = encoder.domain
            features = tuple(domain.features[k] for k in rest)
            edges = tuple(encoder.edges[k] for k in rest)
            self._parts[without] = Encoder(replace(domain, features=features), edges)
        codes = self._parts[without].code(batch)
        return {k: codes.column(place) for place, k in enumerate(rest)}

    @cached_property
    def _parts(self) -> dict[frozenset[int], Encoder]:
        """Encoders of some features, by those they leave out."""
        return {}

    def name_units(self, batch: Batch) -> pa.Array:
        """Return the canonical name of each row's unit: there are none."""
        return self.whole.name_units(batch)

    def to_bytes(self) -> bytes:
        """Write the loader for another process, which codes by itself."""
        return self.whole.to_bytes()


def leave_numbers(loads: Sequence[Load]) -> tuple[Sequence[Load], int | None]:
    """Return loads that leave numbers uncoded, and how many rows their blocks have, if all can.

    Rows of many columns are coded by the processor: what is brought at once stays small.
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
    """Code the numbers of blocks, of which each has the place of its first row.

    Parameters
    ----------
    columns : sequence of arrays
        Where codes go, one for each feature.
    n_threads : int
        How many threads copy numbers to where the device takes them from.
    """
    if not blocks:
        return
    # The next plans are made while threads copy.
    with ThreadPoolExecutor(1) as ahead:
        stage = _Stage(device, n_threads)
        plans = ahead.map(_Plan, [block.numbers for _, block in blocks])
        for (first, block), plan in zip(blocks, plans, strict=True):
            there = None  # what is no longer needed there makes room
            there = stage.send(plan)
            for group in _groups(block, min(_MOST_EDGES, device.near // 8)):
                _launch(device, columns, first, block, group, plan, device.address(there))
        device.wait()


class _Stage:
    """Pinned memory by which numbers get to a device: while one slot is sent, the next is filled.

    Threads fill slots in compiled code: copies in Python would wait for its lock.
    """

    def __init__(self, device: Device, n_threads: int) -> None:
        self._device, self._threads = device, n_threads
        self._slots: deque[tuple[np.ndarray, Any]] = deque()

    def send(self, plan: _Plan) -> Any:
        """Have a piece copied to the device, in the queue; return where it is there."""
        device, there = self._device, self._device.bare(plan.size)
        for begin in range(0, plan.size, _SLOT):
            slot, end = self._next_slot(), min(begin + _SLOT, plan.size)
            for at, values in plan.copies_between(begin, end):
                room = slot[at : at + values.nbytes].view(values.dtype)
                cuts = np.arange(self._threads + 1) * len(values) // self._threads
                run_shares(block_kernels.copy_numbers, cuts, (values, room))
            device.send(slot[: end - begin], there, begin)
            self._slots.append((slot, device.mark()))
        return there

    def _next_slot(self) -> np.ndarray:
        """Return a slot that nothing is sent from any more."""
        if len(self._slots) < _SLOTS:
            return self._device.stage(_SLOT)
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
    """Have a kernel code some columns of a block whose bytes are on the device."""
    edges = [block.edges[feature] for feature in group]
    own = np.array(list(map(len, edges)))
    parts = np.zeros(len(group), dtype=COLUMN)
    places = np.array([plan.places[feature] for feature in group], dtype=np.int64)
    parts["values"], parts["stride"] = there + places[:, 0], places[:, 1]
    parts["out"] = np.array([device.target(columns[f]) for f in group], dtype=np.uint64) + first
    parts["kind"] = [NUMBERS.index(block.numbers[f].dtype.str[1:]) for f in group]
    parts["first"], parts["n_edges"] = np.cumsum(own) - own, own
    task = Task(CODE, n=len(block), n_columns=len(group), n_edges=own.sum())
    task.set(columns=task.put(parts), edges=task.put(np.concatenate(edges)))
    device.launch("code_numbers", task, near=8 * int(own.sum()), **spread(device, len(block)))


def _groups(block: Uncoded, most: int) -> Iterator[list[int]]:
    """Part columns into groups whose edges can all be near."""
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
    """How columns of numbers become one piece of memory.

    Columns of one array lie between each other, or beside each other: they are copied with what is
    between them, as bytes. Others are copied one by one.

    Attributes
    ----------
    places : dict from feature to (int, int)
        Where each column begins in the piece, and how many bytes its numbers are apart.
    size : int
        Bytes of the piece.
    copies : list of (int, array)
        What goes where in it.
    """

    def __init__(self, numbers: Mapping[int, np.ndarray]) -> None:
        self.places: dict[int, tuple[int, int]] = {}
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
                self.places[feature] = at + start - low, column.strides[0]
            self.size = aligned(at + high - low)
            return
        for feature, column in zip(features, columns, strict=True):
            self.copies.append((self.size, column))
            self.places[feature] = self.size, column.itemsize
            self.size = aligned(self.size + column.nbytes)

    def copies_between(self, begin: int, end: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield what goes from one place to before another, and where, counted from the first."""
        for at, values in self.copies:
            low, high = max(begin - at, 0), min(end - at, values.nbytes)
            if low < high:
                own = slice(low // values.itemsize, high // values.itemsize)
                yield at + low - begin, values[own]


def _owner(column: np.ndarray) -> np.ndarray:
    """Return the array whose memory a column is part of."""
    return column.base if type(column.base) is np.ndarray else column


def _start(column: np.ndarray) -> int:
    """Return where the first number of a column lies."""
    return int(column.__array_interface__["data"][0])


def _ends(column: np.ndarray, start: int) -> tuple[int, int]:
    """Return where the bytes of a column begin and end."""
    last = (len(column) - 1) * column.strides[0]
    return start + min(last, 0), start + max(last, 0) + column.itemsize
