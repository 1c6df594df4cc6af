"""Monotone constraints: their declaration, orders of cells and of leaves, nearest values in them.

A score is a sum of effects of features, values of pairs' cells, and values of trees' leaves. Where
each of them never falls as a feature grows, everything else fixed, the score never does. So the
values of each are replaced by near ones that keep to an order, before they are published: cells
along a side of a pair, and leaves of a tree that two rows can reach which differ in that feature
alone. It is post-processing of released values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privboost._core.checks import did_you_mean, is_number, shown
from privboost._core.compilation import compiled
from privboost.data.encoding import Encoder
from privboost.data.features import CategoricalFeature
from privboost.recipes.common.parameters import Constraint
from privboost.trees.tree import Tree


def _check_monotone(name: str, value: Any) -> tuple[tuple[str, int], ...]:
    """Return the features with a monotone effect and their directions, sorted by name."""
    if value is None or isinstance(value, tuple):
        value = dict(value or ())
    rule = f"{name} must map names of features to 1 (never falls), -1 (never rises) or 0"
    if not isinstance(value, Mapping):
        raise ValueError(f"{rule}; {shown(value)} does not")
    for feature, slope in value.items():
        if not (isinstance(feature, str) and is_number(slope) and slope in (-1, 0, 1)):
            raise ValueError(f"{rule}; {shown({feature: slope})} does not")
    return tuple(sorted((str(feature), int(slope)) for feature, slope in value.items() if slope))


MONOTONE = (
    Constraint(_check_monotone, "mapping"),
    "From names of numeric features to 1 (predictions never fall as it grows), -1 (never rise) "
    "or 0 (any way): known facts, not read off the rows. Every part of the model keeps to them, "
    "so that predictions do for any row; a missing value is free. For two classes, a number "
    "or survival times. By default none.",
)
"""Constraint and documentation of `monotone`, which recipes of effects and of random trees have."""


def check_slopes(monotone: tuple[tuple[str, int], ...], encoder: Encoder, outputs: int) -> None:
    """Refuse monotone effects of features that have no order, or of several outputs."""
    known = {feature.name: feature for feature in encoder.domain.features}
    for name, _ in monotone:
        if name not in known:
            hint = did_you_mean(name, list(known))
            end = f"; {hint}" if hint else ""
            raise ValueError(f"monotone: there is no feature {name!r}{end}")
        if isinstance(known[name], CategoricalFeature):
            raise ValueError(
                f"monotone: {name!r} is a category, and its values have no order; declare it as a "
                "number, or leave it out"
            )
    if monotone and outputs > 1:
        raise ValueError(
            "monotone needs two classes or a number: beyond two, what raises the score of one "
            "class need not raise its probability"
        )


def slopes_of(monotone: tuple[tuple[str, int], ...], encoder: Encoder) -> list[int]:
    """Return the direction of each feature's effect, 0 for any."""
    chosen = dict(monotone)
    return [chosen.get(name, 0) for name in encoder.domain.feature_names]


