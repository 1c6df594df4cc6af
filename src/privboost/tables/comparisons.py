"""Comparison of a domain with a table: by its schema, and, for public rows, by its values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from privboost.errors import SchemaError
from privboost.grid import BLOCK_ROWS
from privboost.tables.domain_forms import Parts
from privboost.tables.features import Feature, Target
from privboost.tables.pieces import Batch
from privboost.tables.sources import Table
from privboost.tables.unit_names import read_unit_names

_MOST_MISSING = 0.99
"""A column that is missing in more than this fraction of public rows does not fit."""


@dataclass(frozen=True)
class Strays:
    """Counts of a column's values that are not as the domain declares them.

    Attributes
    ----------
    name : str
        The column.
    rows : int
        Number of values.
    missing : int
        Values that are missing, or cannot be read.
    below, above : int
        Values that are clipped to a bound.
    other : int
        Values that are no listed category or class.
    """

    name: str
    rows: int = 0
    missing: int = 0
    below: int = 0
    above: int = 0
    other: int = 0

    def with_more(self, **counts: int) -> Strays:
        """Return the counts with those of further values added."""
        return replace(self, **{key: getattr(self, key) + n for key, n in counts.items()})


@dataclass(frozen=True)
class Comparison:
    """Result of comparing a domain with a table.

    Attributes
    ----------
    absent : tuple of str
        Columns that the domain names and the table does not have.
    unfit : tuple of str
        One message for each column whose type contradicts the domain.
    more : tuple of str
        Columns that the domain does not name; they are not read.
    strays : tuple of Strays
        For public rows: counts of values outside the domain, column by column.
    empty : tuple of str
        For public rows: columns that are missing in more than 99 % of them. Ordinals and classes
        that the domain does not list count as missing, as they do in training.
    """

    absent: tuple[str, ...]
    unfit: tuple[str, ...]
    more: tuple[str, ...]
    strays: tuple[Strays, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether a model can be trained on the table, with an effect of every column."""
        return not self.absent and not self.unfit and not self.empty


def compare(parts: Parts, table: Table) -> Comparison:
    """Compare the readable parts of a domain with a table's schema. No row is read."""
    named = parts.columns
    there = [name for name in named if name in table.columns]
    batch = next(table.batches(there, 1), {}) if there else {}
    absent = tuple(name for name in named if name not in table.columns)
    more = tuple(name for name in table.columns if name not in named)
    return Comparison(absent, tuple(_type_errors(parts, batch)), more)


def with_strays(found: Comparison, parts: Parts, table: Table) -> Comparison:
    """Return a comparison with exact counts of public rows, and the columns that are empty."""
    assert parts.target is not None
    declared: tuple[Feature | Target, ...] = (*parts.features, parts.target)
    strays = {part.name: Strays(part.name) for part in declared}
    for batch in table.batches(tuple(strays), BLOCK_ROWS):
        for part in declared:
            column = batch[part.name]
            counts = part.count_outside(column)
            strays[part.name] = strays[part.name].with_more(rows=len(column), **counts)
    with_other = {part.name for part in parts.features if not part.ordered}
    empty = tuple(
        own.name
        for own in strays.values()
        if own.missing + (0 if own.name in with_other else own.other) > _MOST_MISSING * own.rows
    )
    return replace(found, strays=tuple(strays.values()), empty=empty)


def _type_errors(parts: Parts, batch: Batch) -> Iterator[str]:
    target, unit = parts.target, parts.unit
    for feature in parts.features:
        if feature.name in batch:
            yield from _error(feature.read, batch[feature.name])
    if target is not None and target.name in batch:
        yield from _error(target.code, batch[target.name])
    if unit is not None and unit.column in batch:
        yield from _error(read_unit_names, batch[unit.column], unit.column)


def _error(read: Callable[..., Any], *arguments: Any) -> Iterator[str]:
    try:
        read(*arguments)
    except SchemaError as error:
        yield str(error)
