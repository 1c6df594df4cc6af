"""Interactions of features on one output: pairs, and random trees.

Pairs and trees are drawn from released values of single features: those of a large effect are drawn
more often, and cut at noisy quantiles; categories are in the order of their effects. A pair is
measured in a few joint cells of both features, and the best one again now and then; a tree is
measured once. Both keep to groups of features that may interact. Where pairs are named, or their
number is limited, there are no trees, and every pair is measured in turn. Values of both keep to
monotone constraints. A rule divides measurements between them and single features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privboost._core.compilation import compiled
from privboost._core.grid import SCORE_STEPS
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import NoisySums
from privboost.recipes.common.allowed_interactions import Allowed
from privboost.recipes.common.monotone import CellOrder
from privboost.recipes.common.posterior import (
    JOINT,
    VARIANCES,
    Effect,
    Noise,
    Observation,
    Step,
    StepDamping,
    grid_prior,
    leaf_values,
    main_direction,
    mean_variance,
    pooled_profile,
    read_sums,
    shares_of,
    weight_and_precision,
)
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree

AGAIN = 0.25
"""Probability that the best pair is measured again instead of a new one."""

_MOST_PAIRS = 150
"""Approximate number of measurements of pairs, at most half of all."""

_FOCUS = 0.7
"""Part of the draws of features that follows the size of their own effects, at first."""

_LEARNED = 0.7
"""Part of the draws of trees' features that follows what trees found, if it is quite clear."""

_CLEARLY = 5.0
"""Standard errors of the clearest feature's finding with which it is half clear."""

_FEWEST_ROWS = 3.0
"""Hessian of a child, in standard deviations of its noise, from which its value is read."""

_NEWS = 0.1
"""Weight of one measurement in the prior of its kind (pair or tree)."""


def describe(single: int = 0, joint: int = 0, classes: int = 1) -> str:
    """Describe a round about so many features, pairs or trees; which does not change its cost."""
    if single:
        cells = "a feature" if single == 1 else f"each of {single} features"
    elif joint == 1:
        cells = "two features, or by leaf of a tree"
    else:
        cells = f"each of {joint} pairs of features, or by leaf of each of {joint} trees"
    of_all = " of all classes" if classes > 1 else ""
    return f"gradients and Hessians{of_all} by cell of {cells}"


@dataclass(frozen=True)
class InteractionRule:
    """Division of measurements between single features and interactions.

    It reads public facts and released values alone, and is part of the plan's digest (with the
    names of its fields). Parts are of the reserved budget (on μ²); cells are those that a joint
    query could have: see `PrivBoostPlan._cells`.

    Attributes
    ----------
    tried : int
        Joint measurements, for half of the budget, with which the cells are estimated.
    fewest : float
        Cells at and below which there are no interactions.
    steep : float
        Part of the budget for each doubling of the cells beyond `fewest`.
    most_part : float
        Largest part of the budget.
    count : float
        Joint measurements for a part of 1, while there are few cells.
    many : float
        Cells beyond which the number of measurements grows with the root of the cells.
    most_count : int
        Most joint measurements.
    """

    tried: int = 100
    fewest: float = 1.4
    steep: float = 0.25
    most_part: float = 0.7
    count: float = 400.0
    many: float = 60.0
    most_count: int = 1500

    def divide(self, cells: float) -> tuple[float, int]:
        """Return the part of interactions and the number of their measurements."""
        part = self.steep * math.log2(max(cells, 1e-300) / self.fewest)
        part = min(max(part, 0.0), self.most_part)
        count = self.count * part * max(math.sqrt(cells / self.many), 1.0)
        return part, int(min(count, self.most_count))


@dataclass(frozen=True)
class Measurements:
    """Measurements that are made once the number of rows is known.

    Releases of one round about features, and about pairs or trees; so many rounds of each, of so
    many queries. A query is about all classes.
    """

    single: NoisySums
    joint: NoisySums | None
    n_single: int
    n_joint: int
    single_queries: int
    joint_queries: int

    def planned(self) -> list[Planned]:
        """Return all releases, to replace the reserved one."""
        single = [Planned(self.single, self.n_single)]
        if self.joint is None:
            return single
        return [*single, Planned(self.joint, self.n_joint)]


