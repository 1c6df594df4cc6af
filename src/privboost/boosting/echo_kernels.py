"""How drawn noise runs through posteriors, many draws side by side, added in one fixed order.

The last axis of all arrays of noise is the draws: they do not touch each other.
"""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled


@compiled
def draw_noise(words, gradient, hessian, out):
    """Write the noise of an answer: of gradients, and of Hessians times what they multiply.

    Only variances matter, so noise is a sign times its size: signs are the same everywhere.

    Parameters
    ----------
    words : uint32 array of length 2 · cells · draws
        Random words; the first bit of each is a sign.
    gradient, hessian : float arrays
        The size of both in each cell.
    out : float array of shape (cells, draws), written
        The noise.
    """
    cells, draws = out.shape
    first, second = words[: cells * draws], words[cells * draws :]
    for cell in range(cells):
        for draw in range(draws):
            at = cell * draws + draw
            one = gradient[cell] if first[at] >> 31 else -gradient[cell]
            two = hessian[cell] if second[at] >> 31 else -hessian[cell]
            out[cell, draw] = one + two


@compiled
def take_answer(cell_of_row, response, weight, moved, answer):
    """Take off an answer what rows say otherwise, since noise moved their scores.

    Parameters
    ----------
    cell_of_row : int array
        The cell of each row.
    response : float array
        By how much a row's gradient changes with its score.
    weight : float array
        The Hessians of each cell. Its rows together do not respond by more: where drawn rows are
        many and released ones few, errors would grow from answer to answer.
    moved : float array of shape (rows, draws)
        How far noise moved scores.
    answer : float array of shape (cells, draws), changed in place
        The noise in an answer.
    """
    total = np.zeros(weight.size)
    for row in range(cell_of_row.size):
        total[cell_of_row[row]] += response[row]
    for row in range(cell_of_row.size):
        cell = cell_of_row[row]
        own, part = answer[cell], response[row]
        if total[cell] > weight[cell]:
            part *= weight[cell] / total[cell]
        for draw in range(moved.shape[1]):
            own[draw] -= part * moved[row, draw]


@compiled
def shrink_leaves(answer, weight, precision, part):
    """Return the noise of a tree's leaves; see `leaves.leaf_values`.

    Parameters
    ----------
    answer : float array of shape (leaves, draws)
        The noise in the sums of gradients.
    weight, precision : float arrays
        Of each leaf its Hessians, and 1/variance of what it says alone.
    part : float
        The prior variance of a node's part.
    """
    leaves, draws = answer.shape
    sure, mean = np.empty(2 * leaves - 1), np.empty((2 * leaves - 1, draws))
    for leaf in range(leaves):
        sure[leaves - 1 + leaf] = precision[leaf]
        for draw in range(draws):
            mean[leaves - 1 + leaf, draw] = answer[leaf, draw] / weight[leaf]
    for node in range(leaves - 2, -1, -1):
        left, right = 2 * node + 1, 2 * node + 2
        first = sure[left] / (1 + sure[left] * part)
        second = sure[right] / (1 + sure[right] * part)
        sure[node] = first + second
        for draw in range(draws):
            both = first * mean[left, draw] + second * mean[right, draw]
            mean[node, draw] = both / sure[node]
    down = np.zeros((2 * leaves - 1, draws))
    for node in range(1, 2 * leaves - 1):
        above = (node - 1) // 2
        keep = 1 / (1 + sure[node] * part)
        for draw in range(draws):
            own = sure[node] * mean[node, draw] * part + down[above, draw]
            down[node, draw] = keep * own
    return down[leaves - 1 :].copy()


@compiled
def move_rows(cell_of_row, change, moved):
    """Add to rows what noise changed of their cells' values."""
    for row in range(cell_of_row.size):
        own = change[cell_of_row[row]]
        for draw in range(moved.shape[1]):
            moved[row, draw] += own[draw]
