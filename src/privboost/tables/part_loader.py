"""Loader of a random part of a table's units: one side of a secret split."""

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
from privboost.tables.loader import Loader, UnitRule, read_loader
from privboost.tables.pieces import Batch
from privboost.tables.rows import Rows


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
class PartLoader:
    """Loads the rows of another loader that are on one side of a split.

    Attributes
    ----------
    whole : Loader
        The other loader.
    side : Side
        The side.
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
        """The bound on the rows of one unit."""
        return self.whole.unit

    def read(self, batch: Batch, first: int) -> Rows:
        """Code the rows of this side."""
        rows = self.whole.read(batch, first)
        if self.unit is None:
            stream = KeyStream(self.side.key.tobytes())
            chosen = bernoulli_mask(stream, range(first, first + len(rows)), self.side.share)
        else:
            chosen = self._on_first_side(self.whole.name_units(batch))
        return rows.take(np.flatnonzero(chosen == self.side.first))

    def name_units(self, batch: Batch) -> pa.Array:
        """Return the canonical name of the unit of each row of this side."""
        names = self.whole.name_units(batch)
        return names.filter(pa.array(self._on_first_side(names) == self.side.first))

    def _on_first_side(self, names: pa.Array) -> np.ndarray:
        """Whether each row's unit is on the first side; a row without a unit is on neither."""
        coded = names.dictionary_encode()
        first = [self._is_first(name) for name in coded.dictionary.to_pylist()]
        place = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        chosen: np.ndarray = np.array([*first, False])[place]
        return chosen

    def _is_first(self, name: bytes) -> bool:
        digest = hashlib.blake2b(name, key=self.side.key.tobytes(), digest_size=8).digest()
        return int.from_bytes(digest, "little") < int(self.side.share * 2**64)

    def to_bytes(self) -> bytes:
        """Serialise the loader for another process."""
        payload = {
            "whole": np.frombuffer(self.whole.to_bytes(), dtype=np.uint8),
            "key": self.side.key,
            "share": self.side.share,
            "first": self.side.first,
        }
        return codec.dump(payload, self.magic)

    @classmethod
    def from_bytes(cls, data: bytes) -> PartLoader:
        """Read the bytes of `to_bytes`."""
        payload = codec.load(data, cls.magic)
        side = Side(payload["key"], payload["share"], payload["first"])
        return cls(read_loader(payload["whole"].tobytes()), side)
