"""Kernels that predict with trees, and explain them.

Arguments that recur: `narrow` and `wide` are the codes of rows, `slots` the columns of features
(narrow ones first), `scores` the scores of rows, an int32 array of shape (outputs, rows) to which
is added, and `goes_right` the bitmasks of codes that nodes send to the right.

Many trees are evaluated by their unique splits: thousands of nodes have few, since a feature of 193
codes has 192 thresholds. Each split is compared with a stride of rows once; a node then costs a few
operations on bitmasks.
"""

from __future__ import annotations

import numpy as np

from privboost._core.compilation import compiled, inlined
from privboost.trees.kernels import (
    STRIDE,
    WORDS,
    find_intervals,
    mark_splits,
    route_stride,
    start_at_root,
    write_nodes,
)


@compiled
def add_shares(feature, goes_right, n_codes, first, mass, probability_of, out):
    """Divide the mass on each side of each node of a tree among the codes that reach it.

    Parameters
    ----------
    n_codes, first : int arrays
        For each feature, how many codes it has, and the index of its first in `probability_of`.
    mass : float array of shape (nodes + leaves,)
        The mass below each node, leaves last.
    probability_of, out : float arrays
        The probabilities of codes, feature by feature; the mass of each code is added to `out`.
    """
    reaches = np.empty(goes_right.shape[1], dtype=np.bool_)
    for node in range(feature.size):
        own = feature[node]
        _find_codes(feature, goes_right, node, reaches)
        left = right = 0.0
        for code in range(n_codes[own]):
            if reaches[code]:
                chance = probability_of[first[own] + code]
                if goes_right[node, code]:
                    right += chance
                else:
                    left += chance
        if left <= 0 or right <= 0:  # the node splits nothing
            continue
        on_left = max(mass[2 * node + 1], 0.0) / left
        on_right = max(mass[2 * node + 2], 0.0) / right
        for code in range(n_codes[own]):
            if reaches[code]:
                at = first[own] + code
                out[at] += probability_of[at] * (on_right if goes_right[node, code] else on_left)


@inlined
def _find_codes(feature, goes_right, node, reaches):
    """Write which codes of a node's feature can reach it."""
    reaches[:] = True
    child = node
    while child > 0:
        parent = (child - 1) // 2
        if feature[parent] == feature[node]:
            for code in range(reaches.size):
                reaches[code] &= goes_right[parent, code] == (child + 1) % 2
        child = parent


@compiled
def add_changes(feature, goes_right, first, rows, others, values, noise, change, variance):
    """Add the changes of tree values when one feature of a row takes another code.

    Only features on a row's path to its leaf can change its leaf, so no others are tried. See
    `Forest` for the arrays of trees, and `Scores.changes` for rows.

    Parameters
    ----------
    first : int
        The feature that `change` begins with.
    noise : float array of shape (trees, outputs, leaves)
        The standard deviation of the values' noise.
    change, variance : float arrays of shape (features, outputs, rows)
        The change by each feature, and its variance due to noise; added to.
    """
    for tree in range(feature.shape[0]):
        looked_at, split_bits = feature[tree], goes_right[tree]
        for row in range(rows.shape[1]):
            leaf = _leaf(looked_at, split_bits, rows, others, row, -1, 0)
            node = leaf + looked_at.size
            while node > 0:
                node = (node - 1) // 2
                place = np.int64(looked_at[node]) - first
                if place < 0 or place >= change.shape[0] or _is_above(looked_at, node):
                    continue
                other = _leaf(looked_at, split_bits, rows, others, row, place + first, node)
                if other == leaf:
                    continue
                for output in range(values.shape[1]):
                    # A difference may need more than 32 bits.
                    before, after = values[tree, output, leaf], values[tree, output, other]
                    change[place, output, row] += float(after) - float(before)
                    unsure = noise[tree, output, other] ** 2 + noise[tree, output, leaf] ** 2
                    variance[place, output, row] += unsure


@inlined
def _is_above(feature, node):
    """Return whether an ancestor of a node has the same feature."""
    above = node
    while above > 0:
        above = (above - 1) // 2
        if feature[above] == feature[node]:
            return True
    return False


