"""Tables whose rows lie elsewhere: with the workers of a cluster, who load them themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from privboost.errors import SchemaError
from privboost.tables.pieces import Batch, Piece

_ELSEWHERE = (
    "the rows of this table lie with a cluster's workers: labels and weights must be columns of it"
)
_MIXTURE = (
    "a stream stays where it began: all of its batches lie on this machine, or all with Dask, or "
    "all with Spark"
)


class RemoteTable(ABC):
    """A table of which only the schema is here.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    place : str
        Where the rows lie, in words.
    """

    is_text = False
    place: str
    columns: tuple[str, ...]

    @abstractmethod
    def no_rows(self, names: Sequence[str]) -> Batch:
        """Return the named columns without rows: they show what each column holds."""

    @abstractmethod
    def count_rows(self) -> int:
        """Return the number of rows: as private as they are, but for whom it is public."""

    @abstractmethod
    def open_backend(self, loads: Sequence[Any]) -> Any:
        """Have the workers load the rows; return the backend that asks them."""

    def preparation(self, estimator: Any) -> Any:
        """Return the kind of stages that lead to a run of an estimator; None for the usual ones."""
        return None

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the batch without rows."""
        yield self.no_rows(names)

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Refuse: rows do not come here."""
        refuse_remote()


def refuse_remote() -> NoReturn:
    """Say that rows are wanted here that lie elsewhere."""
    raise SchemaError(_ELSEWHERE)


def refuse_mixture() -> NoReturn:
    """Say that batches of a stream lie in several places."""
    raise SchemaError(_MIXTURE)
