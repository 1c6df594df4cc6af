"""Rows as vectors of a linear model, on the rows of one shard.

A term looks at one feature, or two, and gives each row one column and a whole number for it: a
number has one column, a category one for each value. The vector of a row is what its terms give
together. Vectors are bounded: one whose norm exceeds `LINEAR_UNITS` is shortened to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privboost.engine import kernels, linear_kernels
from privboost.engine.block import Block
from privboost.engine.layout import Layout
from privboost.grid import GRADIENT_UNITS, LINEAR_BITS, LINEAR_UNITS, UNIT, WEIGHT_UNITS

_CHUNK = 2**19
"""Numbers of a chunk of rows that is multiplied at once: it should stay near the processor."""
_FEWEST_ROWS = 256
MOST_SQUARE = 2**60
"""The largest squared norm of a row before it is shortened: far from what int64 holds."""


@dataclass(frozen=True, eq=False)
class Terms:
    """How codes become vectors: public.

    Attributes
    ----------
    features : tuple of (int, int)
        The features each term looks at; the second is −1 for terms of one.
    column : tuple of int32 arrays
        For each term, the column of each code (of two features: of each pair of codes, the second
        running fastest).
    value : tuple of int32 arrays
        The number in that column, in `LINEAR_UNITS` of the norm bound.
    n_columns : int
        How many columns there are in all.
    """

    features: tuple[tuple[int, int], ...]
    column: tuple[np.ndarray, ...]
    value: tuple[np.ndarray, ...]
    n_columns: int

    @property
    def most_square(self) -> int:
        """The largest squared norm that a row can have before it is shortened."""
        return sum(int((value.astype(np.int64) ** 2).max()) for value in self.value)

    def check(self) -> None:
        """Refuse terms of which two share a column: their norms would not add up."""
        columns = [np.unique(column) for column in self.column]
        apart = sum(map(len, columns)) == len(np.unique(np.concatenate(columns)))
        inside = all(own[0] >= 0 and own[-1] < self.n_columns for own in columns)
        if not (apart and inside and len(self.features) == len(columns) == len(self.value)):
            raise ValueError("terms of a linear model have columns of their own")
        if self.most_square > MOST_SQUARE:
            raise ValueError(
                "entries of a linear model are too large: their squares would overflow"
            )

    def frozen(self) -> Terms:
        """Return a copy that nobody can change."""
        column = tuple(map(_frozen, self.column))
        return Terms(tuple(self.features), column, tuple(map(_frozen, self.value)), self.n_columns)

    @property
    def shortens(self) -> bool:
        """Whether some rows may have to be shortened."""
        return self.most_square > LINEAR_UNITS**2

    def tables(self, coefficients: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
        """Return what the codes of each feature, or pair, add to a score (int32, score units).

        Parameters
        ----------
        coefficients : int array
            For each column, in score units per `LINEAR_UNITS`.
        """
        tables: dict[tuple[int, int], np.ndarray] = {}
        for features, own in zip(self.features, self._parts(coefficients), strict=True):
            tables[features] = tables.get(features, 0) + own
        return {features: table.astype(np.int32) for features, table in tables.items()}

    def most_score(self, coefficients: np.ndarray) -> int:
        """Return a size that no row's score exceeds, nor any part of it (score units)."""
        return sum(int(np.abs(own).max()) for own in self._parts(coefficients))

    def _parts(self, coefficients: np.ndarray) -> Iterator[np.ndarray]:
        """Yield what the codes of each term add to a score (int64)."""
        wide, half = coefficients.astype(np.int64), 1 << (LINEAR_BITS - 1)
        for column, value in zip(self.column, self.value, strict=True):
            yield (wide[column] * value + half) >> LINEAR_BITS

    @cached_property
    def by_features(self) -> dict[tuple[int, int], list[int]]:
        """The terms that look at the same features."""
        groups: dict[tuple[int, int], list[int]] = {}
        for number, features in enumerate(self.features):
            groups.setdefault(features, []).append(number)
        return groups


def add_scores(block: Block, tables: dict[tuple[int, int], np.ndarray], scores: np.ndarray) -> None:
    """Add to each row's score what its codes say."""
    for (first, second), table in tables.items():
        if second < 0:
            kernels.add_values(block.column(first), table, scores)
        else:
            codes = block.layout.n_codes[second]
            linear_kernels.add_joint_values(
                block.column(first), block.column(second), codes, table, scores
            )


