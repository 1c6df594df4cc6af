"""Kernels that predict with many trees by their unique splits.

Thousands of nodes have few unique splits: a feature of 193 codes has 192 thresholds. Each split is
compared with a stride of rows once; a node then costs a few operations on bitmasks.
"""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled, inlined
from privboost.trees.turn_kernels import find_runs, lead_stride, mark_lines, start_at_root
from privboost.trees.turn_words import STRIDE, WORDS, write_nodes

_PRIME, _BASIS = 0x100000001B3, 0xCBF29CE484222325
"""Constants of the hash FNV-1a."""


@compiled
def number_lines(feature, goes_right, table, line_of, first_seen):
    """Number the unique splits of nodes; a split is a feature and a bitmask of codes.

    Parameters
    ----------
    feature : uint16 array of shape (nodes,)
        The feature of each node.
    goes_right : uint8 array of shape (nodes, bytes)
        The bitmasks of codes that go right.
    table : int32 array, its length a power of two and twice that of nodes, or more
        A hash table; −1 everywhere.
    line_of : int32 array of shape (nodes,)
        The number of each node's split; written.
    first_seen : int32 array of shape (nodes,)
        The first node of each split; written.

    Returns
    -------
    int
        How many unique splits there are.
    """
    found, mask = 0, np.uint64(table.size - 1)
    for node in range(feature.size):
        place = (np.uint64(_BASIS) ^ np.uint64(feature[node])) * np.uint64(_PRIME)
        for k in range(goes_right.shape[1]):
            place = (place ^ np.uint64(goes_right[node, k])) * np.uint64(_PRIME)
        place = (place ^ place >> np.uint64(32)) & mask
        while table[place] >= 0 and not _same(feature, goes_right, node, first_seen[table[place]]):
            place = place + np.uint64(1) & mask
        if table[place] < 0:
            table[place], first_seen[found] = found, node
            found += 1
        line_of[node] = table[place]
    return found


@inlined
def _same(feature, goes_right, node, other):
    same = feature[node] == feature[other]
    for k in range(goes_right.shape[1]):
        same &= goes_right[node, k] == goes_right[other, k]
    return same


@compiled
def deal_lines(line_of, known, most, out, lines, begins):
    """Divide trees into batches with few unique splits each, and number the splits of each batch.

    Parameters
    ----------
    line_of, known : int32 array of shape (trees, nodes), int
        The split of each node, and how many splits there are.
    most : int
        How many splits a batch may have: at least as many as a tree has nodes.
    out : uint16 array of shape (trees, nodes)
        The number of each node's split in its batch; written.
    lines : int32 array of shape (trees · nodes,)
        The splits of all batches, one after the other; written.
    begins : int64 array of shape (trees + 1, 2)
        The first tree and the first split of each batch, and the ends; written.

    Returns
    -------
    int
        How many batches there are.
    """
    batch_of, tree_of = np.full((2, known), -1)
    place = np.empty(known, dtype=np.uint16)
    batch, total = -1, 0
    for tree in range(line_of.shape[0]):
        new = 0
        for line in line_of[tree]:
            if batch_of[line] != batch and tree_of[line] != tree:
                tree_of[line] = tree
                new += 1
        if batch < 0 or total + new - begins[batch, 1] > most:
            batch += 1
            begins[batch, 0], begins[batch, 1] = tree, total
        for node in range(line_of.shape[1]):
            line = line_of[tree, node]
            if batch_of[line] != batch:
                batch_of[line], place[line] = batch, total - begins[batch, 1]
                lines[total] = line
                total += 1
            out[tree, node] = place[line]
    begins[batch + 1, 0], begins[batch + 1, 1] = line_of.shape[0], total
    return batch + 1


@compiled
def find_runs_of_lines(goes_right, most, first, begin, length, many):
    """Write the intervals of splits; splits with many are marked, and get an empty interval.

    Parameters
    ----------
    goes_right : uint8 array of shape (lines, codes)
    most : int
        How many intervals are not many.
    first, begin, length : arrays
        See `trees.turn_kernels.find_runs_of_level`; there is memory for `most` of each split.
    many : bool array
        Whether a split has many.
    """
    first[0] = 0
    for line in range(goes_right.shape[0]):
        found = find_runs(goes_right[line], most, begin, length, first[line])
        many[line] = found < 0
        if found < 0:
            begin[first[line]], length[first[line]] = 0, 0
            found = first[line] + 1
        first[line + 1] = found


