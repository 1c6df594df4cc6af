"""Sums by cell and by node on a device: choice of kernel, blocks and shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from privboost.cuda.card import MANY_ROWS, Device, spread
from privboost.cuda.places import Place, put_places
from privboost.cuda.tasks import ADD, NODES, SUM, Task, aligned

_SPILL_ROWS = 2**14
"""Rows of one copy of sums between two spills: see `kernels/rows.cu`."""
_ROWS_AT_ONCE = 4
_TILE, _ENTRY = 2048, 16
"""Rows that are gathered, and bytes of each: see `sum_by_node`."""
_MOST_VALUES = 2**15
"""Bytes of values that are brought near."""
_MOST_MAPS = 2**15
"""Bytes of maps that are brought near."""


def sum_places(
    device: Device, look_up: np.ndarray, places: Sequence[Place], out: Any, weighted: bool
) -> None:
    """Add rows' pairs to the cells of each place.

    Parameters
    ----------
    look_up : LOOK_UP
        Where pairs are looked up.
    out : int64 array of shape (cells, 2), on the device
    weighted : bool
        Whether pairs may be larger than those of one row without a weight.
    """
    rows = int(look_up["n"])
    unit = 16 if weighted else 8
    looks = not weighted and not look_up["pairs"] and rows >= MANY_ROWS
    table = 16 * int(look_up["size"]) if looks else 0
    for group in _groups(places, (device.near - table) // unit):
        task = Task(SUM, look=look_up, out=device.address(out))
        cells = put_places(device, task, group)
        if cells * unit > device.near - table:
            device.launch("sum_far", task, **spread(device, rows, _ROWS_AT_ONCE))
            continue
        alone = not weighted and len(group) == 1 and group[0].plain
        shared = 2 if alone and cells * unit <= _half(device) - table else 1
        most = (_half(device) if shared == 2 else device.near) - table
        how = spread(device, rows, _ROWS_AT_ONCE, shared)
        copies = _copies(most // (cells * unit), how["threads"])
        chunk = _chunk(rows, how["blocks"], copies, _ROWS_AT_ONCE * how["threads"])
        task.set(cells=cells, copies=copies, chunk=chunk, near_table=table)
        kernel = "sum_weighted" if weighted else "sum_alone" if alone else "sum_parts"
        device.launch(kernel, task, near=table + cells * copies * unit, **how)


def add_values(device: Device, state: Any, rows: int, places: Sequence[Place]) -> None:
    """Add to each row's state the values of its cells."""
    task = Task(ADD, state=device.target(state), n=rows)
    cells = put_places(device, task, places)
    how = spread(device, rows, _ROWS_AT_ONCE)
    if len(places) == 1 and places[0].plain and 4 * cells <= _MOST_VALUES:
        device.launch("add_alone", task, near=4 * cells, **how)
    else:
        device.launch("add_values", task, **how)


def sum_by_node(
    device: Device,
    pairs: Any,
    node: Any,
    chosen: Any,
    places: Sequence[Place],
    out: Any,
    rows: int,
    weighted: bool,
) -> None:
    """Add rows' pairs by node and cell of each place, for the rows of chosen nodes.

    Parameters
    ----------
    pairs, node : arrays on the device
        Of rows.
    chosen : uint8 array on the device, or None for all nodes
    places : sequence of Place
        Each of one column with a map; their cells follow each other.
    out : int64 array of shape (nodes, cells, 2), on the device
    """
    nodes, all_cells = out.shape[:2]
    near = device.near - _TILE * _ENTRY - _MOST_MAPS
    for group in _groups(places, near // (8 * nodes)):
        task = Task(NODES, pairs=device.address(pairs), node=device.address(node))
        task.set(chosen=device.address(chosen), out=device.address(out), n=rows)
        task.set(node_bytes=node.dtype.itemsize, nodes=nodes, all_cells=all_cells)
        begin = task.put(np.zeros(0, dtype=np.uint8))
        cells = put_places(device, task, group)
        if weighted or cells * nodes * 8 > near:
            device.launch("sum_by_node_far", task, **spread(device, rows))
            continue
        maps = sum(_bytes_behind(own) for place in group for own in place.maps)
        maps = maps if maps <= _MOST_MAPS else 0
        how = spread(device, rows, 2, 1)
        copies = _copies(near // (cells * nodes * 8), how["threads"])
        chunk = _chunk(rows, how["blocks"], copies, _TILE)
        task.set(cells=cells, copies=copies, chunk=chunk, maps=begin, map_bytes=maps)
        bytes_near = _TILE * _ENTRY + cells * nodes * copies * 8 + maps
        device.launch("sum_by_node", task, near=bytes_near, **how)


def _groups(places: Sequence[Place], most: int) -> Iterator[list[Place]]:
    """Part places into groups of which each has so many cells at most, or is one place."""
    group: list[Place] = []
    for place in places:
        if group and sum(each.cells for each in group) + place.cells > most:
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def _bytes_behind(array: np.ndarray | None) -> int:
    return 0 if array is None else aligned(array.nbytes)


def _half(device: Device) -> int:
    """Bytes near each of two blocks of one multiprocessor."""
    return device.near_all // 2 - 1024


def _copies(most: int, threads: int) -> int:
    """Return into how many copies of sums threads add: a power of 2."""
    return 1 << (max(min(most, threads // 32), 1).bit_length() - 1)


def _chunk(rows: int, blocks: int, copies: int, multiple: int) -> int:
    """Return how many rows lie between two spills, so that blocks have equal shares."""
    most = max(copies * _SPILL_ROWS // multiple * multiple, multiple)
    share = -(-rows // blocks)
    share = -(-share // -(-share // most))
    return min(-(-share // multiple) * multiple, most)
