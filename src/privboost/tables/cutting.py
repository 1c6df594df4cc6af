"""How a table is cut so that threads have about as much to do."""

from __future__ import annotations

from privboost.crew import Crew
from privboost.grid import BLOCK_ROWS
from privboost.tables.sources import Table
from privboost.tables.streamed_sources import StreamedTable

_FEWEST_ROWS = 4096
"""Smaller blocks cost more than a thread without work."""
_MOST_READERS = 8
"""More wait for Python's lock, which each needs for every block."""
_LOOK_UPS_OF_A_CELL = 4
"""To read and code a value takes as long as so many look-ups."""


def readers_for(table: Table, columns: int, crew: Crew) -> int:
    """Return how many threads pay to read and code a table that is kept."""
    return min(threads_for(table, columns, crew), _MOST_READERS)


def threads_for(table: Table, columns: int, crew: Crew) -> int:
    """Return how many threads pay to code a table; all, where its length would have to be read."""
    if not tells_length(table):
        return crew.most
    return crew.size_for(_LOOK_UPS_OF_A_CELL * columns * table.count_rows())


def block_rows(table: Table, n_threads: int) -> int:
    """Choose blocks small enough that every thread has one, where the table's length is known."""
    if n_threads == 1 or not tells_length(table):
        return BLOCK_ROWS
    return even_block(table.count_rows(), n_threads)


def even_block(rows: int, n_threads: int) -> int:
    """Return how many rows a block has, so that every thread has about as many."""
    return min(BLOCK_ROWS, max(_FEWEST_ROWS, -(-rows // n_threads)))


def tells_length(table: Table) -> bool:
    """Whether a table tells its length without being read."""
    return not (table.is_text or isinstance(getattr(table, "inner", table), StreamedTable))
