"""From a table and its domain to codes.

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

from privboost.crew import Crew, count_threads
from privboost.grid import BLOCK_ROWS, WEIGHT_STEPS
from privboost.pickling import DeclaredState
from privboost.tables.bins import Bins, BinsOfColumns
from privboost.tables.cutting import block_rows, threads_for
from privboost.tables.domain import Domain
from privboost.tables.features import OrderedFeature
from privboost.tables.layout import Layout
from privboost.tables.pieces import Batch, Column, Piece
from privboost.tables.rows import Codes
from privboost.tables.sources import need_columns, open_table
from privboost.tables.values import plain_numbers, read_numbers

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Encoder(DeclaredState):
    """Coding of the features of a domain. Edges are computed once and kept in models.

    Parameters
    ----------
    domain : Domain
        What is public.
    edges : tuple
        The fine edges of each feature (float64); none for categories.
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
        need_columns(table, self.domain.feature_names)
        for batch in table.batches(self.domain.feature_names, BLOCK_ROWS):
            yield self.code(batch)

    def map_codes(self, data: Any, act: Callable[[Codes], _T], n_jobs: int | None) -> list[_T]:
        """Code a table without labels, and apply a function to each block; the first has no rows.

        Parameters
        ----------
        data : table
            The rows.
        act : callable
            The function, called from any thread.
        n_jobs : int, optional
            The number of threads; by default one for each core.
        """
        names = self.domain.feature_names
        table = open_table(data, names, every_line=True)
        need_columns(table, names)
        none = act(self.code(next(table.batches(names, 1))))

        def work(piece: Piece) -> list[_T]:
            return [act(self.code(batch)) for batch in piece.batches() if len(batch[names[0]])]

        with closing(Crew(count_threads(n_jobs))) as crew:
            threads = threads_for(table, len(names), crew)
            pieces = table.pieces(names, block_rows(table, threads))
            parts = crew.share_out(pieces, work, threads)
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
    def _bins_of_numbers(self) -> BinsOfColumns:
        """The bins of all numbers with one-byte codes, for coding their columns together.

        Like every cache of an encoder it follows from the domain alone and is filled by the first
        batch, which has no rows: a cache must not reveal which columns of rows had nulls.
        """
        bins = {
            k: self._bins[k]
            for k, feature in enumerate(self.domain.features)
            if feature.reads_plain_numbers and not self.layout.wide[k]
        }
        return BinsOfColumns(bins, self.layout.slots)


def code_weights(column: Column, bound: float) -> np.ndarray:
    """Return weights in steps of their bound: clipped, rounded down; negative or NaN is 0."""
    values = np.asarray(read_numbers(column, "sample_weight"), dtype=np.float64)
    share = np.clip(np.nan_to_num(values, nan=0.0), 0, bound) / bound
    return np.trunc(share * WEIGHT_STEPS).astype(np.uint16)
