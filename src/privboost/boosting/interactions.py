"""What is known of how features act together on one output: pairs, and random trees.

Where to look is read off what was released about single features: those of a large effect are
looked at more often, at places that part their rows evenly; categories stand in the order of their
effects. A pair is asked about in a few cells of both features jointly, and the best one again now
and then; a tree is asked about once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from privboost.boosting.effects import VARIANCES, Effect, Heard, Noise, Step, mean_variance
from privboost.boosting.leaves import leaf_values
from privboost.boosting.pace import JOINT, Pace
from privboost.boosting.priors import grid_prior
from privboost.boosting.questions import shares_of
from privboost.compiling import compiled
from privboost.grid import SCORE_STEPS
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree

AGAIN = 0.25
"""How often the best pair is asked about again instead of a new one."""

_MOST_PAIRS = 150
"""Answers about pairs, about, of which there are no more than half."""

_NEWS = 0.1
"""How much one answer moves the belief about those of its kind."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where the codes of a feature stand: which share of the rows comes before, from 0 to 1.

    Attributes
    ----------
    of_code : float array
        The place of each code; categories of one bin have one place.
    missing : int or None
        The code of missing values of a number, which stand nowhere; a category's have a place.
    size : float
        How large the feature's effect is.
    """

    of_code: np.ndarray
    missing: int | None
    size: float

    @classmethod
    def of(cls, bin_of: np.ndarray, ordered: int, effect: Effect) -> Place:
        """Put the codes of a number in their order, and categories in that of their effects.

        The rows of a bin are taken to be spread evenly over its codes.
        """
        profile, values = effect.profile, effect.values
        order = np.arange(len(values)) if ordered else np.argsort(values, kind="stable")
        before = np.empty(len(values))
        before[order] = np.cumsum(profile[order]) - profile[order]
        number = np.arange(len(bin_of)) - np.searchsorted(bin_of, bin_of) if ordered else 0
        within = (number + 0.5) / np.bincount(bin_of)[bin_of] if ordered else 0.5
        mean = (profile * values).sum()
        size = float(np.sqrt((profile * (values - mean) ** 2).sum()))
        place = before[bin_of] + within * profile[bin_of]
        return cls(place, len(bin_of) - 1 if ordered else None, size)

    @classmethod
    def unknown(cls, bin_of: np.ndarray) -> Place:
        """Put all codes of a feature that nobody asked about in one place."""
        return cls(np.full(len(bin_of), 0.5), None, 0.0)

    def cells(self, count: int) -> np.ndarray:
        """Return for each code which of so many cells of about equal mass it lies in."""
        return np.minimum((self.of_code * count).astype(np.int64), count - 1)


@dataclass(eq=False)
class Pair:
    """What is known of two features jointly.

    Attributes
    ----------
    cells : CellMap
        The joint cells.
    effect : Effect
        The posterior of their values.
    told : int32 array
        What rows were told, in score steps.
    """

    cells: CellMap
    effect: Effect
    told: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.told = np.zeros(self.cells.n_cells, dtype=np.int32)

    def tell(self) -> np.ndarray:
        """Return by how much the values of its cells have changed since rows were told."""
        told = np.rint(self.effect.values * SCORE_STEPS).astype(np.int32)
        change: np.ndarray = told - self.told
        self.told = told
        return change

    @property
    def worth(self) -> float:
        """What it moves scores by, with some doubt about one that was asked about often."""
        moved = (np.maximum(self.effect.rows, 0) * self.effect.values**2).sum()
        return float(moved / np.sqrt(max(self.effect.asked, 1)))


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree that was asked about.

    Attributes
    ----------
    tree : Tree
        Its structure.
    told : int32 array
        What the rows of each leaf were told, in score steps.
    mass : float array
        The released Hessians of each leaf.
    noise : Noise
        The noise of the answer.
    variance : float
        The prior variance, on average over those that were weighed.
    part : float
        Which part of the way values went.
    """

    tree: Tree
    told: np.ndarray
    mass: np.ndarray
    noise: Noise
    variance: float
    part: float


