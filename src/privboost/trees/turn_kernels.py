"""Rows down a tree by comparisons, a stride of rows at a time, compiled by numba.

A node sends the codes of some runs to the right: most often one run. Processors compare 64 codes
with the ends of a run in a few instructions, so that asking all nodes of a level about all rows,
wherever these are, is faster than finding out for each row which node to ask; as long as runs are
few. Indices are unsigned, as in `engine.kernels`.
"""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled
from privboost.trees.turn_words import STRIDE, WORDS, add_run, part_rows, set_run, write_nodes

_MOST_NARROW = 255
_MOST_WIDE = 2**16 - 1
"""Codes of a run: of a column of bytes, which has no more (see `tables.layout`), and of another."""


@compiled
def find_runs(line, most, begin, length, found):
    """Write which runs of codes go right: at least one, be it empty.

    Parameters
    ----------
    line : uint8 array
        Where codes go.
    most : int
        How many runs there may be.
    begin, length : uint16 arrays
        Room for the first code of each run, and for how many codes it has.
    found : int
        How many were written before.

    Returns
    -------
    int
        How many there are now; −1 if there would be too many.
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
    """Do `find_runs` for all nodes of a level, which together have so many at most.

    Parameters
    ----------
    goes_right : uint8 array of shape (nodes, codes)
    first : int32 array
        Room for the place of each node's first run, of which the first is there, and for where the
        last one's end.

    Returns
    -------
    bool
        Whether there were no more.
    """
    for node in range(goes_right.shape[0]):
        left = most - (first[node] - first[0])
        found = find_runs(goes_right[node], left, begin, length, first[node])
        if found < 0:
            return False
        first[node + 1] = found
    return True


@compiled
def mark_lines(narrow, wide, rows, place, slots, first, begin, length, lines, turns):
    """Mark which rows of a stride some lines send to the right.

    Parameters
    ----------
    narrow, wide : arrays
        Codes, column after column.
    rows, place : int
        How many there are of a column, and where the stride begins.
    slots : uint16 array
        Which of these columns each line is about, narrow ones first.
    first, begin, length : arrays
        Where the runs of each line begin, and these; see `find_runs`. (Not a tuple: to take one
        apart counts who uses its arrays, and threads would wait for each other to count.)
    lines : int
        How many there are.
    turns : uint64 array
        Where to write the words of each.
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


@compiled
def _narrowed(begin, length):
    """Return the part of a run that a column of bytes has; lines are as long as any needs them."""
    low = min(np.uint64(begin), np.uint64(_MOST_NARROW))
    return np.uint8(low), np.uint8(min(np.uint64(length), np.uint64(_MOST_NARROW) - low))


@compiled
def lead_stride(turns, line_of, root, levels, at_node, by_level):
    """Lead the rows of a stride down a tree.

    Parameters
    ----------
    turns : uint64 array
        Who would go right, line by line.
    line_of, root : uint16 array, int
        The line of each node, and where that of the root stands.
    levels : int
        How many there are.
    at_node : uint64 array
        Room for who is at each node; all are at the first.
    by_level : uint64 array
        Room for who goes right at each level.
    """
    one = np.uint64(1)
    for level in range(np.uint64(levels)):
        nodes = one << level
        deeper, first = level + one < levels, root + nodes - one
        part_rows(turns, line_of, first, nodes, at_node, by_level, level, deeper)


@compiled
def start_at_root(nodes):
    """Return room for who is at each node, and all of a stride at the first."""
    at_node = np.empty(WORDS * nodes, dtype=np.uint64)
    at_node[:WORDS] = ~np.uint64(0)
    return at_node


@compiled
def turn_rows(narrow, wide, slots, runs, node):
    """Lead rows, `FEWEST_ROWS` or more, from the root down the levels that have runs: one or more.

    Parameters
    ----------
    narrow, wide : arrays of shape (columns, rows)
        Codes.
    slots : uint16 array
        Which of these columns each node looks at, narrow ones first.
    runs : Runs
        What goes right; see `trees.runs`.
    node : uint16 array
        Where to write the node of each row, numbered within its level.
    """
    levels, first, begin, length = runs
    thin, broad = narrow.reshape(-1), wide.reshape(-1)
    rows, stride, nodes = np.uint64(node.size), np.uint64(STRIDE), (1 << levels) - 1
    turns, by_level = np.empty(WORDS * nodes, np.uint64), np.empty(WORDS * levels, np.uint64)
    at_node, line_of = start_at_root(nodes), np.arange(nodes).astype(np.uint16)
    for start in range(np.uint64(0), rows, stride):
        place = start if start + stride <= rows else rows - stride  # some are led twice
        mark_lines(thin, broad, rows, place, slots, first, begin, length, nodes, turns)
        lead_stride(turns, line_of, np.uint64(0), levels, at_node, by_level)
        write_nodes(by_level, np.uint64(levels), node, place)
