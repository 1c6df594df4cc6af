"""The integer grid on which every number that touches a row lives.

One row adds at most `UNIT` (times its weight) to one cell of a sum. Sums are int64, so 2³⁸ rows
leave 2²⁵ units for each, and a row never needs more than `UNIT · WEIGHT_STEPS` = 2²⁴.
"""

from __future__ import annotations

from dataclasses import dataclass

UNIT = 2**16
"""The clip of a gradient or a Hessian, and the count of one row, in grid units."""

WEIGHT_STEPS = 2**8
"""The public bound of a sample weight, in grid units."""

SCORE_STEPS = 2**16
"""A score (or residual) of 1.0, in units of a row's int32 state."""

VECTOR_BITS = 15
VECTOR_STEPS = 2**VECTOR_BITS
"""The norm bound of a row's vector in a linear model, in units of its entries."""

FACTOR_STEPS = 2**12
"""The clip of a gradient where it multiplies a vector: coarser, so that large noise fits."""

VOTE = SCORE_STEPS
"""One vote, in units of a row's state."""

MAX_SCORE = 2**14
"""Scores stay below this, so that int32 states never overflow; plans are checked against it."""

MAX_SIGMA = 2**44
"""The largest noise scale, in units: a noisy int64 sum is then far from overflow."""

BUDGET_STEPS = 2**30
"""A row's privacy budget for life, in units of charges (int32)."""

WEIGHT_CLASSES = 16
"""Charges are tabulated for this many steps of a weight, rounded up."""

BLOCK_ROWS = 2**15 - 1
"""Rows a kernel sees at once: a block's sum of one statistic fits 32 bits, its sign included."""


@dataclass(frozen=True)
class Contribution:
    """How much one protected unit may change a sum: public, decided before data are read.

    Parameters
    ----------
    weighted : bool
        Whether rows carry weights (then a row counts up to `WEIGHT_STEPS` times).
    rows : int
        How many rows one unit may have.
    """

    weighted: bool = False
    rows: int = 1

    @property
    def row_steps(self) -> int:
        """The most that one row adds to one cell of a sum."""
        return UNIT * (WEIGHT_STEPS if self.weighted else 1)
