"""How drawn noise runs through posteriors, many draws side by side, added in one fixed order.

The last axis of all arrays of noise is the draws: they do not touch each other.
"""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled


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
def add_answer(basis, cell_of, within, weight, precision, fade, info, pull, answer):
    """Fold an answer, and its noise, into what is known.

    Parameters
    ----------
    basis, cell_of, within, weight, precision, fade, info, pull : arrays and a number
        See `posterior_kernels.add_answer`; `pull` has an axis of draws.
    answer : float array of shape (cells, draws)
        The noise in the answer, as if today's values were 0.
    """
    size, draws = basis.shape[1], answer.shape[1]
    looks = np.zeros((weight.size, size))
    for bin_ in range(cell_of.size):
        cell = cell_of[bin_]
        for k in range(size):
            looks[cell, k] += within[bin_] * weight[cell] * basis[bin_, k]
    info *= fade
    pull *= fade
    for cell in range(weight.size):
        for i in range(size):
            scaled = precision[cell] * looks[cell, i]
            if scaled == 0:
                continue
            for j in range(size):
                info[i, j] += scaled * looks[cell, j]
            for draw in range(draws):
                pull[i, draw] += scaled * answer[cell, draw]


@compiled
def noise_of_bins(basis, root, pull):
    """Return the noise of the posterior mean of each bin.

    Parameters
    ----------
    basis : float array of shape (bins, coordinates)
        From white coordinates to bins.
    root : float array
        The lower root of the posterior's precision.
    pull : float array of shape (coordinates, draws)
        The noise in what is known.
    """
    size, draws = pull.shape
    white = _solve(root, pull)
    out = np.zeros((basis.shape[0], draws))
    for bin_ in range(basis.shape[0]):
        for k in range(size):
            if basis[bin_, k] != 0:
                for draw in range(draws):
                    out[bin_, draw] += basis[bin_, k] * white[k, draw]
    return out


@compiled
def _solve(root, right):
    """Solve L·Lᵀ·x = right for all draws."""
    size, draws = right.shape
    out = right.copy()
    for i in range(size):
        for k in range(i):
            for draw in range(draws):
                out[i, draw] -= root[i, k] * out[k, draw]
        for draw in range(draws):
            out[i, draw] /= root[i, i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            for draw in range(draws):
                out[i, draw] -= root[k, i] * out[k, draw]
        for draw in range(draws):
            out[i, draw] /= root[i, i]
    return out


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
