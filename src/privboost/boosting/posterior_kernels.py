"""The algebra of Gaussian posteriors: small dense matrices, in one fixed order of additions.

No library of linear algebra is asked, since their last bits differ between processors, and a seeded
model is to be the same everywhere. A matrix is made tridiagonal once; then each prior variance
costs a few additions a line.
"""

from __future__ import annotations

import math

import numpy as np

from privboost.compiling import compiled


@compiled
def walk_basis(ordered, ridge, rough):
    """Return C with C·Cᵀ = (ridge·I + rough·DᵀD)⁻¹, where D takes differences of neighbours."""
    low = np.empty(ordered)
    below = np.zeros(ordered)
    for i in range(ordered):
        own = ridge + rough * ((i > 0) + (i < ordered - 1))
        if i > 0:
            below[i] = -rough / low[i - 1]
        low[i] = math.sqrt(own - below[i] * below[i])
    basis = np.zeros((ordered, ordered))
    for j in range(ordered):  # the columns of the factor's inverse, told as rows
        basis[j, j] = 1 / low[j]
        for i in range(j + 1, ordered):
            basis[j, i] = -below[i] * basis[j, i - 1] / low[i]
    return basis


@compiled
def add_answer(basis, cell_of, within, pull_of_cell, weight_of_cell, precision, fade, info, pull):
    """Fold an answer into what is known: info ← fade·info + BᵀRB, pull ← fade·pull + BᵀR·u.

    Parameters
    ----------
    basis : float array of shape (bins, coordinates)
        From white coordinates to bins.
    cell_of : int array
        The cell of each bin.
    within : float array
        Which part of its cell's rows each bin is thought to have.
    pull_of_cell, weight_of_cell, precision : float arrays
        By cell: the answer as if today's values were 0, the Hessians, and 1/variance.
    info, pull : float arrays, changed in place
        What is known, in white coordinates.
    """
    cells, size = weight_of_cell.size, basis.shape[1]
    rows = np.zeros((cells, size))
    for bin_ in range(cell_of.size):
        share = within[bin_] * weight_of_cell[cell_of[bin_]]
        row = rows[cell_of[bin_]]
        for k in range(size):
            row[k] += share * basis[bin_, k]
    for i in range(size):
        pull[i] *= fade
        for j in range(i + 1):
            info[i, j] *= fade
    for cell in range(cells):
        row, sure = rows[cell], precision[cell]
        for i in range(size):
            scaled = sure * row[i]
            pull[i] += scaled * pull_of_cell[cell]
            for j in range(i + 1):
                info[i, j] += scaled * row[j]
    for i in range(size):
        for j in range(i):
            info[j, i] = info[i, j]


@compiled
def _make_tridiagonal(matrix, reflections, scale):
    """Reflect a symmetric matrix to a tridiagonal one in place; keep the reflections."""
    size = matrix.shape[0]
    turned = np.empty(size)
    for k in range(size - 2):
        scale[k] = 0.0
        total = 0.0
        for i in range(k + 1, size):
            total += matrix[i, k] * matrix[i, k]
        length = math.sqrt(total)
        if length < 1e-150:
            continue
        head = matrix[k + 1, k]
        first = head + length if head > 0 else head - length
        total += first * first - head * head
        reflections[k, k + 1] = first
        for i in range(k + 2, size):
            reflections[k, i] = matrix[i, k]
        own, twice = reflections[k], 2 / total
        scale[k] = twice
        along = 0.0
        for i in range(k, size):
            value = 0.0
            for j in range(k + 1, size):
                value += matrix[i, j] * own[j]
            turned[i] = twice * value
            if i > k:
                along += turned[i] * own[i]
        along *= twice / 2
        for i in range(k + 1, size):
            turned[i] -= along * own[i]
        for i in range(k + 1, size):
            matrix[i, k] -= own[i] * turned[k]
            for j in range(k + 1, size):
                matrix[i, j] -= own[i] * turned[j] + turned[i] * own[j]


@compiled
def _reflect(reflections, scale, vector, forward):
    """Apply the reflections to a vector, in order or backwards."""
    size = vector.size
    for step in range(size - 2):
        k = step if forward else size - 3 - step
        if scale[k] == 0:
            continue
        along = 0.0
        for i in range(k + 1, size):
            along += reflections[k, i] * vector[i]
        along *= scale[k]
        for i in range(k + 1, size):
            vector[i] -= along * reflections[k, i]


