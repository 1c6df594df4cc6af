"""From a table and its domain to codes, and from codes back to what a person can read.

A feature's codes are its values' bins or categories, then "other" (categories only), then
"missing". A number's bin is how many of the feature's edges lie below it, so `x ≤ edge[b]` is
`code ≤ b`. Each value is coded by itself: no value can change another's code, and none can raise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from privboost.crew import Crew, count_threads
from privboost.errors import SchemaError
from privboost.forms import did_you_mean
from privboost.grid import BLOCK_ROWS, LABEL_STEPS, WEIGHT_STEPS, WHOLE_SPAN
from privboost.losses import UNKNOWN_LABEL
from privboost.pickling import DeclaredState
from privboost.tables.arrays import ArrayTable, SparseTable
from privboost.tables.bins import Bins, BinsOfColumns
from privboost.tables.cutting import block_rows, threads_for
from privboost.tables.domain import Domain
from privboost.tables.features import (
    BooleanFeature,
    CategoricalFeature,
    ClassTarget,
    DateFeature,
    DurationFeature,
    Feature,
    NumberTarget,
    NumericFeature,
    OrderedFeature,
    OrdinalFeature,
)
from privboost.tables.layout import Layout
from privboost.tables.pieces import Batch, Column, Piece
from privboost.tables.rows import Codes
from privboost.tables.sources import Table, open_table
from privboost.tables.times import read_dates, read_durations
from privboost.tables.values import (
    code_labels,
    plain_numbers,
    read_numbers,
    read_ranks,
    read_truths,
)

_T = TypeVar("_T")

FINE_BINS = 192
"""Fine bins of a number: the grids of 2, 3, 4, … 32, 64 and 96 bins are exact parts of them."""


@dataclass(frozen=True, eq=False)
class Encoder(DeclaredState):
    """How the features of a domain are coded. The edges are computed once and kept in models.

    Parameters
    ----------
    domain : Domain
        What is public.
    edges : tuple
        For each feature its fine edges (float64); none for categories.
    """

    domain: Domain
    edges: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, domain: Domain) -> Encoder:
        """Compute the edges of a domain."""
        return cls(domain, tuple(fine_edges(feature) for feature in domain.features))

    @cached_property
    def layout(self) -> Layout:
        """The number of codes of each feature, and where its codes lie."""
        return Layout(
            tuple(
                len(feature.categories) + 2
                if isinstance(feature, CategoricalFeature)
                else len(edges) + 2  # one bin more than edges, and missing
                for feature, edges in zip(self.domain.features, self.edges, strict=True)
            )
        )

    @cached_property
    def _bins(self) -> tuple[Bins, ...]:
        return tuple(Bins(edges) for edges in self.edges)

    def spans(self, feature: int, values: np.ndarray) -> Iterator[tuple[str, Any]]:
        """Yield in words each category, or span of a number, with its value; then missing.

        Neighbouring bins of a number that have the same value are one span.
        """
        for words, code in self.spans_of_codes(feature, values):
            yield words, values[code]

    def spans_of_codes(self, feature: int, values: np.ndarray) -> Iterator[tuple[str, int]]:
        """Yield the same words, each with its first code."""
        declared, last = self.domain.features[feature], len(self.edges[feature])
        if isinstance(declared, CategoricalFeature):
            names = [*map(str, declared.categories), "other"]
            yield from zip(names, range(len(values) - 1), strict=True)
        else:
            changes = np.flatnonzero(np.diff(values[:-1]))
            for start, end in zip([0, *(changes + 1)], [*changes, last], strict=True):
                yield self._span(feature, int(start), int(end)), int(start)
        yield "missing", len(values) - 1

    def _span(self, feature: int, start: int, end: int) -> str:
        """Say which values have codes from one to another, of a feature that has an order."""
        declared, last = self.domain.features[feature], len(self.edges[feature])
        if start == 0 and end == last:
            return "any"
        if isinstance(declared, BooleanFeature | OrdinalFeature):
            names = declared.names
            return names[start] if start == end else f"{names[start]} to {names[end]}"
        low = "" if start == 0 else f"{self.edge(feature, start - 1)} < "
        high = "" if end == last else f" ≤ {self.edge(feature, end)}"
        return f"{low}x{high}"

    def edge(self, feature: int, number: int) -> str:
        """Return one of a feature's edges as it is written for people."""
        declared = self.domain.features[feature]
        assert not isinstance(declared, CategoricalFeature)
        return declared.words(float(self.edges[feature][number]))

    def feature_codes(self, data: Any) -> Iterator[Codes]:
        """Code a table without labels, block by block."""
        table = open_table(data, self.domain.feature_names, every_line=True)
        need_columns(table, self.domain.feature_names)
        for batch in table.batches(self.domain.feature_names, BLOCK_ROWS):
            yield self.code(batch)

    def map_codes(self, data: Any, act: Callable[[Codes], _T], n_jobs: int | None) -> list[_T]:
        """Code a table without labels, and do something with each block; the first has no rows.

        Parameters
        ----------
        data : table
            The rows.
        act : callable
            What is done, in any thread.
        n_jobs : int, optional
            How many threads may work; by default one for each core.
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
        names = self.domain.feature_names
        rows = len(batch[names[0]])
        codes = Codes.empty(self.layout, rows)
        plain = self._code_plain(batch, codes)
        for k, feature in enumerate(self.domain.features):
            if k in plain:
                continue
            out, column = codes.column(k), batch[feature.name]
            if isinstance(feature, CategoricalFeature):
                found = code_labels(column, feature.categories, feature.name)
                out[:] = np.where(found < 0, len(feature.categories) - 1 - found, found)
            else:
                self._bins[k].code(read_ordered(column, feature), out)
        return codes

    def _code_plain(self, batch: Batch, codes: Codes) -> frozenset[int]:
        """Code the columns of plain numbers, all in one call, and return which they were."""
        found = {
            k: plain_numbers(batch[self.domain.features[k].name])
            for k in self._bins_of_numbers.features
        }
        numbers = {k: values for k, values in found.items() if values is not None}
        self._bins_of_numbers.code(numbers, codes.narrow)
        return frozenset(numbers)

    @cached_property
    def _bins_of_numbers(self) -> BinsOfColumns:
        """What finds the bins of all numbers of one byte at once.

        Like every cache of an encoder it follows from the domain alone and is filled by the first
        batch, which has no rows: what is kept must not tell which columns of rows had nulls.
        """
        bins = {
            k: self._bins[k]
            for k, feature in enumerate(self.domain.features)
            if isinstance(feature, NumericFeature) and not self.layout.wide[k]
        }
        return BinsOfColumns(bins, self.layout.slots)


def read_ordered(column: Column, feature: OrderedFeature) -> np.ndarray:
    """Return a feature's values as the numbers that its bins are of; NaN is missing."""
    match feature:
        case DateFeature():
            return read_dates(column, feature.name, feature.step)
        case DurationFeature():
            return read_durations(column, feature.name)
        case BooleanFeature():
            return read_truths(column, feature.name)
        case OrdinalFeature():
            return read_ranks(column, feature.categories, feature.name)
        case _:
            return read_numbers(column, feature.name)