@inlined
def _leaf(feature, goes_right, rows, others, row, changed, node):
    """Return the leaf of a row, one of whose features is changed, from a node on."""
    while node < feature.size:
        own = feature[node]
        code = others[own, row] if own == changed else rows[own, row]
        node = 2 * node + 1 + np.int64(goes_right[node, code >> 3] >> (code & 7) & 1)
    return node - feature.size


@compiled
def add_moves(features, reach, first, mean, values, points, weights, columns, found):
    """Add a leaf's Shapley values for rows, feature by feature, by Owen's integral.

    Rows differ only in which of their codes lead to the leaf; values are computed once for each
    such pattern. The first five arguments are those of `parts._Leaf`, then follow the points and
    weights of the quadrature, and the codes of rows, a uint16 array of shape (all features, rows).
    `found` has shape (all features, outputs, rows).
    """
    leads = np.zeros(columns.shape[1], dtype=np.uint16)
    for place in range(features.size):
        column = columns[features[place]]
        for row in range(leads.size):
            own = np.uint16(reach[first[place] + column[row]])
            leads[row] |= own << np.uint16(place)
    kinds = 1 << features.size
    known, moves = np.zeros(kinds, dtype=np.bool_), np.zeros((features.size, kinds))
    for row in range(leads.size):
        if not known[leads[row]]:
            known[leads[row]] = True
            _find_moves(leads[row], mean, points, weights, moves[:, leads[row]])
    for place in range(features.size):
        own = moves[place]
        for output in range(values.size):
            if values[output] != 0:
                moved = found[features[place], output]
                for row in range(leads.size):
                    moved[row] += values[output] * own[leads[row]]


@inlined
def _find_moves(leads, mean, points, weights, out):
    """Write the value of each feature, for a bitmask of features whose codes lead to the leaf."""
    for k in range(points.size):
        for place in range(out.size):
            product = weights[k]
            for other in range(out.size):
                if other != place:
                    gain = (leads >> other & 1) - mean[other]
                    product *= mean[other] + points[k] * gain
            out[place] += product * ((leads >> place & 1) - mean[place])


_PRIME, _BASIS = 0x100000001B3, 0xCBF29CE484222325
"""Constants of the hash FNV-1a."""


@compiled
def number_splits(feature, goes_right, table, split_of, first_seen):
    """Number the unique splits of nodes, each a feature and a bitmask; return how many there are.

    Parameters
    ----------
    feature : uint16 array of shape (nodes,)
    goes_right : uint8 array of shape (nodes, bytes)
    table : int32 array, its length a power of two and twice that of nodes, or more
        A hash table; −1 everywhere.
    split_of, first_seen : int32 arrays of shape (nodes,)
        The number of each node's split, and the first node of each split; written.
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
        split_of[node] = table[place]
    return found


@inlined
def _same(feature, goes_right, node, other):
    same = feature[node] == feature[other]
    for k in range(goes_right.shape[1]):
        same &= goes_right[node, k] == goes_right[other, k]
    return same


@compiled
def batch_splits(split_of, known, most, out, splits, begins):
    """Divide trees into batches with few unique splits each; return how many batches there are.

    Parameters
    ----------
    split_of, known : int32 array of shape (trees, nodes), int
        The split of each node, and how many splits there are.
    most : int
        How many splits a batch may have: at least as many as a tree has nodes.
    out : uint16 array of shape (trees, nodes)
        The number of each node's split in its batch; written.
    splits : int32 array of shape (trees · nodes,)
        The splits of all batches, one after the other; written.
    begins : int64 array of shape (trees + 1, 2)
        The first tree and the first split of each batch, and the ends; written.
    """
    batch_of, tree_of = np.full((2, known), -1)
    number = np.empty(known, dtype=np.uint16)
    batch, total = -1, 0
    for tree in range(split_of.shape[0]):
        new = 0
        for split in split_of[tree]:
            if batch_of[split] != batch and tree_of[split] != tree:
                tree_of[split] = tree
                new += 1
        if batch < 0 or total + new - begins[batch, 1] > most:
            batch += 1
            begins[batch, 0], begins[batch, 1] = tree, total
        for node in range(split_of.shape[1]):
            split = split_of[tree, node]
            if batch_of[split] != batch:
                batch_of[split], number[split] = batch, total - begins[batch, 1]
                splits[total] = split
                total += 1
            out[tree, node] = number[split]
    begins[batch + 1, 0], begins[batch + 1, 1] = split_of.shape[0], total
    return batch + 1


@compiled
def find_intervals_of_splits(goes_right, most, first, begin, length, many):
    """Write the intervals of splits; splits with more than `most` are marked in `many`.

    Those get one empty interval. `goes_right` has shape (splits, codes); see
    `trees.kernels.find_intervals_of_level` for the other arrays.
    """
    first[0] = 0
    for split in range(goes_right.shape[0]):
        found = find_intervals(goes_right[split], most, begin, length, first[split])
        many[split] = found < 0
        if found < 0:
            begin[first[split]], length[first[split]] = 0, 0
            found = first[split] + 1
        first[split + 1] = found


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
def _mark_by_look_up(narrow, wide, place, slots, many, bits, split_bits):
    """Write the bitmasks of the splits with many intervals, by look-up."""
    for k in range(many.size):
        line = many[k]
        for word in range(WORDS):
            found = np.uint64(0)
            for bit in range(64):
                turn = _turn(narrow, wide, slots[line], bits[k], np.int64(place) + 64 * word + bit)
                found |= np.uint64(turn) << np.uint64(bit)
            split_bits[WORDS * line + word] = found


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

    `slots` has shape (trees, nodes), `goes_right` (trees, nodes, bytes), `values` (trees, outputs,
    leaves).
    """
    for tree in range(slots.shape[0]):
        for row in range(scores.shape[1]):
            leaf = _descend(narrow, wide, slots[tree], goes_right[tree], 0, 0, row)
            for output in range(scores.shape[0]):
                scores[output, row] += values[tree, output, leaf]


