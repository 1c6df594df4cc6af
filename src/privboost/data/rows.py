"""Blocks of coded rows: codes, which a model reads, and labels and weights for training.

The memory layout of coded columns is public, and the same for every block of a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from privboost._core.grid import FULL_RANGE, SCORE_STEPS
from privboost._core.pickling import DeclaredState
from privboost.losses.base import UNKNOWN_LABEL
from privboost.randomness.sampling import Sample

MOST_NARROW_CODES = 255
"""A column with more codes than this takes two bytes a cell."""

LARGEST_RESIDUAL = 2**30
"""The largest absolute residual, in score steps."""

MOST_IDS = 2**32
"""Rows of one table have ids below this, where ids are in memory."""

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Columns as kernels read them: their rows in a block's array, the concatenated cells of their
codes, and the offset of each column's cells."""


@dataclass(frozen=True)
class Layout(DeclaredState):
    """The number of codes of each feature, and the row of the code arrays that holds it.

    Columns of one byte come first (the rows of `Codes.narrow`), then columns of two bytes (the
    rows of `Codes.wide`), so a feature's slot below `n_narrow` is a row of the first array.
    """

    n_codes: tuple[int, ...]

    @cached_property
    def wide(self) -> tuple[bool, ...]:
        """For each feature, whether its codes take two bytes."""
        return tuple(codes > MOST_NARROW_CODES for codes in self.n_codes)

    @cached_property
    def n_narrow(self) -> int:
        """The number of features with one-byte codes."""
        return self.wide.count(False)

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """The position of each feature among narrow columns followed by wide ones."""
        order = sorted(range(len(self.n_codes)), key=lambda feature: self.wide[feature])
        slot_of = {feature: slot for slot, feature in enumerate(order)}
        return tuple(slot_of[feature] for feature in range(len(order)))

    @cached_property
    def slot_array(self) -> np.ndarray:
        """The slots as an array (uint16)."""
        return np.array(self.slots, dtype=np.uint16)


def columns_of(layout: Layout, cell_of: Mapping[int, np.ndarray]) -> tuple[Columns, Columns]:
    """Return the narrow and the wide columns of some features, with the cell of each code."""
    narrow = {layout.slots[f]: cells for f, cells in cell_of.items() if not layout.wide[f]}
    wide = {
        layout.slots[f] - layout.n_narrow: cells for f, cells in cell_of.items() if layout.wide[f]
    }
    return lay_out(narrow), lay_out(wide)


def lay_out(cell_of: Mapping[int, np.ndarray]) -> Columns:
    """Return columns for kernels from the cells of each, by its row in a block's array."""
    cells, first = join_cells(list(cell_of.values()))
    return np.array(list(cell_of), dtype=np.int64), cells.astype(np.uint32), first


