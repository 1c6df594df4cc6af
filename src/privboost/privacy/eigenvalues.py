"""Sensitivity of the smallest eigenvalue of a sum of outer products."""

from __future__ import annotations

from privboost.engine.queries import Bound, GramSums
from privboost.grid import VECTOR_STEPS, Contribution

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
    return Bound(steps * contribution.rows, 1, contribution.rows, 1, 1)
