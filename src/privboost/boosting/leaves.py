"""Posterior of a tree's leaves from one measurement: hierarchical shrinkage along the tree.

A leaf's value is the sum of one part for each node on its path, all independent a priori: leaves
that share a node share its part, so that a leaf with few rows borrows from its neighbours. The
variance of parts is weighed by evidence, as for effects. Everything follows from released values.
"""

from __future__ import annotations

import math

import numpy as np

from privboost.boosting.effects import VARIANCES, Noise
from privboost.boosting.posterior_kernels import soften
from privboost.compiling import compiled


def leaf_values(
    gradient: np.ndarray, hessian: np.ndarray, noise: Noise, belief: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior means of leaves, and the weights of prior variances.

    Parameters
    ----------
    gradient, hessian : float arrays
        Noisy sums of −gradients and of Hessians by leaf of a complete tree.
    noise : Noise
        Noise of the sums.
    belief : float array
        Prior probability of each of `VARIANCES`.
    """
    weight, precision = weight_and_precision(hessian, noise)
    values, weights = np.zeros(len(weight)), np.zeros_like(belief)
    _weigh(gradient / weight, precision, VARIANCES, belief, values, weights)
    return values, weights


def weight_and_precision(hessian: np.ndarray, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Return each leaf's denominator and precision."""
    weight: np.ndarray = np.maximum(hessian, 0.5 * noise.hessian + 1.0)
    precision: np.ndarray = weight**2 / (noise.gradient**2 + noise.spread * weight)
    return weight, precision


@compiled
def _weigh(found, precision, variances, belief, values, weights):  # type: ignore[no-untyped-def]
    """Pass up the tree for the evidence of each variance, then down for posterior means.

    Parameters
    ----------
    found, precision : float arrays
        Estimate of each leaf alone, and its 1/variance.
    values, weights : float arrays, written
        See `leaf_values`.
    """
    leaves, count = found.size, variances.size
    depth = max(round(math.log2(leaves)), 1)
    sure, mean = np.empty((count, 2 * leaves - 1)), np.empty((count, 2 * leaves - 1))
    evidence = np.zeros(count)
    for t in range(count):
        own_sure, own_mean, part = sure[t], mean[t], variances[t] / depth
        for leaf in range(leaves):
            own_sure[leaves - 1 + leaf], own_mean[leaves - 1 + leaf] = precision[leaf], found[leaf]
        for node in range(leaves - 2, -1, -1):
            left, right = 2 * node + 1, 2 * node + 2
            first = own_sure[left] / (1 + own_sure[left] * part)
            second = own_sure[right] / (1 + own_sure[right] * part)
            both = first + second
            apart = own_mean[left] - own_mean[right]
            own_sure[node] = both
            own_mean[node] = (first * own_mean[left] + second * own_mean[right]) / both
            evidence[t] += 0.5 * (
                math.log(first * second / both) - first * second / both * apart**2
            )
        evidence[t] += 0.5 * (math.log(own_sure[0]) - own_sure[0] * own_mean[0] ** 2)
    soften(evidence, belief, weights)
    down = np.empty(2 * leaves - 1)
    for t in range(count):
        own_sure, own_mean, part = sure[t], mean[t], variances[t] / depth
        down[0] = 0.0
        for node in range(1, 2 * leaves - 1):
            above = (node - 1) // 2
            keep = 1 / (1 + own_sure[node] * part)
            down[node] = keep * (own_sure[node] * own_mean[node] * part + down[above])
        for leaf in range(leaves):
            values[leaf] += weights[t] * down[leaves - 1 + leaf]
