"""Kernels that explain trees: the mass of codes, changes of scores, Shapley values."""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled, inlined


@compiled
def add_shares(feature, goes_right, n_codes, first, mass, chances, out):
    """Divide the mass on each side of each node among the codes that reach it, by probability.

    Parameters
    ----------
    feature, goes_right : arrays
        The tree; see `Tree`.
    n_codes, first : int arrays
        For each feature, how many codes it has, and the index of its first in `chances`.
    mass : float array of shape (nodes + leaves,)
        The mass below each node, leaves last.
    chances : float array
        The probabilities of codes, feature by feature.
    out : float array
        The mass of each code is added to it.
    """
    reaches = np.empty(goes_right.shape[1], dtype=np.bool_)
    for node in range(feature.size):
        own = feature[node]
        _find_codes(feature, goes_right, node, reaches)
        left = right = 0.0
        for code in range(n_codes[own]):
            if reaches[code]:
                chance = chances[first[own] + code]
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
                out[at] += chances[at] * (on_right if goes_right[node, code] else on_left)


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
def add_changes(feature, goes_right, first, rows, others, values, noise, change, doubt):
    """Add the changes of tree values when one feature of a row takes another code.

    Only features on a row's path to its leaf can change its leaf, so no others are tried.

    Parameters
    ----------
    feature, goes_right, values : arrays
        The trees; see `Forest`.
    first : int
        The feature that `change` begins with.
    rows, others : arrays
        See `importance.Explainable.changes`.
    noise : float array of shape (trees, outputs, leaves)
        The standard deviation of the values' noise.
    change, doubt : float arrays of shape (features, outputs, rows)
        The change by each feature, and its variance due to noise.
    """
    for tree in range(feature.shape[0]):
        looked_at, turns = feature[tree], goes_right[tree]
        for row in range(rows.shape[1]):
            leaf = _leaf(looked_at, turns, rows, others, row, -1, 0)
            node = leaf + looked_at.size
            while node > 0:
                node = (node - 1) // 2
                place = np.int64(looked_at[node]) - first
                if place < 0 or place >= change.shape[0] or _is_above(looked_at, node):
                    continue
                other = _leaf(looked_at, turns, rows, others, row, place + first, node)
                if other == leaf:
                    continue
                for output in range(values.shape[1]):
                    # A difference may need more than 32 bits.
                    before, after = values[tree, output, leaf], values[tree, output, other]
                    change[place, output, row] += float(after) - float(before)
                    unsure = noise[tree, output, other] ** 2 + noise[tree, output, leaf] ** 2
                    doubt[place, output, row] += unsure


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
    such pattern.

    Parameters
    ----------
    features : int array
        The features on the path to the leaf.
    reach, first : uint8 array, int array
        Whether each of their codes leads there, and the index of each feature's first code.
    mean : float array
        The probability of that, for each feature.
    values : int array of shape (outputs,)
        The leaf's values.
    points, weights : float arrays
        The points and weights of the quadrature.
    columns : uint16 array of shape (all features, rows)
        The codes of the rows.
    found : float array of shape (all features, outputs, rows)
        The Shapley values; added to.
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
