"""Base classes of tables: columns in batches, and pieces that threads read independently.

Tables whose rows are held by the workers of a cluster, which load them themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeAlias

from privboost._core.errors import SchemaError

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


class Table(ABC):
    """Columns by name, in batches of rows.

    Attributes
    ----------
    columns : tuple of str
        The names of the columns.
    is_text : bool
        Whether it is a text file, whose values are all strings.
    """

    columns: tuple[str, ...]
    is_text: bool = False

    @abstractmethod
    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time.

        The first batch has no rows: it shows the columns' types, which no value can change.
        """

    @abstractmethod
    def count_rows(self) -> int:
        """Return the number of rows; private unless declared public."""

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield the table in pieces whose batches have at most `rows` rows, in order.

        By default a piece is a batch: one thread reads them all, any thread codes them.
        """
        first = 0
        for batch in self.batches(names, rows):
            size = len(batch[names[0]])
            yield Piece(first, size, partial(iter, [batch]))
            first += size


class MemoryTable(Table):
    """A table in memory, of which any rows can be read."""

    @abstractmethod
    def _slice(self, names: Sequence[str], start: int, stop: int) -> Batch:
        """Return the named columns of some rows."""

    def _most_rows(self, rows: int) -> int:
        """Return the largest number of rows of a batch, if `rows` are asked for."""
        return rows

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        yield self._slice(names, 0, 0)
        yield from self._read(names, rows, 0, self.count_rows())

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield pieces of `rows` rows."""
        for start in range(0, self.count_rows(), rows):
            stop = min(start + rows, self.count_rows())
            yield Piece(start, stop - start, partial(self._read, names, rows, start, stop))

    def _read(self, names: Sequence[str], rows: int, first: int, last: int) -> Iterator[Batch]:
        step = self._most_rows(rows)
        for start in range(first, last, step):
            yield self._slice(names, start, min(start + step, last))


_ELSEWHERE = (
    "a cluster's workers hold the rows of this table: labels and weights must be columns of it"
)
_MIXTURE = (
    "a stream stays where it began: all of its batches are on this machine, or all with Dask, or "
    "all with Spark"
)


class RemoteTable(Table):
    """A table of which only the schema is in this process.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    place : str
        A description of where the rows are.
    """

    place: str

    @abstractmethod
    def no_rows(self, names: Sequence[str]) -> Batch:
        """Return the named columns without rows, with their types."""

    @abstractmethod
    def open_backend(self, loads: Sequence[Any]) -> Any:
        """Make the workers load the rows; return their backend."""

    def preparation(self, estimator: Any) -> Any:
        """Return the class that prepares a run of an estimator; None for the default."""
        return None

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the batch without rows."""
        yield self.no_rows(names)

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Raise SchemaError: rows are not brought into this process."""
        raise_remote_rows()


def raise_remote_rows() -> NoReturn:
    """Raise SchemaError: rows of a cluster are needed in this process."""
    raise SchemaError(_ELSEWHERE)


def raise_mixed_stream() -> NoReturn:
    """Raise SchemaError: batches of a stream are in several places."""
    raise SchemaError(_MIXTURE)