@dataclass(frozen=True, eq=False)
class CellOrder:
    """Partial order of values: of a pair's cells, or of a tree's leaves.

    Attributes
    ----------
    sequence : int array
        All cells, each after those below it.
    below : bool array of shape (cells, cells)
        Whether the value of the second cell must not exceed that of the first.
    """

    sequence: np.ndarray
    below: np.ndarray

    @classmethod
    def of_pair(cls, sizes: tuple[int, int], slopes: tuple[int, int]) -> CellOrder:
        """Return the order of the cells of a pair, of which a side has a direction."""
        cells = np.arange(sizes[0] * sizes[1]).reshape(sizes)
        below = np.zeros((cells.size, cells.size), dtype=np.bool_)
        for axis, slope in enumerate(slopes):
            cells = np.flip(cells, axis) if slope < 0 else cells
        for axis, slope in enumerate(slopes):
            if slope:
                along = np.moveaxis(cells, axis, 0)
                below[along[1:].ravel(), along[:-1].ravel()] = True
        return cls(cells.reshape(-1).copy(), below)

    @classmethod
    def of_tree(cls, tree: Tree, slopes: Sequence[int], n_codes: Any) -> CellOrder | None:
        """Return the order of a tree's leaves, or None where no node has a feature with a slope.

        One leaf is below another if some row of it would reach the other, were its number of one
        feature with a slope larger (or smaller, if the slope is −1). A number's larger codes go
        right at its nodes, its last code is that of missing values, which are free.
        """
        feature = tree.feature.astype(np.int64)
        slope_of = np.asarray(slopes, dtype=np.int64)[feature]
        if not slope_of.any():
            return None
        leaves, depth = tree.n_leaves, tree.depth
        numbers = np.asarray(n_codes, dtype=np.int64)[feature]
        reach = np.zeros((leaves, depth, -(-int(numbers.max()) // 64)), dtype=np.uint64)
        _find_reach(feature, tree.goes_right, numbers, reach)
        below = np.zeros((leaves, leaves), dtype=np.bool_)
        _order_leaves(feature, slope_of, numbers, reach, below)
        rank = np.zeros(leaves, dtype=np.int64)
        node, leaf = np.zeros(leaves, dtype=np.int64), np.arange(leaves)
        for level in range(depth):
            side = (leaf >> (depth - 1 - level)) & 1
            rank = 2 * rank + (side ^ (slope_of[node] < 0))
            node = 2 * node + 1 + side
        return cls(np.argsort(rank), below)

    def nearest(self, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return near values that keep to the order; changes are squared, with positive weights.

        Values of one direction are the nearest ones; of several they come close to them.
        """
        found = np.array(values, dtype=np.float64)
        rise_in_order(found, np.array(weights, dtype=np.float64), self.sequence, self.below.copy())
        return found


class RisingTrees:
    """Trees whose sum keeps to monotone constraints, one after another.

    A tree of several features keeps to them by itself. Those of one feature add up to a table by
    code, and do so together: were each to rise by itself, noise that made an early one too steep
    could never be taken back.

    Parameters
    ----------
    slopes, n_codes : sequences of int
        Direction of each feature's effect, 0 for any, and its number of codes.
    tables : sequence of arrays, optional
        Sum of earlier trees of each feature alone, by code.
    """

    def __init__(
        self,
        slopes: Sequence[int],
        n_codes: Sequence[int],
        tables: Sequence[np.ndarray] | None = None,
    ) -> None:
        self._slopes, self._n_codes = slopes, n_codes
        earlier = [np.zeros(n) for n in n_codes] if tables is None else tables
        self._totals = {
            f: np.array(earlier[f], dtype=np.float64) for f, slope in enumerate(slopes) if slope
        }

    def add(self, tree: Tree, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Add a tree; return its values, whole numbers that are near the given ones.

        Changes are squared, with positive weights.
        """
        feature = tree.only_feature
        if feature in self._totals:
            return self._add_single(tree, feature, values, weights)
        order = None
        if feature is None and self._totals:
            order = CellOrder.of_tree(tree, self._slopes, self._n_codes)
        found = values if order is None else order.nearest(values, weights)
        whole: np.ndarray = np.rint(found)
        return whole

    def _add_single(
        self, tree: Tree, feature: int, values: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Add a tree of one feature with a slope: the table goes its way across leaves."""
        slope, total = self._slopes[feature], self._totals[feature]
        leaf_of = tree.leaf_of_codes()[: len(total)].astype(np.int64)
        last = np.flatnonzero(np.diff(leaf_of[:-1]))  # codes of numbers that end a leaf
        leaves = leaf_of[np.append(last, len(total) - 2)]
        before = np.append(0, np.cumsum(slope * (total[last + 1] - total[last])))
        upward = slope * values[leaves] + before
        rise(upward, np.array(weights[leaves], dtype=np.float64))
        found: np.ndarray = np.rint(values)
        found[leaves] = slope * (np.rint(upward) - before)
        total += found[leaf_of]
        return found


@compiled
def rise(values, weights):  # type: ignore[no-untyped-def]
    """Replace values by the nearest ones that never fall: pool adjacent violators.

    The square of each value's change has a positive weight.
    """
    size, pools = values.size, 0
    mean, weight, last = np.empty(size), np.empty(size), np.empty(size, dtype=np.int64)
    for i in range(size):
        mean[pools], weight[pools], last[pools] = values[i], weights[i], i
        pools += 1
        while pools > 1 and mean[pools - 2] > mean[pools - 1]:
            both = weight[pools - 2] + weight[pools - 1]
            moved = weight[pools - 1] / both * (mean[pools - 1] - mean[pools - 2])
            mean[pools - 2] += moved
            weight[pools - 2], last[pools - 2] = both, last[pools - 1]
            pools -= 1
    first = 0
    for pool in range(pools):
        for i in range(first, last[pool] + 1):
            values[i] = mean[pool]
        first = last[pool] + 1


@compiled
def rise_in_order(values, weights, sequence, under):  # type: ignore[no-untyped-def]
    """Replace values by near ones that keep to a partial order: pool violators, one after another.

    Each cell in turn is a pool of its own. While a pool below it has a larger mean, it takes in
    the one with the largest, and what is below that: means of pools only fall thereby, so that
    those above stay above. `under` is `CellOrder.below`, and is overwritten: each pool's line has
    what is below any of its cells. Means are compared as they are returned, so that the order
    holds exactly.
    """
    size = values.size
    pool, mean, weight = np.full(size, -1), values.copy(), weights.copy()
    for turn in range(size):
        own = sequence[turn]
        pool[own] = own
        while True:
            above = -1
            for before in range(turn):
                cell = sequence[before]
                other = pool[cell]
                most = mean[own] if above < 0 else mean[above]
                if under[own, cell] and other != own and mean[other] > most:
                    above = other
            if above < 0:
                break
            both = weight[own] + weight[above]
            mean[own] = mean[above] + weight[own] / both * (mean[own] - mean[above])
            weight[own] = both
            for cell in range(size):
                under[own, cell] = under[own, cell] or under[above, cell]
                if pool[cell] == above:
                    pool[cell] = own
    for cell in range(size):
        values[cell] = mean[pool[cell]]


@compiled
def _find_reach(feature, goes_right, n_codes, reach):  # type: ignore[no-untyped-def]
    """Write for each leaf and level the codes of the level's feature that lead to the leaf.

    A code is a bit, of 64 a word; every node of that feature on the leaf's path counts.
    """
    leaves, depth, words = reach.shape
    bits = np.zeros((2, feature.size, words), dtype=np.uint64)
    for node in range(feature.size):
        for code in range(n_codes[node]):
            side = 1 if goes_right[node, code] else 0
            bits[side, node, code // 64] |= np.uint64(1) << np.uint64(code % 64)
    for leaf in range(leaves):
        for level in range(depth):
            own = 2**level - 1 + (leaf >> (depth - level))
            for word in range(words):
                reach[leaf, level, word] = ~np.uint64(0)
            for other in range(depth):
                node = 2**other - 1 + (leaf >> (depth - other))
                if feature[node] == feature[own]:
                    side = (leaf >> (depth - 1 - other)) & 1
                    for word in range(words):
                        reach[leaf, level, word] &= bits[side, node, word]


@compiled
def _any_code(bits, but):  # type: ignore[no-untyped-def]
    """Whether there is any code among these bits, except one (−1 is none)."""
    some = np.uint64(0)
    for word in range(bits.size):
        own = bits[word]
        if word == but // 64:
            own &= ~(np.uint64(1) << np.uint64(but % 64))
        some |= own
    return some != np.uint64(0)


@compiled
def _can_agree(feature, but, level, leaf, other, reach):  # type: ignore[no-untyped-def]
    """Whether rows of two leaves can have the same code of every feature but one.

    Their paths part at a level.
    """
    depth, words = reach.shape[1:]
    for one in range(level + 1, depth):
        own = feature[2**one - 1 + (leaf >> (depth - one))]
        if own == but:
            continue
        for two in range(level + 1, depth):
            if feature[2**two - 1 + (other >> (depth - two))] == own:
                some = np.uint64(0)
                for word in range(words):
                    some |= reach[leaf, one, word] & reach[other, two, word]
                if some == np.uint64(0):
                    return False
                break
    return True


@compiled
def _order_leaves(feature, slope_of, n_codes, reach, below):  # type: ignore[no-untyped-def]
    """Write which leaves are below others; see `CellOrder.of_tree`.

    Two rows that differ in one feature part at a node of it. Their leaves are in order if numbers
    of that feature lead to both, and some code of every other feature does: of one that only one
    path has below that node, any code that leads to that leaf leads to the other one.
    """
    leaves, depth, _ = reach.shape
    open_ = np.ones(leaves, dtype=np.bool_)
    for leaf in range(leaves):
        for level in range(depth):
            if not _any_code(reach[leaf, level], -1):
                open_[leaf] = False
    for node in range(feature.size):
        if slope_of[node] == 0:
            continue
        level = 0
        while 2 ** (level + 1) - 1 <= node:
            level += 1
        half, missing = leaves >> (level + 1), n_codes[node] - 1
        first = (node - (2**level - 1)) * 2 * half
        comes = np.empty(2 * half, dtype=np.bool_)  # by a number, not a missing value alone
        for k in range(2 * half):
            comes[k] = open_[first + k] and _any_code(reach[first + k, level], missing)
        for one in range(half):
            for two in range(half, 2 * half):
                low, high = first + one, first + two
                if not (comes[one] and comes[two]):
                    continue
                if not _can_agree(feature, feature[node], level, low, high, reach):
                    continue
                if slope_of[node] > 0:
                    below[high, low] = True
                else:
                    below[low, high] = True
