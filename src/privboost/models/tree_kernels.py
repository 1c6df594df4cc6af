"""What trees say about codes and about changes of codes: compiled loops over nodes and rows."""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled
from privboost.engine.kernels import add_values
from privboost.trees.kernels import route_rows


@compiled
def add_trees(narrow, wide, slots, goes_right, values, scores):
    """Add the values of several trees to the scores of rows.

    Parameters
    ----------
    narrow, wide : arrays
        The codes of rows.
    slots : uint16 array of shape (trees, nodes)
        Which columns nodes look at: see `trees.kernels.route_rows`.
    goes_right : uint8 array of shape (trees, nodes, codes)
        Where each code goes.
    values : int32 array of shape (trees, outputs, leaves)
        What leaves add.
    scores : int32 array of shape (outputs, rows)
    """
    node = np.empty(scores.shape[1], dtype=np.uint16)
    for tree in range(slots.shape[0]):
        node[:] = 0
        route_rows(narrow, wide, slots[tree], goes_right[tree], 0, node)
        for output in range(scores.shape[0]):
            add_values(node, values[tree, output], scores[output])


@compiled
def add_shares(feature, goes_right, n_codes, first, mass, chances, out):
    """Divide the mass on each side of each node among the codes that reach it, as chances say.

    Parameters
    ----------
    feature, goes_right : arrays
        The tree; see `Tree`.
    n_codes, first : int arrays
        For each feature, how many codes it has, and where its first stands in `chances`.
    mass : float array of shape (nodes + leaves,)
        What lies below each node, leaves last.
    chances : float array
        How likely codes are, feature by feature.
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
        if left <= 0 or right <= 0:  # the node parts nothing
            continue
        on_left = max(mass[2 * node + 1], 0.0) / left
        on_right = max(mass[2 * node + 2], 0.0) / right
        for code in range(n_codes[own]):
            if reaches[code]:
                at = first[own] + code
                out[at] += chances[at] * (on_right if goes_right[node, code] else on_left)


@compiled
def _find_codes(feature, goes_right, node, reaches):
    """Write which codes of a node's feature the path to it lets through."""
    reaches[:] = True
    child = node
    while child > 0:
        parent = (child - 1) // 2
        if feature[parent] == feature[node]:
            for code in range(reaches.size):
                reaches[code] &= goes_right[parent, code] == (child + 1) % 2
        child = parent


@compiled
def add_changes(feature, goes_right, changed, rows, others, values, noise, change, doubt):
    """Add what a tree's value changes by where one feature takes another code.

    Parameters
    ----------
    feature, goes_right : arrays
        The tree; see `Tree`.
    changed : int
        The feature that takes another code.
    rows, others, change, doubt : arrays
        See `importance.Explainable.changes`.
    values, noise : arrays of shape (outputs, leaves)
        The released values, and the standard deviation of their noise.
    """
    for row in range(rows.shape[1]):
        leaf = _leaf(feature, goes_right, rows, others, row, -1)
        other = _leaf(feature, goes_right, rows, others, row, changed)
        if other != leaf:
            for output in range(values.shape[0]):
                # Beyond 32 bits, which a difference may need.
                change[output, row] += float(values[output, other]) - float(values[output, leaf])
                doubt[output, row] += noise[output, other] ** 2 + noise[output, leaf] ** 2


@compiled
def _leaf(feature, goes_right, rows, others, row, changed):
    """Follow a row, one of whose features is changed, to its leaf."""
    node = 0
    while node < feature.size:
        own = feature[node]
        code = others[own, row] if own == changed else rows[own, row]
        node = 2 * node + 1 + goes_right[node, code]
    return node - feature.size
