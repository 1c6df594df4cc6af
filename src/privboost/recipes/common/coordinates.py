"""Coordinates of a linear model: from the features of a domain, independently of the rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from privboost._core.checks import shown
from privboost._core.errors import DomainError
from privboost._core.grid import VECTOR_STEPS
from privboost.data.design_matrix import MOST_SQUARE, Terms
from privboost.data.encoding import Encoder
from privboost.data.features import CategoricalFeature
from privboost.explanations.terms import INTERCEPT
from privboost.models.linear import MISSING, Coordinate

MOST_COORDINATES = 4096
"""Most coordinates, of which all products of two are kept: 128 MiB."""
_MOST_PAIRS = 2**20
"""Most pairs of codes of a product."""
MOST_NORM = VECTOR_STEPS // 4
"""Largest norm bound: entries (a number ½ or more, a product ¼) stay above a grid step."""
_TYPICAL_SQUARE = 1 / 3
"""Mean square of a uniform number between −1 and 1."""


@dataclass(frozen=True, eq=False)
class Design:
    """Layout of the coordinates of a linear model.

    Attributes
    ----------
    terms : Terms
        Map from codes to coordinates, in parts of the norm bound.
    coordinates : tuple of Coordinate
        Meaning of each coordinate.
    norm_bound : float
        Length to which vectors are shortened.
    choices : dict
        Parameters of the design, for reports.
    """

    terms: Terms
    coordinates: tuple[Coordinate, ...]
    norm_bound: float
    choices: dict[str, Any]

    @property
    def has_intercept(self) -> bool:
        """Whether the first coordinate is a constant."""
        return self.coordinates[0].feature == INTERCEPT

    @property
    def constant(self) -> float:
        """Entry of the first coordinate, where that is a constant."""
        return float(self.terms.value[0][0] / VECTOR_STEPS)


@dataclass(frozen=True, eq=False)
class _Part:
    """One term, with coordinates from 0 on and entries as floats."""

    features: tuple[int, int]
    coordinate: np.ndarray
    value: np.ndarray
    meaning: tuple[Coordinate, ...]
    typical_square: float


def design(
    encoder: Encoder,
    bins: int | None = None,
    products: bool | Sequence[tuple[str, str]] = False,
    intercept: bool = True,
    norm_bound: float | str | None = None,
) -> Design:
    """Lay out the coordinates; the arguments are those of `AdaSSPParameters`.

    Numbers are scaled to [−1, 1] by their public bounds, on their declared scale; each value of a
    category has an indicator, and so have missing values where they are declared. Undeclared
    values have none.

    Raises
    ------
    ValueError
        If the coordinates do not fit the grid: there are too many, or the norm bound is so small
        that nearly all of a row is cut away, or so large that entries vanish.
    """
    if INTERCEPT in encoder.domain.feature_names:
        raise DomainError(f"features.{INTERCEPT}: linear models call their constant that")
    if isinstance(norm_bound, float | int) and norm_bound > MOST_NORM:
        raise ValueError(
            f"norm_bound must be at most {MOST_NORM}, of which entries (1 at most) are still steps "
            "of the integer grid: lower it, or leave it at None"
        )
    singles = [
        _number(encoder, f)
        if bins is None and not isinstance(declared, CategoricalFeature)
        else _indicators(encoder, f, bins or 1)
        for f, declared in enumerate(encoder.domain.features)
    ]
    pairs = _pairs(encoder, products)
    _check_size(encoder, singles, pairs)
    parts = [*singles, *(_product(singles[a], singles[b]) for a, b in pairs)]
    if intercept:  # of any feature: all its codes have the same entry
        codes = encoder.layout.n_codes[0]
        where, meaning = np.zeros(codes, dtype=np.int64), Coordinate(INTERCEPT, "")
        parts.insert(0, _Part((0, -1), where, np.ones(codes), (meaning,), 1.0))
    if norm_bound is None:
        length = math.sqrt(sum(part.typical_square for part in parts))
    elif norm_bound == "longest":
        length = math.sqrt(sum(float((part.value**2).max()) for part in parts))
    else:
        length = float(norm_bound)
    coordinates: list[Coordinate] = []
    places, values = [], []
    for part in parts:
        places.append((part.coordinate + len(coordinates)).astype(np.int32))
        steps = np.trunc(part.value / length * VECTOR_STEPS)
        values.append(np.clip(steps, -(2**30), 2**30).astype(np.int32))
        coordinates += part.meaning
    terms = Terms(
        tuple(part.features for part in parts), tuple(places), tuple(values), len(coordinates)
    )
    if terms.most_square > MOST_SQUARE:
        raise ValueError("norm_bound is too small: nearly all of every row would be cut away")
    chosen = {"bins": bins, "intercept": intercept, "norm_bound": length}
    all_or_none = isinstance(products, bool | np.bool_)
    listed = bool(products) if all_or_none else [list(pair) for pair in products]  # type: ignore[union-attr]
    return Design(terms, tuple(coordinates), length, chosen | {"products": listed})


def _number(encoder: Encoder, feature: int) -> _Part:
    declared = encoder.domain.features[feature]
    assert not isinstance(declared, CategoricalFeature)
    number = declared.number
    edges, bins = encoder.edges[feature], encoder.layout.n_codes[feature] - 1
    low, high = number.bounds
    if number.scale == "log" and number.edges is None:
        position = (np.arange(bins) + 0.5) / bins * 2 - 1
        meaning = Coordinate(declared.name, "on its log scale, from -1 to 1")
    else:
        ends = np.concatenate([[low], edges, [high]])
        position = (ends[:-1] + ends[1:] - low - high) / (high - low)
        meaning = Coordinate(declared.name, "", 2 / (high - low), (low + high) / 2)
    missing = (Coordinate(declared.name, MISSING),) if declared.missing else ()
    coordinate = np.append(np.zeros(bins, dtype=np.int64), len(missing))
    value = np.append(position, 1.0 if missing else 0.0)
    return _Part((feature, -1), coordinate, value, (meaning, *missing), _TYPICAL_SQUARE)


def _indicators(encoder: Encoder, feature: int, bins: int) -> _Part:
    declared = encoder.domain.features[feature]
    bin_of = encoder.coarse_bins(feature, bins)
    named = list(encoder.spans(feature, bin_of))
    coordinates = [Coordinate(declared.name, words) for words, _ in named]
    kept = np.ones(len(coordinates), dtype=np.bool_)
    kept[-1] = declared.missing
    if isinstance(declared, CategoricalFeature):
        kept[-2] = False  # "other": hardly a row has it, and its coordinate would be noise
    value = kept[bin_of].astype(np.float64)
    coordinate = np.where(kept, np.cumsum(kept) - 1, 0)[bin_of]
    meaning = tuple(coordinate for coordinate, keep in zip(coordinates, kept, strict=True) if keep)
    return _Part((feature, -1), coordinate, value, meaning, 1.0)


def _product(one: _Part, other: _Part) -> _Part:
    """Multiply two terms, coordinate by coordinate."""
    width = len(other.meaning)
    coordinate = one.coordinate[:, None] * width + other.coordinate[None, :]
    value = one.value[:, None] * other.value[None, :]
    unit = "scaled to -1 to 1"
    meaning = tuple(
        Coordinate(f"{a.feature} × {b.feature}", f"{a.value or unit} and {b.value or unit}")
        for a in one.meaning
        for b in other.meaning
    )
    square = one.typical_square * other.typical_square
    pair = (one.features[0], other.features[0])
    return _Part(pair, coordinate.reshape(-1), value.reshape(-1), meaning, square)


def named_features(products: bool | Sequence[tuple[str, str]]) -> list[str]:
    """Return the features that products name, or raise if they are no pairs of names."""
    if isinstance(products, bool | np.bool_):
        return []
    if not isinstance(products, Iterable):
        raise ValueError(
            f"products must be True, False, or pairs of feature names; {shown(products)} is not"
        )
    named: list[str] = []
    for pair in [products] if isinstance(products, str) else products:
        fine = isinstance(pair, Sequence) and not isinstance(pair, str) and len(set(pair)) == 2
        if not fine or len(pair) != 2:
            raise ValueError(
                f"products must be True, False, or pairs of two different features; {pair!r} is "
                "no such pair"
            )
        named += pair
    return named


def _pairs(encoder: Encoder, products: bool | Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    names = encoder.domain.feature_names
    if isinstance(products, bool | np.bool_):
        return list(combinations(range(len(names)), 2)) if products else []
    for name in named_features(products):
        if name not in names:
            raise ValueError(
                f"products: there is no feature {name!r}; there are {', '.join(map(repr, names))}"
            )
    numbers = [sorted(names.index(name) for name in pair) for pair in products]
    return list(dict.fromkeys((first, second) for first, second in numbers))


def _check_size(
    encoder: Encoder, singles: Sequence[_Part], pairs: Sequence[tuple[int, int]]
) -> None:
    """Refuse more coordinates than the matrix of their products can hold."""
    count = 1 + sum(len(part.meaning) for part in singles)
    count += sum(len(singles[a].meaning) * len(singles[b].meaning) for a, b in pairs)
    if count > MOST_COORDINATES:
        raise ValueError(
            f"the model would have {count} coordinates; at most {MOST_COORDINATES} are possible, "
            "since all products of two are kept: lower bins, or leave out products or categories"
        )
    codes = encoder.layout.n_codes
    for a, b in pairs:
        if codes[a] * codes[b] > _MOST_PAIRS:
            names = encoder.domain.feature_names
            raise ValueError(f"the product of {names[a]!r} and {names[b]!r} has too many values")
