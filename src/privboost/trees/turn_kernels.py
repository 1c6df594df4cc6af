"""Kernels that route rows by comparisons of their codes with intervals, 512 rows at a time.

A node sends the codes of some intervals ("runs") to the right: most often one. Processors compare
64 codes with the ends of an interval in a few instructions, so evaluating all nodes of a level for
all rows is faster than looking up each row's own node, as long as intervals are few. Indices are
unsigned, as in `engine.kernels`.
"""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled, inlined
from privboost.trees.turn_words import STRIDE, WORDS, add_run, part_rows, set_run, write_nodes

_MOST_NARROW = 255
_MOST_WIDE = 2**16 - 1
"""The longest interval of codes in a column of one byte (see `tables.layout`), and of two."""


@inlined
def find_runs(line, most, begin, length, found):
    """Write the intervals of codes that go right: at least one, which may be empty.

    Parameters
    ----------
    line : uint8 array
        1 for each code that goes right.
    most : int
        How many intervals there may be.
    begin, length : uint16 arrays
        The first code of each interval, and its length; written.
    found : int
        How many intervals were written before.

    Returns
    -------
    int
        How many there are now; −1 if there are too many.
    """
    before, code = found, 0
    while code < line.size:
        end = code
        while end < line.size and line[end] and end - code < _MOST_WIDE:
            end += 1
        if end > code:
            if found - before >= most:
                return -1
            begin[found], length[found] = code, end - code
            found += 1
        code = max(end, code + 1)
    if found == before:
        if most < 1:
            return -1
        begin[found], length[found] = 0, 0
        found += 1
    return found


@compiled
def find_runs_of_level(goes_right, most, first, begin, length):
    """Write the intervals of all nodes of a level, which together may have `most`.

    Parameters
    ----------
    goes_right : uint8 array of shape (nodes, codes)
    first : int32 array
        The index of each node's first interval, and the end of the last node's; all but the first
        entry are written.

    Returns
    -------
    bool
        Whether there are no more than `most`.
    """
    for node in range(goes_right.shape[0]):
        left = most - (first[node] - first[0])
        found = find_runs(goes_right[node], left, begin, length, first[node])
        if found < 0:
            return False
        first[node + 1] = found
    return True


@inlined
def mark_lines(narrow, wide, rows, place, slots, first, begin, length, lines, turns):
    """Write the bitmasks of unique splits: which rows of a stride each sends to the right.

    Parameters
    ----------
    narrow, wide : arrays
        Codes, column after column.
    rows, place : int
        The rows of a column, and the first row of the stride.
    slots : uint16 array
        The column of each split, narrow ones first.
    first, begin, length : arrays
        The intervals of each split; see `find_runs`. (Not a tuple: unpacking one changes reference
        counts of its arrays, for which threads wait for each other.)
    lines : int
        How many splits there are.
    turns : uint64 array
        The bitmasks, `WORDS` words for each split; written.
    """
    one, thin = np.uint64(1), np.uint64(narrow.size)
    for line in range(np.uint64(lines)):
        slot, at = np.uint64(slots[line]), line * np.uint64(WORDS)
        run, last = np.uint64(first[line]), np.uint64(first[line + one])
        start = slot * rows + place
        if start < thin:
            set_run(narrow, start, *_narrowed(begin[run], length[run]), turns, at)
            for more in range(run + one, last):
                add_run(narrow, start, *_narrowed(begin[more], length[more]), turns, at)
        else:
            set_run(wide, start - thin, begin[run], length[run], turns, at)
            for more in range(run + one, last):
                add_run(wide, start - thin, begin[more], length[more], turns, at)


@inlined
def _narrowed(begin, length):
    """Return the part of an interval that a column of one byte can have."""
    low = min(np.uint64(begin), np.uint64(_MOST_NARROW))
    return np.uint8(low), np.uint8(min(np.uint64(length), np.uint64(_MOST_NARROW) - low))


@inlined
def lead_stride(turns, line_of, root, levels, at_node, by_level):
    """Route the rows of a stride down a tree.

    Parameters
    ----------
    turns : uint64 array
        The bitmasks of unique splits.
    line_of, root : uint16 array, int
        The split of each node, and the index of the root.
    levels : int
        How many levels there are.
    at_node : uint64 array
        Bitmasks of the rows at each node; all rows are at the first.
    by_level : uint64 array
        Bitmasks of the rows that go right at each level; written.
    """
    one = np.uint64(1)
    for level in range(np.uint64(levels)):
        nodes = one << level
        deeper, first = level + one < levels, root + nodes - one
        part_rows(turns, line_of, first, nodes, at_node, by_level, level, deeper)


@inlined
def start_at_root(nodes):
    """Return the bitmasks of rows at each node, with all rows of a stride at the root."""
    at_node = np.empty(WORDS * nodes, dtype=np.uint64)
    at_node[:WORDS] = ~np.uint64(0)
    return at_node


@inlined
def turn_rows(narrow, wide, slots, runs, node):
    """Route at least `FEWEST_ROWS` rows from the root down the levels that have intervals.

    Parameters
    ----------
    narrow, wide : arrays of shape (columns, rows)
        Codes.
    slots : uint16 array
        The column of each node, narrow ones first.
    runs : Runs
        The intervals that go right; see `trees.runs`.
    node : uint16 array
        The node of each row, numbered within its level; written.
    """
    levels, first, begin, length = runs
    thin, broad = narrow.reshape(-1), wide.reshape(-1)
    rows, stride, nodes = np.uint64(node.size), np.uint64(STRIDE), (1 << levels) - 1
    turns, by_level = np.empty(WORDS * nodes, np.uint64), np.empty(WORDS * levels, np.uint64)
    at_node, line_of = start_at_root(nodes), np.arange(nodes).astype(np.uint16)
    for start in range(np.uint64(0), rows, stride):
        place = start if start + stride <= rows else rows - stride  # some rows are routed twice
        mark_lines(thin, broad, rows, place, slots, first, begin, length, nodes, turns)
        lead_stride(turns, line_of, np.uint64(0), levels, at_node, by_level)
        write_nodes(by_level, np.uint64(levels), node, place)
