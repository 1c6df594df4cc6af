"""Complete binary trees of splits on the codes of columns, and the leaves of coded rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from privboost.data.rows import Codes
from privboost.trees import kernels

MAX_DEPTH = 12
_LEVELS, _MOST = 7, 64
"""The most levels with intervals, and intervals of a level: with more, look-ups are faster."""


class CodeIntervals(NamedTuple):
    """The code intervals of the first levels of a tree, as far as a level has few.

    Attributes
    ----------
    levels : int
        The number of these levels.
    first : int32 array
        The index of each node's first interval, and the end of the last node's: each has at least
        one, which may be empty.
    begin, length : uint16 arrays
        The first code, and the number of codes, of each interval.
    """

    levels: int
    first: np.ndarray
    begin: np.ndarray
    length: np.ndarray

    @classmethod
    def of(cls, goes_right: np.ndarray) -> CodeIntervals:
        """Find the intervals of a tree; see `Tree`."""
        first = np.zeros(2**_LEVELS, dtype=np.int32)
        begin, length = np.empty((2, _LEVELS * _MOST), dtype=np.uint16)
        levels = 0
        while levels < _LEVELS and 2**levels <= len(goes_right):
            own = slice(2**levels - 1, 2 ** (levels + 1) - 1)
            out = first[own.start :], begin, length
            if not kernels.find_intervals_of_level(goes_right[own], _MOST, *out):
                break
            levels += 1
        last = first[2**levels - 1]
        return cls(levels, first[: 2**levels], begin[:last], length[:last])


NO_INTERVALS = CodeIntervals.of(np.zeros((0, 1), dtype=np.uint8))
"""The intervals of a tree without nodes."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A complete tree of depth d: 2^d − 1 nodes, level by level, and 2^d leaves.

    Every kind of split (thresholds, categories, missing values) is a table from a column's code to
    left or right. A node that does not split sends all rows left.

    Attributes
    ----------
    feature : uint16 array of shape (nodes,)
        The feature of each node.
    goes_right : uint8 array of shape (nodes, codes)
        1 where a code goes right; as wide as the largest number of codes of the features used.
    """

    feature: np.ndarray
    goes_right: np.ndarray

    def __post_init__(self) -> None:
        nodes = len(self.feature)
        if nodes & (nodes + 1) or nodes >= 2**MAX_DEPTH or len(self.goes_right) != nodes:
            raise ValueError(f"a tree must be complete, and of depth {MAX_DEPTH} at most")

    @property
    def depth(self) -> int:
        """The number of splits between the root and a leaf."""
        return (len(self.feature) + 1).bit_length() - 1

    @property
    def n_leaves(self) -> int:
        """The number of leaves."""
        return len(self.feature) + 1

    @property
    def only_feature(self) -> int | None:
        """The feature of all nodes, or None if they have several."""
        first = self.feature[:1]
        return int(first[0]) if len(first) and (self.feature == first).all() else None

    @cached_property
    def intervals(self) -> CodeIntervals:
        """The code intervals that the nodes of the first levels send to the right."""
        return CodeIntervals.of(self.goes_right)

    def leaf_of_codes(self) -> np.ndarray:
        """Return the leaf of each code of a tree of one feature."""
        leaves = np.empty(self.goes_right.shape[1], dtype=np.uint16)
        kernels.leaves_of_codes(self.goes_right, leaves)
        leaves.flags.writeable = False  # as all cells of codes: one type for kernels
        return leaves

    def same_as(self, other: Tree) -> bool:
        """Whether two trees send every row to the same leaf through the same nodes."""
        if self is other or len(self.feature) == len(other.feature) == 0:
            return True
        return all(map(np.array_equal, *((t.feature, t.goes_right) for t in (self, other))))

    def level(self, depth: int) -> slice:
        """Return the nodes of a level."""
        return slice(2**depth - 1, 2 ** (depth + 1) - 1)

    def with_level(self, splits: Sequence[tuple[int, np.ndarray]], width: int = 1) -> Tree:
        """Return the tree with one more level: for each leaf, a feature and its split bitmask.

        The table of codes is at least `width` wide: with one width for all levels, shards recognise
        the levels above.
        """
        width = max([width, self.goes_right.shape[1], *(len(right) for _, right in splits)])
        goes_right = np.zeros((2 * len(splits) - 1, width), dtype=np.uint8)
        goes_right[: len(self.feature), : self.goes_right.shape[1]] = self.goes_right
        for line, (_, right) in zip(goes_right[len(self.feature) :], splits, strict=True):
            line[: len(right)] = right
        features = np.array([feature for feature, _ in splits], dtype=np.uint16)
        return Tree(np.concatenate([self.feature, features]), goes_right)

    def extends(self, other: Tree) -> bool:
        """Whether this tree is another one with more levels."""
        return other.depth < self.depth and self.top(other.depth).same_as(other)

    def top(self, depth: int) -> Tree:
        """Return the first levels of the tree."""
        nodes = 2**depth - 1
        return Tree(self.feature[:nodes], self.goes_right[:nodes])


def stump() -> Tree:
    """Return the tree of depth 0: one leaf that holds every row."""
    return Tree(np.zeros(0, dtype=np.uint16), np.zeros((0, 1), dtype=np.uint8))


def find_leaves(codes: Codes, tree: Tree) -> np.ndarray:
    """Return the leaf of each row in a tree: uint16."""
    leaf = np.empty(len(codes), dtype=np.uint16)
    slots, columns = codes.layout.slot_array[tree.feature], (codes.narrow, codes.wide)
    narrow, wide = (own.reshape(-1) for own in columns)
    how = (len(codes.narrow), slots, tree.goes_right, *tree.intervals)
    kernels.route_rows(narrow, wide, *how, 0, leaf)
    return leaf
