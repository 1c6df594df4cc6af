"""Which cells rows have, as kernels of a device are told."""

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
"""A column of at most so many codes is added up by code and folded into cells at the end: rows
then need no map, and seldom wait for each other."""


@dataclass(frozen=True, eq=False)
class Place:
    """Cells of one column, or of several jointly.

    Attributes
    ----------
    columns : tuple of arrays
        On the device.
    maps : tuple of uint16 arrays, or None for those whose codes are cells
        From codes to cells of a column.
    sizes : tuple of int
        How many cells each column has.
    first : int
        Where its cells begin in the answer.
    fold : uint32 array, optional
        Which cell of the answer each of these cells is added to, from the first on.
    values : array, optional
        Of each cell.
    """

    columns: tuple[Any, ...]
    maps: tuple[np.ndarray | None, ...]
    sizes: tuple[int, ...]
    first: int = 0
    fold: np.ndarray | None = None
    values: np.ndarray | None = None

    @cached_property
    def cells(self) -> int:
        """How many cells there are."""
        return math.prod(self.sizes)

    @property
    def plain(self) -> bool:
        """Whether the codes of one column are the cells."""
        return len(self.columns) == 1 and self.maps[0] is None


def place_of_part(rows: DeviceRows, part: CellPart, first: int) -> Place:
    """Return where the sums of a part of a map are."""
    columns = tuple(rows.columns[feature] for feature in part.features)
    if part.alone and len(part.cell_of[0]) <= _MOST_FOLDED:
        return place_of_code(columns[0], part.cell_of[0], first)
    return Place(columns, part.cell_of, part.sizes, first)


def place_of_code(column: Any, cell_of: np.ndarray, first: int) -> Place:
    """Return where the sums of one column are, code by code until the end."""
    return Place((column,), (None,), (len(cell_of),), first, cell_of.astype(np.uint32))


def values_of_part(rows: DeviceRows, part: CellPart, values: np.ndarray) -> Place:
    """Return the values of a part's cells; those of one column by its codes."""
    columns = tuple(rows.columns[feature] for feature in part.features)
    if part.alone:
        by_code = values[part.cell_of[0]]
        return Place(columns, (None,), (len(by_code),), values=by_code)
    return Place(columns, part.cell_of, part.sizes, values=values)


def codes_of(
    rows: DeviceRows, features: tuple[int, int], values: np.ndarray | None = None
) -> Place:
    """Return the cells that are the codes of one feature, or pairs of codes of two."""
    own = features[:1] if features[1] < 0 else features
    assert rows.layout is not None
    sizes = tuple(rows.layout.n_codes[feature] for feature in own)
    columns = tuple(rows.columns[feature] for feature in own)
    return Place(columns, (None,) * len(own), sizes, values=values)


def put_places(device: Device, task: Task, places: Sequence[Place]) -> int:
    """Put places behind a task, and return where; their near cells are numbered through."""
    parts, near = [], 0
    for place in places:
        unused = (0,) * (MOST_FEATURES - len(place.columns))
        parts.append(
            (
                (*map(device.address, place.columns), *unused),
                (*(column.dtype.itemsize for column in place.columns), *unused),
                (*(_put(task, own) for own in place.maps), *unused),
                (*place.sizes, *unused),
                len(place.columns),
                place.cells,
                near,
                _put(task, place.fold),
                _put(task, place.values),
                place.first,
            )
        )
        near += place.cells
    task.set(n_parts=len(places), parts=task.put(np.array(parts, dtype=PART)))
    return near


def _put(task: Task, array: np.ndarray | None) -> int:
    return 0 if array is None else task.put(array)
