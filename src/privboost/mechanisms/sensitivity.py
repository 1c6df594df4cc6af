"""Sensitivity: bounds on what one protected unit changes, and checks that events cover them.

The curator runs the checks before anything is charged or summed. Bounds of sums belong to their
queries; those of mean gradients, of the smallest eigenvalue and of counts of texts are here.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from privboost._core.errors import BudgetError
from privboost._core.grid import CLIP_STEPS, VECTOR_STEPS, Contribution
from privboost.accounting.events import Event, Relation
from privboost.accounting.noisy_sums import NoisySums
from privboost.engine.queries import (
    COUNT,
    GRADIENT_COUNT,
    STATISTICS,
    Bound,
    GramSums,
    SumQuery,
    TreeSums,
)


def check_noisy(event: Event) -> None:
    """Refuse an event without noise."""
    if not event.noise > 0:
        raise BudgetError(f"private rows are never released exactly: {event.what}")


def check_sensitivity(
    bound: Bound, event: NoisySums, relation: Relation = Relation.ADD_REMOVE
) -> None:
    """Refuse an event whose sensitivity is below what one protected unit can change."""
    check_noisy(event)
    covered = (
        event.steps >= bound.steps
        and event.rows >= bound.rows
        and event.cells >= bound.cells
        and len(event.shares) == bound.statistics
        and event.touched >= bound.rows * bound.coordinates
        and event.relation == relation
        and (event.pure is not None or not bound.pure_only)
    )
    if not covered:
        raise ValueError(f"the event understates what the query reveals: {event.what}")


def check_sum_sensitivity(query: SumQuery, event: NoisySums, contribution: Contribution) -> None:
    """Refuse an event whose sensitivity is below that of a query of sums by cell."""
    if query.statistics not in STATISTICS:
        raise ValueError("these counts are for selections: no noise is proved for them")
    if event.sampling_rate < 1 and not query.may_be_sampled:
        raise ValueError("the query is about all rows: the event of a sample is too cheap for it")
    bound = query.bound(contribution)
    if event.relation == Relation.REPLACE_ONE:
        if query.statistics != COUNT:
            raise ValueError("for units that are replaced, only counts are proved")
        bound = bound.of_two
    check_sensitivity(bound, event, event.relation)


MEAN_STEPS = 2**24
"""A mean gradient of one clip, in steps."""


def lambda_steps(reg_lambda: float) -> int:
    """Return λ in the steps of counts, rounded up: more of it changes less."""
    return math.ceil(reg_lambda * CLIP_STEPS)


def mean_steps_of_row(added: int) -> int:
    """Return the most by which one row moves a mean, rounded down, in steps: ⌈1/(1 + λ)⌉.

    `added` is λ, in steps of counts.

    With C steps a row and λ = L steps, a row of gradient g changes G/(N + L), |G| ≤ N = nC, by
    |g(N + L) − GC|/((N + L)(N + C + L)) ≤ C(2N + L)/((N + L)(N + C + L)), which is at most
    C/(C + L) just if n ≤ n²: for every whole number. Two numbers that differ by x have floors that
    differ by ⌈x⌉ at most.
    """
    return -(-MEAN_STEPS * CLIP_STEPS // (CLIP_STEPS + added))


def means_bound(query: TreeSums, added: int, contribution: Contribution) -> Bound:
    """Return the sensitivity of the mean gradients of a query's leaves.

    A leaf of n rows with gradients that add up to G has the mean G/(n + λ). For whole counts a row
    changes it by at most 1/(1 + λ) clips, whatever n is; for weighted counts there is no such
    bound. A unit's rows are added one at a time; each changes one leaf's mean in each tree.

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
    steps = mean_steps_of_row(added) * contribution.rows
    return replace(own, steps=steps, statistics=1, coordinates=own.cells)


def exact_means(sums: np.ndarray, added: int) -> np.ndarray:
    """Return means from sums of gradients and counts: exact fractions, rounded down to steps."""
    gradient, count = (sums[..., k].astype(object) for k in range(2))
    means: np.ndarray = (gradient * MEAN_STEPS // (count + added)).astype(np.int64)
    return means


EIGENVALUE_ROWS = 2**33
"""Sums of products of fewer rows than this fit int64: the matrix's trace is below 2⁶³."""
EIGENVALUE_STEPS = 2**13
"""Rounding error of the smallest eigenvalue, for each coordinate and both neighbours.

In steps of 2⁻⁵³ · 2⁶³ = 2¹⁰, of each neighbour: entries as float64 move an eigenvalue by at most 1
(each errs by 2⁻⁵³ of itself, together by that part of the Frobenius norm, which is at most the
trace); the result rounded to an integer is off by ½ · 2⁻¹⁰; the solver is taken to err by at
most 2d, d the coordinates (its backward error is far smaller). For d ≥ 1 that is below 4d: 2¹² · d.
"""


def eigenvalue_bound(query: GramSums, contribution: Contribution) -> Bound:
    """Return the sensitivity of the smallest eigenvalue.

    Adding x·xᵀ moves every eigenvalue by at most ‖x‖², `VECTOR_STEPS`²; `EIGENVALUE_STEPS` covers
    the rounding of float64, for tables of fewer than `EIGENVALUE_ROWS` rows.
    """
    steps = VECTOR_STEPS**2 + EIGENVALUE_STEPS * query.n_coordinates
    return Bound(steps * contribution.unit_weight, 1, contribution.rows, 1, 1)


def texts_bound(columns: int, contribution: Contribution) -> Bound:
    """Return the sensitivity of the counts of all texts: a row has at most one in each column.

    Rows count without their weights.
    """
    steps = CLIP_STEPS * contribution.rows
    return Bound(steps, columns, contribution.rows, 1, columns)
