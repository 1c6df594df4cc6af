"""Kernels of one block: per-row work that looks up integers in tables and adds them.

Kernels know no ε and draw nothing; their results are integers that do not depend on the order of
rows, on threads or on machines. Indices are unsigned because signed ones make numba test for
negative indices at every access. `inlined` functions are compiled as part of their callers, which
takes less time where these are few; those that are passed optional arrays that their callers
compute cannot be.
"""

from __future__ import annotations

import numpy as np

from privboost._core.compilation import compiled, inlined

LANES = 4
"""Copies of a small histogram, used in turn: neighbouring rows then seldom wait for each other."""


@inlined
def _table_columns(state, size, shift):
    """Return each row's score bin (column of the table), in a loop that LLVM vectorises."""
    half, top = np.int32(size // 2), np.int32(size - 1)
    columns = np.empty(state.size, dtype=np.uint32)
    for i in range(np.uint64(state.size)):
        columns[i] = min(max((state[i] >> shift) + half, np.int32(0)), top)
    return columns


@compiled
def row_statistics(label, first_entry_of_label, state, table, size, shift, weight, active, out):
    """Look up each row's pair of statistics, packed as (first << 32) + second, times its weight.

    Parameters
    ----------
    first_entry_of_label : uint32 array
        The index in the table of the first entry of each label's line.
    table : int64 array of length lines · size
        Packed pairs; the second of a pair is never negative.
    """
    columns = _table_columns(state, size, shift)
    for i in range(np.uint64(state.size)):
        pair = table[np.uint64(first_entry_of_label[label[i]] + columns[i])]
        if weight is not None:
            pair *= np.int64(weight[i])
        if active is not None:
            pair &= -np.int64(active[i])
        out[i] = pair


@compiled
def charge_rows(
    label, first_entry_of_label, state, table, shift, weight, weight_steps, left, active
):
    """Charge each row that can afford it, and mark these rows as active.

    Parameters
    ----------
    table : int32 array of shape (steps, lines, size)
        Charges by step of the weight, of which the last is the whole weight.
    """
    steps, lines, size = table.shape
    charges, own = table.reshape(-1), _table_columns(state, size, shift)
    for i in range(np.uint64(state.size)):
        step = steps - 1
        if weight is not None:
            step = (np.int64(weight[i]) * (steps - 1) + weight_steps - 1) // weight_steps
        place = np.uint64(step * lines * size) + np.uint64(first_entry_of_label[label[i]] + own[i])
        own[i] = charges[place]
    for i in range(np.uint64(state.size)):
        rest = left[i] - np.int32(own[i])
        active[i] = rest >= 0
        left[i] = rest if rest >= 0 else left[i]


@compiled
def add_rows_packed(
    label, first_entry_of_label, state, table, size, shift, active, ids, cell_of, packed
):
    """Do `row_statistics` and `add_pairs_packed` in one pass, for rows without weights."""
    n_cells = np.uint64(packed.size // LANES)
    columns = _table_columns(state, size, shift)
    for i in range(np.uint64(state.size)):
        pair = table[np.uint64(first_entry_of_label[label[i]] + columns[i])]
        if active is not None:
            pair &= -np.int64(active[i])
        cell = np.uint64(cell_of[np.uint64(ids[i])])
        packed[(i & np.uint64(LANES - 1)) * n_cells + cell] += pair


@inlined
def add_pairs_packed(cells, pairs, packed):
    """Add up packed pairs by cell, still packed: of fewer than 2¹⁵ rows without weights in all.

    A row's second statistic lies in [0, 2¹⁶] and its first in ±2¹⁶. Fewer than 2¹⁵ of them add up
    to less than 2³¹ in size, so a cell's second sum never reaches the first, which keeps its sign.

    Parameters
    ----------
    cells : unsigned array
        The cell of each row.
    packed : int64 array of length LANES · cells
        Sums; neighbouring rows add to different copies.
    """
    n_cells = np.uint64(packed.size // LANES)
    for i in range(np.uint64(pairs.size)):
        packed[(i & np.uint64(LANES - 1)) * n_cells + np.uint64(cells[i])] += pairs[i]


@compiled
def unpack_lanes(packed, out):
    """Add packed sums to the sums of each statistic, and set them to 0."""
    cells = np.uint64(out.shape[0])
    for lane in range(np.uint64(LANES)):
        for cell in range(cells):
            sums = packed[lane * cells + cell]
            out[cell, 0] += sums >> 32
            out[cell, 1] += sums & 0xFFFFFFFF
    packed[:] = 0


@compiled
def sum_pairs(cells, pairs, out):
    """Add up packed pairs by cell, each statistic in its own int64; see `add_pairs_packed`."""
    for i in range(np.uint64(pairs.size)):
        cell = np.uint64(cells[i])
        out[cell, 0] += pairs[i] >> 32
        out[cell, 1] += pairs[i] & 0xFFFFFFFF


@inlined
def join_cells(ids, cell_of, size, out):
    """Append the cell of each row's code to its joint cell, as one more digit."""
    for i in range(np.uint64(out.size)):
        out[i] = out[i] * np.uint32(size) + np.uint32(cell_of[ids[i]])


@compiled
def score_cells(state, edges, label, kind_of_label, classes, out):
    """Write the cell of each row's state and class; see `queries.ScoreCounts`.

    Parameters
    ----------
    edges : int32 array
        Where the cells of states begin, but the first.
    kind_of_label : unsigned array
        0 for another class, 1 for the own, 2 for unknown: such rows add nothing anywhere.
    classes : int
        1 or 2.
    """
    for i in range(np.uint64(out.size)):
        low, high = np.uint64(0), np.uint64(edges.size)
        while low < high:
            middle = (low + high) >> np.uint64(1)
            if edges[middle] <= state[i]:
                low = middle + np.uint64(1)
            else:
                high = middle
        kind = np.uint64(kind_of_label[label[i]]) & np.uint64(classes - 1)
        out[i] = low * np.uint64(classes) + kind


@compiled
def sum_block_by_node(
    label,
    first_entry_of_label,
    state,
    table,
    size,
    shift,
    weight,
    active,
    node,
    chosen,
    narrow,
    narrow_slots,
    narrow_cell_of,
    narrow_first,
    wide,
    wide_slots,
    wide_cell_of,
    wide_first,
    joint,
    joint_slots,
    joint_cell_of,
    joint_first,
    rows,
    node_start,
    pairs,
    packed,
    joint_packed,
    out,
    joint_out,
):
    """Add up a block's pairs by (node, cell), for the rows of chosen nodes.

    Parameters
    ----------
    label, first_entry_of_label, state, table, size, shift, weight, active
        See `row_statistics`.
    narrow, narrow_slots, narrow_cell_of, narrow_first, and so on
        Codes, which of the columns to add up, the cell of each code, column after column, and where
        those of each begin; joint columns have sums of their own.
    rows, node_start, pairs : uint32, uint32 and int64 arrays
        Memory for the chosen rows, the first cell of each one's node, and its packed pair.
    packed, joint_packed : int64 arrays of shape (nodes, cells)
        Memory for a block's sums, packed: without weights they stay below 2³¹.
    out, joint_out : int64 arrays of shape (nodes, cells, 2)
    """
    found = np.uint64(0)
    for i in range(np.uint64(node.size)):
        rows[found] = i
        found += np.uint64(chosen[node[i]])
    rows, node_start, pairs = rows[:found], node_start[:found], pairs[:found]
    half, top = np.int32(size // 2), np.int32(size - 1)
    for k in range(found):
        row = rows[k]
        column = np.uint32(min(max((state[row] >> shift) + half, np.int32(0)), top))
        pair = table[np.uint64(first_entry_of_label[label[row]] + column)]
        if weight is not None:
            pair *= np.int64(weight[row])
        if active is not None:
            pair &= -np.int64(active[row])
        pairs[k] = pair
    _start_of_nodes(node, rows, node_start, out)
    if weight is not None:
        _sum_pairs_by_node(
            rows, node_start, pairs, narrow, narrow_slots, narrow_cell_of, narrow_first, out
        )
        _sum_pairs_by_node(rows, node_start, pairs, wide, wide_slots, wide_cell_of, wide_first, out)
    else:
        _clear(packed, chosen)
        flat = packed.reshape(-1)
        _sum_packed_by_node(
            rows, node_start, pairs, narrow, narrow_slots, narrow_cell_of, narrow_first, flat
        )
        _sum_packed_by_node(
            rows, node_start, pairs, wide, wide_slots, wide_cell_of, wide_first, flat
        )
        _unpack(packed, chosen, out)
    if joint_out.size:
        _start_of_nodes(node, rows, node_start, joint_out)
        if weight is not None:
            _sum_pairs_by_node(
                rows, node_start, pairs, joint, joint_slots, joint_cell_of, joint_first, joint_out
            )
        else:
            _clear(joint_packed, chosen)
            flat = joint_packed.reshape(-1)
            _sum_packed_by_node(
                rows, node_start, pairs, joint, joint_slots, joint_cell_of, joint_first, flat
            )
            _unpack(joint_packed, chosen, joint_out)


@inlined
def _sum_packed_by_node(rows, node_start, pairs, columns, slots, cell_of, first, out):
    """Add up packed pairs, for two columns at a time."""
    for c in range(0, slots.size, 2):
        ids, cells = columns[slots[c]], cell_of[first[c] :]
        if c + 1 == slots.size:
            for k in range(np.uint64(rows.size)):
                out[np.uint64(node_start[k] + cells[ids[rows[k]]])] += pairs[k]
            continue
        next_ids, next_cells = columns[slots[c + 1]], cell_of[first[c + 1] :]
        for k in range(np.uint64(rows.size)):
            row, pair = rows[k], pairs[k]
            out[np.uint64(node_start[k] + cells[ids[row]])] += pair
            out[np.uint64(node_start[k] + next_cells[next_ids[row]])] += pair


@inlined
def _sum_pairs_by_node(rows, node_start, pairs, columns, slots, cell_of, first, out):
    """Add up pairs, each statistic in its own int64."""
    flat = out.reshape(-1)
    for c in range(slots.size):
        ids, cells = columns[slots[c]], cell_of[first[c] :]
        for k in range(np.uint64(rows.size)):
            at = np.uint64(node_start[k] + cells[ids[rows[k]]]) << np.uint64(1)
            flat[at] += pairs[k] >> 32
            flat[at + np.uint64(1)] += pairs[k] & 0xFFFFFFFF


@inlined
def _clear(packed, chosen):
    for node in range(chosen.size):
        if chosen[node]:
            packed[node] = 0


@inlined
def _unpack(packed, chosen, out):
    for node in range(chosen.size):
        if chosen[node]:
            for cell in range(packed.shape[1]):
                out[node, cell, 0] += packed[node, cell] >> 32
                out[node, cell, 1] += packed[node, cell] & 0xFFFFFFFF


@inlined
def _start_of_nodes(node, rows, node_start, out):
    """Write the index of the first cell of each row's node, over all nodes' cells."""
    stride = np.uint32(out.shape[1])
    for k in range(np.uint64(rows.size)):
        node_start[k] = np.uint32(node[rows[k]]) * stride


@compiled
def count_votes(
    label, kind_of_label, state, vote, votes, ids, node_of, narrow, wide, rows, start, out
):
    """Count rows by node, cell, sum of votes and class; see `queries.VoteCounts`.

    Parameters
    ----------
    kind_of_label : unsigned array
        0 for another class, 1 for the own, 2 for unknown.
    vote, votes : int
        The steps of a vote, and how many were cast.
    ids, node_of : arrays
        An id for each row, and the node of each id.
    narrow, wide : tuples of columns, slots, cell_of, first
        The cells of each column's codes.
    rows, start : uint32 arrays
        Memory for the rows of known label, and where each one's counts begin.
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


@inlined
def add_values(ids, value_of, state):
    """Add to each row's state the value of its id."""
    for i in range(np.uint64(state.size)):
        state[i] += value_of[ids[i]]


@compiled
def mark_pairs(codes, column, radix, used):
    """Mark the pairs of a joint code and a column's code that occur."""
    for i in range(np.uint64(codes.size)):
        used[np.uint64(codes[i]) * np.uint64(radix) + np.uint64(column[i])] = True


@compiled
def join_codes(codes, column, radix, number_of):
    """Replace each joint code by the number of its pair with the column's code."""
    for i in range(np.uint64(codes.size)):
        codes[i] = number_of[np.uint64(codes[i]) * np.uint64(radix) + np.uint64(column[i])]
