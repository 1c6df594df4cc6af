"""Vectors of a linear model, over the rows of a CPU shard.

Terms map the codes of a row to the entries of its vector. A vector whose norm exceeds
`VECTOR_STEPS` is scaled down to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from privboost._core.grid import CLIP_STEPS, FACTOR_STEPS, VECTOR_BITS, VECTOR_STEPS, WEIGHT_STEPS
from privboost.data.design_matrix import Terms
from privboost.data.rows import Codes, Layout, Rows
from privboost.engine import kernels, linear_kernels
from privboost.engine.blocks import Blocks

_CHUNK = 2**19
"""Entries of a chunk of rows that is multiplied at once: it should stay in the cache."""
_FEWEST_ROWS = 256


def add_scores(codes: Codes, tables: dict[tuple[int, int], np.ndarray], scores: np.ndarray) -> None:
    """Add to each row's score the entries of its codes in some tables."""
    for (first, second), table in tables.items():
        if second < 0:
            kernels.add_values(codes.column(first), table, scores)
        else:
            radix = codes.layout.n_codes[second]
            linear_kernels.add_joint_values(
                codes.column(first), codes.column(second), radix, table, scores
            )


class LinearRows:
    """The vectors of a shard's rows; they are computed whenever they are needed."""

    def __init__(self, blocks: Blocks, terms: Terms) -> None:
        self._rows, self.terms = blocks.rows, terms
        if len(blocks):
            check_terms(terms, blocks.layout)
        self._scale: list[np.ndarray] | None = None
        if terms.shortens:
            _ = self._squares  # before threads need them
            parts = blocks.work(len(terms.features), self._scales)
            self._scale = [scale for part in parts for scale in part]

    def _scales(self, first: int, last: int) -> list[np.ndarray]:
        return [self._scale_of(block) for block in self._rows[first:last]]

    def _scale_of(self, block: Rows) -> np.ndarray:
        """Return the factor that bounds each row's vector, in `VECTOR_STEPS`."""
        square = np.zeros(len(block), dtype=np.int64)
        for features, table in self._squares.items():
            add_scores(block.codes, {features: table}, square)
        scale = np.empty(len(block), dtype=np.uint16)
        linear_kernels.shorten(square, VECTOR_STEPS, scale)
        return scale

    @cached_property
    def _squares(self) -> dict[tuple[int, int], np.ndarray]:
        return squares_of(self.terms)

    def add_gradients(self, k: int, pairs: np.ndarray, out: np.ndarray) -> None:
        """Add a block's vectors, each times its row's gradient.

        Parameters
        ----------
        k : int
            The block.
        pairs : int64 array
            Packed statistics, of which the first is the gradient, times the row's weight.
        out : int64 array of shape (coordinates,)
        """
        block, terms = self._rows[k], self.terms
        gradient = np.empty(len(block), dtype=np.int32)
        scale = None if self._scale is None else self._scale[k]
        finer = CLIP_STEPS // FACTOR_STEPS * (1 if block.weight is None else WEIGHT_STEPS)
        bits = finer.bit_length() - 1 + (0 if scale is None else VECTOR_BITS)
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
                linear_kernels.fold(by_code, terms.coordinate[number], terms.value[number], out)

    def add_products(self, k: int, factor_of_label: np.ndarray, out: np.ndarray) -> None:
        """Add the outer products of a block's vectors with themselves: exact in float64.

        Parameters
        ----------
        k : int
            The block.
        factor_of_label : int array
            The factor of the vectors of each label's rows, in `VECTOR_STEPS`.
        out : int64 array of shape (coordinates, coordinates)
        """
        block, terms = self._rows[k], self.terms
        factor = np.empty(len(block), dtype=np.int32)
        scale = None if self._scale is None else self._scale[k]
        linear_kernels.row_factors(
            block.label, factor_of_label, scale, block.weight, ROOTS, VECTOR_STEPS, factor
        )
        whole = bool((factor == VECTOR_STEPS).all())
        for start, stop in _chunks(len(block), terms.n_coordinates):
            vectors = np.zeros((terms.n_coordinates, stop - start))
            for (first, second), coordinate, value in zip(
                terms.features, terms.coordinate, terms.value, strict=True
            ):
                ids = block.column(first)[start:stop]
                if second >= 0:
                    codes = block.layout.n_codes[second]
                    ids = ids.astype(np.uint32) * np.uint32(codes)
                    ids += block.column(second)[start:stop]
                own = None if whole else factor[start:stop]
                linear_kernels.write_vectors(ids, coordinate, value, own, VECTOR_BITS, vectors)
            # Sums of fewer than 2¹⁵ rows of 2³⁰: far below 2⁵³, so float64 is exact.
            out += (vectors @ vectors.T).astype(np.int64)


def check_terms(terms: Terms, layout: Layout) -> None:
    """Refuse terms that were not made for these columns: kernels do not check."""
    terms.check()
    for (first, second), coordinate, value in zip(
        terms.features, terms.coordinate, terms.value, strict=True
    ):
        codes = layout.n_codes[first] * (1 if second < 0 else layout.n_codes[second])
        if not len(coordinate) == len(value) == codes:
            raise ValueError("a term needs a coordinate and an entry for each code")


def squares_of(terms: Terms) -> dict[tuple[int, int], np.ndarray]:
    """Return the squared norm that each code of a feature, or pair, adds to a vector (int64)."""
    return {
        features: np.sum([terms.value[n].astype(np.int64) ** 2 for n in numbers], axis=0)
        for features, numbers in terms.by_features.items()
    }


def _chunks(rows: int, coordinates: int) -> Iterator[tuple[int, int]]:
    step = max(_CHUNK // max(coordinates, 1), _FEWEST_ROWS)
    return ((start, min(start + step, rows)) for start in range(0, rows, step))


ROOTS = np.floor(np.sqrt(np.arange(WEIGHT_STEPS + 1) / WEIGHT_STEPS) * VECTOR_STEPS).astype(
    np.int32
)
"""The square root of each weight, in `VECTOR_STEPS`, rounded down."""
