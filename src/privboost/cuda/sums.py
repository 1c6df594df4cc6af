"""Sums by cell and by node on a device: choice of kernel, blocks and shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privboost.cuda.device import ADD, MANY_ROWS, NODES, PART, SUM, Device, Task, aligned, spread
from privboost.cuda.rows import DeviceRows
from privboost.trees.cell_map import MOST_FEATURES, CellPart

_MOST_FOLDED = 2048
"""A column of at most so many codes is summed by code, and folded into cells at the end: rows then
need no map, and atomic additions seldom collide."""


@dataclass(frozen=True, eq=False)
class Part:
    """Cells of one column, or of several jointly.

    Attributes
    ----------
    columns : tuple of arrays
        The columns, on the device.
    maps : tuple of uint16 arrays, or None for those whose codes are cells
        From the codes to the cells of each column.
    sizes : tuple of int
        The number of cells of each column.
    first : int
        The index of its first cell in the answer.
    fold : uint32 array, optional
        The cell of the answer, counted from `first`, to which each of these cells is added.
    values : array, optional
        The value of each cell.
    """

    columns: tuple[Any, ...]
    maps: tuple[np.ndarray | None, ...]
    sizes: tuple[int, ...]
    first: int = 0
    fold: np.ndarray | None = None
    values: np.ndarray | None = None

    @cached_property
    def cells(self) -> int:
        """The number of cells."""
        return math.prod(self.sizes)

    @property
    def plain(self) -> bool:
        """Whether the codes of one column are the cells."""
        return len(self.columns) == 1 and self.maps[0] is None


def part_of_cells(rows: DeviceRows, part: CellPart, first: int) -> Part:
    """Return the cells of a part of a `CellMap`."""
    columns = tuple(rows.columns[feature] for feature in part.features)
    if part.alone and len(part.cell_of[0]) <= _MOST_FOLDED:
        return part_of_codes(columns[0], part.cell_of[0], first)
    return Part(columns, part.cell_of, part.sizes, first)


def part_of_codes(column: Any, cell_of: np.ndarray, first: int) -> Part:
    """Return the cells of one column, which is summed by code until the end."""
    return Part((column,), (None,), (len(cell_of),), first, cell_of.astype(np.uint32))


def part_with_values(rows: DeviceRows, part: CellPart, values: np.ndarray) -> Part:
    """Return the cells of a part with their values; those of one column by its codes."""
    columns = tuple(rows.columns[feature] for feature in part.features)
    if part.alone:
        by_code = values[part.cell_of[0]]
        return Part(columns, (None,), (len(by_code),), values=by_code)
    return Part(columns, part.cell_of, part.sizes, values=values)


def part_of_features(
    rows: DeviceRows, features: tuple[int, int], values: np.ndarray | None = None
) -> Part:
    """Return the cells that are the codes of one feature, or pairs of codes of two."""
    own = features[:1] if features[1] < 0 else features
    assert rows.layout is not None
    sizes = tuple(rows.layout.n_codes[feature] for feature in own)
    columns = tuple(rows.columns[feature] for feature in own)
    return Part(columns, (None,) * len(own), sizes, values=values)


def put_parts(device: Device, task: Task, parts: Sequence[Part]) -> int:
    """Append parts to the arguments of a kernel, and return the number of their cells."""
    structs, cells = [], 0
    for part in parts:
        unused = (0,) * (MOST_FEATURES - len(part.columns))
        structs.append(
            (
                (*map(device.address, part.columns), *unused),
                (*(column.dtype.itemsize for column in part.columns), *unused),
                (*(_put(task, own) for own in part.maps), *unused),
                (*part.sizes, *unused),
                len(part.columns),
                part.cells,
                cells,
                _put(task, part.fold),
                _put(task, part.values),
                part.first,
            )
        )
        cells += part.cells
    task.set(n_parts=len(parts), parts=task.put(np.array(structs, dtype=PART)))
    return cells


def _put(task: Task, array: np.ndarray | None) -> int:
    return 0 if array is None else task.put(array)


_SPILL_ROWS = 2**14
"""Rows that one copy of sums takes between two spills: see `kernels/rows.cu`."""
_ROWS_AT_ONCE = 4
_TILE, _ENTRY = 2048, 16
"""Rows of a tile, and bytes of each: see the kernel `sum_by_node`."""
_MOST_VALUES = 2**15
"""The largest table of values in shared memory, in bytes."""
_MOST_MAPS = 2**15
"""The largest maps in shared memory, in bytes."""


def sum_parts(
    device: Device, look_up: np.ndarray, parts: Sequence[Part], out: Any, weighted: bool
) -> None:
    """Add rows' pairs to the cells of each part.

    Parameters
    ----------
    look_up : LOOK_UP
        How pairs are looked up.
    out : int64 array of shape (cells, 2), on the device
    weighted : bool
        Whether rows have weights, so that pairs may be larger.
    """
    rows = int(look_up["n"])
    unit = 16 if weighted else 8
    looks = not weighted and not look_up["pairs"] and rows >= MANY_ROWS
    table = 8 * int(look_up["lines"]) * int(look_up["size"]) if looks else 0
    if table > device.shared_memory // 4:  # labels by bin: the table stays in global memory
        table = 0
    for group in _groups(parts, (device.shared_memory - table) // unit):
        task = Task(SUM, look=look_up, out=device.address(out))
        cells = put_parts(device, task, group)
        if cells * unit > device.shared_memory - table:
            device.launch("sum_global", task, **spread(device, rows, _ROWS_AT_ONCE))
            continue
        alone = not weighted and len(group) == 1 and group[0].plain
        shared = 2 if alone and cells * unit <= _half(device) - table else 1
        most = (_half(device) if shared == 2 else device.shared_memory) - table
        how = spread(device, rows, _ROWS_AT_ONCE, shared)
        copies = _copies(most // (cells * unit), how["threads"])
        chunk = _chunk(rows, how["blocks"], copies, _ROWS_AT_ONCE * how["threads"])
        task.set(cells=cells, copies=copies, chunk=chunk, shared_table=table)
        kernel = "sum_weighted" if weighted else "sum_alone" if alone else "sum_parts"
        device.launch(kernel, task, shared=table + cells * copies * unit, **how)


def add_values(device: Device, state: Any, rows: int, parts: Sequence[Part]) -> None:
    """Add to each row's score the values of its cells."""
    task = Task(ADD, state=device.target(state), n=rows)
    cells = put_parts(device, task, parts)
    how = spread(device, rows, _ROWS_AT_ONCE)
    if len(parts) == 1 and parts[0].plain and 4 * cells <= _MOST_VALUES:
        device.launch("add_alone", task, shared=4 * cells, **how)
    else:
        device.launch("add_values", task, **how)


