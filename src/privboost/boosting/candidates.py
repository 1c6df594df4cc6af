"""Split candidates: thresholds of numbers, and cells of a feature's codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privboost.tables.encoding import Encoder
from privboost.tables.features import CategoricalFeature
from privboost.trees.cell_map import CellMap
from privboost.trees.splits import Splits, join_splits


@dataclass(frozen=True, eq=False)
class Cells:
    """Coarse cells of one feature's codes.

    Attributes
    ----------
    map : CellMap
        Cell of each code.
    learned : bool array
        Whether a cell has an effect; the cell of missing values does if they are declared.
    """

    map: CellMap
    learned: np.ndarray

    @property
    def cell_of(self) -> np.ndarray:
        """Cell of each code."""
        return self.map.parts[0].cell_of[0]

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.map.n_cells


def uniform_grid(encoder: Encoder, feature: int, max_bins: int) -> Cells:
    """Merge fine bins evenly into at most `max_bins`; categories keep their codes.

    "Other" and "missing" always have cells of their own.
    """
    declared = encoder.domain.features[feature]
    n_codes = encoder.layout.n_codes[feature]
    cell_of = np.arange(n_codes, dtype=np.uint16)
    if not isinstance(declared, CategoricalFeature):
        fine = n_codes - 1
        coarse = min(fine, max_bins)
        cell_of[:fine] = np.arange(fine) * coarse // fine
        cell_of[fine] = coarse
    cells = CellMap.of_feature(feature, cell_of)
    learned = np.ones(cells.n_cells, dtype=np.bool_)
    learned[-1] = declared.missing
    return Cells(cells, learned)


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Thresholds of numbers: codes that may be the last one to go left.

    Attributes
    ----------
    codes : int64 array
        Thresholds of all features, one feature after the other.
    first, count : int64 arrays
        Index of a feature's first threshold, and their number; −1 for a category.
    """

    codes: np.ndarray
    first: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, by_feature: Sequence[np.ndarray | None]) -> Thresholds:
        """Concatenate the thresholds of single features; None is a category."""
        count = np.array([-1 if codes is None else len(codes) for codes in by_feature])
        first = np.cumsum([0, *np.maximum(count, 0)])[:-1]
        kept = [codes for codes in by_feature if codes is not None]
        return cls(np.concatenate([np.empty(0, dtype=np.int64), *kept]), first, count)

    def own(self, feature: int) -> np.ndarray:
        """Return the thresholds of one feature; none for a category."""
        at = self.first[feature]
        return self.codes[at : at + max(self.count[feature], 0)]

    def replaced(self, changed: dict[int, np.ndarray]) -> Thresholds:
        """Return thresholds of which some features' are replaced."""
        return Thresholds.of(
            [
                None if count < 0 else changed.get(feature, self.own(feature))
                for feature, count in enumerate(self.count)
            ]
        )


def even_thresholds(encoder: Encoder, count: int | None) -> Thresholds:
    """Return at most `count` thresholds for each number, evenly spread over its fine edges.

    Parameters
    ----------
    encoder : Encoder
        Features and their edges.
    count : int or None
        Number of thresholds; None is all fine edges.
    """
    thresholds: list[np.ndarray | None] = []
    for feature, edges in zip(encoder.domain.features, encoder.edges, strict=True):
        if isinstance(feature, CategoricalFeature):
            thresholds.append(None)
        elif count is None or count >= len(edges):
            thresholds.append(np.arange(len(edges)))
        else:
            steps = np.arange(1, count + 1) / (count + 1)
            thresholds.append(np.unique(np.rint((len(edges) + 1) * steps).astype(np.int64)) - 1)
    return Thresholds.of(thresholds)


@lru_cache(maxsize=64)
def splits_of(encoder: Encoder, thresholds: Thresholds, features: tuple[int, ...]) -> Splits:
    """Return the split candidates of some features, given the thresholds of numbers.

    Trees that share both share one object, by which shards recognise unchanged candidates.
    """
    parts = []
    for feature in features:
        codes, declared = encoder.layout.n_codes[feature], encoder.domain.features[feature]
        if thresholds.count[feature] < 0:
            parts.append((feature, np.arange(codes), True, bool(declared.missing)))
        else:
            own = np.searchsorted(thresholds.own(feature), np.arange(codes - 1))
            parts.append((feature, np.r_[own, own[-1] + 1], False, bool(declared.missing)))
    return join_splits(parts)


RULES = ("quantiles", "merge")
"""Rules by which thresholds follow Hessians."""


