"""A domain beside a table: what its schema lacks, and, of public rows, what would be clipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privboost.errors import SchemaError
from privboost.grid import BLOCK_ROWS
from privboost.tables.beside import need_weights
from privboost.tables.domain import Domain
from privboost.tables.domain_forms import Parts
from privboost.tables.encoding import (
    Encoder,
    code_target,
    need_columns,
    read_ordered,
)
from privboost.tables.features import (
    CategoricalFeature,
    ClassTarget,
    Feature,
    NumberTarget,
    OrdinalFeature,
    Target,
)
from privboost.tables.pieces import Batch, Column
from privboost.tables.sources import Table
from privboost.tables.unit_names import read_unit_names
from privboost.tables.values import MISSING, OTHER, code_labels, read_numbers

_ANY_TARGET = NumberTarget("(target)", (0.0, 1.0))
_MOST_MISSING = 0.99
"""A column that is missing in more than this part of public rows does not fit."""


@dataclass(frozen=True)
class Comparison:
    """How a domain and a table's schema go together.

    Attributes
    ----------
    absent : tuple of str
        Columns that the domain names and the table does not have.
    unfit : tuple of str
        What is wrong with columns whose type cannot be what the domain says, one text each.
    more : tuple of str
        Columns that the domain does not name; they are not read.
    strays : tuple of Strays
        Of public rows: for each column, how many values are not as the domain has them.
    empty : tuple of str
        Of public rows: columns that are missing in more than 99 % of them. Ranks and classes that
        the domain does not list count as missing, as they do in training.
    """

    absent: tuple[str, ...]
    unfit: tuple[str, ...]
    more: tuple[str, ...]
    strays: tuple[Strays, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether a model can be trained with both, and learns from every column."""
        return not self.absent and not self.unfit and not self.empty


def check_domain(domain: Domain, table: Table, public_rows: bool, header: bool) -> Comparison:
    """Compare a domain with a table; see `Domain.check`."""
    if not isinstance(public_rows, bool):  # a word such as "no" declares nothing
        raise ValueError("public_rows must be True or False")
    found = compare(parts_of(domain), table)
    if table.is_text and not header:  # whose first line may be a record
        found = replace(found, more=())
    if public_rows and found.fits:
        found = with_strays(found, domain, table)
    return found


def with_strays(found: Comparison, domain: Domain, table: Table) -> Comparison:
    """Return the comparison with exact counts of public rows, and the columns that are empty."""
    strays = count_strays(domain, table)
    kept = {part.name for part in domain.features if isinstance(part, CategoricalFeature)}
    empty = tuple(
        own.name
        for own in strays
        if own.missing + (0 if own.name in kept else own.other) > _MOST_MISSING * own.rows
    )
    return replace(found, strays=strays, empty=empty)


def compare(parts: Parts, table: Table) -> Comparison:
    """Compare what a domain's form says, as far as it can be read, with a table's schema.

    No row is read.
    """
    named = parts.columns
    there = [name for name in named if name in table.columns]
    batch = next(table.batches(there, 1), {}) if there else {}
    absent = tuple(name for name in named if name not in table.columns)
    more = tuple(name for name in table.columns if name not in named)
    return Comparison(absent, tuple(_unfit(parts, batch)), more)


def parts_of(domain: Domain) -> Parts:
    """Return a domain as a form that says all there is to say."""
    unit = () if domain.unit is None else (domain.unit.column,)
    columns = (*domain.feature_names, domain.target.name, *unit)
    return Parts(columns, domain.features, domain.target, domain.unit)


def need_fit(domain: Domain, table: Table, weights: str | None) -> None:
    """Refuse a table that no model can be trained on with a domain; no row is read."""
    found = compare(parts_of(domain), table)
    need_columns(table, found.absent if weights is None else (*found.absent, weights))
    for words in found.unfit:
        raise SchemaError(words)
    if weights is not None:
        need_weights(table, weights)


def _unfit(parts: Parts, batch: Batch) -> Iterator[str]:
    target, unit = parts.target, parts.unit
    for feature in parts.features:
        if feature.name in batch:
            one = Encoder.of(Domain((feature,), _ANY_TARGET))
            yield from _refusal(one.code, batch)
    if target is not None and target.name in batch:
        yield from _refusal(code_target, batch[target.name], target)
    if unit is not None and unit.column in batch:
        yield from _refusal(read_unit_names, batch[unit.column], unit.column)


def _refusal(read: Any, *what: Any) -> Iterator[str]:
    try:
        read(*what)
    except SchemaError as error:
        yield str(error)


@dataclass(frozen=True)
class Strays:
    """How many of a column's values are not as its domain has them.

    Attributes
    ----------
    name : str
        The column.
    rows : int
        How many values there are.
    missing : int
        How many are missing, or cannot be read.
    below, above : int
        How many are clipped to a bound.
    other : int
        How many are no category or class that is listed.
    """

    name: str
    rows: int = 0
    missing: int = 0
    below: int = 0
    above: int = 0
    other: int = 0

    def with_more(self, **counts: int) -> Strays:
        """Return the same with more values."""
        return replace(self, **{key: getattr(self, key) + n for key, n in counts.items()})


def count_strays(domain: Domain, table: Table) -> tuple[Strays, ...]:
    """Count what would be clipped, missing or unknown: exactly, so of public rows alone."""
    parts: tuple[Feature | Target, ...] = (*domain.features, domain.target)
    found = {part.name: Strays(part.name) for part in parts}
    for batch in table.batches(tuple(found), BLOCK_ROWS):
        for part in parts:
            counts = _count(batch[part.name], part)
            found[part.name] = found[part.name].with_more(rows=len(batch[part.name]), **counts)
    return tuple(found.values())


def _count(column: Column, part: Feature | Target) -> dict[str, int]:
    if isinstance(part, CategoricalFeature | OrdinalFeature | ClassTarget):
        labels = part.classes if isinstance(part, ClassTarget) else part.categories
        places = code_labels(column, labels, part.name)
        return {"missing": int((places == MISSING).sum()), "other": int((places == OTHER).sum())}
    if isinstance(part, NumberTarget):
        values, (low, high) = read_numbers(column, part.name), part.bounds
    else:
        values, (low, high) = read_ordered(column, part), part.number.bounds
    return {
        "missing": int(np.isnan(values).sum()),
        "below": int((values < low).sum()),
        "above": int((values > high).sum()),
    }
