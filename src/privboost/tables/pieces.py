"""Columns in memory, and parts of tables that threads can read apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Column: TypeAlias = Any
"""A pyarrow array, or a numpy array of numbers or of Python objects."""
Batch = Mapping[str, Column]
"""Some rows of a table, column by column."""
Watch = Callable[[int], None]
"""Who is told of bytes that were read, from any thread."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a table, which any thread can read by itself.

    Attributes
    ----------
    first, rows : int
        The place of the first row in the table, and how many there are.
    batches : callable
        Reads the rows, batch by batch.
    """

    first: int
    rows: int
    batches: Callable[[], Iterable[Batch]]
