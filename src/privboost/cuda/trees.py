"""Trees on a device: leaf assignment and node histograms, as `engine` has them for CPUs.

Features have no joint codes here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privboost.cuda.device import COUNT, MANY_ROWS, ROUTE, SIBLINGS, Task, spread
from privboost.cuda.rows import DeviceRows
from privboost.cuda.sums import Part, part_of_codes, sum_by_node
from privboost.engine.node_histograms import Level
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree

_WIDE = 2**63
"""Marks addresses of columns with two-byte codes."""
_MOST_SHARED = 2**15
"""The largest tree in shared memory, in bytes."""
_COLUMNS_OF_A_LEVEL = 5
"""Copying so many columns to shared memory takes as long as one level without that."""
_PITCH = 2064
"""Bytes of a column in shared memory: see `kernels/trees.cu`."""
_COUNT_COPIES = 8


@dataclass
class _Descent:
    """A tree, and the nodes that rows have reached in it at some depth."""

    tree: Tree
    depth: int = 0
    node: Any = None


class DeviceLeaves:
    """Finds the leaf of each row, and caches it until other trees are set."""

    def __init__(self, rows: DeviceRows) -> None:
        self._rows = rows
        self._descents: list[_Descent] = []
        self._unused: list[Any] = []

    def set_trees(self, trees: tuple[Tree, ...]) -> None:
        """Set the trees; what is cached of them is kept."""
        known = self._descents
        if len(trees) == len(known) and all(
            tree.same_as(descent.tree) for tree, descent in zip(trees, known, strict=True)
        ):
            return
        if len(trees) == len(known) == 1 and trees[0].extends(known[0].tree):
            known[0].tree = trees[0]
        else:
            self._unused += [descent.node for descent in known if descent.node is not None]
            self._descents = [_Descent(tree) for tree in trees]

    def part(self, number: int, first: int = 0) -> Part:
        """Return the leaves of a tree as cells; a tree of one feature is summed by code."""
        tree = self._descents[number].tree
        if tree.only_feature is None:
            return Part((self.nodes(number),), (None,), (tree.n_leaves,), first)
        return part_of_codes(*self._by_code(tree), first)

    def values(self, number: int, values: np.ndarray) -> Part:
        """Return the leaves of a tree with values."""
        tree = self._descents[number].tree
        if tree.only_feature is None:
            return Part((self.nodes(number),), (None,), (tree.n_leaves,), values=values)
        column, leaf_of = self._by_code(tree)
        return Part((column,), (None,), (len(leaf_of),), values=values[leaf_of])

    def _by_code(self, tree: Tree) -> tuple[Any, np.ndarray]:
        feature = int(tree.feature[0])
        assert self._rows.layout is not None
        return self._rows.columns[feature], tree.leaf_of_codes()[
            : self._rows.layout.n_codes[feature]
        ]

    def nodes(self, number: int) -> Any:
        """Return the leaf of each row (uint16) in a tree."""
        descent, rows = self._descents[number], self._rows
        tree, device = descent.tree, rows.device
        if descent.node is not None and descent.depth == tree.depth:
            return descent.node
        if descent.node is None:
            descent.node = self._unused.pop() if self._unused else rows.allocate(np.uint16)
        first = 2**descent.depth - 1
        used = np.unique(tree.feature[first:])
        bitmask = _packed(tree)
        task = Task(
            ROUTE, node=device.target(descent.node), n=rows.n, nodes=len(bitmask), first=first
        )
        task.set(words=bitmask.shape[1], bitmask=task.put(bitmask))
        if self._pays_tiles(used, bitmask, tree.depth - descent.depth):
            slots = np.searchsorted(used, tree.feature).astype(np.uint16)
            task.set(columns=task.put(self._columns(used)), n_columns=len(used))
            task.set(slots=task.put(slots))
            device.launch(
                "route_tiles", task, shared=_tile_bytes(used, bitmask), **spread(device, rows.n, 2)
            )
        else:
            shared = len(bitmask) * 8 + bitmask.nbytes
            shared = shared if shared <= _MOST_SHARED else 0
            task.set(columns=task.put(self._columns(tree.feature)), shared=shared)
            device.launch("route", task, shared=shared, **spread(device, rows.n, 4))
        descent.depth = tree.depth
        return descent.node

    def _pays_tiles(self, used: np.ndarray, bitmask: np.ndarray, levels: int) -> bool:
        """Whether assignment is faster with all columns of the nodes in shared memory."""
        rows = self._rows
        narrow = all(rows.columns[feature].dtype.itemsize == 1 for feature in used)
        fits = (
            _tile_bytes(used, bitmask) <= rows.device.shared_memory_all // 2 - 2048
        )  # two blocks a multiprocessor
        few = len(used) <= _COLUMNS_OF_A_LEVEL * levels
        return rows.n >= MANY_ROWS and narrow and fits and few

    def _columns(self, features: np.ndarray) -> np.ndarray:
        """Return the addresses of the nodes' columns, marked if wide."""
        found = np.zeros(len(self._rows.columns), dtype=np.uint64)
        for feature in np.unique(features):
            column = self._rows.columns[feature]
            wide = _WIDE if column.dtype.itemsize == 2 else 0
            found[feature] = self._rows.device.address(column) + wide
        own: np.ndarray = found[features]
        return own

    def counts(self) -> Any:
        """Return the rows of each leaf of the first tree (int64, on the device)."""
        rows, leaves = self._rows, self._descents[0].tree.n_leaves
        node, device = self.nodes(0), rows.device
        out = device.zeros(leaves, np.int64)
        task = Task(
            COUNT, node=device.address(node), out=device.address(out), n=rows.n, leaves=leaves
        )
        how = spread(device, rows.n, 4)
        copies = min(_COUNT_COPIES, how["threads"])
        task.set(copies=copies)
        device.launch("count_leaves", task, shared=4 * leaves * copies, **how)
        return out