@inlined
def _turn(narrow, wide, slot, bits, row):
    """Return 1 if a bitmask of codes sends a row to the right, else 0."""
    slot = np.int64(slot)
    if slot < narrow.shape[0]:
        code = np.int64(narrow[slot, row])
    else:
        code = np.int64(wide[slot - narrow.shape[0], row])
    return np.int64(bits[code >> 3]) >> (code & 7) & 1


@inlined
def _mark_by_look_up(narrow, wide, place, slots, many, bits, turns):
    """Write the bitmasks of the splits with many intervals, by look-up."""
    for k in range(many.size):
        line = many[k]
        for word in range(WORDS):
            found = np.uint64(0)
            for bit in range(64):
                turn = _turn(narrow, wide, slots[line], bits[k], np.int64(place) + 64 * word + bit)
                found |= np.uint64(turn) << np.uint64(bit)
            turns[WORDS * line + word] = found


@inlined
def _descend(narrow, wide, slots, goes_right, level, node, row):
    """Return the leaf of a row, from its node at a level on."""
    while (1 << level) <= slots.size:
        own = (1 << level) - 1 + node
        node = 2 * node + _turn(narrow, wide, slots[own], goes_right[own], row)
        level += 1
    return node


@compiled
def add_trees_by_row(narrow, wide, slots, goes_right, values, scores):
    """Add the values of trees to the scores of rows, row by row.

    Parameters
    ----------
    narrow, wide : arrays of shape (columns, rows)
        Codes.
    slots : uint16 array of shape (trees, nodes)
        The columns of nodes, narrow ones first.
    goes_right : uint8 array of shape (trees, nodes, bytes)
        The bitmasks of codes that go right.
    values : int32 array of shape (trees, outputs, leaves)
        The values of leaves.
    scores : int32 array of shape (outputs, rows)
    """
    for tree in range(slots.shape[0]):
        for row in range(scores.shape[1]):
            leaf = _descend(narrow, wide, slots[tree], goes_right[tree], 0, 0, row)
            for output in range(scores.shape[0]):
                scores[output, row] += values[tree, output, leaf]


@compiled
def add_trees_by_line(
    narrow, wide, slots, runs, many, bits, line_of, deep_slots, goes_right, values, scores
):
    """Add the values of trees to the scores of at least 512 rows, by unique splits.

    Parameters
    ----------
    slots : uint16 array
        The column of each split.
    runs : tuple of first, begin, length
        The intervals of each split; see `find_runs_of_lines`.
    many, bits : int64 array, uint8 array of shape (lines, bytes)
        The splits with many intervals, and their bitmasks of codes.
    line_of : uint16 array of shape (trees, nodes)
        The split of each node of the first levels.
    deep_slots, goes_right : arrays
        The whole trees, for levels below; see `add_trees_by_row`.
    """
    first, begin, length = runs
    trees, nodes = line_of.shape
    levels = 0
    while (1 << levels) <= nodes:
        levels += 1
    rows, stride = np.uint64(scores.shape[1]), np.uint64(STRIDE)
    thin, broad, lines = narrow.reshape(-1), wide.reshape(-1), line_of.reshape(-1)
    turns, by_level = np.empty(WORDS * slots.size, np.uint64), np.empty(WORDS * levels, np.uint64)
    at_node, leaf = start_at_root(nodes), np.empty(STRIDE, dtype=np.uint16)
    for start in range(np.uint64(0), rows, stride):
        place = start if start + stride <= rows else rows - stride  # some rows are routed twice
        mark_lines(thin, broad, rows, place, slots, first, begin, length, slots.size, turns)
        _mark_by_look_up(narrow, wide, place, slots, many, bits, turns)
        for tree in range(np.uint64(trees)):
            lead_stride(turns, lines, tree * np.uint64(nodes), levels, at_node, by_level)
            write_nodes(by_level, np.uint64(levels), leaf, np.uint64(0))
            if deep_slots.shape[1] > nodes:
                own_slots, own_turns = deep_slots[tree], goes_right[tree]
                for k in range(STRIDE):
                    row = np.int64(place) + k
                    leaf[k] = _descend(narrow, wide, own_slots, own_turns, levels, leaf[k], row)
            for output in range(scores.shape[0]):  # each row once
                for k in range(start - place, stride):
                    scores[output, place + k] += values[tree, output, leaf[k]]
