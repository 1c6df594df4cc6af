"""Loading of tables: rows are read and coded in threads, and bounded by unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privboost.crew import Crew
from privboost.tables.bounding import kept_rows
from privboost.tables.cutting import block_rows, readers_for
from privboost.tables.loader import Loader, UnitRule
from privboost.tables.loader import read_loader as read_loader
from privboost.tables.pieces import Piece
from privboost.tables.rows import Rows
from privboost.tables.sources import Table
from privboost.tables.unit_names import unit_kind


@dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """Coded rows that are bounded by unit: a source that can be read repeatedly.

    Attributes
    ----------
    blocks : tuple of Rows
        The rows.
    units : pyarrow.Array or None
        The names of the units of these rows, if rows name units.
    n_read : int
        The number of rows of the table; private unless declared public.
    """

    blocks: tuple[Rows, ...]
    units: pa.Array | None = None
    n_read: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Load:
    """A source of rows, and the loader that codes them: the input of a backend."""

    loader: Loader
    source: Table | Coded


def load_rows(loads: Sequence[Load], n_threads: int = 1, rows: int | None = None) -> list[Coded]:
    """Code the rows of each load, in order, without the units of earlier loads.

    Parameters
    ----------
    loads : sequence of Load
        The loads; a stream has one for each batch.
    n_threads : int
        The number of threads that read and code.
    rows : int, optional
        Rows of a block, at most `grid.BLOCK_ROWS`; by default few enough that every thread has
        some.
    """
    done: list[Coded] = []
    with closing(Crew(n_threads)) as crew:
        for load in loads:
            known = [each.units for each in done if each.units is not None]
            done.append(_load(load, known, crew, rows))
    return done


def _load(load: Load, known: list[pa.Array], crew: Crew, rows: int | None) -> Coded:
    if isinstance(load.source, Coded):
        return load.source
    parts = _read(load.loader, load.source, crew, rows)
    blocks = [part.rows for part in parts]
    n_read = sum(map(len, blocks))
    if load.loader.unit is None:
        return Coded(tuple(blocks), None, n_read)
    unit, names = number_units([part.units for part in parts])
    unit = without(unit, names, known)
    return Coded(tuple(bound_units(blocks, unit, names, load.loader.unit)), names, n_read)


def check_schema(loader: Loader, table: Table) -> str:
    """Raise SchemaError unless a table's column types fit its domain; no row is read.

    Returns the type of the unit column (see `unit_names.unit_kind`); "any" without one, and for a
    text file, whose values are all strings.
    """
    batch = next(table.batches(loader.columns, 1))
    loader.read(batch, 0)
    if loader.unit is None:
        return "any"
    loader.name_units(batch)
    return "any" if table.is_text else unit_kind(batch[loader.unit.column])


@dataclass(frozen=True, eq=False)
class CodedBatch:
    """A coded batch: the index of its first row, its rows, and the names of their units."""

    first: int
    rows: Rows
    units: pa.Array | None


def _read(loader: Loader, table: Table, crew: Crew, rows: int | None) -> list[CodedBatch]:
    """Read and code all pieces of a table in threads; return them in the table's order."""
    threads = readers_for(table, len(loader.columns), crew)
    pieces = table.pieces(loader.columns, rows or block_rows(table, crew.most))
    parts = crew.share_out(pieces, lambda piece: list(code_piece(loader, piece)), threads)
    return [part for own in parts for part in own]


def code_piece(loader: Loader, piece: Piece) -> Iterator[CodedBatch]:
    """Code the rows of a piece, batch by batch. No value raises or warns."""
    first = piece.first
    for batch in piece.batches():
        if not (length := len(batch[loader.columns[0]])):
            continue
        with np.errstate(all="ignore"):  # no value may warn, not even a signalling NaN
            rows = loader.read(batch, first)
            units = None if loader.unit is None else loader.name_units(batch)
        yield CodedBatch(first, rows, units)
        first += length  # not len(rows): a loader may leave some out


def number_units(parts: Sequence[pa.Array | None]) -> tuple[np.ndarray, pa.Array]:
    """Return the unit of each row as an index into the names, −1 for none, and the names."""
    empty = pa.array([], pa.large_binary())
    column = pa.chunked_array([empty, *parts], pa.large_binary())
    coded = column.combine_chunks().dictionary_encode()
    numbers = pc.fill_null(coded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return numbers, coded.dictionary


def without(unit: np.ndarray, names: pa.Array, known: Sequence[pa.Array]) -> np.ndarray:
    """Return the unit of each row, −1 for units that are known already."""
    for others in known:
        came = pc.is_in(names, value_set=others).to_numpy(zero_copy_only=False)
        unit = np.where((unit >= 0) & np.append(came, False)[unit], -1, unit)
    return unit


def bound_units(
    blocks: Sequence[Rows], unit: np.ndarray, names: pa.Array, rule: UnitRule
) -> list[Rows]:
    """Keep at most `rule.max_rows` rows of each unit (see `bounding.kept_rows`)."""
    keep = kept_rows(blocks, unit, names, rule.max_rows, rule.key)
    ends = np.cumsum([len(block) for block in blocks])
    return [
        block.take(keep[end - len(block) : end]) for block, end in zip(blocks, ends, strict=True)
    ]
