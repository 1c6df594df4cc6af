"""Loaders: conversion of batches of columns to coded rows.

Loaders are frozen and serialisable, so that a cluster's workers can load their rows themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from privboost import codec
from privboost.grid import WEIGHT_STEPS
from privboost.hooks import resolve
from privboost.losses import UNKNOWN_LABEL
from privboost.randomness.keystream import KeyStream
from privboost.tables.domain import Domain
from privboost.tables.encoding import Encoder, code_weights
from privboost.tables.pieces import Batch
from privboost.tables.rows import Codes, Rows
from privboost.tables.unit_names import read_unit_names
from privboost.unit import Unit


@dataclass(frozen=True, eq=False)
class UnitRule:
    """Bound on the rows of one protected unit.

    Attributes
    ----------
    column : str
        The column that names units.
    max_rows : int
        The largest number of rows of a unit that are used.
    key : uint64 array of length 2
        The key of the hash that chooses them.
    """

    column: str
    max_rows: int
    key: np.ndarray

    @classmethod
    def of(cls, unit: Unit | None, stream: KeyStream) -> UnitRule | None:
        """Return the rule for a unit, with a key of its own; None without a unit."""
        return None if unit is None else cls(unit.column, unit.max_rows, stream.words(2))

    def to_dict(self) -> dict[str, Any]:
        """Return the payload for another process."""
        return {"column": self.column, "max_rows": self.max_rows, "key": self.key}


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


@dataclass(frozen=True)
class Roles:
    """Columns with other roles than features.

    Attributes
    ----------
    target : str
        The labels.
    weight : str or None
        The sample weights.
    """

    target: str
    weight: str | None = None


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
        """The columns that are read."""
        names = [*self.encoder.domain.feature_names, self.roles.target]
        names += [] if self.roles.weight is None else [self.roles.weight]
        names += [] if self.unit is None else [self.unit.column]
        return tuple(dict.fromkeys(names))

    def read(self, batch: Batch, first: int) -> Rows:
        """Code some rows; the first has index `first` in its table."""
        return self.join(self.encoder.code(batch), batch, first)

    def join(self, codes: Codes, batch: Batch, first: int) -> Rows:
        """Return the rows of a batch whose features are coded."""
        label, start = self.encoder.domain.target.code(batch[self.roles.target])
        weight = self._weigh(batch, label)
        at = self.first_id + first
        return Rows(codes, label, weight, start, range(at, at + len(codes)), self.cohort)

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
        """Return the canonical name of each row's unit, null where there is none."""
        assert self.unit is not None
        return read_unit_names(batch[self.unit.column], self.unit.column)

    def to_bytes(self) -> bytes:
        """Serialise the loader for another process."""
        payload = {
            "domain": self.encoder.domain.to_dict(),
            "edges": list(self.encoder.edges),
            "roles": [self.roles.target, self.roles.weight],
            "weight_bound": self.weight_bound,
            "unit": None if self.unit is None else self.unit.to_dict(),
            "first_id": self.first_id,
            "cohort": self.cohort,
            "class_steps": None if self.class_steps is None else list(self.class_steps),
        }
        return codec.dump(payload, self.magic)

    @classmethod
    def from_bytes(cls, data: bytes) -> RowLoader:
        """Read the bytes of `to_bytes`."""
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
