"""Rows of which nothing is known yet: numbers by their size, words as they are written."""

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
"""Powers of two between which the size of a number is told."""
SIZE_EDGES = np.array(
    [-(2.0**k) for k in range(LARGEST, SMALLEST - 1, -1)]
    + [np.nextafter(0.0, -1.0), 0.0]
    + [2.0**k for k in range(SMALLEST, LARGEST + 1)]
)
SIZE_CODES = len(SIZE_EDGES) + 2
"""Codes of a number: one more than edges, and missing."""
_SIZES = Bins(SIZE_EDGES)


@dataclass(frozen=True, eq=False)
class SizeLoader:
    """Loads rows to learn a domain from.

    Attributes
    ----------
    numbers, words : tuples of str
        The columns whose sizes, and whose values, are to be told.
    unit : UnitRule or None
        How rows of one unit are bounded.
    spare : str
        A column to count rows by, should there be no other.
    durations : tuple of str
        Those of the numbers that are durations, in seconds.
    """

    magic: ClassVar[bytes] = b"PVBSIZE1"
    by_place: ClassVar[bool] = False

    numbers: tuple[str, ...]
    words: tuple[str, ...]
    unit: UnitRule | None
    spare: str
    durations: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        unit = () if self.unit is None else (self.unit.column,)
        return tuple(dict.fromkeys([*self.numbers, *self.words, *unit])) or (self.spare,)

    def read(self, batch: Batch, first: int) -> Rows:
        """Code some rows; sizes have one label, and no ids: nobody samples them."""
        size = len(batch[self.columns[0]])
        codes = Codes.empty(Layout((SIZE_CODES,) * len(self.numbers)), size)
        for k, name in enumerate(self.numbers):
            read = read_durations if name in self.durations else read_numbers
            values = read(batch[name], name)
            values = np.where(np.isinf(values), np.nan, values)  # bounds are of finite numbers
            _SIZES.code(values, codes.column(k))
        texts = tuple(read_texts(batch[name], name) for name in self.words)
        return Rows(codes, np.zeros(size, dtype=np.uint8), texts=texts)

    def name_units(self, batch: Batch) -> pa.Array:
        """Return the canonical name of each row's unit, null where there is none."""
        assert self.unit is not None
        return read_unit_names(batch[self.unit.column], self.unit.column)

    def to_bytes(self) -> bytes:
        """Write the loader for another process."""
        form: dict[str, Any] = {
            "numbers": list(self.numbers),
            "words": list(self.words),
            "unit": None if self.unit is None else self.unit.to_form(),
            "spare": self.spare,
            "durations": list(self.durations),
        }
        return codec.dump(form, self.magic)

    @classmethod
    def from_bytes(cls, data: bytes) -> SizeLoader:
        """Read what `to_bytes` wrote."""
        form = codec.load(data, cls.magic)
        unit = None if form["unit"] is None else UnitRule(**form["unit"])
        numbers, words, durations = (tuple(form[key]) for key in ("numbers", "words", "durations"))
        return cls(numbers, words, unit, form["spare"], durations)
