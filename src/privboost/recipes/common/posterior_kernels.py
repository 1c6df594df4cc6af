"""The algebra of Gaussian posteriors and of noise that runs through them.

No library of linear algebra is used: their last bits differ between processors, and a seeded model
is the same everywhere. A measurement joins the bins of a cell, and a random walk joins neighbours,
so the matrices of a numeric feature are narrow bands: of any matrix only the entries between the
first bin that a line is joined with and its diagonal are used, and factors fill nothing else.
Several prior variances, or draws of noise (always the last axis), lie side by side in memory:
processors do several at once, and every number has its terms in the same order.
"""

from __future__ import annotations

import math

import numpy as np

from privboost._core.compilation import compiled, inlined


def walk_basis(ordered: int, ridge: float, rough: float) -> np.ndarray:
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
def read_measurement(cell_of, hessian, mass, within):
    """Add what an answer says of the mass of bins; find each bin's part of its cell.

    Parameters
    ----------
    cell_of : int array
        The cell of each bin.
    hessian : float array
        The Hessians of each cell.
    mass : float array, changed in place
        What is known of each bin: half of an answer goes by it, half is shared evenly.
    within : float array, written
        Which part of its cell's rows each bin is thought to have then.
    """
    cells, most = hessian.size, 1.0
    total, bins = np.zeros(cells), np.zeros(cells)
    for own in mass:
        most = max(most, own)
    for bin_ in range(mass.size):
        within[bin_] = max(mass[bin_], 1e-9 * most)
        total[cell_of[bin_]] += within[bin_]
        bins[cell_of[bin_]] += 1
    for bin_ in range(mass.size):
        cell = cell_of[bin_]
        part = 0.5 * within[bin_] / total[cell] + 0.5 / bins[cell]
        mass[bin_] += part * max(hessian[cell], 0.0)
    most = 1.0
    for own in mass:
        most = max(most, own)
    total[:] = 0.0
    for bin_ in range(mass.size):
        within[bin_] = max(mass[bin_], 1e-9 * most)
        total[cell_of[bin_]] += within[bin_]
    for bin_ in range(mass.size):
        within[bin_] /= total[cell_of[bin_]]


@compiled
def by_cell(cell_of, within, values, cells):
    """Return the mean of bins' values in each cell, for each draw."""
    out = np.zeros((cells, values.shape[1]))
    for bin_ in range(cell_of.size):
        for draw in range(values.shape[1]):
            out[cell_of[bin_], draw] += within[bin_] * values[bin_, draw]
    return out


@compiled
def add_measurement(learned, cell_of, within, weight, precision, answer, fade, first, info, pull):
    """Fold an answer into what is known: info ← fade·info + AᵀRA, pull ← fade·pull + AᵀR·u.

    Parameters
    ----------
    learned : bool array
        Which bins have an effect.
    cell_of : int array
        The cell of each bin.
    within : float array
        Which part of its cell's rows each bin is thought to have.
    weight, precision : float arrays
        By cell: the Hessians, and 1/variance.
    answer : float array of shape (cells, draws)
        What was answered as if today's values were 0.
    first : int array, changed in place
        The first bin that each bin is joined with.
    info, pull : float arrays of shapes (bins, bins) and (bins, draws), changed in place
        What is known; of `info` the lower half, from `first` on.
    """
    size, draws = pull.shape
    look, lead = np.empty(size), np.full(weight.size, -1)
    for i in range(size):
        cell = cell_of[i]
        look[i] = within[i] * weight[cell] if learned[i] else 0.0
        if lead[cell] < 0:
            lead[cell] = i
        first[i] = min(first[i], lead[cell])
    for i in range(size):
        cell = cell_of[i]
        scaled = precision[cell] * look[i]
        for j in range(first[i], lead[cell]):
            info[i, j] *= fade
        for j in range(lead[cell], i + 1):
            info[i, j] *= fade
            if cell_of[j] == cell:
                info[i, j] += scaled * look[j]
        for draw in range(draws):
            pull[i, draw] = fade * pull[i, draw] + scaled * answer[cell, draw]


@inlined
def _factor(info, prior, least, first, variances):
    """Return unit lower L and 1/D with L·D·Lᵀ = info + prior/variance, for each variance.

    Parameters
    ----------
    info, prior : float arrays
        What is known, and the precision of bins for a prior variance of 1: lower halves.
    least : float array
        D of the prior. What is known only adds to it, so that roundings cannot make D less.
    first : int array
        Where each line of both begins.
    variances : float array
        The prior variances.

    Returns
    -------
    start : int array
        Where column 0 of each line would lie in `lower`.
    lower : float array of shape (entries, variances)
        The lines of L below the diagonal, one after the other.
    inverse : float array of shape (bins, variances)
        1/D.
    """
    size, count = first.size, variances.size
    start, entries = np.empty(size, dtype=np.int64), 0
    for i in range(size):
        start[i] = entries - first[i]
        entries += i - first[i]
    lower, inverse = np.empty((entries, count)), np.empty((size, count))
    sure, pivot = 1 / variances, np.empty(count)
    for i in range(size):
        for j in range(first[i], i):
            own = lower[start[i] + j]
            for t in range(count):
                own[t] = info[i, j] + prior[i, j] * sure[t]
            begin = max(first[i], first[j])
            left, right = lower[start[i] + begin :], lower[start[j] + begin :]
            for k in range(j - begin):
                for t in range(count):
                    own[t] -= left[k, t] * right[k, t]
        for t in range(count):
            pivot[t] = info[i, i] + prior[i, i] * sure[t]
        for j in range(first[i], i):
            own = lower[start[i] + j]
            for t in range(count):
                whole = own[t]
                own[t] = whole * inverse[j, t]
                pivot[t] -= whole * own[t]
        for t in range(count):
            inverse[i, t] = 1 / max(pivot[t], least[i] * sure[t])
    return start, lower, inverse


