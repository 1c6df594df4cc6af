"""Loader for private domain inference: numbers by power of two, categories as strings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from privboost import codec
from privboost.tables.bins import Bins
from privboost.tables.layout import Layout
from privboost.tables.loader import UnitRule
from privboost.tables.pieces import Batch
from privboost.tables.rows import Codes, Rows
from privboost.tables.times import read_durations
from privboost.tables.unit_names import read_unit_names
from privboost.tables.values import read_numbers, read_texts

SMALLEST, LARGEST = -30, 62
"""Exponents of the smallest and the largest bin edge."""
SIZE_EDGES = np.array(
    [-(2.0**k) for k in range(LARGEST, SMALLEST - 1, -1)]
    + [np.nextafter(0.0, -1.0), 0.0]
    + [2.0**k for k in range(SMALLEST, LARGEST + 1)]
)
SIZE_CODES = len(SIZE_EDGES) + 2
"""Number of codes of a number: one more than edges, and missing."""
_SIZES = Bins(SIZE_EDGES)


@dataclass(frozen=True, eq=False)
class SizeLoader:
    """Loads rows to infer a domain from.

    Attributes
    ----------
    numbers, strings : tuples of str
        The columns whose bounds, and whose categories or classes, are inferred.
    unit : UnitRule or None
        The bound on the rows of one unit.
    spare : str
        A column to count rows by, if there is no other.
    durations : tuple of str
        The columns among `numbers` that hold durations, in seconds.
    """

    magic: ClassVar[bytes] = b"PVBSIZE1"
    by_place: ClassVar[bool] = False

    numbers: tuple[str, ...]
    strings: tuple[str, ...]
    unit: UnitRule | None
    spare: str
    durations: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        unit = () if self.unit is None else (self.unit.column,)
        return tuple(dict.fromkeys([*self.numbers, *self.strings, *unit])) or (self.spare,)

    def read(self, batch: Batch, first: int) -> Rows:
        """Code some rows. They have one label, and no ids: they are never sampled."""
        size = len(batch[self.columns[0]])
        codes = Codes.empty(Layout((SIZE_CODES,) * len(self.numbers)), size)
        for k, name in enumerate(self.numbers):
            read = read_durations if name in self.durations else read_numbers
            values = read(batch[name], name)
            values = np.where(np.isinf(values), np.nan, values)  # bounds are of finite numbers
            _SIZES.code(values, codes.column(k))
        texts = tuple(read_texts(batch[name], name) for name in self.strings)
        return Rows(codes, np.zeros(size, dtype=np.uint8), texts=texts)

    def name_units(self, batch: Batch) -> pa.Array:
        """Return the canonical name of each row's unit, null where there is none."""
        assert self.unit is not None
        return read_unit_names(batch[self.unit.column], self.unit.column)

    def to_bytes(self) -> bytes:
        """Serialise the loader for another process."""
        payload: dict[str, Any] = {
            "numbers": list(self.numbers),
            "words": list(self.strings),
            "unit": None if self.unit is None else self.unit.to_dict(),
            "spare": self.spare,
            "durations": list(self.durations),
        }
        return codec.dump(payload, self.magic)

    @classmethod
    def from_bytes(cls, data: bytes) -> SizeLoader:
        """Read the bytes of `to_bytes`."""
        payload = codec.load(data, cls.magic)
        unit = None if payload["unit"] is None else UnitRule(**payload["unit"])
        numbers, strings, durations = (
            tuple(payload[key]) for key in ("numbers", "words", "durations")
        )
        return cls(numbers, strings, unit, payload["spare"], durations)
