"""From a table and its domain to codes, and from codes back to what a person can read.

A feature's codes are its values' bins or categories, then "other" (categories only), then
"missing". A number's bin is how many of the feature's edges lie below it, so `x ≤ edge[b]` is
`code ≤ b`. Each cell is coded by itself: no cell can change another's code, and none can raise.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privboost.cells import code_labels, read_numbers
from privboost.domain import (
    CategoricalFeature,
    ClassTarget,
    Domain,
    Feature,
    NumberTarget,
)
from privboost.engine import kernels
from privboost.engine.block import Block
from privboost.engine.layout import Layout
from privboost.errors import SchemaError
from privboost.grid import BLOCK_ROWS, SCORE_UNITS, WEIGHT_UNITS
from privboost.losses import UNKNOWN_LABEL
from privboost.tables import (
    ArrayTable,
    Batch,
    Column,
    CsvTable,
    Table,
    is_column_vector,
    open_table,
    open_vector,
    slice_vector,
)
from privboost.unit_names import read_unit_names, unit_kind

FINE_BINS = 192
"""Fine bins of a number: the grids of 2, 3, 4, … 32, 64 and 96 bins are exact parts of them."""


@dataclass(frozen=True, eq=False)
class Encoder:
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

    def spans(self, feature: int, values: np.ndarray) -> Iterator[tuple[str, Any]]:
        """Yield in words each category, or span of a number, with its value; then missing.

        Neighbouring bins of a number that have the same value are one span.
        """
        declared, edges = self.domain.features[feature], self.edges[feature]
        if isinstance(declared, CategoricalFeature):
            yield from zip([*map(str, declared.categories), "other"], values[:-1], strict=True)
        else:
            changes = np.flatnonzero(np.diff(values[:-1]))
            ends = [*changes, len(edges)]
            for start, end in zip([0, *(changes + 1)], ends, strict=True):
                low = "" if start == 0 else f"{edges[start - 1]:.6g} < "
                high = "" if end == len(edges) else f" ≤ {edges[end]:.6g}"
                yield (f"{low}x{high}" if low or high else "any"), values[start]
        yield "missing", values[-1]

    def feature_blocks(self, data: Any) -> Iterator[Block]:
        """Code a table without labels, block by block."""
        table = open_table(data, self.domain.feature_names, every_line=True)
        _need(table, self.domain.feature_names)
        for batch in table.batches(self.domain.feature_names, BLOCK_ROWS):
            yield self.code(batch)

    def code(self, batch: Batch) -> Block:
        """Code one batch of columns."""
        names = self.domain.feature_names
        rows = len(batch[names[0]])
        layout = self.layout
        narrow = np.empty((layout.n_narrow, rows), dtype=np.uint8)
        wide = np.empty((len(names) - layout.n_narrow, rows), dtype=np.uint16)
        block = Block(layout, narrow, wide, label=np.zeros(rows, dtype=np.uint8))
        for k, (feature, edges) in enumerate(zip(self.domain.features, self.edges, strict=True)):
            out, column = block.column(k), batch[feature.name]
            if isinstance(feature, CategoricalFeature):
                found = code_labels(column, feature.categories, feature.name)
                out[:] = np.where(found < 0, len(feature.categories) - 1 - found, found)
            else:
                kernels.bin_numbers(read_numbers(column, feature.name), edges, len(edges) + 1, out)
        return block


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Coded rows for a fit, and the protected unit of each where the domain names one.

    Attributes
    ----------
    blocks : list of Block
        The rows.
    unit : int64 array or None
        The number of each row's unit; negative for none.
    unit_names : pyarrow.Array or None
        The name of each unit.
    n_read : int
        How many rows the table has: as private as the rows.
    unit_kind : str
        What the unit column holds by its type (see `check_schema`).
    """

    blocks: list[Block]
    unit: np.ndarray | None = None
    unit_names: pa.Array | None = None
    n_read: int = 0
    unit_kind: str = "any"


