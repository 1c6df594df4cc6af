"""Loads a random part of a table's units: those on one side of a split that nobody is told."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privboost import codec
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import bernoulli_mask
from privboost.tables.loader import Loader, UnitRule
from privboost.tables.pieces import Batch
from privboost.tables.rows import Rows


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a split: each unit falls there by a coin of its own.

    Attributes
    ----------
    key : uint8 array of length 32
        The key of the coins. It is secret: rows without a unit column have their coins by place.
    share : float
        The chance of the first side.
    first : bool
        Whether this is the first side.
    """

    key: np.ndarray
    share: float
    first: bool


@dataclass(frozen=True, eq=False)
class PartLoader:
    """Codes as another loader does, and leaves out what is not on its side.

    Attributes
    ----------
    whole : Loader
        The other one.
    side : Side
        Which part.
    """

    magic: ClassVar[bytes] = b"PVBPART1"
    by_place: ClassVar[bool] = True

    whole: Loader
    side: Side

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self.whole.columns

    @property
    def unit(self) -> UnitRule | None:
        """How rows of one unit are bounded."""
        return self.whole.unit

    def read(self, batch: Batch, first: int) -> Rows:
        """Code the rows of this side."""
        rows = self.whole.read(batch, first)
        if self.unit is None:
            stream = KeyStream(self.side.key.tobytes())
            chosen = bernoulli_mask(stream, range(first, first + len(rows)), self.side.share)
        else:
            chosen = self._falls_first(self.whole.name_units(batch))
        return rows.take(np.flatnonzero(chosen == self.side.first))

    def name_units(self, batch: Batch) -> pa.Array:
        """Return the canonical name of the unit of each row of this side."""
        names = self.whole.name_units(batch)
        return names.filter(pa.array(self._falls_first(names) == self.side.first))

    def _falls_first(self, names: pa.Array) -> np.ndarray:
        """Toss the coin of each row's unit; a row without one is used nowhere."""
        coded = names.dictionary_encode()
        heads = [self._heads(name) for name in coded.dictionary.to_pylist()]
        place = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        tossed: np.ndarray = np.array([*heads, False])[place]
        return tossed

    def _heads(self, name: bytes) -> bool:
        digest = hashlib.blake2b(name, key=self.side.key.tobytes(), digest_size=8).digest()
        return int.from_bytes(digest, "little") < int(self.side.share * 2**64)

    def to_bytes(self) -> bytes:
        """Write the loader for another process."""
        form = {
            "whole": np.frombuffer(self.whole.to_bytes(), dtype=np.uint8),
            "key": self.side.key,
            "share": self.side.share,
            "first": self.side.first,
        }
        return codec.dump(form, self.magic)

    @classmethod
    def from_bytes(cls, data: bytes) -> PartLoader:
        """Read what `to_bytes` wrote."""
        from privboost.tables.loading import read_loader

        form = codec.load(data, cls.magic)
        side = Side(form["key"], form["share"], form["first"])
        return cls(read_loader(form["whole"].tobytes()), side)
