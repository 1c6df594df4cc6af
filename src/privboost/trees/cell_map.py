"""Cell maps: the cell of each code of some features. Public, validated and immutable.

Sums are computed by cell. Their sensitivity requires that a row has exactly one cell of each part;
here it does by construction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from privboost.data.rows import Layout

MOST_FEATURES = 3
"""The most features of one part."""
MOST_CODES = 2**16
"""The most codes, and cells, of one feature."""
MOST_CELLS = 2**31 - 1
"""The most cells of a map: kernels index them in 32 bits."""


@dataclass(frozen=True, eq=False)
class CellPart:
    """The cells of one feature, or the joint cells of two or three.

    The cell of a row is a mixed-radix number whose digits are the cells of its features, the last
    varying fastest. So no table larger than the features' own codes is stored or sent.

    Attributes
    ----------
    features : tuple of int
        The features, each once.
    cell_of : tuple of uint16 arrays
        For each feature, the cell of each code.
    sizes : tuple of int
        The number of cells of each feature.
    """

    features: tuple[int, ...]
    cell_of: tuple[np.ndarray, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("features", "cell_of", "sizes"):
            if not isinstance(getattr(self, name), tuple):
                raise ValueError(f"{name} of cells must be a tuple")
        if not len(self.features) == len(self.cell_of) == len(self.sizes):
            raise ValueError("features, cell_of and sizes must have equal lengths")
        if not 1 <= len(set(self.features)) == len(self.features) <= MOST_FEATURES:
            raise ValueError(f"a part must have 1 to {MOST_FEATURES} distinct features")
        if not all(_is_whole(f, 0, MOST_CODES - 1) for f in self.features):
            raise ValueError(f"a feature must be an integer from 0 to {MOST_CODES - 1}")
        own = zip(self.cell_of, self.sizes, strict=True)
        object.__setattr__(self, "cell_of", tuple(_fixed(cells, size) for cells, size in own))
        if self.n_cells > MOST_CELLS:
            raise ValueError(f"there must be at most {MOST_CELLS} cells")

    @cached_property
    def n_cells(self) -> int:
        """The number of cells."""
        return math.prod(self.sizes)

    @cached_property
    def alone(self) -> bool:
        """Whether it has one feature only, so that a code determines the cell."""
        return len(self.features) == 1

    def same_as(self, other: CellPart) -> bool:
        """Whether two parts assign every row the same cell."""
        return self is other or (
            self.features == other.features
            and self.sizes == other.sizes
            and all(map(np.array_equal, self.cell_of, other.cell_of))
        )


@dataclass(frozen=True, eq=False)
class CellMap:
    """One or several parts, whose cells are numbered consecutively; a row has one cell of each.

    Two parts may have the same feature.
    """

    parts: tuple[CellPart, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple) or not all(
            isinstance(part, CellPart) for part in self.parts
        ):
            raise ValueError("parts must be a tuple of CellPart")
        if self.n_cells > MOST_CELLS:
            raise ValueError(f"there must be at most {MOST_CELLS} cells")

    @classmethod
    def of_feature(cls, feature: int, cell_of: np.ndarray, size: int | None = None) -> CellMap:
        """Return the map of one feature; by default its largest cell determines their number."""
        size = int(cell_of.max()) + 1 if size is None else size
        return cls((CellPart((feature,), (cell_of,), (size,)),))

    @classmethod
    def side_by_side(cls, maps: Iterable[CellMap]) -> CellMap:
        """Return one map with the parts of several maps."""
        each = tuple(maps)
        return each[0] if len(each) == 1 else cls(tuple(part for own in each for part in own.parts))

    @classmethod
    def joint(cls, maps: Iterable[CellMap]) -> CellMap:
        """Return one part with the joint cells of the features of several maps."""
        parts = cls.side_by_side(maps).parts
        features = tuple(feature for part in parts for feature in part.features)
        cell_of = tuple(cells for part in parts for cells in part.cell_of)
        return cls((CellPart(features, cell_of, tuple(n for part in parts for n in part.sizes)),))

    @cached_property
    def n_cells(self) -> int:
        """The number of cells of all parts."""
        return sum(part.n_cells for part in self.parts)

    @cached_property
    def first(self) -> tuple[int, ...]:
        """The first cell of each part."""
        return tuple(accumulate((part.n_cells for part in self.parts[:-1]), initial=0))

    @cached_property
    def features(self) -> tuple[int, ...]:
        """The features of all parts, in order."""
        return tuple(feature for part in self.parts for feature in part.features)

    @cached_property
    def apart(self) -> bool:
        """Whether each part is one feature that no other part has."""
        return len(set(self.features)) == len(self.features) == len(self.parts)

    def split(self, sums: np.ndarray) -> list[np.ndarray]:
        """Split the sums of all cells into those of each part."""
        return np.split(sums, self.first[1:])

    def by_feature(self) -> dict[int, np.ndarray]:
        """Return the cell of each code, by feature; for parts of one distinct feature each."""
        if not self.apart:
            raise ValueError("each part must be one feature that no other part has")
        return {
            part.features[0]: part.cell_of[0].astype(np.uint32) + np.uint32(first)
            for part, first in zip(self.parts, self.first, strict=True)
        }

    def same_as(self, other: CellMap) -> bool:
        """Whether two maps assign every row the same cells."""
        return self is other or (
            len(self.parts) == len(other.parts)
            and all(map(CellPart.same_as, self.parts, other.parts))
        )

    def check(self, layout: Layout) -> None:
        """Refuse a map that was not made for these columns: kernels do not check."""
        n_codes = layout.n_codes
        for part in self.parts:
            for feature, cells in zip(part.features, part.cell_of, strict=True):
                if feature >= len(n_codes) or len(cells) != n_codes[feature]:
                    raise ValueError("a cell map must have a cell for each code of its features")


def _fixed(cells: np.ndarray, size: int) -> np.ndarray:
    """Return an immutable copy of cells, all of which are below a size."""
    if not _is_whole(size, 1, MOST_CODES):
        raise ValueError(f"a feature must have 1 to {MOST_CODES} cells")
    if not isinstance(cells, np.ndarray) or cells.dtype.kind not in "iu" or cells.ndim != 1:
        raise ValueError("cell_of must be a one-dimensional integer array")
    if not 1 <= len(cells) <= MOST_CODES:
        raise ValueError(f"a feature must have 1 to {MOST_CODES} codes")
    if int(cells.min()) < 0 or int(cells.max()) >= size:
        raise ValueError("the cell of a code must be below the number of cells")
    return np.frombuffer(cells.astype(np.uint16).tobytes(), dtype=np.uint16)


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