@dataclass(frozen=True, eq=False)
class CodeQuantiles:
    """Quantiles of a feature's codes: the share of rows before each, from 0 to 1.

    Categories of one bin share one. `missing` is the code of missing values of a number, which have
    no order (a category's have a quantile); `size` is that of the feature's effect.
    """

    of_code: np.ndarray
    missing: int | None
    size: float

    @classmethod
    def of(cls, bin_of: np.ndarray, ordered: int, effects: Sequence[Effect]) -> CodeQuantiles:
        """Return the quantiles of a number's codes, or of categories in order of their effects.

        The rows of a bin are taken to be spread evenly over its codes. With effects on several
        classes, categories are in the order of the sum of effects in which they differ most.
        """
        profile, values = effects[0].profile, effects[0].values
        if len(effects) > 1:
            profile = pooled_profile(effects)
            values = main_direction(profile, np.stack([effect.values for effect in effects]))
        order = np.arange(len(values)) if ordered else np.argsort(values, kind="stable")
        before = np.empty(len(values))
        before[order] = np.cumsum(profile[order]) - profile[order]
        number = np.arange(len(bin_of)) - np.searchsorted(bin_of, bin_of) if ordered else 0
        within = (number + 0.5) / np.bincount(bin_of)[bin_of] if ordered else 0.5
        mean = (profile * values).sum()
        size = float(np.sqrt((profile * (values - mean) ** 2).sum()))
        quantile = before[bin_of] + within * profile[bin_of]
        if ordered:  # whatever rounding does, larger numbers have no smaller quantiles
            quantile[:-1] = np.maximum.accumulate(quantile[:-1])
        return cls(quantile, len(bin_of) - 1 if ordered else None, size)

    @classmethod
    def unknown(cls, bin_of: np.ndarray) -> CodeQuantiles:
        """Return one quantile for all codes of a feature that was not measured."""
        return cls(np.full(len(bin_of), 0.5), None, 0.0)

    def cells(self, count: int) -> np.ndarray:
        """Return the cell of each code, of so many cells of about equal mass."""
        return np.minimum((self.of_code * count).astype(np.int64), count - 1)


@dataclass(frozen=True, eq=False)
class Pair:
    """Joint effect of two features: its cells, and the posterior of their values."""

    cells: CellMap
    effect: Effect

    @property
    def key(self) -> tuple[int, int]:
        """The indices of the two features."""
        first, second = self.cells.parts[0].features
        return first, second

    @property
    def gain(self) -> float:
        """Variance of scores that it explains, discounted by the number of measurements."""
        return self._explained(self.effect.values)

    @property
    def expected_gain(self) -> float:
        """The same of its posterior mean, before rows take any of it."""
        return self._explained(self.effect.goal)

    def _explained(self, values: np.ndarray) -> float:
        moved = (np.maximum(self.effect.rows, 0) * values**2).sum()
        return float(moved / np.sqrt(max(self.effect.n_observed, 1)))


@dataclass(frozen=True, eq=False)
class FittedTree:
    """Tree that was measured: published values of its leaves, and what they follow from.

    `mass` are the released Hessians of each leaf, `variance` the weighted mean of the prior
    variances, and `part` the fraction of the step that values took.
    """

    tree: Tree
    published: np.ndarray
    mass: np.ndarray
    noise: Noise
    variance: float
    part: float


@dataclass(frozen=True, eq=False)
class _Group:
    """Features that may interact, and the sums of all features' shares within it up to each."""

    features: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, features: Sequence[int], shares: np.ndarray) -> _Group:
        """Return a group, given the shares of all features."""
        inside = np.zeros(len(shares), dtype=np.bool_)
        inside[list(features)] = True
        return cls(np.array(features), np.cumsum(shares * inside))

    def draw(self, uniforms: np.ndarray) -> np.ndarray:
        """Draw features in proportion to the sizes of their effects."""
        found = np.searchsorted(self.ends, uniforms * self.ends[-1], side="right")
        features: np.ndarray = np.minimum(found, self.features[-1])
        return features


