"""Scores for private selection, each with its proved range.

The exponential mechanism P(j) ∝ exp(ε₀ · score_j / range) is ε₀-bounded-range, hence ε₀-DP, if
adding a protected unit changes all scores by amounts that lie within `range` of each other:
max_j Δ_j − min_j Δ_j ≤ range. A utility turns the exact sums of a query into integer scores; only
the mechanism sees either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from privboost.engine.commands import GRADIENT_COUNT, GRADIENT_HESSIAN, HESSIAN_COUNT
from privboost.grid import UNIT, WEIGHT_UNITS, Contribution

SCORE = 2**20
"""Units of a score of 1."""


class Utility(Protocol):
    """From exact sums to integer scores."""

    statistics: tuple[tuple[str, ...], ...]
    """The statistics of which its range is proved."""

    def scores(self, sums: np.ndarray, contribution: Contribution) -> list[int]:
        """Return one integer score for each candidate."""

    def range(self, contribution: Contribution) -> int:
        """Return the proved range, in the same units."""


@dataclass(frozen=True)
class LargestCell:
    """Find the cell with the largest sum of the second statistic (a count, or Hessians).

    Range: a row adds between 0 and its units to one cell of each feature and nothing elsewhere,
    so all changes lie in [0, row units · rows].
    """

    statistics: ClassVar = (GRADIENT_HESSIAN, GRADIENT_COUNT, HESSIAN_COUNT)

    def scores(self, sums: np.ndarray, contribution: Contribution) -> list[int]:
        """Return each cell's sum."""
        return [int(value) for value in sums[..., 1].reshape(-1)]

    def range(self, contribution: Contribution) -> int:
        """Return the most that a unit adds to a cell."""
        return contribution.row_units * contribution.rows


@dataclass(frozen=True)
class SplitGain:
    """Score splits of one node by G_L²/(n_L + λ) + G_R²/(n_R + λ), over counts.

    Sums are of gradients and counts by cell, of shape (cells, 2); candidate j has the cells up to j
    on its left. The last one has everything there: it is the score of not splitting.

    Range, in units of the gradient's clip: adding a row of weight w ≤ 1 and gradient ws, |s| ≤ 1,
    to a side with N = n + λ and G = aN, |a| ≤ 1, changes G²/N by

        (aN + ws)²/(N + w) − a²N  =  w · ( N·(2as − a²) + w·s² ) / (N + w) ,

    w times a mean of 2as − a² (between −3 and 1) and s² (between 0 and 1). So the changes of all
    candidates lie within [−3, 1], whichever side the row falls on: a range of 4 for each row, plus
    the rounding.

    Parameters
    ----------
    reg_lambda : float
        λ, in rows; it must be above 0.
    """

    statistics: ClassVar = (GRADIENT_COUNT,)
    reg_lambda: float

    def __post_init__(self) -> None:
        if not self.reg_lambda * UNIT >= 1:
            raise ValueError("reg_lambda must be at least 2^-16")

    def scores(self, sums: np.ndarray, contribution: Contribution) -> list[int]:
        """Return scores rounded down to units, in whole-number arithmetic (128 bits and more)."""
        unit = UNIT * (WEIGHT_UNITS if contribution.weighted else 1)
        extra = round(self.reg_lambda * unit)
        left_of = np.cumsum(sums, axis=0).tolist()
        whole_g, whole_n = left_of[-1]
        scores = []
        for g, n in left_of:
            left = g * g * SCORE // (unit * (n + extra))
            rest = whole_g - g
            right = rest * rest * SCORE // (unit * (whole_n - n + extra))
            scores.append(left + right)
        return scores

    def range(self, contribution: Contribution) -> int:
        """Return four for each row, and the rounding of two terms before and after."""
        return 4 * SCORE * contribution.rows + 4
