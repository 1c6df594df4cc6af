"""Data-independent trees: features and thresholds of nodes, drawn at random.

The draws are public, and independent of the rows and of the noise.
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
    """Generator of complete trees of one depth.

    Parameters
    ----------
    encoder : Encoder
        Features and their codes.
    depth : int
        Splits between the root and a leaf.
    features : "cyclical", "uniform", "all" or int
        Tree t has feature t alone, modulo their number; or each node has any feature ("uniform"
        and "all"); or each node has one of k features drawn for the tree.
    category_splits : {"subset", "one"}
        A node on a category sends a random half of the categories right, or a random one.
    generator : numpy.random.Generator
        Public randomness.
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
            Number of the tree.
        thresholds : Thresholds
            Thresholds of numbers.
        among : tuple of int, optional
            Features of the tree, where they are drawn already.
        """
        uniform = next(self._uniforms)
        feature = self._choose_features(number, uniform[0], among)
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
        count = len(self._n_codes)
        if self.features == "cyclical":
            return (number % count,)
        if isinstance(self.features, str):
            return tuple(range(count))
        return tuple(sorted(self.generator.permutation(count)[: self.features].tolist()))

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

    def _choose_features(
        self, number: int, uniform: np.ndarray, among: tuple[int, ...] | None
    ) -> np.ndarray:
        count = len(self._n_codes)
        if self.features == "cyclical":
            return np.full(len(uniform), number % count, dtype=np.uint16)
        if isinstance(self.features, str):
            return (uniform * count).astype(np.uint16)
        drawn = self.generator.permutation(count)[: int(self.features)] if among is None else among
        own = np.array(drawn, dtype=np.uint16)
        return own[(uniform * len(own)).astype(np.int64)]


@compiled
def send_codes(feature, codes, first, count, n_codes, uniform, bits, goes_right):  # type: ignore[no-untyped-def]
    """Write whether each code goes right at each node.

    Parameters
    ----------
    feature : int array
        Feature of each node.
    codes, first, count : int arrays
        See `Thresholds`.
    n_codes : int array
        Number of codes of each feature.
    uniform : float array of shape (2, nodes)
        Uniform numbers of each node that choose the threshold or category, and whether missing
        values go right (above one half).
    bits : float array of shape (nodes, codes), or of no size
        Uniform numbers of which categories above one half go right; without them the chosen one
        does.
    goes_right : uint8 array of shape (nodes, codes)
        Result.
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
