"""Where the rows on a device are in the trees it was asked about last: as `engine.routes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privboost.cuda.card import MANY_ROWS, spread
from privboost.cuda.places import Place, place_of_code
from privboost.cuda.rows import DeviceRows
from privboost.cuda.tasks import COUNT, ROUTE, Task
from privboost.trees.tree import Tree

_WIDE = 2**63
"""Marks columns of codes of two bytes."""
_MOST_NEAR = 2**15
"""Bytes of a tree that are brought near the threads of each block."""
_COLUMNS_OF_A_LEVEL = 5
"""To bring so many columns near takes as long as to lead rows down one level without that."""
_PITCH = 2064
"""Bytes of a column near: see `kernels/trees.cu`."""
_COUNT_COPIES = 8


@dataclass
class _Walk:
    """A tree, and how far rows were led down it: to which depth, and in which nodes they are."""

    tree: Tree
    depth: int = 0
    node: Any = None


class DeviceLeaves:
    """Finds the leaf of each row, and remembers it until other trees are asked about."""

    def __init__(self, rows: DeviceRows) -> None:
        self._rows = rows
        self._walks: list[_Walk] = []
        self._unused: list[Any] = []

    def follow(self, trees: tuple[Tree, ...]) -> None:
        """Turn to these trees."""
        walks = self._walks
        if len(trees) == len(walks) and all(
            tree.same_as(walk.tree) for tree, walk in zip(trees, walks, strict=True)
        ):
            return
        if len(trees) == len(walks) == 1 and _goes_on(walks[0].tree, trees[0]):
            walks[0].tree = trees[0]
        else:
            self._unused += [walk.node for walk in walks if walk.node is not None]
            self._walks = [_Walk(tree) for tree in trees]

    def place(self, number: int, first: int = 0) -> Place:
        """Return the leaves of a tree as cells; those of a tree of one feature by its codes."""
        tree = self._walks[number].tree
        if tree.only_feature is None:
            return Place((self.nodes(number),), (None,), (tree.n_leaves,), first)
        return place_of_code(*self._by_code(tree), first)

    def values(self, number: int, values: np.ndarray) -> Place:
        """Return the leaves of a tree with values."""
        tree = self._walks[number].tree
        if tree.only_feature is None:
            return Place((self.nodes(number),), (None,), (tree.n_leaves,), values=values)
        column, leaf_of = self._by_code(tree)
        return Place((column,), (None,), (len(leaf_of),), values=values[leaf_of])

    def _by_code(self, tree: Tree) -> tuple[Any, np.ndarray]:
        feature = int(tree.feature[0])
        assert self._rows.layout is not None
        return self._rows.columns[feature], tree.leaf_of_codes()[
            : self._rows.layout.n_codes[feature]
        ]

    def nodes(self, number: int) -> Any:
        """Return the leaf of each row (uint16) in a tree."""
        walk, rows = self._walks[number], self._rows
        tree, device = walk.tree, rows.device
        if walk.node is not None and walk.depth == tree.depth:
            return walk.node
        if walk.node is None:
            walk.node = self._unused.pop() if self._unused else rows.room(np.uint16)
        first = 2**walk.depth - 1
        used = np.unique(tree.feature[first:])
        turns = _packed(tree)
        task = Task(ROUTE, node=device.target(walk.node), n=rows.n, nodes=len(turns), first=first)
        task.set(words=turns.shape[1], turns=task.put(turns))
        if self._pays_near(used, turns, tree.depth - walk.depth):
            slots = np.searchsorted(used, tree.feature).astype(np.uint16)
            task.set(columns=task.put(self._columns(used)), n_columns=len(used))
            task.set(slots=task.put(slots))
            device.launch("route_near", task, near=_near(used, turns), **spread(device, rows.n, 2))
        else:
            near = len(turns) * 8 + turns.nbytes
            near = near if near <= _MOST_NEAR else 0
            task.set(columns=task.put(self._columns(tree.feature)), near=near)
            device.launch("route", task, near=near, **spread(device, rows.n, 4))
        walk.depth = tree.depth
        return walk.node

    def _pays_near(self, used: np.ndarray, turns: np.ndarray, levels: int) -> bool:
        """Whether rows are sooner led where all columns that nodes look at are brought near."""
        rows = self._rows
        narrow = all(rows.columns[feature].dtype.itemsize == 1 for feature in used)
        fits = _near(used, turns) <= rows.device.near_all // 2 - 2048  # two blocks a multiprocessor
        few = len(used) <= _COLUMNS_OF_A_LEVEL * levels
        return rows.n >= MANY_ROWS and narrow and fits and few

    def _columns(self, features: np.ndarray) -> np.ndarray:
        """Return where the columns of nodes lie, and how wide they are."""
        lie = np.zeros(len(self._rows.columns), dtype=np.uint64)
        for feature in np.unique(features):
            column = self._rows.columns[feature]
            wide = _WIDE if column.dtype.itemsize == 2 else 0
            lie[feature] = self._rows.device.address(column) + wide
        own: np.ndarray = lie[features]
        return own

    def counts(self) -> Any:
        """Return how many rows are in each leaf of the first tree (int64, on the device)."""
        rows, leaves = self._rows, self._walks[0].tree.n_leaves
        node, device = self.nodes(0), rows.device
        out = device.zeros(leaves, np.int64)
        task = Task(
            COUNT, node=device.address(node), out=device.address(out), n=rows.n, leaves=leaves
        )
        how = spread(device, rows.n, 4)
        copies = min(_COUNT_COPIES, how["threads"])
        task.set(copies=copies)
        device.launch("count_leaves", task, near=4 * leaves * copies, **how)
        return out


def _packed(tree: Tree) -> np.ndarray:
    """Return where codes go, a bit a code: uint32 of shape (nodes, words)."""
    nodes, codes = tree.goes_right.shape
    turns = np.zeros((nodes, 4 * -(-codes // 32)), dtype=np.uint8)
    packed = np.packbits(tree.goes_right, axis=1, bitorder="little")
    turns[:, : packed.shape[1]] = packed
    return turns.view(np.uint32)


def _near(used: np.ndarray, turns: np.ndarray) -> int:
    """Return how many bytes `route_near` has near."""
    return len(used) * _PITCH + turns.nbytes + 2 * len(turns)


def _goes_on(known: Tree, tree: Tree) -> bool:
    """Whether a tree is another one, grown deeper."""
    return known.depth < tree.depth and tree.top(known.depth).same_as(known)