@compiled
def weigh_variances(info, pull, prior, least, first, variances, belief, evidence, weights):
    """Return the posterior mean of bins, averaged over prior variances.

    Parameters
    ----------
    info, pull : float arrays of shapes (bins, bins) and (bins, 1)
        What is known.
    prior, least, first : arrays
        See `_factor`.
    variances : float array
        The prior variances.
    belief : float array
        How likely each was thought to be.
    evidence, weights : float arrays, written
        For each variance the logarithm of its evidence, and its posterior weight.
    """
    size, count = first.size, variances.size
    start, lower, inverse = _factor(info, prior, least, first, variances)
    mean = np.empty((size, count))
    for i in range(size):
        own = mean[i]
        for t in range(count):
            own[t] = pull[i, 0]
        for k in range(first[i], i):
            for t in range(count):
                own[t] -= lower[start[i] + k, t] * mean[k, t]
    for i in range(size):
        for t in range(count):
            mean[i, t] *= inverse[i, t]
    for i in range(size - 1, -1, -1):
        own = mean[i]
        for k in range(first[i], i):
            for t in range(count):
                mean[k, t] -= lower[start[i] + k, t] * own[t]
    fit = np.zeros(count)
    for i in range(size):
        for t in range(count):
            fit[t] += pull[i, 0] * mean[i, t]
    for t in range(count):
        volume, product = 0.0, 1.0
        for i in range(size):  # each factor is 1 at least; few of them need a logarithm
            product *= variances[t] / (inverse[i, t] * least[i])
            if product > 1e100:
                volume += math.log(product)
                product = 1.0
        evidence[t] = 0.5 * fit[t] - 0.5 * (volume + math.log(product))
    soften(evidence, belief, weights)
    out = np.zeros(size)
    for i in range(size):
        for t in range(count):
            out[i] += weights[t] * mean[i, t]
    return out


@inlined
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
def root_of(info, prior, least, first, variance):
    """Return unit lower L and 1/D with L·D·Lᵀ = info + prior/variance, column by column.

    Parameters
    ----------
    info, prior, least, first : arrays
        See `_factor`.
    variance : float
        The prior variance.

    Returns
    -------
    last : int array
        The last line that has an entry in each column of L.
    start : int array
        Where line 0 of each column would lie in `lower`.
    lower : float array
        The columns of L below the diagonal, one after the other, up to their last lines.
    inverse : float array
        1/D.
    """
    size = first.size
    last, start, entries = np.arange(size), np.empty(size, dtype=np.int64), 0
    for i in range(size):
        for k in range(first[i], i):
            last[k] = i
    for k in range(size):
        start[k] = entries - k - 1
        entries += last[k] - k
    lower, inverse, left = np.zeros(entries), np.empty(size), np.empty(size)
    for i in range(size):
        for j in range(first[i], i + 1):
            left[j] = info[i, j] + prior[i, j] / variance
        for k in range(first[i], i):
            lower[start[k] + i] = left[k] * inverse[k]
            _add_scaled(left[k + 1 : i + 1], lower[start[k] + k + 1 :], -left[k])
        inverse[i] = 1 / max(left[i], least[i] / variance)
    return last, start, lower, inverse


@compiled
def solve(last, start, lower, inverse, right):
    """Solve L·D·Lᵀ·x = right for all draws, in place; see `root_of`."""
    size, draws = right.shape
    for k in range(size):
        for i in range(k + 1, last[k] + 1):
            _add_scaled(right[i], right[k], -lower[start[k] + i])
    for k in range(size - 1, -1, -1):
        for draw in range(draws):
            right[k, draw] *= inverse[k]
        for i in range(k + 1, last[k] + 1):
            _add_scaled(right[k], right[i], -lower[start[k] + i])


@compiled
def variances_of_bins(learned, info, prior, least, first, variance):
    """Return the posterior variance of each bin for one prior variance.

    The inverse is found from its last line upwards, where the factor has entries and nowhere else
    (Takahashi's way): all that a line needs lies there.
    """
    size = first.size
    last, start, lower, inverse = root_of(info, prior, least, first, variance)
    found, line, out = np.empty((size, size)), np.empty(size), np.zeros(size)
    for i in range(size - 1, -1, -1):
        column = lower[start[i] + i + 1 : start[i] + last[i] + 1]
        near = line[: column.size]
        near[:] = 0.0
        for k in range(column.size):
            _add_scaled(near, found[i + 1 + k, i + 1 :], column[k])
        added = 0.0
        for k in range(column.size):
            added += column[k] * near[k]
            found[i, i + 1 + k] = found[i + 1 + k, i] = -near[k]
        found[i, i] = inverse[i] + max(added, 0.0)
        if learned[i]:
            out[i] = found[i, i]
    return out


@inlined
def _add_scaled(out, values, factor):
    """Add values times a factor, number by number."""
    for i in range(out.size):
        out[i] += values[i] * factor


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
def add_response(cell_of_row, response, weight, moved, answer):
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
