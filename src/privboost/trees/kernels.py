"""Kernels that route rows down a tree. Indices are unsigned, as in `engine.kernels`."""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled, inlined
from privboost.trees.turn_kernels import turn_rows
from privboost.trees.turn_words import FEWEST_ROWS

LANES = 4
"""Copies of a small count: neighbouring rows add to different ones and seldom wait."""


@inlined
def route_level(narrow, wide, slots, goes_right, node):
    """Move each row from its node of one level to a child: node ← 2·node + (0 left, 1 right).

    Parameters
    ----------
    slots : uint16 array
        The column of each node of the level, narrow ones first.
    goes_right : uint8 array of shape (nodes, codes)
        For each node and code, whether the row goes right.
    """
    rows, n_narrow = np.uint64(node.size), np.uint64(narrow.shape[0])
    stride = np.uint64(goes_right.shape[1])
    turns, thin, broad = goes_right.reshape(-1), narrow.reshape(-1), wide.reshape(-1)
    some_wide = False
    start = np.empty(slots.size, dtype=np.uint64)
    for k in range(slots.size):
        start[k] = np.uint64(slots[k]) * rows
        some_wide |= slots[k] >= n_narrow
    if not some_wide:
        for i in range(rows):
            at = np.uint64(node[i])
            node[i] = at + at + np.uint64(turns[at * stride + np.uint64(thin[start[at] + i])])
        return
    for i in range(rows):
        at = np.uint64(node[i])
        if slots[at] < n_narrow:
            code = np.uint64(thin[start[at] + i])
        else:
            code = np.uint64(broad[start[at] - n_narrow * rows + i])
        node[i] = at + at + np.uint64(turns[at * stride + code])


@compiled
def route_rows(narrow, wide, slots, goes_right, runs, depth, node):
    """Move each row from its node at a depth down to its leaf.

    Parameters
    ----------
    slots, goes_right : arrays
        The tree; see `route_level`.
    runs : Runs
        The intervals by which rows are routed down the first levels; see `trees.runs`.
    depth : int
        The depth of the rows' nodes. At depth 0 the nodes are not read.
    node : uint16 array
        The node of each row, numbered within its level.
    """
    if depth == 0 and runs[0] > 0 and node.size >= FEWEST_ROWS:
        turn_rows(narrow, wide, slots, runs, node)
        depth = runs[0]
    elif depth == 0:
        node[:] = 0
    first = (1 << depth) - 1
    while first < slots.size:
        last = 2 * first + 1
        route_level(narrow, wide, slots[first:last], goes_right[first:last], node)
        first = last


@compiled
def leaves_of_codes(goes_right, out):
    """Write the leaf of each code in a complete tree that splits one feature only."""
    for code in range(np.uint64(out.size)):
        node = np.uint64(0)
        while node < goes_right.shape[0]:
            node = node + node + np.uint64(1) + np.uint64(goes_right[node, code])
        out[code] = node - np.uint64(goes_right.shape[0])


@inlined
def count_leaves(leaf, out):
    """Add to the counts of rows by leaf."""
    leaves = np.uint64(out.size)
    counts = np.zeros(LANES * out.size, dtype=np.int32)
    for i in range(np.uint64(leaf.size)):
        counts[(i & np.uint64(LANES - 1)) * leaves + np.uint64(leaf[i])] += 1
    for k in range(np.uint64(counts.size)):
        out[k % leaves] += counts[k]