class Interactions:
    """Pairs and trees of one output so far.

    Queries have about `cells` cells or leaves, and `rounds` measurements are to come, of so many
    `queries` each. `scale` has the values of one grid step of gradients and of Hessians, and `most`
    bounds values.
    """

    def __init__(
        self,
        quantiles: Sequence[CodeQuantiles],
        noise: Noise,
        cells: int,
        rounds: int,
        scale: tuple[float, float],
        most: float,
        allowed: Allowed,
        queries: int = 1,
    ) -> None:
        self.quantiles, self._noise, self._scale, self._most = quantiles, noise, scale, most
        self._damping = StepDamping(queries, JOINT)
        self.depth = max(round(float(np.log2(cells))), 2)
        self.side = int(min(max(cells**0.5, 3), 8))
        self._allowed = allowed
        self._shares = shares_of(np.array([own.size for own in quantiles]), _FOCUS)
        self._groups = [_Group.of(group, self._shares) for group in allowed.groups]
        self._found = np.zeros((2, len(quantiles)))
        self._for_group = int(len(self._groups) > 1)  # random numbers that choose a group
        self._group_ends = np.cumsum([group.ends[-1] for group in self._groups])
        self._pair_probability = min(0.5, _MOST_PAIRS / rounds)
        even = np.full(len(VARIANCES), 1 / len(VARIANCES))
        self._belief = {"pair": even, "tree": even}
        self.pairs: dict[tuple[int, int], Pair] = {}
        self.trees: list[FittedTree] = []
        self.steps: list[list[tuple[Pair, Step]] | list[FittedTree]] = []
        for key in self._first_pairs():
            self.pair_of(key)

    def _first_pairs(self) -> Sequence[tuple[int, int]]:
        """Return the pairs to measure in turn: those named, or those of the largest effects."""
        allowed = self._allowed
        if allowed.pairs is not None or allowed.most_pairs is None:
            return allowed.pairs or ()
        return allowed.largest_pairs(self._shares, allowed.n_tried or allowed.n_pairs or 0)

    def next_pairs(
        self, count: int, generator: np.random.Generator, others: Sequence[Interactions] = ()
    ) -> list[Pair]:
        """Return at most so many pairs to measure next, or none: then trees are measured.

        `others` are the interactions of other classes, which are measured by the same queries.
        """
        together = (self, *others)
        if self._allowed.n_pairs is not None:
            return self._pairs_in_turn(count, together)
        uniforms = generator.random((count, 4 + self._for_group))
        if uniforms[0, 0] >= self._pair_probability:
            return []
        pairs = [self._pair(own, together) for own in uniforms]
        return list({id(pair): pair for pair in pairs}.values())

    @property
    def _is_choosing(self) -> bool:
        """Whether there are more pairs than will be kept."""
        most = self._allowed.n_pairs
        return most is not None and len(self.pairs) > most

    def _pairs_in_turn(self, count: int, together: Sequence[Interactions]) -> list[Pair]:
        """Return pairs that were measured least; of those that were tried, the best are kept."""
        pairs = sorted(self.pairs.values(), key=lambda pair: pair.effect.n_observed)
        if not self._is_choosing:
            return pairs[:count]
        untried = [pair for pair in pairs if not pair.effect.n_observed]
        if not untried:
            best = sorted(
                self.pairs, key=lambda key: -sum(own.pairs[key].expected_gain for own in together)
            )
            for own in together:
                own.pairs = {key: own.pairs[key] for key in best[: self._allowed.n_pairs]}
            return self._pairs_in_turn(count, together)
        return untried[:count]

    def _pair(self, uniforms: np.ndarray, together: Sequence[Interactions]) -> Pair:
        """Return the best pair so far, or a random one."""
        if self.pairs and uniforms[1] < AGAIN:
            return self.pairs[
                max(self.pairs, key=lambda key: sum(own.pairs[key].gain for own in together))
            ]
        group = self._group(uniforms[4:])
        first, second = (int(f) for f in group.draw(uniforms[2:4]))
        if first == second:
            steps = 1 + int(uniforms[1] * (len(group.features) - 1))
            at = int(np.searchsorted(group.features, first)) + steps
            second = int(group.features[at % len(group.features)])
        key = (min(first, second), max(first, second))
        for own in together[1:]:
            own.pair_of(key)
        return self.pair_of(key)

    def pair_of(self, key: tuple[int, int]) -> Pair:
        """Return the pair of two features, a new one if there is none."""
        if key not in self.pairs:
            parts = [
                CellMap.of_feature(f, self.quantiles[f].cells(self.side), self.side) for f in key
            ]
            slopes = (self._allowed.slopes[key[0]], self._allowed.slopes[key[1]])
            order = CellOrder.of_pair((self.side, self.side), slopes) if any(slopes) else None
            effect = Effect(grid_prior(self.side), self._most, fade=1.0, order=order)
            self.pairs[key] = Pair(CellMap.joint(parts), effect)
        return self.pairs[key]

    def _group(self, uniforms: np.ndarray) -> _Group:
        """Draw a group, in proportion to the sizes of its effects; the only one needs no number."""
        if not self._for_group:
            return self._groups[0]
        ends = self._group_ends
        found = int(np.searchsorted(ends, uniforms[0] * ends[-1], side="right"))
        return self._groups[min(found, len(self._groups) - 1)]

    def next_trees(self, count: int, generator: np.random.Generator) -> tuple[Tree, ...]:
        """Draw the next trees."""
        return tuple(self._tree(generator) for _ in range(count))

    def _tree(self, generator: np.random.Generator) -> Tree:
        """Draw a tree: thresholds are uniform over the quantiles that its path leaves."""
        nodes = 2**self.depth - 1
        group = self._group(generator.random(self._for_group))
        uniforms = generator.random((3, nodes))
        features = group.draw(uniforms[0])
        cuts = np.empty(nodes)
        _draw_cuts(features, uniforms[1], cuts)
        of_code, missing, count = self._codes
        goes_right = np.empty((nodes, count[features].max()), dtype=np.uint8)
        _goes_right(features, cuts, uniforms[2], of_code, missing, goes_right)
        return Tree(features.astype(np.uint16), goes_right)

    @cached_property
    def _codes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Quantiles of all codes, one feature a row; codes of missing values; numbers of codes."""
        most = max(len(own.of_code) for own in self.quantiles)
        of_code = np.full((len(self.quantiles), most), -np.inf)
        for line, own in zip(of_code, self.quantiles, strict=True):
            line[: len(own.of_code)] = own.of_code
        missing = [-1 if own.missing is None else own.missing for own in self.quantiles]
        return of_code, np.array(missing), np.array([len(p.of_code) for p in self.quantiles])

    def observe_pairs(
        self, pairs: Sequence[Pair], measured: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Update the posteriors of pairs with noisy sums; return the changes of their values."""
        observed = [
            self._observe_pair(pair, sums) for pair, sums in zip(pairs, measured, strict=True)
        ]
        if self._is_choosing:  # rows take nothing of a pair before it is kept
            steps = [pair.effect.step(own, 0.0) for pair, own in zip(pairs, observed, strict=True)]
        else:
            steps = self._damping.steps([pair.effect for pair in pairs], observed)
        self.steps.append(list(zip(pairs, steps, strict=True)))
        return [pair.effect.publish() for pair in pairs]

    def _observe_pair(self, pair: Pair, sums: np.ndarray) -> Observation:
        """Update the posterior of a pair."""
        descent, hessian = read_sums(sums, self._scale)
        effect, belief = pair.effect, self._belief["pair"] + 0.02
        observed = effect.observe(np.arange(len(hessian)), descent, hessian, self._noise, belief)
        self._learn("pair", effect.weights)
        return observed

    def observe_trees(self, trees: Sequence[Tree], measured: np.ndarray) -> np.ndarray:
        """Fit trees to noisy sums; return the values of their leaves."""
        grown = [self._observe_tree(tree, sums) for tree, sums in zip(trees, measured, strict=True)]
        self.trees += grown
        self.steps.append(grown)
        return np.stack([own.published for own in grown])

    def replace_leaves(self, published: np.ndarray) -> None:
        """Replace the values of the leaves of the trees that were measured last."""
        count = len(published)
        grown = [
            replace(own, published=values)
            for own, values in zip(self.trees[-count:], published, strict=True)
        ]
        self.trees[-count:] = self.steps[-1] = grown

    def _observe_tree(self, tree: Tree, sums: np.ndarray) -> FittedTree:
        """Fit the leaves of a tree."""
        descent, hessian = read_sums(sums, self._scale)
        belief = self._belief["tree"] + 0.02
        values, weights = leaf_values(descent, hessian, self._noise, belief)
        self._learn("tree", weights)
        self._find(tree, descent, hessian)
        part = self._damping.part
        order = CellOrder.of_tree(tree, self._allowed.slopes, self._codes[2])
        if order is not None:
            values = order.nearest(values, weight_and_precision(hessian, self._noise)[0])
        values = part * np.clip(values, -self._most, self._most)
        published: np.ndarray = np.rint(values * SCORE_STEPS).astype(np.int32)
        return FittedTree(tree, published, hessian, self._noise, mean_variance(weights), part)

    def _find(self, tree: Tree, descent: np.ndarray, hessian: np.ndarray) -> None:
        """Draw features more often between whose children trees found a difference.

        An interaction that no single feature shows, such as a parity, is found so.
        """
        noise, nodes = self._noise, tree.feature.astype(np.int64)
        errors = float(noise.gradient), float(noise.hessian), noise.gradient_variance
        add_differences(nodes, descent, hessian, *errors, _FEWEST_ROWS, self._found)
        sure = np.maximum(self._found[0], 1e-300)
        mean, error = self._found[1] / sure, np.sqrt(2 / sure)
        size = np.sqrt(np.maximum(mean - error, 0.0))
        total = float(size.sum())
        if total > 0:
            clear = float((mean / error).max())
            part = _LEARNED * clear / (clear + _CLEARLY)
            shares = (1 - part) * self._shares + part * size / total
            self._groups = [_Group.of(own.features.tolist(), shares) for own in self._groups]
            self._group_ends = np.cumsum([own.ends[-1] for own in self._groups])

    def _learn(self, kind: str, weights: np.ndarray) -> None:
        """Update the prior of a kind (pair or tree) with the weights of one measurement."""
        self._belief[kind] = (1 - _NEWS) * self._belief[kind] + _NEWS * weights


