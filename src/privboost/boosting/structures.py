"""Data-independent trees: which features nodes look at, and where they split, drawn at random.

The draws are public and independent of the noise; nothing here has seen a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat

import numpy as np

from privboost.boosting.candidates import Thresholds
from privboost.compiling import compiled
from privboost.tables.encoding import Encoder
from privboost.trees.tree import Tree

CATEGORY_SPLITS = ("subset", "one")

_TREES_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class RandomTrees:
    """Draws complete trees of one depth.

    Parameters
    ----------
    encoder : Encoder
        The features and their codes.
    depth : int
        How many splits lie between the root and a leaf.
    features : "cyclical", "uniform", "all" or int
        Tree t looks at feature t only, counted round and round; or each node looks at any (both
        words); or each node looks at one of k features drawn for the tree.
    category_splits : {"subset", "one"}
        A node on a category sends a random half of the categories right, or a random one.
    generator : numpy.random.Generator
        The public randomness.
    """

    encoder: Encoder
    depth: int
    features: str | int
    category_splits: str
    generator: np.random.Generator

    def draw(
        self, number: int, thresholds: Thresholds, among: tuple[int, ...] | None = None
    ) -> Tree:
        """Draw the tree of a round.

        Parameters
        ----------
        number : int
            The number of the tree.
        thresholds : Thresholds
            Where numbers may be split.
        among : tuple of int, optional
            The features that it may look at, where they are drawn already.
        """
        chance = next(self._chances)
        feature = self._choose_features(number, chance[0], among)
        goes_right = np.empty((len(feature), self._n_codes[feature].max()), dtype=np.uint8)
        halves = self.category_splits == "subset"
        bits = self.generator.random(goes_right.shape if halves else (0, 0), dtype=np.float32)
        turn_codes(
            feature,
            thresholds.codes,
            thresholds.first,
            thresholds.count,
            self._n_codes,
            chance[1:],
            bits,
            goes_right,
        )
        return Tree(feature, goes_right)

    def features_of(self, number: int) -> tuple[int, ...]:
        """Return the features that greedy trees of a round may look at."""
        count = len(self._n_codes)
        if self.features == "cyclical":
            return (number % count,)
        if isinstance(self.features, str):
            return tuple(range(count))
        return tuple(sorted(self.generator.permutation(count)[: self.features].tolist()))

    def deepen(
        self, tree: Tree, number: int, thresholds: Thresholds, among: tuple[int, ...]
    ) -> Tree:
        """Return a tree with random levels below, down to this structure's depth.

        They look at the features of the levels above, `among`.
        """
        if tree.depth == self.depth:
            return tree
        whole = self.draw(number, thresholds, among)
        for depth in range(tree.depth, self.depth):
            level = whole.level(depth)
            lines = zip(whole.feature[level], whole.goes_right[level], strict=True)
            tree = tree.with_level([(int(feature), turns) for feature, turns in lines])
        return tree

    @cached_property
    def _n_codes(self) -> np.ndarray:
        return np.array(self.encoder.layout.n_codes)

    @cached_property
    def _chances(self) -> Iterator[np.ndarray]:
        """Three numbers for each node of a tree, drawn for many trees at a time."""
        shape = (_TREES_AT_ONCE, 3, 2**self.depth - 1)
        return chain.from_iterable(self.generator.random(shape) for _ in repeat(None))

    def _choose_features(
        self, number: int, chance: np.ndarray, among: tuple[int, ...] | None
    ) -> np.ndarray:
        count = len(self._n_codes)
        if self.features == "cyclical":
            return np.full(len(chance), number % count, dtype=np.uint16)
        if isinstance(self.features, str):
            return (chance * count).astype(np.uint16)
        drawn = self.generator.permutation(count)[: int(self.features)] if among is None else among
        own = np.array(drawn, dtype=np.uint16)
        return own[(chance * len(own)).astype(np.int64)]


@compiled
def turn_codes(feature, codes, first, count, n_codes, chance, bits, goes_right):  # type: ignore[no-untyped-def]
    """Write where each code of each node goes.

    Parameters
    ----------
    feature : int array
        The feature of each node.
    codes, first, count : int arrays
        See `Thresholds`.
    n_codes : int array
        The number of codes of each feature.
    chance : float array of shape (2, nodes)
        For each node, which threshold or category it splits at, and whether missing values go
        right (above one half).
    bits : float array of shape (nodes, codes), or of no size
        If given, categories above one half go right; else the chosen one does.
    goes_right : uint8 array of shape (nodes, codes)
        The result.
    """
    for node in range(feature.size):
        own = feature[node]
        turns = goes_right[node]
        if count[own] > 0:
            last_left = codes[first[own] + int(chance[0, node] * count[own])]
            for code in range(turns.size):
                turns[code] = code > last_left
        elif count[own] == 0:  # one span only
            turns[:] = 0
        elif bits.size:
            for code in range(turns.size):
                turns[code] = bits[node, code] > 0.5
        else:  # any category, or other
            chosen = int(chance[0, node] * (n_codes[own] - 1))
            for code in range(turns.size):
                turns[code] = code == chosen
        turns[n_codes[own] - 1] = chance[1, node] > 0.5
