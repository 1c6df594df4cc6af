"""How many threads read a table, and how many rows a block has."""

from __future__ import annotations

from privboost.crew import Crew
from privboost.grid import BLOCK_ROWS
from privboost.tables.sources import Table
from privboost.tables.streamed_sources import StreamedTable

_FEWEST_ROWS = 4096
"""Smaller blocks cost more than an idle thread."""
_MOST_READERS = 8
"""More threads would wait for the GIL, which each needs for every block."""
_LOOK_UPS_OF_A_CELL = 4
"""Cost of reading and coding a value, in look-ups."""


def readers_for(table: Table, columns: int, crew: Crew) -> int:
    """Return the number of threads worth using to read and code a table that is kept."""
    return min(threads_for(table, columns, crew), _MOST_READERS)


def threads_for(table: Table, columns: int, crew: Crew) -> int:
    """Return the number of threads worth using to code a table; all if its length is unknown."""
    if not tells_length(table):
        return crew.most
    return crew.size_for(_LOOK_UPS_OF_A_CELL * columns * table.count_rows())


def block_rows(table: Table, n_threads: int) -> int:
    """Return a block size such that every thread has a block, if the table's length is known."""
    if n_threads == 1 or not tells_length(table):
        return BLOCK_ROWS
    return even_block(table.count_rows(), n_threads)


def even_block(rows: int, n_threads: int) -> int:
    """Return the rows of a block, such that threads have equally many blocks of equal size."""
    blocks = n_threads * max(1, -(-rows // (n_threads * BLOCK_ROWS)))
    return min(BLOCK_ROWS, max(_FEWEST_ROWS, -(-rows // blocks)))


def tells_length(table: Table) -> bool:
    """Whether a table's length is known without reading it."""
    return not (table.is_text or isinstance(getattr(table, "inner", table), StreamedTable))
