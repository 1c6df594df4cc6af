"""Mean gradients by leaf on the integer grid, and their sensitivity.

A leaf of n rows with gradients that add up to G has the mean G/(n + λ). For whole counts a row
changes it by at most 1/(1 + λ) clips, whatever n is; for weighted counts there is no such bound.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from privboost.engine.queries import GRADIENT_COUNT, Bound, TreeSums
from privboost.grid import CLIP_STEPS, Contribution

MEAN_STEPS = 2**24
"""A mean gradient of one clip, in steps."""


def lambda_steps(reg_lambda: float) -> int:
    """Return λ in the steps of counts, rounded up: more of it changes less."""
    return math.ceil(reg_lambda * CLIP_STEPS)


def row_steps(added: int) -> int:
    """Return the most by which one row moves a mean, rounded down, in steps: ⌈1/(1 + λ)⌉.

    With C steps a row and λ = L steps, a row of gradient g changes G/(N + L), |G| ≤ N = nC, by
    |g(N + L) − GC|/((N + L)(N + C + L)) ≤ C(2N + L)/((N + L)(N + C + L)), which is at most
    C/(C + L) just if n ≤ n²: for every whole number. Two numbers that differ by x have floors that
    differ by ⌈x⌉ at most.
    """
    return -(-MEAN_STEPS * CLIP_STEPS // (CLIP_STEPS + added))


def means_bound(query: TreeSums, added: int, contribution: Contribution) -> Bound:
    """Return the sensitivity of the mean gradients of a query's leaves.

    Its rows are added one at a time; each changes one leaf's mean in each tree.

    Raises
    ------
    ValueError
        If rows have weights, for which nothing is proved, or the sums are of something else.
    """
    if contribution.weighted:
        raise ValueError("a mean of weighted rows can change by more than 1/(1 + lambda)")
    if query.statistics != GRADIENT_COUNT or added < 1:
        raise ValueError("means are of gradients over counts, with some lambda")
    own = query.bound(contribution)
    steps = row_steps(added) * contribution.rows
    return replace(own, steps=steps, statistics=1, coordinates=own.cells)


def exact_means(sums: np.ndarray, added: int) -> np.ndarray:
    """Return means from sums of gradients and counts: exact fractions, rounded down to steps."""
    gradient, count = (sums[..., k].astype(object) for k in range(2))
    means: np.ndarray = (gradient * MEAN_STEPS // (count + added)).astype(np.int64)
    return means