def _packed(tree: Tree) -> np.ndarray:
    """Return the split bitmask of each node, one bit per code: uint32 of shape (nodes, words)."""
    nodes, codes = tree.goes_right.shape
    bitmask = np.zeros((nodes, 4 * -(-codes // 32)), dtype=np.uint8)
    packed = np.packbits(tree.goes_right, axis=1, bitorder="little")
    bitmask[:, : packed.shape[1]] = packed
    return bitmask.view(np.uint32)


def _tile_bytes(used: np.ndarray, bitmask: np.ndarray) -> int:
    """Return the shared memory of `route_tiles`, in bytes."""
    return len(used) * _PITCH + bitmask.nbytes + 2 * len(bitmask)


@dataclass
class DeviceGrower:
    """Sums by node and cell, with sibling subtraction between levels."""

    rows: DeviceRows
    leaves: DeviceLeaves
    _last: tuple[Level, Any] | None = None

    def forget(self) -> None:
        """Drop the last histograms: the scores of rows have changed."""
        self._last = None

    def answer(self, level: Level, pairs: Any) -> np.ndarray:
        """Return the exact histograms (nodes, cells, 2) of the pairs of rows."""
        rows, device = self.rows, self.rows.device
        out = device.zeros((level.tree.n_leaves, level.cells.n_cells, 2), np.int64)
        self.leaves.set_trees((level.tree,))
        parts = separate_parts(rows, level.cells)
        siblings = None
        if self._last is not None and level.is_below(self._last[0]):
            siblings = self._siblings(out, self._last[1])
        chosen = None if siblings is None else siblings[1]
        weighted = rows.weight is not None
        sum_by_node(device, pairs, self.leaves.nodes(0), chosen, parts, out, rows.n, weighted)
        if siblings is not None:
            device.launch("subtract_siblings", siblings[0], blocks=device.processors)
        self._last = level, out
        return device.fetch(out)

    def _siblings(self, out: Any, parent: Any) -> tuple[Task, Any]:
        """Choose the sibling of each pair that is added up; the other is a difference."""
        device, (leaves, cells) = self.rows.device, out.shape[:2]
        counts, chosen = self.leaves.counts(), device.zeros(leaves, np.uint8)
        task = Task(SIBLINGS, leaves=leaves, cells=cells, counts=device.address(counts))
        task.set(
            chosen=device.address(chosen), out=device.address(out), parent=device.address(parent)
        )
        device.launch("choose_siblings", task, blocks=1)
        return task, chosen


def separate_parts(rows: DeviceRows, cells: CellMap) -> list[Part]:
    """Return the cells of each feature, of parts that are one feature each."""
    return [
        Part((rows.columns[part.features[0]],), part.cell_of, part.sizes, first)
        for part, first in zip(cells.parts, cells.first, strict=True)
    ]
