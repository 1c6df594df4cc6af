"""Structures of trees: split candidates, data-independent trees, and greedy ones.

Candidates are thresholds of numbers and single categories. Features and thresholds of
data-independent trees are drawn at random: the draws are public, and independent of the rows and of
the noise. Splits of greedy trees are selected privately on exact node histograms, level by level;
all nodes of a level at once, for the cost of one selection, because a row lies in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, repeat
from typing import Any

import numpy as np

from privboost._core.checks import check_count
from privboost._core.compilation import compiled
from privboost.accounting.events import Selection
from privboost.data.encoding import Encoder
from privboost.data.feature_base import FINE_BINS
from privboost.data.features import CategoricalFeature
from privboost.engine.queries import GRADIENT_COUNT, NodeHistograms
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.utilities import SplitGain
from privboost.trees.cell_map import CellMap
from privboost.trees.splits import Splits, join_splits
from privboost.trees.tree import Tree, stump

_MOST_CELLS = 2**28
"""Most cells of a level's histograms, of 16 bytes each."""


def check_bins(name: str, value: Any, encoder: Encoder) -> int:
    """Return a number of bins, or raise unless it lies between 2 and the number of fine bins."""
    bins, most = check_count(name, value, least=2), _most_bins(encoder)
    if bins > most:
        raise ValueError(
            f"{name} must be at most {most}, all bins that a number has; {bins} is not"
        )
    return bins


def check_candidates(value: int, encoder: Encoder, sketch_bins: int | None = None) -> None:
    """Refuse more split candidates than there are edges between bins, or a finer sketch."""
    if sketch_bins is not None:
        check_bins("sketch_bins", sketch_bins, encoder)
    most = _most_bins(encoder) - 1
    if value > most:
        raise ValueError(
            f"n_candidates must be at most {most}, all edges between a number's bins; "
            f"{value} is not"
        )


def _most_bins(encoder: Encoder) -> int:
    """Return the largest number of fine bins: the usual one, or that of declared edges."""
    return max(FINE_BINS, *(len(edges) + 1 for edges in encoder.edges))


def count_cells(encoder: Encoder, n_candidates: int) -> int:
    """Return the number of cells of all features' histograms; a category has one for each code."""
    return sum(
        codes if isinstance(feature, CategoricalFeature) else min(codes, n_candidates + 2)
        for feature, codes in zip(encoder.domain.features, encoder.layout.n_codes, strict=True)
    )


def check_histograms(encoder: Encoder, n_candidates: int, depth: int) -> None:
    """Refuse trees whose node histograms would not fit into memory."""
    if count_cells(encoder, n_candidates) * 2**depth > _MOST_CELLS:
        raise ValueError(
            "the histograms of a level would be too large: lower max_depth (or greedy_depth) or "
            "n_candidates"
        )


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Thresholds of numbers: codes that may be the last one to go left.

    `codes` has those of one feature after the other, `first` where a feature's begin, and `count`
    their number: −1 for a category.
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

    None is all fine edges.
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

    There are `count` thresholds for each number. A release has `bins` even intervals of each
    number; by default those between the current thresholds, as "merge" needs them.
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
        changed = {}
        if self._rule == "quantiles":
            self._releases += 1
            for k, mass in intervals.items():
                own = self._own_cells(k)
                self._density[k] += np.maximum(mass, 0)[own] / np.bincount(own)[own]
                changed[k] = self._quantiles(self._density[k] / self._releases)
        else:
            total = sum(float(mass.sum()) for mass in intervals.values()) / max(len(intervals), 1)
            for k, mass in intervals.items():
                part, before = total / self._count, self.thresholds.own(k)
                changed[k] = merge_and_divide(before, np.maximum(mass, 0), part, self._count)
        self.thresholds = self.thresholds.replaced(changed)

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

    A threshold is kept where the mass since the last kept one is above `even_part`; the highest one
    always is. `mass` is the noisy count of each interval, from below the first threshold to above
    the last, and not negative. `count` thresholds are wanted: where there were fewer, a kept one
    gets another half-way to the next; where fewer are kept, the intervals between them are divided
    evenly.
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


CATEGORY_SPLITS = ("subset", "one")