def encode_training(
    encoder: Encoder,
    data: Any,
    labels: Any = None,
    weights: Any = None,
    weight_bound: float | None = None,
    block_rows: int = BLOCK_ROWS,
    first_id: int = 0,
    cohort: int = 0,
    n_threads: int = 1,
) -> TrainingRows:
    """Code a table with its labels and weights.

    Parameters
    ----------
    encoder : Encoder
        How features are coded.
    data : table
        See `tables.open_table`.
    labels : one-dimensional or str, optional
        The target; by default the table's column that the domain names, which is the only one
        that may be named here.
    weights : one-dimensional or str, optional
        Sample weights, or the table's column that holds them.
    weight_bound : float, optional
        The public bound of a weight, needed with weights.
    block_rows : int
        Rows of a block, at most `grid.BLOCK_ROWS`.
    first_id : int
        The id of the first row. Rows that are used together need ids of their own: two rows of
        one id would be sampled together.
    cohort : int
        See `Block.cohort`.
    n_threads : int
        How many batches are coded at once.
    """
    domain = encoder.domain
    source = _open_source(domain, data, labels, weights)
    for name, values in (("y", labels), ("sample_weight", weights)):
        if is_column_vector(values):
            from sklearn.exceptions import DataConversionWarning

            message = f"A column-vector {name} was passed when a 1d array was expected"
            warnings.warn(message, DataConversionWarning, stacklevel=2)
    blocks, units, done = [], [], 0
    kind = "any"
    for batch, block in _code_ahead(encoder, source.batches(block_rows), n_threads):
        beside = source.beside(batch, done, done + len(block))
        ids = range(first_id + done, first_id + done + len(block))
        done += len(block)
        if any(len(part) != len(block) for part in beside.values()):
            break  # told below, without saying how many rows there are
        label, start = code_target(beside["y"], domain.target)
        weight = None
        if weights is not None:
            weight = code_weights(beside["sample_weight"], weight_bound or 1.0)
        blocks.append(
            Block(block.layout, block.narrow, block.wide, label, weight, start, ids, cohort)
        )
        if domain.unit is not None:
            units.append(read_unit_names(beside["unit"], domain.unit.column))
            kind = source.unit_kind(beside["unit"])
    for name, vector in source.apart.items():
        if len(vector) != done:
            raise SchemaError(f"X and {name} have different numbers of rows")
    unit, names = number_units(units) if domain.unit is not None else (None, None)
    return TrainingRows(blocks, unit, names, done, kind)


def check_schema(encoder: Encoder, data: Any, labels: Any = None, weights: Any = None) -> str:
    """Refuse a table that does not fit its domain, by its columns and their types alone.

    Returns what the unit column holds (see `unit_names.unit_kind`); "any" without one, and in a
    text file, whose cells are all texts. Parameters are those of `encode_training`.
    """
    domain = encoder.domain
    source = _open_source(domain, data, labels, weights)
    batch = {name: column[:0] for name, column in next(source.batches(1)).items()}
    beside = source.beside(batch, 0, 0)
    encoder.code(batch)
    code_target(beside["y"], domain.target)
    if weights is not None:
        code_weights(beside["sample_weight"], 1.0)
    if domain.unit is None:
        return "any"
    read_unit_names(beside["unit"], domain.unit.column)
    return source.unit_kind(beside["unit"])


@dataclass(frozen=True, eq=False)
class _Source:
    """A table, and where what stands beside its features comes from.

    Attributes
    ----------
    table : Table
        The table.
    apart : dict
        Vectors that were given apart from it.
    named : dict from str to str
        Its columns that hold the target, the weights, the unit.
    features : tuple of str
        The domain's features.
    """

    table: Table
    apart: dict[str, Any]
    named: dict[str, str]
    features: tuple[str, ...]

    def batches(self, rows: int) -> Iterator[Batch]:
        """Yield all columns that are needed."""
        wanted = [*self.features, *self.named.values()]
        _need(self.table, wanted)
        return self.table.batches(list(dict.fromkeys(wanted)), rows)

    def beside(self, batch: Batch, start: int, stop: int) -> dict[str, Column]:
        """Return target, weights and unit of some rows."""
        apart = {name: slice_vector(vector, start, stop) for name, vector in self.apart.items()}
        return apart | {name: batch[column] for name, column in self.named.items()}

    def unit_kind(self, column: Column) -> str:
        """Say what the unit column holds; any text may stand in a text file."""
        return "any" if isinstance(self.table, CsvTable) else unit_kind(column)


