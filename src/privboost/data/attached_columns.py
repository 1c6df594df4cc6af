"""Tables with attached columns: labels or weights that are passed apart from the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from privboost._core.errors import SchemaError
from privboost.data.domain import Domain
from privboost.data.frames import StreamedTable
from privboost.data.loading import Roles
from privboost.data.schema import compare
from privboost.data.sources import check_columns_present, open_table, open_vector, slice_vector
from privboost.data.table import Batch, Column, Piece, RemoteTable, Table, raise_remote_rows
from privboost.data.values import holds_text, read_numbers

_APART = "\0 {} given apart"
"""Name of an attached column in batches, which no table's own column has."""


class TableWithColumns(Table):
    """A table with attached columns.

    Parameters
    ----------
    table : Table
        The table.
    apart : mapping from str to vector
        The attached columns (see `sources.open_vector`), as long as the table.

    Attributes
    ----------
    inner : Table
        The table without attached columns.
    """

    def __init__(self, table: Table, apart: Mapping[str, Any]) -> None:
        self.inner, self._apart = table, dict(apart)
        self.columns = tuple(dict.fromkeys([*table.columns, *apart]))
        self.is_text = table.is_text

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        return self._joined(0, self.inner.batches(self._own(names), rows))

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield the table's pieces."""
        for piece in self.inner.pieces(self._own(names), rows):
            yield Piece(piece.first, piece.rows, partial(self._read, piece))

    def count_rows(self) -> int:
        """Return the number of rows."""
        return self.inner.count_rows()

    def _own(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self._apart]

    def _read(self, piece: Piece) -> Iterator[Batch]:
        return self._joined(piece.first, piece.batches())

    def _joined(self, first: int, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            last = first + len(next(iter(batch.values())))
            yield {**batch, **self._slices(first, last)}
            first = last

    def _slices(self, first: int, last: int) -> dict[str, Column]:
        return {name: slice_vector(vector, first, last) for name, vector in self._apart.items()}


def open_source(domain: Domain, data: Any, labels: Any, weights: Any) -> tuple[Table, Roles]:
    """Open a table with labels and weights.

    Parameters
    ----------
    domain : Domain
        What is public.
    data : table
        See `sources.open_table`.
    labels : one-dimensional or str, optional
        The target; by default the table's column that the domain names, which is also the only
        name that is accepted here.
    weights : one-dimensional or str, optional
        Sample weights, or the table's column that holds them.
    """
    table, target = open_table(data, domain.feature_names), domain.target.name
    if isinstance(labels, str) and labels != target:
        raise SchemaError(f"y is the column {labels!r}, but the domain's target is {target!r}")
    wanted = [] if labels is not None and not isinstance(labels, str) else [target]
    wanted += [weights] if isinstance(weights, str) else []
    wanted += [] if domain.unit is None else [domain.unit.column]
    check_columns_present(table, [*domain.feature_names, *wanted])
    named = {"y": target, "sample_weight": weights}
    apart = {
        name: values
        for name, values in (("y", labels), ("sample_weight", weights))
        if values is not None and not isinstance(values, str)
    }
    named |= {name: _APART.format(name) for name in apart}
    source = attach_columns(table, apart, named) if apart else table
    if weights is not None:
        check_weight_column(source, named["sample_weight"])
    return source, Roles(named["y"], named["sample_weight"])


def check_fit(domain: Domain, table: Table, weights: str | None) -> None:
    """Raise SchemaError unless a table's schema fits a domain; no row is read."""
    found = compare(domain.parts(), table)
    check_columns_present(table, found.absent if weights is None else (*found.absent, weights))
    for message in found.unfit:
        raise SchemaError(message)
    if weights is not None:
        check_weight_column(table, weights)


def check_weight_column(table: Table, name: str) -> None:
    """Raise SchemaError if the column of weights has no numeric type.

    In text files and columns of Python objects, which have no type, a value that is no number has
    weight 0.
    """
    names = list(dict.fromkeys([table.columns[0], name]))
    column = next(table.batches(names, 1))[name]
    read_numbers(column, "sample_weight")
    if not table.is_text and holds_text(column):
        raise SchemaError("column 'sample_weight' holds text, but weights are numbers")


def attach_columns(
    table: Table, apart: Mapping[str, Any], named: Mapping[str, str]
) -> TableWithColumns:
    """Attach columns to a table.

    Parameters
    ----------
    table : Table
        The table, with a fixed number and order of rows: no text file, which may have malformed
        lines, and no lazy frame.
    apart : mapping from str to one-dimensional
        The columns, by parameter name.
    named : mapping from str to str
        The name of each in batches.
    """
    vectors = {}
    for name, values in apart.items():
        if table.is_text:
            raise SchemaError(f"{name} of a CSV file must be one of its columns")
        if isinstance(table, RemoteTable):
            raise_remote_rows()
        if isinstance(table, StreamedTable):
            raise SchemaError(
                f"{name} of a lazy frame or dataset must be one of its columns: its rows may come "
                "in another order each time"
            )
        vectors[named[name]] = vector = open_vector(values, name)
        if len(vector) != table.count_rows():
            raise SchemaError(f"X and {name} have different numbers of rows")
    return TableWithColumns(table, vectors)
