"""Tables whose rows are held by the workers of a cluster, which load them themselves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from privboost.errors import SchemaError
from privboost.tables.pieces import Batch, Piece, Table

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
        refuse_remote()


def refuse_remote() -> NoReturn:
    """Raise SchemaError: rows of a cluster are needed in this process."""
    raise SchemaError(_ELSEWHERE)


def refuse_mixture() -> NoReturn:
    """Raise SchemaError: batches of a stream are in several places."""
    raise SchemaError(_MIXTURE)