class LinearRows:
    """The vectors of a shard's rows; they are made anew whenever they are needed."""

    def __init__(self, blocks: Sequence[Block], terms: Terms) -> None:
        self._blocks, self.terms = blocks, terms
        if blocks:
            self._check(blocks[0].layout)
        self._scale = [self._scale_of(block) for block in blocks] if terms.shortens else None

    def _check(self, layout: Layout) -> None:
        """Refuse terms that are not made for these columns: kernels do not look."""
        self.terms.check()
        for (first, second), column, value in zip(
            self.terms.features, self.terms.column, self.terms.value, strict=True
        ):
            codes = layout.n_codes[first] * (1 if second < 0 else layout.n_codes[second])
            if not len(column) == len(value) == codes:
                raise ValueError("a term needs a column and an entry for each code")

    def _scale_of(self, block: Block) -> np.ndarray:
        """What a row's vector is multiplied by, in `LINEAR_UNITS`, so that it is not too long."""
        square = np.zeros(len(block), dtype=np.int64)
        for features, table in self._squares.items():
            add_scores(block, {features: table}, square)
        scale = np.empty(len(block), dtype=np.uint16)
        linear_kernels.shorten(square, LINEAR_UNITS, scale)
        return scale

    @cached_property
    def _squares(self) -> dict[tuple[int, int], np.ndarray]:
        terms = self.terms
        return {
            features: np.sum([terms.value[n].astype(np.int64) ** 2 for n in numbers], axis=0)
            for features, numbers in terms.by_features.items()
        }

    def add_gradients(self, k: int, pairs: np.ndarray, out: np.ndarray) -> None:
        """Add a block's vectors, each times its row's gradient.

        Parameters
        ----------
        k : int
            The block.
        pairs : int64 array
            Packed statistics, of which the first is the gradient, times the row's weight.
        out : int64 array of shape (columns,)
        """
        block, terms = self._blocks[k], self.terms
        gradient = np.empty(len(block), dtype=np.int32)
        scale = None if self._scale is None else self._scale[k]
        finer = UNIT // GRADIENT_UNITS * (1 if block.weight is None else WEIGHT_UNITS)
        bits = finer.bit_length() - 1 + (0 if scale is None else LINEAR_BITS)
        linear_kernels.unpack_gradients(pairs, scale, bits, gradient)
        for (first, second), numbers in terms.by_features.items():
            by_code = np.zeros(len(terms.value[numbers[0]]), dtype=np.int64)
            if second < 0:
                linear_kernels.sum_by_code(block.column(first), gradient, by_code)
            else:
                codes = block.layout.n_codes[second]
                linear_kernels.sum_by_codes(
                    block.column(first), block.column(second), codes, gradient, by_code
                )
            for number in numbers:
                linear_kernels.fold(by_code, terms.column[number], terms.value[number], out)

    def add_products(self, k: int, factor_of_label: np.ndarray, out: np.ndarray) -> None:
        """Add the outer products of a block's vectors with themselves: exact in float64.

        Parameters
        ----------
        k : int
            The block.
        factor_of_label : int array
            What the vectors of a label's rows are multiplied by, in `LINEAR_UNITS`.
        out : int64 array of shape (columns, columns)
        """
        block, terms = self._blocks[k], self.terms
        factor = np.empty(len(block), dtype=np.int32)
        scale = None if self._scale is None else self._scale[k]
        linear_kernels.row_factors(
            block.label, factor_of_label, scale, block.weight, _ROOTS, LINEAR_UNITS, factor
        )
        whole = bool((factor == LINEAR_UNITS).all())
        for start, stop in _chunks(len(block), terms.n_columns):
            vectors = np.zeros((terms.n_columns, stop - start))
            for (first, second), column, value in zip(
                terms.features, terms.column, terms.value, strict=True
            ):
                ids = block.column(first)[start:stop]
                if second >= 0:
                    codes = block.layout.n_codes[second]
                    ids = ids.astype(np.uint32) * np.uint32(codes)
                    ids += block.column(second)[start:stop]
                own = None if whole else factor[start:stop]
                linear_kernels.write_vectors(ids, column, value, own, LINEAR_BITS, vectors)
            # Sums of fewer than 2¹⁵ rows of 2³⁰: far below 2⁵³, so float64 is exact.
            out += (vectors @ vectors.T).astype(np.int64)


def _frozen(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _chunks(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    step = max(_CHUNK // max(columns, 1), _FEWEST_ROWS)
    return ((start, min(start + step, rows)) for start in range(0, rows, step))


_ROOTS = np.floor(np.sqrt(np.arange(WEIGHT_UNITS + 1) / WEIGHT_UNITS) * LINEAR_UNITS).astype(
    np.int32
)
"""The root of each weight, in `LINEAR_UNITS`, rounded down."""
