"""Design matrix of a linear model, as a sparse function of codes: public.

A term depends on one feature, or two, and gives each row one nonzero entry, an integer: a number
has one coordinate, a categorical feature one for each category. The vector of a row is the sum of
its terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privboost._core.grid import VECTOR_BITS, VECTOR_STEPS
from privboost._core.pickling import DeclaredState

MOST_SQUARE = 2**60
"""The largest squared norm of a row before it is clipped: far below the range of int64."""


@dataclass(frozen=True, eq=False)
class Terms(DeclaredState):
    """The map from codes to vectors: public.

    Attributes
    ----------
    features : tuple of (int, int)
        The features of each term; the second is −1 for terms of one.
    coordinate : tuple of int32 arrays
        The coordinate of each code (or pair of codes, in row-major order), term by term.
    value : tuple of int32 arrays
        The entry in that coordinate, in `VECTOR_STEPS` of the norm bound.
    n_coordinates : int
        The number of coordinates.
    """

    features: tuple[tuple[int, int], ...]
    coordinate: tuple[np.ndarray, ...]
    value: tuple[np.ndarray, ...]
    n_coordinates: int

    @property
    def most_square(self) -> int:
        """The largest squared norm that a row can have before it is clipped."""
        return sum(int((value.astype(np.int64) ** 2).max()) for value in self.value)

    def check(self) -> None:
        """Raise ValueError if two terms share a coordinate: squared norms would not add up."""
        coordinates = [np.unique(coordinate) for coordinate in self.coordinate]
        disjoint = sum(map(len, coordinates)) == len(np.unique(np.concatenate(coordinates)))
        inside = all(own[0] >= 0 and own[-1] < self.n_coordinates for own in coordinates)
        if not (disjoint and inside and len(self.features) == len(coordinates) == len(self.value)):
            raise ValueError("terms of a linear model have coordinates of their own")
        if self.most_square > MOST_SQUARE:
            raise ValueError(
                "entries of a linear model are too large: their squares would overflow"
            )

    def frozen(self) -> Terms:
        """Return a read-only copy."""
        coordinate = tuple(map(_frozen, self.coordinate))
        return Terms(
            tuple(self.features), coordinate, tuple(map(_frozen, self.value)), self.n_coordinates
        )

    @property
    def shortens(self) -> bool:
        """Whether some rows may have to be clipped to the norm bound."""
        return bool(self.most_square > VECTOR_STEPS**2)

    def tables(self, coefficients: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
        """Return the contribution of each code, or pair of codes, to a score (int32, score steps).

        Coefficients, one for each coordinate, are in score steps per `VECTOR_STEPS`.
        """
        tables: dict[tuple[int, int], np.ndarray] = {}
        for features, own in zip(self.features, self._parts(coefficients), strict=True):
            tables[features] = tables.get(features, 0) + own
        return {features: table.astype(np.int32) for features, table in tables.items()}

    def most_score(self, coefficients: np.ndarray) -> int:
        """Return an upper bound on the absolute score, and partial sums of it, in score steps."""
        return sum(int(np.abs(own).max()) for own in self._parts(coefficients))

    def _parts(self, coefficients: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the contributions of each term's codes to a score (int64)."""
        wide, half = coefficients.astype(np.int64), 1 << (VECTOR_BITS - 1)
        for coordinate, value in zip(self.coordinate, self.value, strict=True):
            yield (wide[coordinate] * value + half) >> VECTOR_BITS

    @cached_property
    def by_features(self) -> dict[tuple[int, int], list[int]]:
        """The indices of the terms of each feature or pair."""
        found: dict[tuple[int, int], list[int]] = {}
        for number, features in enumerate(self.features):
            found.setdefault(features, []).append(number)
        return found


def _frozen(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy
