"""Loader of rows to evaluate a model on: their outcomes and groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from privboost import codec
from privboost.evaluation.outcomes import Outcomes, read_outcomes
from privboost.models.files import model_bytes, read_model
from privboost.models.model import Model
from privboost.tables.domain import Domain
from privboost.tables.encoding import Encoder
from privboost.tables.layout import Layout
from privboost.tables.loader import UnitRule
from privboost.tables.pieces import Batch
from privboost.tables.rows import Codes, Rows
from privboost.tables.unit_names import read_unit_names


@dataclass(frozen=True, eq=False)
class OutcomeLoader:
    """Codes rows as outcomes of a model; of the features only those of groups are kept.

    Attributes
    ----------
    model : Model
        The model; it is serialised with the loader.
    outcomes : ClassOutcomes, NumberOutcomes or ExactNumberOutcomes
        Outcomes of a row: the first columns of codes.
    groups : Encoder or None
        Features of groups: the columns after them.
    target : str
        The column of labels.
    unit : UnitRule or None
        Rule that bounds the rows of one unit.
    """

    magic: ClassVar[bytes] = b"PVBEVAL1"
    by_place: ClassVar[bool] = False

    model: Model
    outcomes: Outcomes
    groups: Encoder | None
    target: str
    unit: UnitRule | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read."""
        names = [*self.model.domain.feature_names, self.target]
        names += [] if self.groups is None else self.groups.domain.feature_names
        names += [] if self.unit is None else [self.unit.column]
        return tuple(dict.fromkeys(names))

    @property
    def layout(self) -> Layout:
        """Number of codes of each column."""
        groups = () if self.groups is None else self.groups.layout.n_codes
        return Layout((*self.outcomes.sizes(self.model), *groups))

    def read(self, batch: Batch, first: int) -> Rows:
        """Code some rows; they have no ids, since they are not sampled."""
        coded = self.model.encoder.code(batch)
        label, columns = self.outcomes.code(self.model, coded, batch[self.target])
        if self.groups is not None:
            groups = self.groups.code(batch)
            columns += [groups.column(k) for k in range(len(self.groups.domain.features))]
        codes = Codes.empty(self.layout, len(label))
        for number, column in enumerate(columns):
            codes.column(number)[:] = column
        return Rows(codes, label)

    def name_units(self, batch: Batch) -> pa.Array:
        """Return the canonical name of each row's unit, null where there is none."""
        assert self.unit is not None
        return read_unit_names(batch[self.unit.column], self.unit.column)

    def to_bytes(self) -> bytes:
        """Write the loader for another process."""
        parts = {
            "model": np.frombuffer(model_bytes(self.model), dtype=np.uint8),
            "outcomes": self.outcomes.to_dict(),
            "groups": None if self.groups is None else self.groups.domain.to_dict(),
            "edges": [] if self.groups is None else list(self.groups.edges),
            "target": self.target,
            "unit": None if self.unit is None else self.unit.to_dict(),
        }
        return codec.dump(parts, self.magic)

    @classmethod
    def from_bytes(cls, data: bytes) -> OutcomeLoader:
        """Read what `to_bytes` wrote."""
        parts = codec.load(data, cls.magic)
        groups = parts["groups"]
        return cls(
            read_model(parts["model"].tobytes(), "the model that is evaluated"),
            read_outcomes(parts["outcomes"]),
            None if groups is None else Encoder(Domain.from_dict(groups), tuple(parts["edges"])),
            parts["target"],
            None if parts["unit"] is None else UnitRule(**parts["unit"]),
        )
