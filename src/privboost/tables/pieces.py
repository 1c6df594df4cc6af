"""Columns and batches, and pieces of tables that threads read independently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Column: TypeAlias = Any
"""A pyarrow array, or a numpy array of numbers or of Python objects."""
Batch = Mapping[str, Column]
"""Some rows of a table, column by column."""
Watch = Callable[[int], None]
"""Progress callback: the number of bytes read, called from any thread."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive rows of a table, which any thread can read.

    Attributes
    ----------
    first, rows : int
        The index of the first row in the table, and the number of rows.
    batches : callable
        Reads the rows, batch by batch.
    """

    first: int
    rows: int
    batches: Callable[[], Iterable[Batch]]
