"""Private bounds of numbers: noisy counts by signed power of two, and the range of full bins.

All numbers are counted at once: a row lies in one bin of each, so it changes p counts of p numbers
by one. The loader codes numbers by power of two, and keeps categories as strings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from privboost._core import codec
from privboost._core.grid import CLIP_STEPS, Contribution
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.data.binning import Bins
from privboost.data.contribution_bound import UnitRule
from privboost.data.rows import Codes, Layout, Rows
from privboost.data.table import Batch
from privboost.data.times import read_durations
from privboost.data.unit_names import read_unit_names
from privboost.data.values import read_numbers, read_texts
from privboost.engine.queries import COUNT, NodeHistograms
from privboost.mechanisms.curator import Curator
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import stump

SMALLEST, LARGEST = -30, 62
"""Exponents of the smallest and the largest bin edge."""
SIZE_EDGES = np.array(
    [-(2.0**k) for k in range(LARGEST, SMALLEST - 1, -1)]
    + [np.nextafter(0.0, -1.0), 0.0]
    + [2.0**k for k in range(SMALLEST, LARGEST + 1)]
)
SIZE_CODES = len(SIZE_EDGES) + 2
"""Number of codes of a number: one more than edges, and missing."""
_SIZES = Bins(SIZE_EDGES)


@dataclass(frozen=True, eq=False)
class InferenceLoader:
    """Loads rows to infer a domain from.

    Attributes
    ----------
    numbers, strings : tuples of str
        The columns whose bounds, and whose categories or classes, are inferred.
    unit : UnitRule or None
        The bound on the rows of one unit.
    spare : str
        A column to count rows by, if there is no other.
    durations : tuple of str
        The columns among `numbers` that hold durations, in seconds.
    """

    magic: ClassVar[bytes] = b"PVBSIZE1"
    by_place: ClassVar[bool] = False

    numbers: tuple[str, ...]
    strings: tuple[str, ...]
    unit: UnitRule | None
    spare: str
    durations: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        unit = () if self.unit is None else (self.unit.column,)
        return tuple(dict.fromkeys([*self.numbers, *self.strings, *unit])) or (self.spare,)

    def read(self, batch: Batch, first: int) -> Rows:
        # Rows have one label, and no ids: they are never sampled.
        size = len(batch[self.columns[0]])
        codes = Codes.empty(Layout((SIZE_CODES,) * len(self.numbers)), size)
        for k, name in enumerate(self.numbers):
            read = read_durations if name in self.durations else read_numbers
            values = read(batch[name], name)
            values = np.where(np.isinf(values), np.nan, values)  # bounds are of finite numbers
            _SIZES.code(values, codes.column(k))
        texts = tuple(read_texts(batch[name], name) for name in self.strings)
        return Rows(codes, np.zeros(size, dtype=np.uint8), texts=texts)

    def name_units(self, batch: Batch) -> pa.Array:
        assert self.unit is not None
        return read_unit_names(batch[self.unit.column], self.unit.column)

    def to_bytes(self) -> bytes:
        payload: dict[str, Any] = {
            "numbers": list(self.numbers),
            "words": list(self.strings),
            "unit": None if self.unit is None else self.unit.to_dict(),
            "spare": self.spare,
            "durations": list(self.durations),
        }
        return codec.dump(payload, self.magic)

    @classmethod
    def from_bytes(cls, data: bytes) -> InferenceLoader:
        payload = codec.load(data, cls.magic)
        unit = None if payload["unit"] is None else UnitRule(**payload["unit"])
        names = (tuple(payload[key]) for key in ("numbers", "words", "durations"))
        numbers, strings, durations = names
        return cls(numbers, strings, unit, payload["spare"], durations)


_BOUND = 2.0 ** (LARGEST + 1)
_FALSE_ALARM = 0.01
"""The probability that any empty bin of any number counts as full."""

Bounds = tuple[float, float, str]
"""Lower, upper, and the scale between them."""
NO_BOUNDS: Bounds = (-1.0, 1.0, "linear")
"""Bounds of a number of which no bin is full."""


def plan_sizes(
    contribution: Contribution, numbers: int, pure: bool
) -> GaussianRelease | LaplaceRelease:
    """Return the release of the counts of some numbers; Laplace noise under pure DP."""
    kind = LaplaceRelease if pure else GaussianRelease
    steps, rows = CLIP_STEPS * contribution.rows, contribution.rows
    return kind(f"rows by size of {numbers} numbers", 1.0, steps, numbers, rows, (1.0,))


def learn_bounds(
    names: Sequence[str], curator: Curator, event: GaussianRelease | LaplaceRelease
) -> dict[str, Bounds]:
    """Release counts by power of two, and derive the bounds of numbers from them.

    Privacy
    -------
    Spends `event`; bounds are post-processing.
    """
    counts = curator.sums(_sizes(len(names)), event)[0, :, 0] / CLIP_STEPS
    least = least_count(event, len(counts))
    by_name = counts.reshape(len(names), SIZE_CODES)[:, :-1]  # the last are missing
    return {name: _span(own, least) for name, own in zip(names, by_name, strict=True)}


def least_count(event: GaussianRelease | LaplaceRelease, bins: int) -> float:
    """Return the noisy count, in rows, above which a bin counts as full.

    With probability `_FALSE_ALARM` at most, any of `bins` empty bins exceeds it. The added row
    covers the steps of the grid, to which Laplace scales are rounded up.
    """
    probability = _FALSE_ALARM / bins
    scale = float(event.scales[0]) / CLIP_STEPS
    if isinstance(event, LaplaceRelease):  # P(noise > x) = exp(-x/scale)/2
        return 1 - scale * math.log(2 * probability)
    return 1 + scale * float(ndtri(1 - probability))


def _sizes(numbers: int) -> NodeHistograms:
    """Return the query for counts by power of two of every number."""
    cells = np.arange(SIZE_CODES)
    every = CellMap.side_by_side(CellMap.of_feature(k, cells) for k in range(numbers))
    return NodeHistograms(stump(), every, statistics=COUNT)


def _span(counts: np.ndarray, least: float) -> Bounds:
    """Return the range of full bins; on a log scale if most rows are far smaller than its ends."""
    lows, highs = [-_BOUND, *SIZE_EDGES], [*SIZE_EDGES, _BOUND]
    full = np.flatnonzero(counts > least)
    if len(full) == 0:
        return NO_BOUNDS
    low, high = lows[full[0]], highs[full[-1]]
    low = 0.0 if abs(low) < 1e-300 else low  # the bin of zero itself
    high = 1.0 if low == high else high
    weight = np.maximum(counts, 0) * (counts > least)
    size = np.maximum(np.abs(lows), np.abs(highs))
    small = weight[size <= max(abs(low), abs(high)) / 16].sum()
    return (low, high, "log" if small > 0.8 * weight.sum() else "linear")
