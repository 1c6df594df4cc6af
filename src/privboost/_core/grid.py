"""The integer grid on which every number that touches a row lives.

A number lies on a grid of equal steps, and is stored as how many of them it is. One row adds at
most `CLIP_STEPS` (times its weight) to one cell of a sum. Sums are int64, so 2³⁸ rows leave 2²⁵
steps for each, and a row never needs more than `CLIP_STEPS · WEIGHT_STEPS` = 2²⁴.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

CLIP_STEPS = 2**16
"""The clip of a gradient or a Hessian, and the count of one row, in grid steps."""

WEIGHT_STEPS = 2**8
"""The public bound of a sample weight, in grid steps."""

SCORE_STEPS = 2**16
"""A score (or residual) of 1.0, in steps of a row's int32 state."""

LABEL_STEPS = 2**30
"""Half the width of a number's bounds, in steps of its label (int32): fine enough to zoom in."""

FULL_RANGE = (-LABEL_STEPS, LABEL_STEPS)
"""Range of a number's label in its steps: all within its bounds."""

VECTOR_BITS = 15
VECTOR_STEPS = 2**VECTOR_BITS
"""The norm bound of a row's vector in a linear model, in steps of its entries."""

FACTOR_STEPS = 2**12
"""The clip of a gradient where it multiplies a vector: coarser, so that large noise fits."""

VOTE = SCORE_STEPS
"""One vote, in steps of a row's state."""

MAX_SCORE = 2**14
"""Scores stay below this, so that int32 states never overflow; plans are checked against it."""

MAX_SIGMA = 2**44
"""The largest noise scale, in steps: a noisy int64 sum is then far from overflow."""

BUDGET_STEPS = 2**30
"""Budget of a row under the individual privacy filter, in steps of charges (int32)."""

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

    shares_weight: ClassVar[bool] = False
    """Whether the rows of a unit share one weight."""
    weighted: bool = False
    rows: int = 1

    @property
    def row_steps(self) -> int:
        """The most that one row adds to one cell of a sum."""
        return CLIP_STEPS * (WEIGHT_STEPS if self.weighted else 1)

    @property
    def unit_weight(self) -> int:
        """The most that all rows of a unit weigh together, in rows of the largest weight."""
        return 1 if self.shares_weight else self.rows


@dataclass(frozen=True)
class SharedContribution(Contribution):
    """Contribution of a unit whose rows share one weight: they weigh as much as one row alone.

    The weights of the rows of one unit add up to `WEIGHT_STEPS` at most.
    """

    shares_weight: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.weighted or self.rows > WEIGHT_STEPS:
            raise ValueError(f"a weight is shared by at most {WEIGHT_STEPS} rows with weights")
