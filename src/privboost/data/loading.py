"""Loading of tables: rows are read and coded in threads, and bounded by unit.

Loaders code batches of columns. They are frozen and serialisable, so that a cluster's workers can
load their rows themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privboost._core import codec
from privboost._core.errors import SchemaError
from privboost._core.grid import WEIGHT_STEPS
from privboost._core.hooks import resolve
from privboost._core.threads import ThreadPool
from privboost.data.contribution_bound import UnitRule, bound_units, number_units, without
from privboost.data.domain import Domain
from privboost.data.encoding import Encoder, code_weights, readers_for, rows_per_block
from privboost.data.rows import Codes, Rows
from privboost.data.schema import compare
from privboost.data.sources import (
    attach_columns,
    check_columns_present,
    check_weight_column,
    open_table,
    split_survival,
)
from privboost.data.table import Batch, Piece, Table
from privboost.data.unit_names import read_unit_names, unit_kind
from privboost.losses.base import UNKNOWN_LABEL
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import bernoulli_mask

_APART = "\0 {} given apart"
"""Name of an attached column in batches, which no table's own column has."""


@dataclass(frozen=True)
class Roles:
    """Columns with other roles than features: labels, sample weights, and events of times."""

    target: str
    weight: str | None = None
    event: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(name for name in (self.target, self.weight, self.event) if name is not None)


def open_source(domain: Domain, data: Any, labels: Any, weights: Any) -> tuple[Table, Roles]:
    """Open a table with labels and weights, each a vector or the name of a column.

    By default labels are the column that the domain names, which is also the only name that is
    accepted for them. Labels of survival times have two columns: see `split_survival`.
    """
    table, target = open_table(data, domain.feature_names), domain.target.name
    if isinstance(labels, str) and labels != target:
        raise SchemaError(f"y is the column {labels!r}, but the domain's target is {target!r}")
    given = {"y": target if labels is None else labels, "sample_weight": weights}
    event = domain.target.event_column
    if event is not None:
        parts = labels is None or isinstance(labels, str)
        given["y"], given["event"] = (
            (target, event) if parts else split_survival(labels, target, event)
        )
    apart = {k: own for k, own in given.items() if own is not None and not isinstance(own, str)}
    named = given | {name: _APART.format(name) for name in apart}
    own = [given[name] for name in given if name not in apart and given[name] is not None]
    own += [] if domain.unit is None else [domain.unit.column]
    check_columns_present(table, [*domain.feature_names, *own])
    source = attach_columns(table, apart, named) if apart else table
    if weights is not None:
        check_weight_column(source, named["sample_weight"])
    return source, Roles(named["y"], named["sample_weight"], named.get("event"))


def check_fit(domain: Domain, table: Table, weights: str | None) -> None:
    """Raise SchemaError unless a table's schema fits a domain; no row is read."""
    found = compare(domain.parts(), table)
    check_columns_present(table, found.absent if weights is None else (*found.absent, weights))
    for message in found.unfit:
        raise SchemaError(message)
    if weights is not None:
        check_weight_column(table, weights)


class Loader(Protocol):
    """Codes batches of a table's columns, each row by itself."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""

    @property
    def unit(self) -> UnitRule | None:
        """The bound on the rows of a unit; None if a row is the protected unit."""

    @property
    def by_place(self) -> bool:
        """Whether coding depends on a row's index in the whole table."""

    def read(self, batch: Batch, first: int) -> Rows:
        """Code some rows; the first has index `first` in its table."""

    def name_units(self, batch: Batch) -> pa.Array:
        """Return the canonical name of each row's unit, null where there is none."""

    def to_bytes(self) -> bytes:
        """Serialise the loader for another process."""


