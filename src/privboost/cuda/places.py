"""The cells of rows as arguments of kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privboost.cuda.card import Device
from privboost.cuda.rows import DeviceRows
from privboost.cuda.tasks import PART, Task
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