@compiled
def add_differences(features, descent, hessian, noise, floor, spread, fewest, found):  # type: ignore[no-untyped-def]
    """Add the squared difference of each node's children to what was found about its feature.

    The variance of the difference, due to noise and sampling, is subtracted, so that the estimate
    is without bias. `found` has the sums of precisions, and of estimates times precisions.
    """
    leaves = hessian.size
    total, weight = np.empty(2 * leaves - 1), np.empty(2 * leaves - 1)
    total[leaves - 1 :], weight[leaves - 1 :] = descent, hessian
    below = 1.0  # leaves below a child
    for node in range(leaves - 2, -1, -1):
        left, right = 2 * node + 1, 2 * node + 2
        total[node], weight[node] = total[left] + total[right], weight[left] + weight[right]
        if 2 * node + 2 < leaves / below:
            below *= 2
        least = fewest * floor * math.sqrt(below) + 1
        if weight[left] < least or weight[right] < least:
            continue
        first, second = 1 / weight[left], 1 / weight[right]
        apart = total[left] * first - total[right] * second
        variance = noise * noise * below * (first * first + second * second)
        variance += spread * (first + second)
        found[0, features[node]] += 1 / (variance * variance)
        found[1, features[node]] += (apart * apart - variance) / (variance * variance)


@compiled
def _draw_cuts(features, uniforms, cuts):  # type: ignore[no-untyped-def]
    """Draw the threshold of each node, between those of the same feature above it."""
    for node in range(features.size):
        low, high, below = 0.0, 1.0, node
        while below > 0:
            above = (below - 1) // 2
            if features[above] == features[node]:
                if below == 2 * above + 1:
                    high = min(high, cuts[above])
                else:
                    low = max(low, cuts[above])
            below = above
        cuts[node] = low + uniforms[node] * (high - low)


@compiled
def _goes_right(features, cuts, uniforms, of_code, missing, goes_right):  # type: ignore[no-untyped-def]
    """Write whether each code goes right at each node: if its quantile is above the threshold."""
    for node in range(features.size):
        quantile = of_code[features[node]]
        for code in range(goes_right.shape[1]):
            goes_right[node, code] = quantile[code] > cuts[node]
        if missing[features[node]] >= 0:
            goes_right[node, missing[features[node]]] = uniforms[node] < 0.5