@compiled
def weigh_variances(info, pull, variances, belief, evidence, weights):
    """Return the posterior mean in white coordinates, averaged over prior variances.

    Parameters
    ----------
    info, pull : float arrays
        What is known.
    variances : float array
        The prior variances.
    belief : float array
        How likely each was thought to be.
    evidence, weights : float arrays, written
        For each variance the logarithm of its evidence, and its posterior weight.
    """
    size, count = pull.size, variances.size
    matrix = info.copy()
    reflections, scale = np.zeros((size, size)), np.zeros(size)
    _make_tridiagonal(matrix, reflections, scale)
    turned = pull.copy()
    _reflect(reflections, scale, turned, True)
    means = np.empty((count, size))
    pivot, ratio = np.empty(size), np.empty(size)
    for t in range(count):
        volume = 0.0
        for i in range(size):
            pivot[i] = matrix[i, i] + 1 / variances[t]
            if i > 0:
                ratio[i] = matrix[i, i - 1] / pivot[i - 1]
                pivot[i] -= ratio[i] * matrix[i, i - 1]
            volume += math.log(max(pivot[i], 1e-300) * variances[t])
        mean = means[t]
        for i in range(size):
            mean[i] = turned[i] - (ratio[i] * mean[i - 1] if i > 0 else 0.0)
        for i in range(size):
            mean[i] /= pivot[i]
        for i in range(size - 2, -1, -1):
            mean[i] -= ratio[i + 1] * mean[i + 1]
        fit = 0.0
        for i in range(size):
            fit += turned[i] * mean[i]
        evidence[t] = 0.5 * fit - 0.5 * volume
    soften(evidence, belief, weights)
    out = np.zeros(size)
    for t in range(count):
        for i in range(size):
            out[i] += weights[t] * means[t, i]
    _reflect(reflections, scale, out, False)
    return out


@compiled
def soften(evidence, belief, weights):
    """Write weights in proportion to belief times the exponential of evidence."""
    most = -math.inf
    for t in range(evidence.size):
        weights[t] = evidence[t] + math.log(belief[t] + 1e-12)
        most = max(most, weights[t])
    total = 0.0
    for t in range(evidence.size):
        weights[t] = math.exp(weights[t] - most)
        total += weights[t]
    for t in range(evidence.size):
        weights[t] /= total


@compiled
def to_bins(basis, white):
    """Return what white coordinates mean for bins."""
    out = np.zeros(basis.shape[0])
    for i in range(basis.shape[0]):
        for k in range(basis.shape[1]):
            out[i] += basis[i, k] * white[k]
    return out


@compiled
def rise(values, weights):
    """Make values the nearest ones that never fall, in place: pool adjacent violators.

    Parameters
    ----------
    values : float array, changed in place
        In their order.
    weights : float array
        What a square of each value's change costs, above 0.
    """
    size, pools = values.size, 0
    mean, weight, last = np.empty(size), np.empty(size), np.empty(size, dtype=np.int64)
    for i in range(size):
        mean[pools], weight[pools], last[pools] = values[i], weights[i], i
        pools += 1
        while pools > 1 and mean[pools - 2] > mean[pools - 1]:
            both = weight[pools - 2] + weight[pools - 1]
            moved = weight[pools - 1] / both * (mean[pools - 1] - mean[pools - 2])
            mean[pools - 2] += moved
            weight[pools - 2], last[pools - 2] = both, last[pools - 1]
            pools -= 1
    first = 0
    for pool in range(pools):
        for i in range(first, last[pool] + 1):
            values[i] = mean[pool]
        first = last[pool] + 1


@compiled
def root_of(matrix):
    """Return the lower root of a positive definite matrix (Cholesky's)."""
    size = matrix.shape[0]
    root = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1):
            value = matrix[i, j]
            for k in range(j):
                value -= root[i, k] * root[j, k]
            root[i, j] = math.sqrt(max(value, 1e-300)) if i == j else value / root[j, j]
    return root


@compiled
def variances_of_bins(basis, info, variance):
    """Return the posterior variance of each bin for one prior variance."""
    size = info.shape[0]
    known = info.copy()
    for i in range(size):
        known[i, i] += 1 / variance
    root = root_of(known)
    out, own = np.zeros(basis.shape[0]), np.empty(size)
    for bin_ in range(basis.shape[0]):
        for i in range(size):
            value = basis[bin_, i]
            for k in range(i):
                value -= root[i, k] * own[k]
            own[i] = value / root[i, i]
            out[bin_] += own[i] * own[i]
    return out