class Interactions:
    """What is known of one output: all pairs and trees so far.

    Parameters
    ----------
    places : sequence of Place
        Where the codes of each feature stand.
    noise : Noise
        The noise of an answer.
    cells : int
        How many cells or leaves an answer has, about.
    rounds : int
        How many answers there will be.
    worth : tuple of float
        What one step of an answer's gradients and Hessians is worth.
    most : float
        What values are clipped to.
    free : bool sequence
        Which features may act together with others: those whose effects may go any way.
    questions : int
        How many are asked at once.
    """

    def __init__(
        self,
        places: Sequence[Place],
        noise: Noise,
        cells: int,
        rounds: int,
        worth: tuple[float, float],
        most: float,
        free: Sequence[bool],
        questions: int = 1,
    ) -> None:
        self.places, self._noise, self._worth, self._most = places, noise, worth, most
        self._pace = Pace(questions, JOINT)
        self.depth = max(round(float(np.log2(cells))), 2)
        self.side = int(min(max(cells**0.5, 3), 8))
        self._free = np.flatnonzero(free)
        chances = shares_of(np.array([place.size for place in places]))
        self._ends = np.cumsum(chances * np.asarray(free))
        self._pair_chance = min(0.5, _MOST_PAIRS / rounds)
        even = np.full(len(VARIANCES), 1 / len(VARIANCES))
        self._belief = {"pair": even, "tree": even}
        self.pairs: dict[tuple[int, int], Pair] = {}
        self.trees: list[Grown] = []
        self.steps: list[list[tuple[Pair, Step]] | list[Grown]] = []

    def next_pairs(self, count: int, generator: np.random.Generator) -> list[Pair]:
        """Return at most so many pairs to ask about next, or none: then it is a tree's turn."""
        chances = generator.random((count, 4))
        if chances[0, 0] >= self._pair_chance:
            return []
        return list({id(pair): pair for pair in map(self._pair, chances)}.values())

    def _pair(self, chances: np.ndarray) -> Pair:
        """Return the best pair so far, or any."""
        if self.pairs and chances[1] < AGAIN:
            return max(self.pairs.values(), key=lambda pair: pair.worth)
        first, second = (int(f) for f in self._features(chances[2:]))
        if first == second:
            steps = 1 + int(chances[1] * (len(self._free) - 1))
            place = int(np.searchsorted(self._free, first)) + steps
            second = int(self._free[place % len(self._free)])
        key = (min(first, second), max(first, second))
        if key not in self.pairs:
            parts = [CellMap.of_feature(f, self.places[f].cells(self.side), self.side) for f in key]
            effect = Effect(grid_prior(self.side), self._most, fade=1.0)
            self.pairs[key] = Pair(CellMap.joint(parts), effect)
        return self.pairs[key]

    def next_trees(self, count: int, generator: np.random.Generator) -> tuple[Tree, ...]:
        """Draw the next trees."""
        return tuple(self._tree(generator) for _ in range(count))

    def _tree(self, generator: np.random.Generator) -> Tree:
        """Draw a tree: where it cuts, rows are parted at any share with the same chance."""
        nodes = 2**self.depth - 1
        chances = generator.random((3, nodes))
        features = self._features(chances[0])
        cuts = np.empty(nodes)
        _draw_cuts(features, chances[1], cuts)
        of_code, missing, count = self._codes
        turns = np.empty((nodes, count[features].max()), dtype=np.uint8)
        _turn(features, cuts, chances[2], of_code, missing, turns)
        return Tree(features.astype(np.uint16), turns)

    @cached_property
    def _codes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The places of all features' codes, one feature a row; missing values' codes; counts."""
        of_code = np.full((len(self.places), max(len(p.of_code) for p in self.places)), -np.inf)
        for line, place in zip(of_code, self.places, strict=True):
            line[: len(place.of_code)] = place.of_code
        missing = [-1 if place.missing is None else place.missing for place in self.places]
        return of_code, np.array(missing), np.array([len(p.of_code) for p in self.places])

    def hear_pairs(self, pairs: Sequence[Pair], answers: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Take in answers about pairs; return by how much the values of their cells change."""
        heard = [self._hear_pair(pair, sums) for pair, sums in zip(pairs, answers, strict=True)]
        self._pace.heed(pair.effect.turn for pair in pairs)
        steps = [
            pair.effect.go(own, self._pace.part) for pair, own in zip(pairs, heard, strict=True)
        ]
        self.steps.append(list(zip(pairs, steps, strict=True)))
        return [pair.tell() for pair in pairs]

    def _hear_pair(self, pair: Pair, sums: np.ndarray) -> Heard:
        """Take in an answer about a pair."""
        gradient, hessian = self._read(sums)
        effect, belief = pair.effect, self._belief["pair"] + 0.02
        heard = effect.hear(np.arange(len(hessian)), gradient, hessian, self._noise, belief)
        self._learn("pair", effect.weights)
        return heard

    def hear_trees(self, trees: Sequence[Tree], answers: np.ndarray) -> np.ndarray:
        """Take in answers about trees; return the values of their leaves."""
        grown = [self._hear_tree(tree, sums) for tree, sums in zip(trees, answers, strict=True)]
        self.trees += grown
        self.steps.append(grown)
        return np.stack([own.told for own in grown])

    def _hear_tree(self, tree: Tree, sums: np.ndarray) -> Grown:
        """Take in an answer about a tree."""
        gradient, hessian = self._read(sums)
        belief = self._belief["tree"] + 0.02
        values, weights = leaf_values(gradient, hessian, self._noise, belief)
        self._learn("tree", weights)
        part = self._pace.part
        values = part * np.clip(values, -self._most, self._most)
        told: np.ndarray = np.rint(values * SCORE_STEPS).astype(np.int32)
        return Grown(tree, told, hessian, self._noise, mean_variance(weights), part)

    def _features(self, chances: np.ndarray) -> np.ndarray:
        """Draw features."""
        found = np.searchsorted(self._ends, chances * self._ends[-1], side="right")
        features: np.ndarray = np.minimum(found, self._free[-1])
        return features

    def _read(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return sums of −gradients and of Hessians."""
        gradient: np.ndarray = -sums[:, 0] * self._worth[0]
        hessian: np.ndarray = sums[:, 1] * self._worth[1]
        return gradient, hessian

    def _learn(self, kind: str, weights: np.ndarray) -> None:
        """Let an answer move the belief about its kind."""
        self._belief[kind] = (1 - _NEWS) * self._belief[kind] + _NEWS * weights


@compiled
def _draw_cuts(features, chances, cuts):  # type: ignore[no-untyped-def]
    """Draw where each node cuts: between those above it that look at the same feature."""
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
        cuts[node] = low + chances[node] * (high - low)


@compiled
def _turn(features, cuts, chances, of_code, missing, turns):  # type: ignore[no-untyped-def]
    """Write where each code goes at each node: right if it stands beyond the cut."""
    for node in range(features.size):
        place = of_code[features[node]]
        for code in range(turns.shape[1]):
            turns[node, code] = place[code] > cuts[node]
        if missing[features[node]] >= 0:
            turns[node, missing[features[node]]] = chances[node] < 0.5