@compiled
def add_trees_by_split(
    narrow, wide, slots, intervals, many, bits, split_of, deep_slots, goes_right, values, scores
):
    """Add the values of trees to the scores of at least 512 rows, by unique splits.

    Parameters
    ----------
    slots : uint16 array
        The column of each split.
    intervals : tuple of first, begin, length
        The intervals of each split; see `find_intervals_of_splits`.
    many, bits : int64 array, uint8 array of shape (splits, bytes)
        The splits with many intervals, and their bitmasks of codes.
    split_of : uint16 array of shape (trees, nodes)
        The split of each node of the first levels.
    deep_slots, goes_right, values : arrays
        The whole trees, for levels below; see `add_trees_by_row`.
    """
    first, begin, length = intervals
    trees, nodes = split_of.shape
    levels = 0
    while (1 << levels) <= nodes:
        levels += 1
    rows, stride = np.uint64(scores.shape[1]), np.uint64(STRIDE)
    thin, broad, lines = narrow.reshape(-1), wide.reshape(-1), split_of.reshape(-1)
    split_bits, by_level = (
        np.empty(WORDS * slots.size, np.uint64),
        np.empty(WORDS * levels, np.uint64),
    )
    at_node, leaf = start_at_root(nodes), np.empty(STRIDE, dtype=np.uint16)
    for start in range(np.uint64(0), rows, stride):
        place = start if start + stride <= rows else rows - stride  # some rows are routed twice
        mark_splits(thin, broad, rows, place, slots, first, begin, length, slots.size, split_bits)
        _mark_by_look_up(narrow, wide, place, slots, many, bits, split_bits)
        for tree in range(np.uint64(trees)):
            route_stride(split_bits, lines, tree * np.uint64(nodes), levels, at_node, by_level)
            write_nodes(by_level, np.uint64(levels), leaf, np.uint64(0))
            if deep_slots.shape[1] > nodes:
                own_slots, own_turns = deep_slots[tree], goes_right[tree]
                for k in range(STRIDE):
                    row = np.int64(place) + k
                    leaf[k] = _descend(narrow, wide, own_slots, own_turns, levels, leaf[k], row)
            for output in range(scores.shape[0]):  # each row once
                for k in range(start - place, stride):
                    scores[output, place + k] += values[tree, output, leaf[k]]