@dataclass(frozen=True, eq=False)
class RowLoader:
    """Loads rows to train on.

    Attributes
    ----------
    encoder : Encoder
        The coding of features.
    roles : Roles
        The columns of labels and weights.
    weight_bound : float or None
        The public bound of a weight, where there are weights.
    unit : UnitRule or None
        The bound on the rows of one unit.
    first_id : int
        The id of the table's first row. Rows that are used together need ids of their own: two
        rows of one id would be sampled together.
    cohort : int
        See `Rows.cohort`.
    class_steps : tuple of int or None
        The weight of a row of each class in `grid.WEIGHT_STEPS`, if classes have weights.
    """

    magic: ClassVar[bytes] = b"PVBLOAD1"
    by_place: ClassVar[bool] = False

    encoder: Encoder
    roles: Roles
    weight_bound: float | None = None
    unit: UnitRule | None = None
    first_id: int = 0
    cohort: int = 0
    class_steps: tuple[int, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        names = [*self.encoder.domain.feature_names, *self.roles.names]
        names += [] if self.unit is None else [self.unit.column]
        return tuple(dict.fromkeys(names))

    def read(self, batch: Batch, first: int) -> Rows:
        return self.join(self.encoder.code(batch), batch, first)

    def join(self, codes: Codes, batch: Batch, first: int) -> Rows:
        """Return the rows of a batch whose features are coded."""
        event = None if self.roles.event is None else batch[self.roles.event]
        label, minus_label = self.encoder.domain.target.code(batch[self.roles.target], event)
        weight = self._weigh(batch, label)
        at = self.first_id + first
        return Rows(codes, label, weight, minus_label, range(at, at + len(codes)), self.cohort)

    def _weigh(self, batch: Batch, label: np.ndarray) -> np.ndarray | None:
        """Return each row's weight in steps: its own weight, that of its class, or the product."""
        own = None
        if self.roles.weight is not None:
            own = code_weights(batch[self.roles.weight], self.weight_bound or 1.0)
        if self.class_steps is None:
            return own
        steps = np.zeros(UNKNOWN_LABEL + 1, dtype=np.uint16)
        steps[: len(self.class_steps)] = self.class_steps
        by_label: np.ndarray = steps[label]
        if own is None:
            return by_label
        product: np.ndarray = own.astype(np.uint32) * by_label // WEIGHT_STEPS
        return product.astype(np.uint16)

    def name_units(self, batch: Batch) -> pa.Array:
        assert self.unit is not None
        return read_unit_names(batch[self.unit.column], self.unit.column)

    def to_bytes(self) -> bytes:
        payload = {
            "domain": self.encoder.domain.to_dict(),
            "edges": list(self.encoder.edges),
            "roles": [self.roles.target, self.roles.weight, self.roles.event],
            "weight_bound": self.weight_bound,
            "unit": None if self.unit is None else self.unit.to_dict(),
            "first_id": self.first_id,
            "cohort": self.cohort,
            "class_steps": None if self.class_steps is None else list(self.class_steps),
        }
        return codec.dump(payload, self.magic)

    @classmethod
    def from_bytes(cls, data: bytes) -> RowLoader:
        payload = codec.load(data, cls.magic)
        return cls(
            Encoder(Domain.from_dict(payload["domain"]), tuple(payload["edges"])),
            Roles(*payload["roles"]),
            payload["weight_bound"],
            None if payload["unit"] is None else UnitRule(**payload["unit"]),
            payload["first_id"],
            payload["cohort"],
            None if payload["class_steps"] is None else tuple(payload["class_steps"]),
        )


def read_loader(data: bytes) -> Loader:
    """Read the bytes of any loader's `to_bytes`; the first eight name its class."""
    try:
        kind = resolve(f"loader {data[:8].decode('ascii', 'replace')}")
    except KeyError:
        raise ValueError("these bytes are no loader's") from None
    loader: Loader = kind.from_bytes(data)
    return loader


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a random split of units, each assigned independently.

    Attributes
    ----------
    key : uint8 array of length 32
        The secret key of the assignment. Rows without a unit column are assigned by their index.
    share : float
        The probability of the first side.
    first : bool
        Whether this is the first side.
    """

    key: np.ndarray
    share: float
    first: bool


@dataclass(frozen=True, eq=False)
class SplitLoader:
    """Loads the rows of another loader that are on one side of a split."""

    magic: ClassVar[bytes] = b"PVBPART1"
    by_place: ClassVar[bool] = True

    whole: Loader
    side: Side

    @property
    def columns(self) -> tuple[str, ...]:
        return self.whole.columns

    @property
    def unit(self) -> UnitRule | None:
        return self.whole.unit

    def read(self, batch: Batch, first: int) -> Rows:
        rows = self.whole.read(batch, first)
        if self.unit is None:
            stream = KeyStream(self.side.key.tobytes())
            chosen = bernoulli_mask(stream, range(first, first + len(rows)), self.side.share)
        else:
            chosen = self._on_first_side(self.whole.name_units(batch))
        return rows.take(np.flatnonzero(chosen == self.side.first))

    def name_units(self, batch: Batch) -> pa.Array:
        names = self.whole.name_units(batch)
        return names.filter(pa.array(self._on_first_side(names) == self.side.first))

    def _on_first_side(self, names: pa.Array) -> np.ndarray:
        """Whether each row's unit is on the first side; a row without a unit is on neither."""
        coded = names.dictionary_encode()
        key, limit = self.side.key.tobytes(), int(self.side.share * 2**64)
        digests = (
            hashlib.blake2b(name, key=key, digest_size=8).digest()
            for name in coded.dictionary.to_pylist()
        )
        first = [int.from_bytes(digest, "little") < limit for digest in digests]
        place = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        chosen: np.ndarray = np.array([*first, False])[place]
        return chosen

    def to_bytes(self) -> bytes:
        payload = {
            "whole": np.frombuffer(self.whole.to_bytes(), dtype=np.uint8),
            "key": self.side.key,
            "share": self.side.share,
            "first": self.side.first,
        }
        return codec.dump(payload, self.magic)

    @classmethod
    def from_bytes(cls, data: bytes) -> SplitLoader:
        payload = codec.load(data, cls.magic)
        side = Side(payload["key"], payload["share"], payload["first"])
        return cls(read_loader(payload["whole"].tobytes()), side)


@dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """Coded rows that are bounded by unit: a source that can be read repeatedly.

    Attributes
    ----------
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

    A block has `rows` rows, at most `grid.BLOCK_ROWS`; by default few enough that every thread has
    some. A stream has a load for each batch.
    """
    done: list[Coded] = []
    with closing(ThreadPool(n_threads)) as pool:
        for load in loads:
            known = [each.units for each in done if each.units is not None]
            done.append(_load(load, known, pool, rows))
    return done


def _load(load: Load, known: list[pa.Array], pool: ThreadPool, rows: int | None) -> Coded:
    if isinstance(load.source, Coded):
        return load.source
    parts = _read(load.loader, load.source, pool, rows)
    blocks = [part.rows for part in parts]
    n_read = sum(map(len, blocks))
    if load.loader.unit is None:
        return Coded(tuple(blocks), None, n_read)
    unit, names = number_units([part.units for part in parts])
    unit = without(unit, names, known)
    return Coded(tuple(bound_units(blocks, unit, names, load.loader.unit)), names, n_read)


def check_schema(loader: Loader, table: Table) -> str:
    """Raise SchemaError unless a table's column types fit its domain; no row is read.

    Returns the type of the unit column (see `unit_kind`); "any" without one, and for a
    text file, whose values are all strings.
    """
    batch = table.no_rows(loader.columns)
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


def _read(loader: Loader, table: Table, pool: ThreadPool, rows: int | None) -> list[CodedBatch]:
    """Read and code all pieces of a table in threads; return them in the table's order."""
    threads = readers_for(table, len(loader.columns), pool)
    pieces = table.pieces(loader.columns, rows or rows_per_block(table, pool.most))
    parts = pool.map_in_order(pieces, lambda piece: list(code_piece(loader, piece)), threads)
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
