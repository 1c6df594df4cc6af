"""Coding of a table's features, block by block, in as many threads as are worth using.

A feature's codes are its values' bins or categories, then "other" (categories only), then
"missing". A number's bin is how many of the feature's edges lie below it, so `x ≤ edge[b]` is
`code ≤ b`. Each value is coded by itself: no value can change another's code, and none can raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from privboost._core.grid import BLOCK_ROWS, WEIGHT_STEPS
from privboost._core.pickling import DeclaredState
from privboost._core.threads import ThreadPool, count_threads
from privboost.data.binning import Bins, ColumnBins
from privboost.data.domain import Domain
from privboost.data.features import OrderedFeature
from privboost.data.rows import Codes, Layout
from privboost.data.sources import check_columns_present, open_table
from privboost.data.table import Batch, Column, Piece, Table
from privboost.data.values import plain_numbers, read_numbers

_FEWEST_ROWS = 4096
"""Smaller blocks cost more than an idle thread."""
_MOST_READERS = 8
"""More threads would wait for the GIL, which each needs for every block."""
_LOOK_UPS_OF_A_CELL = 4
"""Cost of reading and coding a value, in look-ups."""


def readers_for(table: Table, columns: int, pool: ThreadPool) -> int:
    """Return the number of threads worth using to read and code a table that is kept."""
    return min(threads_for(table, columns, pool), _MOST_READERS)


def threads_for(table: Table, columns: int, pool: ThreadPool) -> int:
    """Return the number of threads worth using to code a table; all if its length is unknown."""
    if not table.length_is_known:
        return pool.most
    return pool.size_for(_LOOK_UPS_OF_A_CELL * columns * table.count_rows())


def rows_per_block(table: Table, n_threads: int) -> int:
    """Return a block size such that every thread has a block, if the table's length is known."""
    if n_threads == 1 or not table.length_is_known:
        return BLOCK_ROWS
    return even_block_rows(table.count_rows(), n_threads)


def even_block_rows(rows: int, n_threads: int) -> int:
    """Return the rows of a block, such that threads have equally many blocks of equal size."""
    blocks = n_threads * max(1, -(-rows // (n_threads * BLOCK_ROWS)))
    return min(BLOCK_ROWS, max(_FEWEST_ROWS, -(-rows // blocks)))


_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Encoder(DeclaredState):
    """Coding of the features of a domain.

    The fine edges of each feature (float64; none for categories) are computed once and kept in
    models.
    """

    domain: Domain
    edges: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, domain: Domain) -> Encoder:
        """Compute the edges of a domain."""
        return cls(domain, tuple(feature.fine_edges() for feature in domain.features))

    @cached_property
    def layout(self) -> Layout:
        """The number of codes of each feature, and the positions of their columns."""
        parts = zip(self.domain.features, self.edges, strict=True)
        return Layout(tuple(feature.count_codes(edges) for feature, edges in parts))

    def coarse_bins(self, feature: int, most: int) -> np.ndarray:
        """Return the bin of each code: of a number at most so many, evenly merged; missing is last.

        Codes of a category, and missing values, have a bin each.
        """
        codes = np.arange(self.layout.n_codes[feature])
        if not isinstance(self.domain.features[feature], OrderedFeature):
            return codes
        fine = len(codes) - 1
        coarse = min(fine, most)
        return np.append(codes[:fine] * coarse // fine, coarse)

    @cached_property
    def _bins(self) -> tuple[Bins, ...]:
        return tuple(Bins(edges) for edges in self.edges)

    def spans(self, feature: int, values: np.ndarray) -> Iterator[tuple[str, Any]]:
        """Yield the description and value of each category, or interval of a number; then missing.

        Neighbouring bins of a number that have the same value are one interval.
        """
        for description, code in self.spans_of_codes(feature, values):
            yield description, values[code]

    def spans_of_codes(self, feature: int, values: np.ndarray) -> Iterator[tuple[str, int]]:
        """Yield the same descriptions, each with its first code."""
        return self.domain.features[feature].describe_codes(values, self.edges[feature])

    def edge(self, feature: int, number: int) -> str:
        """Format one of the edges of an ordered feature."""
        declared = self.domain.features[feature]
        assert isinstance(declared, OrderedFeature)
        return declared.format_value(float(self.edges[feature][number]))

    def feature_codes(self, data: Any) -> Iterator[Codes]:
        """Code a table without labels, block by block."""
        table = open_table(data, self.domain.feature_names, every_line=True)
        check_columns_present(table, self.domain.feature_names)
        for batch in table.batches(self.domain.feature_names, BLOCK_ROWS):
            yield self.code(batch)

    def map_codes(self, data: Any, act: Callable[[Codes], _T], n_jobs: int | None) -> list[_T]:
        """Code a table without labels, and apply a function to each block, from any thread.

        The first block has no rows. By default there is a thread for each core.
        """
        names = self.domain.feature_names
        table = open_table(data, names, every_line=True)
        check_columns_present(table, names)
        none = act(self.code(table.no_rows(names)))

        def work(piece: Piece) -> list[_T]:
            return [act(self.code(batch)) for batch in piece.batches() if len(batch[names[0]])]

        with closing(ThreadPool(count_threads(n_jobs))) as pool:
            threads = threads_for(table, len(names), pool)
            pieces = table.pieces(names, rows_per_block(table, threads))
            parts = pool.map_in_order(pieces, work, threads)
        return [none, *(each for part in parts for each in part)]

    def code(self, batch: Batch) -> Codes:
        """Code one batch of columns."""
        rows = len(batch[self.domain.feature_names[0]])
        codes = Codes.empty(self.layout, rows)
        plain = self._code_plain(batch, codes)
        for k, feature in enumerate(self.domain.features):
            if k not in plain:
                feature.encode(batch[feature.name], self._bins[k], codes.column(k))
        return codes

    def _code_plain(self, batch: Batch, codes: Codes) -> frozenset[int]:
        """Code the columns of plain numbers, all in one call; return which they were."""
        found = {
            k: plain_numbers(batch[self.domain.features[k].name])
            for k in self._bins_of_numbers.features
        }
        numbers = {k: values for k, values in found.items() if values is not None}
        self._bins_of_numbers.code(numbers, codes.narrow)
        return frozenset(numbers)

    @cached_property
    def _bins_of_numbers(self) -> ColumnBins:
        """The bins of all numbers with one-byte codes, for coding their columns together.

        Like every cache of an encoder it follows from the domain alone and is filled by the first
        batch, which has no rows: a cache must not reveal which columns of rows had nulls.
        """
        bins = {
            k: self._bins[k]
            for k, feature in enumerate(self.domain.features)
            if feature.reads_plain_numbers and not self.layout.wide[k]
        }
        return ColumnBins(bins, self.layout.slots)


def code_weights(column: Column, bound: float) -> np.ndarray:
    """Return weights in steps of their bound: clipped, rounded down; negative or NaN is 0."""
    values = np.asarray(read_numbers(column, "sample_weight"), dtype=np.float64)
    share = np.clip(np.nan_to_num(values, nan=0.0), 0, bound) / bound
    return np.trunc(share * WEIGHT_STEPS).astype(np.uint16)
