"""From a table and its domain to codes, and from codes back to what a person can read.

A feature's codes are its values' bins or categories, then "other" (categories only), then
"missing". A number's bin is how many of the feature's edges lie below it, so `x ≤ edge[b]` is
`code ≤ b`. Each cell is coded by itself: no cell can change another's code, and none can raise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privboost.domain import (
    CategoricalFeature,
    ClassTarget,
    Domain,
    Feature,
    Label,
    NumberTarget,
)
from privboost.engine import kernels
from privboost.engine.block import Block
from privboost.engine.layout import Layout
from privboost.errors import SchemaError
from privboost.grid import BLOCK_ROWS, SCORE_UNITS, WEIGHT_UNITS
from privboost.losses import UNKNOWN_LABEL
from privboost.tables import Batch, Column, Table, open_table, open_vector, slice_vector

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

    def labels_of_codes(self, feature: int) -> list[str]:
        """Say in words what each code of a feature means."""
        declared, edges = self.domain.features[feature], self.edges[feature]
        if isinstance(declared, CategoricalFeature):
            return [*map(str, declared.categories), "other", "missing"]
        ends = [f"{edge:.6g}" for edge in edges]
        lows = [f"{declared.bounds[0]:.6g}", *ends]
        highs = [*ends, f"{declared.bounds[1]:.6g}"]
        spans = [f"{low} < x ≤ {high}" for low, high in zip(lows, highs, strict=True)]
        return [f"x ≤ {highs[0]}", *spans[1:], "missing"]

    def feature_blocks(self, data: Any) -> Iterator[Block]:
        """Code a table without labels, block by block."""
        table = open_table(data, self.domain.feature_names)
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
    """Coded rows for a fit, and the protected unit of each where the domain names one."""

    blocks: list[Block]
    unit: np.ndarray | None


def encode_training(
    encoder: Encoder,
    data: Any,
    labels: Any = None,
    weights: Any = None,
    weight_bound: float | None = None,
    block_rows: int = BLOCK_ROWS,
) -> TrainingRows:
    """Code a table with its labels and weights.

    Parameters
    ----------
    encoder : Encoder
        How features are coded.
    data : table
        See `tables.open_table`.
    labels : one-dimensional, optional
        The target; by default the table's column of that name.
    weights : one-dimensional or str, optional
        Sample weights, or the table's column that holds them.
    weight_bound : float, optional
        The public bound of a weight, needed with weights.
    block_rows : int
        Rows of a block, at most `grid.BLOCK_ROWS`.
    """
    domain = encoder.domain
    table = open_table(data, domain.feature_names)
    apart = {
        name: open_vector(values, name)
        for name, values in (("y", labels), ("sample_weight", weights))
        if values is not None and not isinstance(values, str)
    }
    wanted = list(domain.feature_names)
    if "y" not in apart:
        wanted.append(domain.target.name)
    if isinstance(weights, str):
        wanted.append(weights)
    if domain.unit is not None:
        wanted.append(domain.unit.column)
    _need(table, wanted)

    blocks, units, done = [], [], 0
    for batch in table.batches(list(dict.fromkeys(wanted)), block_rows):
        block = encoder.code(batch)
        beside = {
            name: slice_vector(vector, done, done + len(block)) for name, vector in apart.items()
        }
        done += len(block)
        if any(len(part) != len(block) for part in beside.values()):
            break  # told below, without saying how many rows there are
        target = beside["y"] if "y" in beside else batch[domain.target.name]
        label, start = code_target(target, domain.target)
        weight = None
        if weights is not None:
            column = batch[weights] if isinstance(weights, str) else beside["sample_weight"]
            weight = code_weights(column, weight_bound or 1.0)
        blocks.append(Block(block.layout, block.narrow, block.wide, label, weight, start))
        if domain.unit is not None:
            units.append(_unit_names(batch[domain.unit.column], domain.unit.column))
    for name, vector in apart.items():
        if len(vector) != done:
            raise SchemaError(f"X and {name} have different numbers of rows")
    return TrainingRows(blocks, _number_units(units) if domain.unit is not None else None)


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


def read_numbers(column: Column, name: str) -> np.ndarray:
    """Return a column as float64; what is missing or no number is NaN."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "fiub":
            return np.ascontiguousarray(column, dtype=np.float64)
        if column.dtype.kind == "O":
            return _parse(column)
        raise SchemaError(f"column {name!r} holds {column.dtype}, but the domain says numbers")
    column = _arrow(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if _is_text(kind):
        try:
            return _floats(column.cast(pa.float64()))
        except pa.ArrowInvalid:
            # Some cell is no number. Both ways read each readable cell alike.
            return _parse(column.cast(_bytes_like(kind)).to_pylist())
    if _is_scalar(kind):
        return _floats(column)
    raise SchemaError(f"column {name!r} holds {kind}, but the domain says numbers")


def code_labels(column: Column, labels: Sequence[Label], name: str) -> np.ndarray:
    """Return the place of each cell among the labels; −1 for another value, −2 for missing."""
    places = _Places(labels)
    if isinstance(column, np.ndarray) and column.dtype.kind == "O":
        return np.fromiter(map(places.find, column), dtype=np.int32, count=len(column))
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "fiub":
            raise SchemaError(f"column {name!r} holds {column.dtype}, but the domain says labels")
        column = pa.array(np.ascontiguousarray(column))
    column = _arrow(column)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_text(kind) or _is_scalar(kind)):
        raise SchemaError(f"column {name!r} holds {kind}, but the domain says labels")
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    words = column.dictionary.cast(_bytes_like(kind)) if _is_text(kind) else column.dictionary
    found = np.array([*map(places.find, words.to_pylist()), MISSING], dtype=np.int32)
    return found[pc.fill_null(column.indices.cast(pa.int64()), len(words)).to_numpy()]