_TREES_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class RandomTrees:
    """Generator of complete trees of one depth, from public randomness.

    If `features` are "cyclical", tree t has feature t alone, modulo their number; or each node has
    any feature ("uniform" and "all"), or one of so many that are drawn for the tree. A node on a
    category sends a random half of the categories right ("subset"), or a random one ("one").
    """

    encoder: Encoder
    depth: int
    features: str | int
    category_splits: str
    generator: np.random.Generator

    def draw(
        self, number: int, thresholds: Thresholds, among: tuple[int, ...] | None = None
    ) -> Tree:
        """Draw the tree of a round; `among` are its features, where they are drawn already."""
        uniform = next(self._uniforms)
        drawn = self._draw_features(number) if among is None else among
        own = np.array(drawn, dtype=np.uint16)
        feature = own[(uniform[0] * len(own)).astype(np.int64)]
        goes_right = np.empty((len(feature), self._n_codes[feature].max()), dtype=np.uint8)
        halves = self.category_splits == "subset"
        bits = self.generator.random(goes_right.shape if halves else (0, 0), dtype=np.float32)
        send_codes(
            feature,
            thresholds.codes,
            thresholds.first,
            thresholds.count,
            self._n_codes,
            uniform[1:],
            bits,
            goes_right,
        )
        return Tree(feature, goes_right)

    def features_of(self, number: int) -> tuple[int, ...]:
        """Return the features of a round's greedy trees."""
        return tuple(sorted(self._draw_features(number)))

    def _draw_features(self, number: int) -> Sequence[int]:
        """Return the features among which a tree's nodes have theirs."""
        count = len(self._n_codes)
        if self.features == "cyclical":
            return (number % count,)
        if isinstance(self.features, str):
            return range(count)
        drawn: list[int] = self.generator.permutation(count)[: self.features].tolist()
        return drawn

    def deepen(
        self, tree: Tree, number: int, thresholds: Thresholds, among: tuple[int, ...]
    ) -> Tree:
        """Return a tree with random levels below, down to the full depth.

        Their features are those of the levels above, `among`.
        """
        if tree.depth == self.depth:
            return tree
        whole = self.draw(number, thresholds, among)
        for depth in range(tree.depth, self.depth):
            level = whole.level(depth)
            nodes = zip(whole.feature[level], whole.goes_right[level], strict=True)
            tree = tree.with_level([(int(feature), right) for feature, right in nodes])
        return tree

    @cached_property
    def _n_codes(self) -> np.ndarray:
        return np.array(self.encoder.layout.n_codes)

    @cached_property
    def _uniforms(self) -> Iterator[np.ndarray]:
        """Three uniform numbers for each node of a tree, drawn for many trees at a time."""
        shape = (_TREES_AT_ONCE, 3, 2**self.depth - 1)
        return chain.from_iterable(self.generator.random(shape) for _ in repeat(None))


@compiled
def send_codes(feature, codes, first, count, n_codes, uniform, bits, goes_right):  # type: ignore[no-untyped-def]
    """Write whether each code goes right at each node; see `Thresholds` for codes, first and count.

    Two uniform numbers of each node choose the threshold or category, and whether missing values go
    right (above one half). Categories go right whose own uniform number in `bits` is above one
    half; where that has no size, the chosen one does.
    """
    for node in range(feature.size):
        own = feature[node]
        right = goes_right[node]
        if count[own] > 0:
            last_left = codes[first[own] + int(uniform[0, node] * count[own])]
            for code in range(right.size):
                right[code] = code > last_left
        elif count[own] == 0:  # no threshold
            right[:] = 0
        elif bits.size:
            for code in range(right.size):
                right[code] = bits[node, code] > 0.5
        else:  # any category, or other
            chosen = int(uniform[0, node] * (n_codes[own] - 1))
            for code in range(right.size):
                right[code] = code == chosen
        right[n_codes[own] - 1] = uniform[1, node] > 0.5


def of_each(leaves: np.ndarray, outputs: int) -> np.ndarray:
    """Return statistics of trees, of one output after the other, with zeros for other outputs."""
    spread = np.zeros((len(leaves), outputs, leaves.shape[1]), dtype=leaves.dtype)
    numbers = np.arange(len(leaves))
    spread[numbers, numbers % outputs] = leaves
    return spread


def grow(
    curator: Curator,
    splits: Splits,
    depth: int,
    split_lambda: float,
    event: Selection,
    output: int,
) -> Tree:
    """Grow a tree: select splits level by level.

    The candidates of a node divide the cells that its path leaves open; the path is public.

    Privacy
    -------
    Spends `event` once for each level.
    """
    tree, reach = stump(), splits.start_reach()
    for _ in range(depth):
        utility = SplitGain(splits, split_lambda, splits.allowed(reach))
        query = NodeHistograms(tree, splits.cells, output, GRADIENT_COUNT)
        chosen = curator.select(query, utility, event)
        tree = tree.with_level(
            [splits.goes_right(int(candidate)) for candidate in chosen], splits.width
        )
        reach = splits.follow(reach, chosen)
    return tree