class HessianThresholds:
    """Thresholds that follow the distribution of Hessians, refined from released histograms.

    Each release gives the mass of Hessians by interval of a number. By the rule "quantiles" it is
    spread evenly over the fine bins of each interval and averaged over the releases: a density;
    new thresholds are its quantiles, so that empty intervals are merged and full ones divided. A
    tenth of the density stays even, so that every interval can be divided again. By "merge", the
    rule of Maddock et al., intervals are joined until they have an even part of the last release's
    mass, and the remaining thresholds divide the intervals that are left.

    Parameters
    ----------
    encoder : Encoder
        Features and their edges.
    count : int
        Thresholds for each number.
    bins : int, optional
        Even intervals of each number in every release. By default the intervals between the current
        thresholds, as "merge" needs them.
    rule : {"quantiles", "merge"}
        Rule of refinement.
    """

    _EVEN = 0.1

    def __init__(
        self, encoder: Encoder, count: int, bins: int | None = None, rule: str = "quantiles"
    ) -> None:
        self._rule = rule
        self._count = min(count, max(map(len, encoder.edges), default=1))
        self.thresholds = even_thresholds(encoder, count)
        self._fixed = None if bins is None else even_thresholds(encoder, bins - 1)
        self.features = tuple(int(k) for k in np.flatnonzero(self.thresholds.count > 0))
        self._density = {k: np.zeros(encoder.layout.n_codes[k] - 1) for k in self.features}
        self._releases = 0

    def cells(self) -> CellMap:
        """Return the intervals of all features side by side, as cells."""
        own = {k: self._own_cells(k) for k in self.features}
        return CellMap.side_by_side(
            CellMap.of_feature(k, np.r_[cells, cells[-1] + 1]) for k, cells in own.items()
        )

    def refine(self, sums: np.ndarray) -> None:
        """Move the thresholds, given the released sums of Hessians by cell."""
        intervals, at = {}, 0
        for k in self.features:
            count = self._own_cells(k)[-1] + 1
            intervals[k] = sums[at : at + count]
            at += count + 1  # and the cell of missing values
        move = self._move_to_quantiles if self._rule == "quantiles" else self._merge_and_divide
        self.thresholds = self.thresholds.replaced(move(intervals))

    def _move_to_quantiles(self, intervals: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        self._releases += 1
        changed = {}
        for k, sums in intervals.items():
            own = self._own_cells(k)
            self._density[k] += np.maximum(sums, 0)[own] / np.bincount(own)[own]
            changed[k] = self._quantiles(self._density[k] / self._releases)
        return changed

    def _merge_and_divide(self, intervals: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        total = sum(float(sums.sum()) for sums in intervals.values()) / max(len(intervals), 1)
        return {
            k: merge_and_divide(
                self.thresholds.own(k), np.maximum(sums, 0), total / self._count, self._count
            )
            for k, sums in intervals.items()
        }

    def _own_cells(self, feature: int) -> np.ndarray:
        """Return the cell of each fine bin of a feature in the next release."""
        intervals = self.thresholds if self._fixed is None else self._fixed
        return np.searchsorted(intervals.own(feature), np.arange(len(self._density[feature])))

    def _quantiles(self, density: np.ndarray) -> np.ndarray:
        even = np.full(len(density), 1 / len(density))
        total = density.sum()
        mixed = even if total <= 0 else (1 - self._EVEN) * density / total + self._EVEN * even
        steps = np.arange(1, self._count + 1) / (self._count + 1)
        last = np.searchsorted(np.cumsum(mixed), steps, side="left")
        return np.unique(np.minimum(last, len(density) - 2))


def merge_and_divide(
    codes: np.ndarray, mass: np.ndarray, even_part: float, count: int
) -> np.ndarray:
    """Move the thresholds of one number by the rule of Maddock et al.

    Parameters
    ----------
    codes : int array
        Thresholds.
    mass : array
        Released mass of each interval, from below the first threshold to above the last; not
        below 0.
    even_part : float
        Mass since the last kept threshold above which a threshold is kept. The highest one always
        is.
    count : int
        Wanted number of thresholds. Where there were fewer, a kept one gets another half-way to the
        next; where fewer are kept, the intervals between them are divided evenly.
    """
    kept: list[int] = []
    since = 0.0
    for at, code in enumerate(codes[:-1]):
        since += mass[at]
        if since > even_part:
            kept.append(code)
            since = 0.0
            if len(codes) < count and len(kept) < count:
                kept.append((code + codes[at + 1]) // 2)
    stays = np.unique([*kept, codes[-1]])
    parts = -(-count // len(stays))
    places = np.arange((len(stays) - 1) * parts + 1) / parts
    between = np.interp(places, np.arange(len(stays)), stays)
    return np.unique(np.rint(between).astype(np.int64))
