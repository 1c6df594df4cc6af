"""The structure of a complete binary tree, as rows meet it: look at a column, go left or right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privboost.trees import kernels
from privboost.trees.runs import Runs

MAX_DEPTH = 12


@dataclass(frozen=True, eq=False)
class Tree:
    """A complete tree of depth d: 2^d − 1 nodes, level by level, and 2^d leaves.

    Every kind of split (threshold, categories, where missing values go) is a line of look-ups
    from a column's code to left or right. A node that does not split sends all rows left.

    Attributes
    ----------
    feature : uint16 array of shape (nodes,)
        The feature each node looks at.
    goes_right : uint8 array of shape (nodes, codes)
        1 where a code goes right; as wide as the largest number of codes of the features used.
    """

    feature: np.ndarray
    goes_right: np.ndarray

    def __post_init__(self) -> None:
        nodes = len(self.feature)
        if nodes & (nodes + 1) or nodes >= 2**MAX_DEPTH or len(self.goes_right) != nodes:
            raise ValueError(f"a complete tree of depth {MAX_DEPTH} at most is needed")

    @property
    def depth(self) -> int:
        """How many splits lie between the root and a leaf."""
        return (len(self.feature) + 1).bit_length() - 1

    @property
    def n_leaves(self) -> int:
        """The number of leaves."""
        return len(self.feature) + 1

    @property
    def only_feature(self) -> int | None:
        """The one feature that all nodes look at, or None."""
        first = self.feature[:1]
        return int(first[0]) if len(first) and (self.feature == first).all() else None

    @cached_property
    def runs(self) -> Runs:
        """The runs of codes that the nodes of the first levels send to the right."""
        return Runs.of(self.goes_right)

    def leaf_of_codes(self) -> np.ndarray:
        """Return the leaf of each code, where all nodes look at one feature."""
        leaves = np.empty(self.goes_right.shape[1], dtype=np.uint16)
        kernels.leaves_of_codes(self.goes_right, leaves)
        leaves.flags.writeable = False  # as all cells of codes: one type for kernels
        return leaves

    def same_as(self, other: Tree) -> bool:
        """Say whether two trees send every row to the same leaf by the same nodes."""
        if self is other or len(self.feature) == len(other.feature) == 0:
            return True
        return np.array_equal(self.feature, other.feature) and np.array_equal(
            self.goes_right, other.goes_right
        )

    def level(self, depth: int) -> slice:
        """Which nodes form a level."""
        return slice(2**depth - 1, 2 ** (depth + 1) - 1)

    def with_level(self, splits: Sequence[tuple[int, np.ndarray]], width: int = 1) -> Tree:
        """Return the tree one level deeper: for each leaf, a feature and where its codes go.

        The table of codes is at least `width` wide: one width for all levels lets those who have
        seen the levels above know them again.
        """
        width = max([width, self.goes_right.shape[1], *(len(turns) for _, turns in splits)])
        goes_right = np.zeros((2 * len(splits) - 1, width), dtype=np.uint8)
        goes_right[: len(self.feature), : self.goes_right.shape[1]] = self.goes_right
        for line, (_, turns) in zip(goes_right[len(self.feature) :], splits, strict=True):
            line[: len(turns)] = turns
        features = np.array([feature for feature, _ in splits], dtype=np.uint16)
        return Tree(np.concatenate([self.feature, features]), goes_right)

    def top(self, depth: int) -> Tree:
        """Return the first levels of the tree."""
        nodes = 2**depth - 1
        return Tree(self.feature[:nodes], self.goes_right[:nodes])


def stump() -> Tree:
    """Return the tree of depth 0: one leaf that holds every row."""
    return Tree(np.zeros(0, dtype=np.uint16), np.zeros((0, 1), dtype=np.uint8))
