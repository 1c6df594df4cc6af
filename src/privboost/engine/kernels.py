"""Per-row work: integer table look-ups, compiled by numba.

Kernels see one block. They know no ε and draw nothing; they read integers and add integers, so
their results do not depend on the order of rows, on threads or on machines. Indices are unsigned
because signed ones make numba test for negative indices at every access.
"""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled

LANES = 4
"""Copies of a small histogram, used in turn: neighbouring rows then seldom wait for each other."""


@compiled
def bin_numbers(values, edges, missing, out):
    """Write the bin of each number: how many edges lie below it. NaN has the code `missing`."""
    for i in range(np.uint64(values.size)):
        value = np.float64(values[i])
        if value != value:
            out[i] = missing
            continue
        low, high = np.uint64(0), np.uint64(edges.size)
        while low < high:
            middle = (low + high) >> np.uint64(1)
            if edges[middle] < value:
                low = middle + np.uint64(1)
            else:
                high = middle
        out[i] = low


@compiled
def _cells(state, size, shift):
    """Return the score cell of each row: a loop of its own, which processors do in strides."""
    half, top = np.int32(size // 2), np.int32(size - 1)
    cells = np.empty(state.size, dtype=np.uint32)
    for i in range(np.uint64(state.size)):
        cells[i] = min(max((state[i] >> shift) + half, np.int32(0)), top)
    return cells


@compiled
def row_statistics(label, place_of_label, state, table, size, shift, weight, active, out):
    """Look up each row's pair of statistics, packed as (first << 32) + second, times its weight.

    Parameters
    ----------
    place_of_label : uint32 array
        Where in the table the line of a label begins.
    table : int64 array of length lines · size
        Packed pairs; the second of a pair is never negative.
    """
    cells = _cells(state, size, shift)
    for i in range(np.uint64(state.size)):
        pair = table[np.uint64(place_of_label[label[i]] + cells[i])]
        if weight is not None:
            pair *= np.int64(weight[i])
        if active is not None:
            pair &= -np.int64(active[i])
        out[i] = pair


@compiled
def charge_rows(label, place_of_label, state, table, shift, weight, weight_units, left, active):
    """Charge each row that can afford it, and mark who could.

    Parameters
    ----------
    table : int32 array of shape (steps, lines, size)
        Charges by step of the weight, of which the last is the whole weight.
    """
    steps, lines, size = table.shape
    charges, own = table.reshape(-1), _cells(state, size, shift)
    for i in range(np.uint64(state.size)):
        step = steps - 1
        if weight is not None:
            step = (np.int64(weight[i]) * (steps - 1) + weight_units - 1) // weight_units
        place = np.uint64(step * lines * size) + np.uint64(place_of_label[label[i]] + own[i])
        own[i] = charges[place]
    for i in range(np.uint64(state.size)):
        rest = left[i] - np.int32(own[i])
        active[i] = rest >= 0
        left[i] = rest if rest >= 0 else left[i]


@compiled
def sum_rows_packed(label, place_of_label, state, table, size, shift, active, ids, cell_of, out):
    """Do `row_statistics` and `sum_pairs_packed` in one pass, for rows without weights."""
    n_cells = np.uint64(out.shape[0])
    packed = np.zeros(LANES * out.shape[0], dtype=np.int64)
    cells = _cells(state, size, shift)
    for i in range(np.uint64(state.size)):
        pair = table[np.uint64(place_of_label[label[i]] + cells[i])]
        if active is not None:
            pair &= -np.int64(active[i])
        lane = (i & np.uint64(LANES - 1)) * n_cells
        packed[lane + np.uint64(cell_of[ids[i]])] += pair
    for k in range(np.uint64(packed.size)):
        out[k % n_cells, 0] += packed[k] >> 32
        out[k % n_cells, 1] += packed[k] & 0xFFFFFFFF


@compiled
def sum_pairs_packed(ids, cell_of, pairs, out):
    """Add up packed pairs by cell, still packed. Only for sums below 2³¹: one block, no weights."""
    cells = np.uint64(out.shape[0])
    packed = np.zeros(LANES * out.shape[0], dtype=np.int64)
    for i in range(np.uint64(pairs.size)):
        lane = (i & np.uint64(LANES - 1)) * cells
        packed[lane + np.uint64(cell_of[ids[i]])] += pairs[i]
    for k in range(np.uint64(packed.size)):
        cell = k % cells
        out[cell, 0] += packed[k] >> 32
        out[cell, 1] += packed[k] & 0xFFFFFFFF


@compiled
def sum_pairs(ids, cell_of, pairs, out):
    """Add up packed pairs by cell, each statistic in its own int64."""
    for i in range(np.uint64(pairs.size)):
        cell = np.uint64(cell_of[ids[i]])
        out[cell, 0] += pairs[i] >> 32
        out[cell, 1] += pairs[i] & 0xFFFFFFFF


@compiled
def sum_block_by_node(
    looked_up,
    weight,
    active,
    node,
    chosen,
    narrow,
    wide,
    joint,
    rows,
    start,
    pairs,
    packed,
    joint_packed,
    out,
    joint_out,
):
    """Add up a block's pairs by (node, cell), for the rows of chosen nodes: all in one call.

    Parameters
    ----------
    looked_up : tuple
        The first six arguments of `row_statistics`.
    narrow, wide, joint : tuples of columns, slots, cell_of, first
        Codes, which of the columns are meant, the cell of each code, column after column, and where
        those of each begin; joint columns have sums of their own.
    rows, start, pairs : uint32, uint32 and int64 arrays
        Room for the chosen rows, where each one's node begins, and its packed pair.
    packed, joint_packed : int64 arrays of shape (nodes, cells)
        Room for a block's sums, packed: without weights they stay below 2³¹.
    out, joint_out : int64 arrays of shape (nodes, cells, 2)
    """
    label, place_of_label, state, table, size, shift = looked_up
    found = np.uint64(0)
    for i in range(np.uint64(node.size)):
        rows[found] = i
        found += np.uint64(chosen[node[i]])
    rows, start, pairs = rows[:found], start[:found], pairs[:found]
    half, top = np.int32(size // 2), np.int32(size - 1)
    for k in range(found):
        row = rows[k]
        cell = np.uint32(min(max((state[row] >> shift) + half, np.int32(0)), top))
        pair = table[np.uint64(place_of_label[label[row]] + cell)]
        if weight is not None:
            pair *= np.int64(weight[row])
        if active is not None:
            pair &= -np.int64(active[row])
        pairs[k] = pair
    _start_of_nodes(node, rows, start, out)
    if weight is not None:
        _sum_pairs_by_node(rows, start, pairs, *narrow, out)
        _sum_pairs_by_node(rows, start, pairs, *wide, out)
    else:
        _clear(packed, chosen)
        _sum_packed_by_node(rows, start, pairs, *narrow, packed.reshape(-1))
        _sum_packed_by_node(rows, start, pairs, *wide, packed.reshape(-1))
        _unpack(packed, chosen, out)
    if joint_out.size:
        _start_of_nodes(node, rows, start, joint_out)
        if weight is not None:
            _sum_pairs_by_node(rows, start, pairs, *joint, joint_out)
        else:
            _clear(joint_packed, chosen)
            _sum_packed_by_node(rows, start, pairs, *joint, joint_packed.reshape(-1))
            _unpack(joint_packed, chosen, joint_out)


@compiled
def _sum_packed_by_node(rows, start, pairs, columns, slots, cell_of, first, out):
    """Add up packed pairs, for two columns at a time."""
    for c in range(0, slots.size, 2):
        ids, cells = columns[slots[c]], cell_of[first[c] :]
        if c + 1 == slots.size:
            for k in range(np.uint64(rows.size)):
                out[np.uint64(start[k] + cells[ids[rows[k]]])] += pairs[k]
            continue
        next_ids, next_cells = columns[slots[c + 1]], cell_of[first[c + 1] :]
        for k in range(np.uint64(rows.size)):
            row, pair = rows[k], pairs[k]
            out[np.uint64(start[k] + cells[ids[row]])] += pair
            out[np.uint64(start[k] + next_cells[next_ids[row]])] += pair


@compiled
def _sum_pairs_by_node(rows, start, pairs, columns, slots, cell_of, first, out):
    """Add up pairs, each statistic in its own int64."""
    flat = out.reshape(-1)
    for c in range(slots.size):
        ids, cells = columns[slots[c]], cell_of[first[c] :]
        for k in range(np.uint64(rows.size)):
            at = np.uint64(start[k] + cells[ids[rows[k]]]) << np.uint64(1)
            flat[at] += pairs[k] >> 32
            flat[at + np.uint64(1)] += pairs[k] & 0xFFFFFFFF


@compiled
def _clear(packed, chosen):
    for node in range(chosen.size):
        if chosen[node]:
            packed[node] = 0


@compiled
def _unpack(packed, chosen, out):
    for node in range(chosen.size):
        if chosen[node]:
            for cell in range(packed.shape[1]):
                out[node, cell, 0] += packed[node, cell] >> 32
                out[node, cell, 1] += packed[node, cell] & 0xFFFFFFFF


@compiled
def _start_of_nodes(node, rows, start, out):
    """Write at which cell, all counted through, the node of each row begins."""
    stride = np.uint32(out.shape[1])
    for k in range(np.uint64(rows.size)):
        start[k] = np.uint32(node[rows[k]]) * stride


@compiled
def count_votes(
    label, kind_of_label, state, vote, votes, ids, node_of, narrow, wide, rows, start, out
):
    """Count rows by node, cell, sum of votes and class; see `commands.VoteCounts`.

    Parameters
    ----------
    kind_of_label : unsigned array
        0 for another class, 1 for the own, 2 for unknown.
    vote, votes : int
        The units of a vote, and how many were cast.
    ids, node_of : arrays
        An id for each row, and the node of each id.
    narrow, wide : tuples of columns, slots, cell_of, first
        The cells of each column's codes.
    rows, start : uint32 arrays
        Room for the rows of known label, and where each one's counts begin.
    out : int64 array of shape (nodes, cells + 1, votes + 1, 2)
    """
    flat, step = out.reshape(-1), np.uint32(2 * out.shape[2])
    stride, found = np.uint32(out.shape[1]) * step, np.uint64(0)
    for i in range(np.uint64(state.size)):
        kind = np.uint32(kind_of_label[label[i]])
        sum_of_votes = np.uint32(min(max((state[i] // vote + votes) >> 1, 0), votes))
        rows[found] = i
        start[found] = np.uint32(node_of[ids[i]]) * stride + (sum_of_votes << 1) + (kind & 1)
        found += np.uint64(kind < 2)
    out[0, -1, 0, 0] += state.size - found
    _count_columns(rows[:found], start, step, *narrow, flat)
    _count_columns(rows[:found], start, step, *wide, flat)


@compiled
def _count_columns(rows, start, step, columns, slots, cell_of, first, out):
    for c in range(slots.size):
        ids, cells = columns[slots[c]], cell_of[first[c] :]
        for k in range(np.uint64(rows.size)):
            out[np.uint64(start[k] + cells[ids[rows[k]]] * step)] += 1


@compiled
def add_marginals(joint, digits, cell_of, first, out):
    """Add a joint histogram of several features to each one's own.

    Parameters
    ----------
    joint : int64 array of shape (nodes, combinations, 2)
    digits : uint16 array of shape (combinations, features)
        The code of each feature in each combination.
    cell_of, first : int arrays
        The cells of all features' codes, and where those of each begin.
    out : int64 array of shape (nodes, cells, 2)
    """
    for node in range(joint.shape[0]):
        for code in range(joint.shape[1]):
            g, n = joint[node, code, 0], joint[node, code, 1]
            if g == 0 and n == 0:
                continue
            for k in range(digits.shape[1]):
                cell = cell_of[first[k] + digits[code, k]]
                out[node, cell, 0] += g
                out[node, cell, 1] += n


@compiled
def add_values(ids, value_of, state):
    """Add to each row's state the value of its id."""
    for i in range(np.uint64(state.size)):
        state[i] += value_of[ids[i]]


@compiled
def route_level(narrow, wide, slots, goes_right, node):
    """Move each row from its node of one level to a child: node ← 2·node + (0 left, 1 right).

    Parameters
    ----------
    slots : uint16 array
        For each node of the level, which column it looks at (narrow ones first).
    goes_right : uint8 array of shape (nodes, codes)
        For each node and code, where the row goes.
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
def route_rows(narrow, wide, slots, goes_right, depth, node):
    """Move each row from its node at a depth down to its leaf; see `route_level`.

    At depth 0 the nodes are not read.
    """
    first = (1 << depth) - 1
    if first == 0 and slots.size >= 3 and slots[:3].max() < narrow.shape[0]:
        # From the root both levels are looked up at once, whichever child a row goes to.
        root, left, right = narrow[slots[0]], narrow[slots[1]], narrow[slots[2]]
        at_root, at_left, at_right = goes_right[0], goes_right[1], goes_right[2]
        for i in range(np.uint64(node.size)):
            turn = np.uint64(at_root[root[i]])
            either = np.uint64(at_left[left[i]]) | np.uint64(at_right[right[i]]) << np.uint64(1)
            node[i] = turn + turn + (either >> turn & np.uint64(1))
        first = 3
    while first < slots.size:
        last = 2 * first + 1
        route_level(narrow, wide, slots[first:last], goes_right[first:last], node)
        first = last


@compiled
def leaves_of_codes(goes_right, out):
    """Write the leaf of each code in a complete tree whose nodes all look at one feature."""
    for code in range(np.uint64(out.size)):
        node = np.uint64(0)
        while node < goes_right.shape[0]:
            node = node + node + np.uint64(1) + np.uint64(goes_right[node, code])
        out[code] = node - np.uint64(goes_right.shape[0])


@compiled
def route_and_count(narrow, wide, slots, goes_right, depth, node, out):
    """Do `route_rows`, and add to the counts of rows by leaf."""
    route_rows(narrow, wide, slots, goes_right, depth, node)
    leaves = np.uint64(out.size)
    counts = np.zeros(LANES * out.size, dtype=np.int32)
    for i in range(np.uint64(node.size)):
        counts[(i & np.uint64(LANES - 1)) * leaves + np.uint64(node[i])] += 1
    for k in range(np.uint64(counts.size)):
        out[k % leaves] += counts[k]


@compiled
def mark_pairs(codes, column, radix, used):
    """Mark which pairs of a joint code and a column's code occur."""
    for i in range(np.uint64(codes.size)):
        used[np.uint64(codes[i]) * np.uint64(radix) + np.uint64(column[i])] = True


@compiled
def join_codes(codes, column, radix, number_of):
    """Put the number of its pair in the place of each joint code."""
    for i in range(np.uint64(codes.size)):
        codes[i] = number_of[np.uint64(codes[i]) * np.uint64(radix) + np.uint64(column[i])]


@compiled
def hash_column(values, key, out):
    """Mix one column into each row's keyed 64-bit hash."""
    for i in range(np.uint64(out.size)):
        h = (out[i] ^ (np.uint64(values[i]) + key)) * np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        out[i] = h ^ (h >> np.uint64(32))
