"""Utilities of private selection, each with its proved range.

The exponential mechanism P(j) ∝ exp(ε₀ · score_j / range) is ε₀-bounded-range, hence ε₀-DP, if
adding a protected unit changes all scores by amounts that lie within `range` of each other:
max_j Δ_j − min_j Δ_j ≤ range. A utility maps the exact sums of a query to integer scores; only the
mechanism sees either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from privboost.compiling import compiled
from privboost.engine.queries import GRADIENT_COUNT, NodeHistograms, SumQuery, VoteCounts
from privboost.grid import CLIP_STEPS, WEIGHT_STEPS, Contribution
from privboost.privacy.events.event import Relation
from privboost.trees.splits import Splits

SCORE = 2**20
"""Score of 1, in steps."""
MOST_ROWS = 2**38
"""Bound on rows for which ranges of splits are proved: sums fit int64, weighted or not."""
ROUNDING = 4 * (MOST_ROWS * SCORE // 2**50 + 1)
"""Total rounding error of two candidates, in both neighbours, in steps."""


class Utility(Protocol):
    """Maps exact sums to integer scores."""

    statistics: ClassVar[tuple[tuple[str, ...], ...]]
    """Statistics for which the range is proved."""
    relation: ClassVar[Relation]
    """Neighbouring relation for which it is proved."""

    def scores(self, sums: np.ndarray, contribution: Contribution) -> np.ndarray:
        """Return integer scores of shape (selections, candidates).

        With several selections, a row must count for one of them only: then the ranges of all
        selections that a unit's rows change add up to `range` at most.
        """

    def range(self, contribution: Contribution) -> int:
        """Return the proved range, in steps of scores."""

    @property
    def allowed(self) -> np.ndarray | None:
        """Public mask of each selection's candidates; None for all."""


def scores_these(utility: Utility, query: SumQuery) -> bool:
    """Whether a utility of splits refers to the cells of a query."""
    splits: Splits | None = getattr(utility, "splits", None)
    if splits is None or not isinstance(query, NodeHistograms | VoteCounts):
        return splits is None
    return query.cells.same_as(splits.cells)


@dataclass(frozen=True, eq=False)
class SplitGain:
    """Score the splits of each node by G_L²/(n_L + λ) + G_R²/(n_R + λ), over counts.

    Sums are of gradients and counts, of shape (nodes, cells, 2). Each node is a selection of
    its own; a row lies in one node, and the rows of a unit in one node each: its ranges add up.

    Range, in parts of the gradient's clip: adding a row of weight w ≤ 1 and gradient ws, |s| ≤ 1,
    to a side with N = n + λ and G = aN, |a| ≤ 1, changes G²/N by

        (aN + ws)²/(N + w) − a²N  =  w · ( N·(2as − a²) + w·s² ) / (N + w) ,

    w times a mean of 2as − a² (between −3 and 1) and s² (between 0 and 1). So the changes of all
    candidates lie within [−3, 1], whichever side the row falls on: a range of 4 for each row. A row
    of weight 0 changes nothing.

    Rounding: scores are computed in float64 and rounded down to steps of 2⁻²⁰. Seven operations err
    by 2⁻⁵³ each, relatively (the sums as float64 among them), and a score is at most the number of
    rows, below `MOST_ROWS`; so it errs by less than 2³⁸ · 2⁻⁵⁰, 256 steps, and the rounding's 1.
    Before and after, for two candidates, that is `ROUNDING`, in each node that a unit touches; the
    range includes it. So many rows of 2²⁴ steps fit int64 sums, and their scores int64 too.

    Parameters
    ----------
    splits : Splits
        The candidates.
    reg_lambda : float
        λ, in rows; it must be above 0.
    allowed : bool array of shape (nodes, candidates), optional
        Candidates of each node, determined by public paths, never by sums.
    """

    statistics: ClassVar[tuple[tuple[str, ...], ...]] = (GRADIENT_COUNT,)
    relation: ClassVar[Relation] = Relation.ADD_REMOVE
    splits: Splits
    reg_lambda: float
    allowed: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not self.reg_lambda * CLIP_STEPS >= 1:
            raise ValueError("reg_lambda must be at least 2^-16")

    def scores(self, sums: np.ndarray, contribution: Contribution) -> np.ndarray:
        """Return the scores of each node's candidates (int64)."""
        row = CLIP_STEPS * (WEIGHT_STEPS if contribution.weighted else 1)
        left, right = self.splits.parted(sums)
        out = np.empty(left.shape[:2], dtype=np.int64)
        _gains(left, right, float(self.reg_lambda * row), float(row), out)
        return out

    def range(self, contribution: Contribution) -> int:
        """Return 4 for each row, plus rounding."""
        return (4 * SCORE + ROUNDING) * contribution.rows


@compiled
def _gains(left, right, extra, row, out):  # type: ignore[no-untyped-def]
    for node in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[node, k] = _gain(
                left[node, k, 0],
                left[node, k, 1],
                right[node, k, 0],
                right[node, k, 1],
                extra,
                row,
            )


@compiled
def _gain(left_g, left_n, right_g, right_n, extra, row):  # type: ignore[no-untyped-def]
    left, right = np.float64(left_g), np.float64(right_g)
    score = left * left / (np.float64(left_n) + extra)
    score += right * right / (np.float64(right_n) + extra)
    return np.int64(math.floor(score / row * SCORE))
