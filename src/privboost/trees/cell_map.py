"""Which cell each code of some features falls into: public, checked and fixed when it is made.

Sums are added up by cell. That a row touches one cell of each part, and no other, is what their
sensitivity rests on; here it holds by construction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from privboost.tables.layout import Layout

MOST_FEATURES = 3
"""Features of one part."""
MOST_CODES = 2**16
"""Codes, and cells, of one feature."""
MOST_CELLS = 2**31 - 1
"""Cells of a whole map: kernels number them in 32 bits."""


@dataclass(frozen=True, eq=False)
class CellPart:
    """The cells of one feature, or of two or three jointly.

    The cell of a row is a number whose digits are its features' own cells, the last running
    fastest. So nothing larger than the features' own codes is kept or sent.

    Attributes
    ----------
    features : tuple of int
        The features, each once.
    cell_of : tuple of uint16 arrays
        For each feature its own cell of each code.
    sizes : tuple of int
        How many own cells each feature has.
    """

    features: tuple[int, ...]
    cell_of: tuple[np.ndarray, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("features", "cell_of", "sizes"):
            if not isinstance(getattr(self, name), tuple):
                raise ValueError(f"{name} of cells must be a tuple")
        if not len(self.features) == len(self.cell_of) == len(self.sizes):
            raise ValueError("each feature needs its cells and their number")
        if not 1 <= len(set(self.features)) == len(self.features) <= MOST_FEATURES:
            raise ValueError(f"cells are of 1 to {MOST_FEATURES} features, each once")
        if not all(_is_whole(f, 0, MOST_CODES - 1) for f in self.features):
            raise ValueError("a feature of cells must be a whole number")
        own = zip(self.cell_of, self.sizes, strict=True)
        object.__setattr__(self, "cell_of", tuple(_fixed(cells, size) for cells, size in own))
        if self.n_cells > MOST_CELLS:
            raise ValueError("there are too many cells to number them")

    @cached_property
    def n_cells(self) -> int:
        """How many cells there are."""
        return math.prod(self.sizes)

    @cached_property
    def alone(self) -> bool:
        """Whether it looks at one feature only, so that its cells can be read off codes."""
        return len(self.features) == 1

    def same_as(self, other: CellPart) -> bool:
        """Say whether two parts give every row the same cell."""
        return self is other or (
            self.features == other.features
            and self.sizes == other.sizes
            and all(map(np.array_equal, self.cell_of, other.cell_of))
        )


@dataclass(frozen=True, eq=False)
class CellMap:
    """One part, or several side by side, whose cells are numbered through.

    A row touches exactly one cell of each part.

    Attributes
    ----------
    parts : tuple of CellPart
        The parts. Two of them may look at one feature.
    """

    parts: tuple[CellPart, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple) or not all(
            isinstance(part, CellPart) for part in self.parts
        ):
            raise ValueError("a map of cells is made of parts")
        if self.n_cells > MOST_CELLS:
            raise ValueError("there are too many cells to number them")

    @classmethod
    def of_feature(cls, feature: int, cell_of: np.ndarray, size: int | None = None) -> CellMap:
        """Return the map of one feature; by default its largest cell says how many there are."""
        size = int(cell_of.max()) + 1 if size is None else size
        return cls((CellPart((feature,), (cell_of,), (size,)),))

    @classmethod
    def side_by_side(cls, maps: Iterable[CellMap]) -> CellMap:
        """Return the parts of several maps in one, their cells numbered through."""
        each = tuple(maps)
        return each[0] if len(each) == 1 else cls(tuple(part for own in each for part in own.parts))

    @classmethod
    def joint(cls, maps: Iterable[CellMap]) -> CellMap:
        """Return one part that looks jointly at the features of several."""
        parts = cls.side_by_side(maps).parts
        features = tuple(feature for part in parts for feature in part.features)
        cell_of = tuple(cells for part in parts for cells in part.cell_of)
        return cls((CellPart(features, cell_of, tuple(n for part in parts for n in part.sizes)),))

    @cached_property
    def n_cells(self) -> int:
        """How many cells there are in all."""
        return sum(part.n_cells for part in self.parts)

    @cached_property
    def first(self) -> tuple[int, ...]:
        """Where the cells of each part begin."""
        return tuple(accumulate((part.n_cells for part in self.parts[:-1]), initial=0))

    @cached_property
    def features(self) -> tuple[int, ...]:
        """The features of all parts, one after the other."""
        return tuple(feature for part in self.parts for feature in part.features)

    @cached_property
    def apart(self) -> bool:
        """Whether each part is one feature that no other part looks at."""
        return len(set(self.features)) == len(self.features) == len(self.parts)

    def split(self, sums: np.ndarray) -> list[np.ndarray]:
        """Return the sums of each part, given those of all cells."""
        return np.split(sums, self.first[1:])

    def by_feature(self) -> dict[int, np.ndarray]:
        """Return for each feature the cell of each code, numbered through; for parts apart."""
        if not self.apart:
            raise ValueError("each part must be one feature of its own")
        return {
            part.features[0]: part.cell_of[0].astype(np.uint32) + np.uint32(first)
            for part, first in zip(self.parts, self.first, strict=True)
        }

    def same_as(self, other: CellMap) -> bool:
        """Say whether two maps give every row the same cells."""
        return self is other or (
            len(self.parts) == len(other.parts)
            and all(map(CellPart.same_as, self.parts, other.parts))
        )

    def check(self, layout: Layout) -> None:
        """Refuse a map that was not made for these columns: kernels do not look."""
        n_codes = layout.n_codes
        for part in self.parts:
            for feature, cells in zip(part.features, part.cell_of, strict=True):
                if feature >= len(n_codes) or len(cells) != n_codes[feature]:
                    raise ValueError("a map needs a cell for each code of its features")


def _fixed(cells: np.ndarray, size: int) -> np.ndarray:
    """Return a copy that nobody can change, of cells that lie below a size."""
    if not _is_whole(size, 1, MOST_CODES):
        raise ValueError(f"a feature has 1 to {MOST_CODES} cells")
    if not isinstance(cells, np.ndarray) or cells.dtype.kind not in "iu" or cells.ndim != 1:
        raise ValueError("cells of codes must be an array of whole numbers")
    if not 1 <= len(cells) <= MOST_CODES:
        raise ValueError(f"a feature has 1 to {MOST_CODES} codes")
    if int(cells.min()) < 0 or int(cells.max()) >= size:
        raise ValueError("the cell of a code must lie within the number of cells")
    return np.frombuffer(cells.astype(np.uint16).tobytes(), dtype=np.uint16)


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