def fine_edges(feature: Feature) -> np.ndarray:
    """Return the fine edges of what has an order, on its declared scale; none for categories."""
    if isinstance(feature, CategoricalFeature):
        return np.empty(0)
    number = feature.number
    if number.edges is not None:
        return np.array(number.edges, dtype=np.float64)
    low, high = number.bounds
    steps = np.arange(1, FINE_BINS) / FINE_BINS
    if number.scale == "linear":
        edges = low + (high - low) * steps
    elif low > 0:
        edges = np.exp(math.log(low) + (math.log(high) - math.log(low)) * steps)
    elif high < 0:
        edges = -np.exp(math.log(-low) + (math.log(-high) - math.log(-low)) * steps)
    else:
        ends = [math.copysign(math.log1p(abs(end)), end) for end in (low, high)]
        scaled = ends[0] + (ends[1] - ends[0]) * steps
        edges = np.copysign(np.expm1(np.abs(scaled)), scaled)
    return np.unique(edges)


def code_target(column: Column, target: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the classes, and of a number minus its label, in steps of half its bounds' width.

    Both are on the scale on which its errors count.
    """
    if isinstance(target, ClassTarget):
        found = code_labels(column, target.ordered, target.name, sparse=False)
        return np.where(found < 0, UNKNOWN_LABEL, found).astype(np.uint8), None
    values = np.asarray(read_numbers(column, target.name), dtype=np.float64)
    unknown = np.isnan(values)
    middle, half = middle_and_half(target)
    with np.errstate(all="ignore"):  # no value may warn
        own = target.to_scale(np.clip(values, *target.bounds))
    scaled = np.clip((own - middle) / half, -1, 1)
    scaled[unknown] = 0
    below = -np.trunc(scaled * LABEL_STEPS).astype(np.int32)
    return np.where(unknown, UNKNOWN_LABEL, 0).astype(np.uint8), below


def code_weights(column: Column, bound: float) -> np.ndarray:
    """Return weights in steps of their bound: clipped, rounded down; negative or NaN is 0."""
    values = np.asarray(read_numbers(column, "sample_weight"), dtype=np.float64)
    share = np.clip(np.nan_to_num(values, nan=0.0), 0, bound) / bound
    return np.trunc(share * WEIGHT_STEPS).astype(np.uint16)


def middle_and_half(
    target: NumberTarget, span: tuple[int, int] = WHOLE_SPAN
) -> tuple[float, float]:
    """Return the middle and half the width of a target's bounds, or of a span within them.

    They are what scores of 0 and 1 mean, on the scale on which errors count. A span is in
    `grid.LABEL_STEPS`.
    """
    low, high = target.scaled_bounds
    middle, half = low + (high - low) / 2, (high - low) / 2
    first, last = (end / LABEL_STEPS for end in span)
    return middle + half * ((first + last) / 2), half * ((last - first) / 2)


def need_columns(table: Table, names: Sequence[str]) -> None:
    """Refuse a table without these columns; names of columns are public.

    Those of a text file are not told: its first line may be a record.
    """
    absent = [name for name in names if name not in table.columns]
    if not absent:
        return
    listed = ", ".join(map(repr, absent[:10])) + (" …" if len(absent) > 10 else "")
    if isinstance(table, ArrayTable | SparseTable):
        raise SchemaError(
            f"an array has features only: pass a data frame with {listed}, or y apart"
        )
    if table.is_text:
        raise SchemaError(
            f"the table has no column {listed}: the file's header names no such column; is the "
            "separator right?"
        )
    has = ", ".join(map(repr, table.columns[:20])) + (" …" if len(table.columns) > 20 else "")
    hint = did_you_mean(absent[0], list(map(str, table.columns)))
    hint = f" ({hint})" if hint and len(absent) == 1 else ""
    raise SchemaError(f"the table has no column {listed}{hint}; it has {has or 'no columns'}")