def code_target(column: Column, target: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the labels, and for a number the states before boosting (minus the scaled label)."""
    if isinstance(target, ClassTarget):
        found = code_labels(column, target.classes, target.name)
        return np.where(found < 0, UNKNOWN_LABEL, found).astype(np.uint8), None
    values = np.asarray(read_numbers(column, target.name), dtype=np.float64)
    unknown = np.isnan(values)
    middle, half = middle_and_half(target)
    scaled = np.clip((np.clip(values, *target.bounds) - middle) / half, -1, 1)
    scaled[unknown] = 0
    start = -np.trunc(scaled * SCORE_UNITS).astype(np.int32)
    return np.where(unknown, UNKNOWN_LABEL, 0).astype(np.uint8), start


def code_weights(column: Column, bound: float) -> np.ndarray:
    """Return weights in units of their bound: clipped, rounded down; NaN is 0."""
    values = np.asarray(read_numbers(column, "sample_weight"), dtype=np.float64)
    share = np.clip(np.nan_to_num(values, nan=0.0, posinf=bound) / bound, 0, 1)
    return np.trunc(share * WEIGHT_UNITS).astype(np.uint16)


def middle_and_half(target: NumberTarget) -> tuple[float, float]:
    """Return the middle and half the width of a target's bounds: scores of 0 and 1."""
    low, high = target.bounds
    return low + (high - low) / 2, (high - low) / 2


MISSING = -2
OTHER = -1


class _Places:
    """Finds cells among labels: texts as they are written, numbers by value."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self._text = isinstance(labels[0], str)
        self._place: dict[Any, int] = {}
        for place, label in enumerate(labels):
            if isinstance(label, str):
                self._place[label.encode()] = place
            else:
                self._place[float(label)] = place

    def find(self, cell: Any) -> int:
        """Return a cell's place, `OTHER` or `MISSING`."""
        if _is_missing(cell):
            return MISSING
        key = _as_text(cell) if self._text else _as_number(cell)
        return self._place.get(key, OTHER)


def _is_missing(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float | np.floating) and math.isnan(cell)


def _as_text(cell: Any) -> bytes | None:
    if isinstance(cell, bytes):
        return cell
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).encode()
    if isinstance(cell, float | np.floating) and math.isfinite(cell) and cell == int(cell):
        cell = int(cell)  # a whole number that pandas keeps as float beside missing cells
    if isinstance(cell, str | int | float | np.number):
        return str(cell).encode(errors="surrogatepass")
    return None


def _as_number(cell: Any) -> float | None:
    word = cell.decode(errors="replace") if isinstance(cell, bytes) else cell
    if isinstance(word, str) and word.lower() in ("true", "false"):
        return float(word.lower() == "true")
    try:
        return float(word)
    except Exception:  # whatever a cell may be, it must not raise
        return None


def _parse(cells: Any) -> np.ndarray:
    """Read cells of any kind as numbers; what is no number is NaN."""
    numbers = (_as_number(cell) for cell in cells)
    return np.fromiter((math.nan if x is None else x for x in numbers), np.float64, len(cells))


def _arrow(column: Column) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _floats(column: pa.Array) -> np.ndarray:
    column = pc.fill_null(pc.cast(column, pa.float64(), safe=False), math.nan)
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False))


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _is_scalar(kind: pa.DataType) -> bool:
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    )


def _bytes_like(kind: pa.DataType) -> pa.DataType:
    """Texts are compared as bytes: they need not be valid UTF-8."""
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return pa.large_binary() if large else pa.binary()


def _unit_names(column: Column, name: str) -> pa.Array:
    """Return the units of a batch as bytes, null where there is none."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "O":
            names = [None if _is_missing(cell) else _unit_name(cell) for cell in column]
            return pa.array(names, pa.large_binary())
        column = pa.array(np.ascontiguousarray(column))
    column = _arrow(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_nested(column.type):
        raise SchemaError(f"column {name!r} holds {column.type}, which cannot name a unit")
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    if not _is_text(column.type):
        column = column.cast(pa.string())
    return column.cast(_bytes_like(column.type)).cast(pa.large_binary())


def _unit_name(cell: Any) -> bytes:
    return cell if isinstance(cell, bytes) else str(cell).encode(errors="surrogatepass")


def _number_units(parts: list[pa.Array]) -> np.ndarray:
    """Number the units; −1 where there is none."""
    if not parts:
        return np.empty(0, dtype=np.int64)
    column = pa.chunked_array(parts).combine_chunks().dictionary_encode()
    return pc.fill_null(column.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)


def _need(table: Table, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.columns:
            raise SchemaError(f"the table has no column {name!r}, which the domain declares")
