"""What is known of a tree's leaves from one answer: a posterior that shrinks along the tree.

A leaf's value is the sum of one part for each node on its way, all of them unknown and independent:
leaves that share a node share its part, so that a leaf with few rows leans on its neighbours. The
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
    """Return what leaves are thought to be.

    Parameters
    ----------
    gradient, hessian : float arrays
        The answer: sums of −gradients and of Hessians by leaf of a complete tree.
    noise : Noise
        Of the answer.
    belief : float array
        How likely each of `VARIANCES` is thought to be.

    Returns
    -------
    values, weights : float arrays
        Of each leaf its posterior mean; of each prior variance its weight.
    """
    weight, precision = weight_and_precision(hessian, noise)
    values, weights = np.zeros(len(weight)), np.zeros_like(belief)
    _weigh(gradient / weight, precision, VARIANCES, belief, values, weights)
    return values, weights


def weight_and_precision(hessian: np.ndarray, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Return of each leaf what its gradients are divided by, and 1/variance of what it says."""
    weight: np.ndarray = np.maximum(hessian, 0.5 * noise.hessian + 1.0)
    precision: np.ndarray = weight**2 / (noise.gradient**2 + noise.spread * weight)
    return weight, precision


@compiled
def _weigh(found, precision, variances, belief, values, weights):  # type: ignore[no-untyped-def]
    """Go up the tree for the evidence of each variance, then down again for means.

    Parameters
    ----------
    found, precision : float arrays
        What each leaf alone says, and 1/variance of it.
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