def join_cells(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the concatenation of arrays, and the offset of each."""
    first = np.cumsum([0, *map(len, parts)], dtype=np.int64)[:-1]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts]).astype(np.int64), first


@dataclass(frozen=True, eq=False, repr=False)
class Codes:
    """Coded values, feature by feature: all that a model reads.

    Attributes
    ----------
    narrow, wide : uint8 and uint16 arrays of shape (columns, rows)
        The codes; `layout` is the position of each feature.
    """

    layout: Layout
    narrow: np.ndarray
    wide: np.ndarray

    @classmethod
    def empty(cls, layout: Layout, rows: int) -> Codes:
        """Return uninitialised codes of some rows."""
        n_wide = len(layout.n_codes) - layout.n_narrow
        return cls(
            layout,
            np.empty((layout.n_narrow, rows), dtype=np.uint8),
            np.empty((n_wide, rows), dtype=np.uint16),
        )

    @classmethod
    def of(cls, layout: Layout, columns: np.ndarray) -> Codes:
        """Return the codes of rows from an array of one line a feature."""
        codes = cls.empty(layout, columns.shape[1])
        for feature, column in enumerate(columns):
            codes.column(feature)[:] = column
        return codes

    def __len__(self) -> int:
        return int(self.narrow.shape[1])

    def column(self, feature: int) -> np.ndarray:
        """The codes of one feature."""
        slot = self.layout.slots[feature]
        if slot < len(self.narrow):
            narrow: np.ndarray = self.narrow[slot]
            return narrow
        column: np.ndarray = self.wide[slot - len(self.narrow)]
        return column

    def take(self, rows: np.ndarray) -> Codes:
        """Return the codes of the chosen rows (a mask or indices)."""
        narrow, wide = self.narrow[:, rows], self.wide[:, rows]
        return Codes(self.layout, np.ascontiguousarray(narrow), np.ascontiguousarray(wide))


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Coded rows with their labels and weights.

    Attributes
    ----------
    codes : Codes
        The features.
    label : uint8 array
        The class; of a survival time 1 where its event was observed; 0 for any other number; or
        `losses.base.UNKNOWN_LABEL`.
    weight : uint16 array, optional
        The sample weight in steps of its public bound.
    minus_label : int32 array, optional
        Minus the label of a number, in `grid.LABEL_STEPS`; see `initial_states`.
    ids : range or uint32 array, optional
        The rows' indices in their table, by which they are sampled.
    cohort : int
        The batch of a stream that holds the rows; rows of one cohort have the same budget.
    texts : tuple of pyarrow arrays
        Columns of strings (as bytes), for private domain inference.
    """

    codes: Codes
    label: np.ndarray
    weight: np.ndarray | None = None
    minus_label: np.ndarray | None = None
    ids: range | np.ndarray | None = None
    cohort: int = 0
    texts: tuple[pa.Array, ...] = ()

    def __post_init__(self) -> None:
        parts = (self.codes, self.weight, self.minus_label, self.ids, *self.texts)
        if any(each is not None and len(each) != len(self.label) for each in parts):
            raise ValueError("rows whose parts differ in length: kernels would read past an end")

    def __len__(self) -> int:
        return len(self.label)

    def column(self, feature: int) -> np.ndarray:
        """The codes of one feature."""
        return self.codes.column(feature)

    @property
    def layout(self) -> Layout:
        """The memory layout of the codes."""
        return self.codes.layout

    def take(self, rows: np.ndarray) -> Rows:
        """Return the chosen rows (a mask or indices)."""
        return Rows(
            self.codes.take(rows),
            self.label[rows],
            None if self.weight is None else self.weight[rows],
            None if self.minus_label is None else self.minus_label[rows],
            None if self.ids is None else id_array(self.ids)[rows],
            self.cohort,
            tuple(text.take(pa.array(np.arange(len(self))[rows])) for text in self.texts),
        )


def need_ids_below(end: int) -> None:
    """Refuse ids that would not be told apart: two rows of one id have one coin.

    Coins of different rows must be independent. If rows 2³² apart shared one, a row that is added
    would change which rows share theirs.
    """
    if end > MOST_IDS:
        raise ValueError("rows are numbered below 2**32, and this table has more of them")


def id_array(ids: range | np.ndarray | None) -> np.ndarray:
    """Return ids in memory (uint32); refuse those of 2³² or more."""
    if isinstance(ids, range):
        need_ids_below(ids.stop)
    return np.asarray(ids, dtype=np.uint32)


def initial_states(minus_label: np.ndarray, span: tuple[int, int] = FULL_RANGE) -> np.ndarray:
    """Return the states before boosting: minus the labels, scaled to a clipping range.

    `minus_label` and `span` (the labels that become −1 and 1, an even number of steps apart) are in
    `grid.LABEL_STEPS`; states are in `grid.SCORE_STEPS`, rounded toward the middle of the range.
    """
    return _scaled(minus_label, span, (span[1] - span[0]) // 2).astype(np.int32)


def _scaled(minus_label: np.ndarray, span: tuple[int, int], most: int) -> np.ndarray:
    """Return minus the labels scaled to a range (int64), at most so far from its middle."""
    middle, half = (span[0] + span[1]) // 2, (span[1] - span[0]) // 2
    below = np.clip(minus_label.astype(np.int64) + middle, -most, most)
    steps: np.ndarray = np.sign(below) * (np.abs(below) * SCORE_STEPS // half)
    return steps


def labels_of_part(
    ids: np.ndarray | range | None, label: np.ndarray, put_aside: Sample, aside: bool
) -> np.ndarray:
    """Return the labels of rows, unknown unless they are put aside, or unless they are not."""
    if ids is None:
        raise RuntimeError("rows without ids cannot be put aside")
    counting = put_aside.mask(ids) == aside
    labels: np.ndarray = np.where(counting, label, UNKNOWN_LABEL).astype(np.uint8)
    return labels


@dataclass(frozen=True, eq=False)
class RelativeResiduals:
    """Residuals in parts of a power of the prediction: of each interval of scores a line in labels.

    The residual of a row with the label L (in `grid.LABEL_STEPS`), whose score is in interval k, is
    |L · slope[k] · 2^−shift[k] − offset[k]|, rounded, and at most `LARGEST_RESIDUAL`.

    Attributes
    ----------
    first, bits : int
        The score at which the first interval begins, and the bits of an interval's width, in score
        steps. The first and the last interval have all scores beyond as well.
    slope, shift, offset : int64 arrays
        The lines.
    """

    first: int
    bits: int
    slope: np.ndarray
    shift: np.ndarray
    offset: np.ndarray

    def __post_init__(self) -> None:
        lines = self.slope, self.shift, self.offset
        for name, own in zip(("slope", "shift", "offset"), lines, strict=True):
            if not isinstance(own, np.ndarray) or own.dtype != np.int64 or own.ndim != 1:
                raise ValueError("lines of residuals must be one-dimensional int64 arrays")
            object.__setattr__(self, name, np.frombuffer(own.tobytes(), dtype=np.int64))
        if not 0 < len(self.slope) == len(self.shift) == len(self.offset) <= MOST_LINES:
            raise ValueError("lines of residuals must have equal lengths")
        whole = all(type(own) is int for own in (self.first, self.bits))
        if not whole or not (abs(self.first) <= 2**31 and 0 <= self.bits <= 31):
            raise ValueError("intervals of scores must be those of int32 scores")
        low, high = (np.array([own.min() for own in lines]), np.array([own.max() for own in lines]))
        if (low < [0, 0, -MOST_OFFSET]).any() or (high > [2**31, 62, MOST_OFFSET]).any():
            raise ValueError("lines of residuals would overflow")

    def of(self, scores: np.ndarray, minus_label: np.ndarray) -> np.ndarray:
        """Return the residual of each row (int32)."""
        k = np.clip((scores.astype(np.int64) - self.first) >> self.bits, 0, len(self.slope) - 1)
        moved = (-minus_label.astype(np.int64) * self.slope[k]) >> self.shift[k]
        found: np.ndarray = np.minimum(np.abs(moved - self.offset[k]), LARGEST_RESIDUAL)
        return found.astype(np.int32)


MOST_LINES = 2**16
"""Most intervals of scores of relative residuals."""

MOST_OFFSET = 2**61
"""Largest offset of a line: with the product of a label and a slope it fits an int64."""


def nonconformity(
    states: np.ndarray,
    label: np.ndarray,
    minus_label: np.ndarray | None,
    span: tuple[int, int],
    relative: RelativeResiduals | None = None,
) -> np.ndarray:
    """Return how far each row's label is from its prediction, in score steps (int32).

    Of a number it is the absolute residual, or a relative one; of a class minus the score of the
    row's own class. `states` has shape (outputs, rows).
    """
    if minus_label is not None:
        if relative is not None:
            scores = states[0].astype(np.int64) - initial_states(minus_label, span)
            return relative.of(scores, minus_label)
        return absolute_residuals(states[0], minus_label, span)
    if len(states) == 1:
        own = np.where(label == 1, states[0], -states[0].astype(np.int64))
    else:
        known = np.where(label == UNKNOWN_LABEL, 0, label)
        own = np.take_along_axis(states, known[None].astype(np.intp), axis=0)[0].astype(np.int64)
    bounded: np.ndarray = np.clip(-own, -LARGEST_RESIDUAL, LARGEST_RESIDUAL).astype(np.int32)
    return bounded


def absolute_residuals(
    states: np.ndarray, minus_label: np.ndarray, span: tuple[int, int]
) -> np.ndarray:
    """Return absolute states as if labels had not been clipped to a clipping range.

    At most `LARGEST_RESIDUAL`, so that larger ones are still in the last interval of a histogram.
    """
    clipped = initial_states(minus_label, span).astype(np.int64)
    whole = _scaled(minus_label, span, FULL_RANGE[1] - FULL_RANGE[0])
    residuals: np.ndarray = np.minimum(np.abs(states + whole - clipped), LARGEST_RESIDUAL)
    return residuals.astype(np.int32)


def lines_of_labels(rows: Rows, edges: np.ndarray) -> np.ndarray:
    """Return the bin of each numeric label (uint8), or `losses.UNKNOWN_LABEL`.

    It is the number of the edges (int32, in `grid.LABEL_STEPS`) at or below the label.
    """
    if rows.minus_label is None:
        raise RuntimeError("only numeric labels have bins")
    bins = np.searchsorted(edges, -rows.minus_label, side="right")
    return np.where(rows.label == UNKNOWN_LABEL, UNKNOWN_LABEL, bins).astype(np.uint8)


def join(blocks: Iterable[Rows]) -> Rows:
    """Return the concatenation of blocks of one cohort."""
    parts = list(blocks)
    first = parts[0]
    if any(part.cohort != first.cohort for part in parts):
        raise ValueError("rows of different cohorts have different budgets and cannot be joined")
    return Rows(
        Codes(
            first.layout,
            np.concatenate([part.codes.narrow for part in parts], axis=1),
            np.concatenate([part.codes.wide for part in parts], axis=1),
        ),
        np.concatenate([part.label for part in parts]),
        None if first.weight is None else np.concatenate([part.weight for part in parts]),
        None if first.minus_label is None else np.concatenate([part.minus_label for part in parts]),
        None if first.ids is None else np.concatenate([id_array(part.ids) for part in parts]),
        first.cohort,
        tuple(pa.concat_arrays(each) for each in zip(*(part.texts for part in parts), strict=True)),
    )
