"""The algebra of Gaussian posteriors and of noise that runs through them.

No library of linear algebra is used: their last bits differ between processors, and a seeded model
is the same everywhere. A measurement couples the bins of a cell, and a random walk couples
neighbours, so the matrices of a numeric feature are narrow bands: of any matrix only the entries
between the first bin that a line is coupled with (`first`) and its diagonal are used, and factors
fill nothing else. Several prior variances, or draws, lie side by side in memory: processors do
several at once, and every number has its terms in the same order.
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
    for j in range(ordered):  # columns of the factor's inverse, written as rows
        basis[j, j] = 1 / low[j]
        for i in range(j + 1, ordered):
            basis[j, i] = -below[i] * basis[j, i - 1] / low[i]
    return basis


@compiled
def read_measurement(cell_of, hessian, mass, within):
    """Add the Hessians of cells to the mass of bins; find each bin's part of its cell.

    Half of a cell's Hessian goes by its bins' parts so far, half is shared evenly. `mass` is
    changed in place, and `within` written.
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
    """Add a measurement to the information: info ← fade·info + AᵀRA, pull ← fade·pull + AᵀR·u.

    `weight` and `precision` are the Hessian and 1/variance of each cell, and `answer`, by cell and
    draw, the measurement as if the current values were 0. `info` (its lower half, from `first` on)
    and `pull` are the precision of bins, and precision times mean, both without the prior.
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

    `prior` is the precision for a variance of 1, and `least` D of the prior: measurements only add
    to it, so that roundings cannot make D less. L is returned as the index where column 0 of each
    line would lie, and the lines below the diagonal one after the other, by variance.
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
    """Return the posterior mean of bins, averaged over prior variances; see `_factor`.

    `belief` is the prior probability of each variance; the logarithm of its evidence and its
    posterior weight are written.
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
def root_of(info, prior, least, first, variance):
    """Return unit lower L and 1/D with L·D·Lᵀ = info + prior/variance, column by column.

    L is returned as the last line that has an entry in each column, the index where line 0 of the
    column would lie, and the columns below the diagonal one after the other. See `_factor`.
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