def _open_source(domain: Domain, data: Any, labels: Any, weights: Any) -> _Source:
    table = open_table(data, domain.feature_names)
    apart, named = {}, {}
    target = domain.target.name
    if isinstance(labels, str) and labels != target:
        raise SchemaError(f"y is the column {labels!r}, but the domain's target is {target!r}")
    for name, values in (("y", target if labels is None else labels), ("sample_weight", weights)):
        if isinstance(values, str):
            named[name] = values
        elif values is not None:
            if isinstance(table, CsvTable):  # its malformed lines are left out
                raise SchemaError(f"{name} of a CSV file must be one of its columns")
            apart[name] = open_vector(values, name)
    if domain.unit is not None:
        named["unit"] = domain.unit.column
    return _Source(table, apart, named, domain.feature_names)


def _code_ahead(
    encoder: Encoder, batches: Iterator[Batch], n_threads: int
) -> Iterator[tuple[Batch, Block]]:
    """Yield batches with their codes, in order; a few are coded ahead on other threads."""
    if n_threads == 1:
        yield from ((batch, encoder.code(batch)) for batch in batches)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        waiting: deque[tuple[Batch, Future[Block]]] = deque()
        for batch in batches:
            waiting.append((batch, pool.submit(encoder.code, batch)))
            if len(waiting) > n_threads:
                done, block = waiting.popleft()
                yield done, block.result()
        for done, block in waiting:
            yield done, block.result()


def fine_edges(feature: Feature) -> np.ndarray:
    """Return a number's fine edges on its declared scale; none for categories."""
    if isinstance(feature, CategoricalFeature):
        return np.empty(0)
    if feature.edges is not None:
        return np.array(feature.edges, dtype=np.float64)
    low, high = feature.bounds
    steps = np.arange(1, FINE_BINS) / FINE_BINS
    if feature.scale == "linear":
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
    """Return the labels, and for a number the states before boosting (minus the scaled label)."""
    if isinstance(target, ClassTarget):
        found = code_labels(column, target.ordered, target.name, sparse=False)
        return np.where(found < 0, UNKNOWN_LABEL, found).astype(np.uint8), None
    values = np.asarray(read_numbers(column, target.name), dtype=np.float64)
    unknown = np.isnan(values)
    middle, half = middle_and_half(target)
    scaled = np.clip((np.clip(values, *target.bounds) - middle) / half, -1, 1)
    scaled[unknown] = 0
    start = -np.trunc(scaled * SCORE_UNITS).astype(np.int32)
    return np.where(unknown, UNKNOWN_LABEL, 0).astype(np.uint8), start


def code_weights(column: Column, bound: float) -> np.ndarray:
    """Return weights in units of their bound: clipped, rounded down; negative or NaN is 0."""
    values = np.asarray(read_numbers(column, "sample_weight"), dtype=np.float64)
    share = np.clip(np.nan_to_num(values, nan=0.0), 0, bound) / bound
    return np.trunc(share * WEIGHT_UNITS).astype(np.uint16)


def middle_and_half(target: NumberTarget) -> tuple[float, float]:
    """Return the middle and half the width of a target's bounds: scores of 0 and 1."""
    low, high = target.bounds
    return low + (high - low) / 2, (high - low) / 2


def number_units(parts: list[pa.Array]) -> tuple[np.ndarray, pa.Array]:
    """Number the units, −1 where there is none; return also their names."""
    column = pa.chunked_array([pa.array([], parts[0].type if parts else pa.string()), *parts])
    coded = column.combine_chunks().dictionary_encode()
    numbers = pc.fill_null(coded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return numbers, coded.dictionary


def _need(table: Table, names: Sequence[str]) -> None:
    """Refuse a table without these columns; names of columns are public.

    Those of a text file are not told: its first line may be a record.
    """
    absent = [name for name in names if name not in table.columns]
    if not absent:
        return
    listed = ", ".join(map(repr, absent[:10])) + (" …" if len(absent) > 10 else "")
    if isinstance(table, ArrayTable):
        raise SchemaError(
            f"an array has features only: pass a data frame with {listed}, or y apart"
        )
    if isinstance(table, CsvTable):
        raise SchemaError(
            f"the table has no column {listed}: the file's header names no such column; is the "
            "separator right?"
        )
    has = ", ".join(map(repr, table.columns[:20])) + (" …" if len(table.columns) > 20 else "")
    raise SchemaError(f"the table has no column {listed}; it has {has or 'no columns'}")