def sum_by_node(
    device: Device,
    pairs: Any,
    node: Any,
    chosen: Any,
    parts: Sequence[Part],
    out: Any,
    rows: int,
    weighted: bool,
) -> None:
    """Add rows' pairs by node and cell of each part, for the rows of chosen nodes.

    Parameters
    ----------
    pairs, node : arrays on the device
        The pair and the node of each row.
    chosen : uint8 array on the device, or None for all nodes
    parts : sequence of Part
        Each of one column with a map; their cells are consecutive.
    out : int64 array of shape (nodes, cells, 2), on the device
    """
    nodes, all_cells = out.shape[:2]
    available = device.shared_memory - _TILE * _ENTRY - _MOST_MAPS
    for group in _groups(parts, available // (8 * nodes)):
        task = Task(NODES, pairs=device.address(pairs), node=device.address(node))
        task.set(chosen=device.address(chosen), out=device.address(out), n=rows)
        task.set(node_bytes=node.dtype.itemsize, nodes=nodes, all_cells=all_cells)
        begin = task.put(np.zeros(0, dtype=np.uint8))
        cells = put_parts(device, task, group)
        if weighted or cells * nodes * 8 > available:
            device.launch("sum_by_node_global", task, **spread(device, rows))
            continue
        maps = sum(_bytes_behind(own) for part in group for own in part.maps)
        maps = maps if maps <= _MOST_MAPS else 0
        how = spread(device, rows, 2, 1)
        copies = _copies(available // (cells * nodes * 8), how["threads"])
        chunk = _chunk(rows, how["blocks"], copies, _TILE)
        task.set(cells=cells, copies=copies, chunk=chunk, maps=begin, map_bytes=maps)
        shared = _TILE * _ENTRY + cells * nodes * copies * 8 + maps
        device.launch("sum_by_node", task, shared=shared, **how)


def _groups(parts: Sequence[Part], most: int) -> Iterator[list[Part]]:
    """Group parts; each group has at most so many cells, or is one part."""
    group: list[Part] = []
    for part in parts:
        if group and sum(each.cells for each in group) + part.cells > most:
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _bytes_behind(array: np.ndarray | None) -> int:
    return 0 if array is None else aligned(array.nbytes)


def _half(device: Device) -> int:
    """Return the shared memory of each of two blocks on one multiprocessor, in bytes."""
    return device.shared_memory_all // 2 - 1024


def _copies(most: int, threads: int) -> int:
    """Return the number of copies of the sums of a block: a power of 2."""
    return 1 << (max(min(most, threads // 32), 1).bit_length() - 1)


def _chunk(rows: int, blocks: int, copies: int, multiple: int) -> int:
    """Return the rows between two spills, so that blocks have equal shares."""
    most = max(copies * _SPILL_ROWS // multiple * multiple, multiple)
    share = -(-rows // blocks)
    share = -(-share // -(-share // most))
    return min(-(-share // multiple) * multiple, most)
