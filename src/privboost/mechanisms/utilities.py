"""Utilities of private selection, each with its proved range.

The exponential mechanism P(j) ∝ exp(ε₀ · score_j / range) is ε₀-bounded-range, hence ε₀-DP, if
adding a protected unit changes all scores by amounts that lie within `range` of each other:
max_j Δ_j − min_j Δ_j ≤ range. A utility maps the exact sums of a query to integer scores; only the
mechanism sees either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np

from privboost._core.compilation import compiled
from privboost._core.grid import CLIP_STEPS, WEIGHT_STEPS, Contribution
from privboost.accounting.events import Relation
from privboost.engine.queries import GRADIENT_COUNT, VOTES, NodeHistograms, SumQuery, VoteCounts
from privboost.trees.splits import Splits

SCORE = 2**20
"""Score of 1, in steps."""
MAX_SPLIT_ROWS = 2**38
"""Bound on rows for which ranges of splits are proved: sums fit int64, weighted or not."""
ROUNDING = 4 * (MAX_SPLIT_ROWS * SCORE // 2**50 + 1)
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


def scores_query_cells(utility: Utility, query: SumQuery) -> bool:
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

    The rows of a unit that share one weight add up to w = 1, and have a range of 4 together.

    Rounding: scores are computed in float64 and rounded down to steps of 2⁻²⁰. Seven operations err
    by 2⁻⁵³ each, relatively (the sums as float64 among them), and a score is at most the number of
    rows, below `MAX_SPLIT_ROWS`; so it errs by less than 2³⁸ · 2⁻⁵⁰, 256 steps, and by 1 more in
    rounding down. Before and after, for two candidates, that is `ROUNDING`, in each node that a
    unit touches; the range includes it. So many rows of 2²⁴ steps fit int64 sums, and their
    scores int64 too.

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
        row = CLIP_STEPS * (WEIGHT_STEPS if contribution.weighted else 1)
        left, right = self.splits.parted(sums)
        out = np.empty(left.shape[:2], dtype=np.int64)
        _gains(left, right, float(self.reg_lambda * row), float(row), out)
        return out

    def range(self, contribution: Contribution) -> int:
        """Return 4 for each row of full weight, plus rounding for each row."""
        return 4 * SCORE * contribution.unit_weight + ROUNDING * contribution.rows


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


ROW = 2**31
"""Score of a row of weight 1, in steps."""
MAX_SMOOTH_ROWS = 2**31 - 1
"""Maximum number of rows for which ranges are proved; their masses fit int64."""
MOST_VOTES = 1023
"""Maximum number of votes on one output."""
MOST_NODES = 31
"""Maximum number of leaves of a tree, which bounds the rounding error of masses."""
MOST_DECAY = 500.0
"""Maximum of λ times the number of votes, so that exp(−λm) has full precision."""


@dataclass(frozen=True)
class Smoothing:
    """Weights of margins.

    Parameters
    ----------
    density : float
        κ, above 0 and at most 1.
    learning_rate : float
        λ, above 0.
    """

    density: float
    learning_rate: float

    def __post_init__(self) -> None:
        if not 0 < self.density <= 1:
            raise ValueError("density must lie between 0 and 1, or be 1")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError("learning_rate must be a finite number above 0")

    def weights(self, counts: np.ndarray, unknown: int) -> np.ndarray:
        """Return the projected weights by sum of votes and class, times κn/|μ|.

        Parameters
        ----------
        counts : int64 array of shape (votes + 1, 2)
            Rows of known label by sum of votes and class.
        unknown : int
            Number of rows without a label.
        """
        votes = len(counts) - 1
        if self.learning_rate * votes > MOST_DECAY:
            raise ValueError(f"learning_rate times votes must be at most {MOST_DECAY:g}")
        sums = 2 * np.arange(votes + 1) - votes
        margins = np.stack([-sums, sums], axis=1)
        rows: dict[int, int] = {0: int(unknown)}
        for margin, count in zip(margins.reshape(-1), counts.reshape(-1), strict=True):
            rows[int(margin)] = rows.get(int(margin), 0) + int(count)
        if sum(rows.values()) > MAX_SMOOTH_ROWS:
            raise ValueError("smooth boosting is proved for fewer than 2^31 rows")
        projected = self._project(rows)
        return np.array([[float(projected[int(m)]) for m in line] for line in margins])

    def _project(self, rows: Mapping[int, int]) -> dict[int, Fraction]:
        """Return the weight of each margin from the number of rows by margin."""
        density = Fraction(self.density)
        target = density * sum(rows.values())
        raw = {m: density * Fraction(math.exp(-self.learning_rate * m)) for m in rows}
        one = Fraction(1)
        plain = sum(rows[m] * min(one, raw[m]) for m in rows)
        if plain >= target:
            scale = target / plain if plain else one
            return {m: scale * min(one, raw[m]) for m in rows}
        capped = Fraction(0)
        rest = sum(rows[m] * raw[m] for m in rows)
        for margin in sorted(rows):  # from the largest weight on
            factor = (target - capped) / rest if rest else one / raw[margin]
            if factor * raw[margin] <= 1:
                return {m: min(one, factor * raw[m]) for m in rows}
            capped += rows[margin]
            rest -= rows[margin] * raw[margin]
        return dict.fromkeys(rows, one)


@dataclass(frozen=True, eq=False)
class _SmoothUtility:
    """Base of the utilities of smooth boosting: selections under weights of bounded density.

    Neighbours replace one row; the number of rows n is public. A row whose margin is m (votes for
    its own class minus votes against it) has the raw weight μ̃ = κ·exp(−λm). The Bregman projection
    onto κ-dense measures is μ = min(1, c·μ̃), with the least c ≥ 1 for which the weights add up to
    κn or more. Neither c nor any weight leaves this module: only selections are released.

    Scores are in rows: all weights are multiplied by κn/|μ|, so no row has a weight above 1.
    Replacing a row changes its own weight from a to b (both at most 1), and those of all others in
    one direction (c and |μ| change them alike), by |b − a| in all, since the weights add up to κn
    before and after. So at most a + b + |b − a| = 2·max(a, b) ≤ 2 of weight changes. A row of
    unknown label has the weight of margin 0 and counts for no class.

    Rounding: the projection is solved in exact fractions, and each weight is rounded to a float64
    once. The mass of a cell is a sum over at most 2·MOST_VOTES products, so it errs by less than
    2¹²·2⁻⁵³ of itself, and is then rounded down to steps of 2⁻³¹ rows. From there on masses are
    integers. There are fewer than 2³¹ rows (more are refused; n is public), at most 2¹⁶ cells of a
    feature, and at most MOST_NODES = 31 nodes; so the masses of any set of a feature's cells, in
    all nodes, err by less than 2³¹·2⁻⁴¹ + 31·2¹⁶·2⁻³¹ < 2⁻⁹ rows together, here called e. Each
    utility states how much e adds to its range.

    Parameters
    ----------
    splits : Splits
        The literals, which are true on their right side.
    smoothing : Smoothing
        The weights.
    """

    statistics: ClassVar[tuple[tuple[str, ...], ...]] = (VOTES,)
    relation: ClassVar[Relation] = Relation.REPLACE_ONE
    widest: ClassVar[int]
    """Proved range, in steps of scores, including rounding."""
    splits: Splits
    smoothing: Smoothing

    def range(self, contribution: Contribution) -> int:
        if contribution.rows != 1 or contribution.weighted:
            raise ValueError("no range is proved for units of several rows, or for weights")
        return self.widest

    def masses(self, sums: np.ndarray) -> np.ndarray:
        """Return the weight of each node's cells by class: int64 of shape (nodes, cells, 2)."""
        if len(sums) > MOST_NODES:
            raise ValueError(f"ranges are proved for at most {MOST_NODES} nodes")
        counts = sums[:, self._first_feature].sum(axis=(0, 1))
        weights = self.smoothing.weights(counts, int(sums[0, -1, 0, 0]))
        masses = np.tensordot(sums[:, :-1, :, 0].astype(np.float64), weights[:, 0], axes=1)
        others = np.tensordot(sums[:, :-1, :, 1].astype(np.float64), weights[:, 1], axes=1)
        whole: np.ndarray = np.floor(np.stack([masses, others], axis=-1) * ROW).astype(np.int64)
        return whole

    def whole(self, masses: np.ndarray) -> np.ndarray:
        """Return the weight of each node by class."""
        whole: np.ndarray = masses[:, self._first_feature].sum(axis=1)
        return whole

    @property
    def _first_feature(self) -> slice:
        """Cells of one feature, which partition the rows."""
        return slice(int(self.splits.first[0]), int(self.splits.first[0] + self.splits.count[0]))

    def sides(self, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight of the rows for which each literal is false, and true.

        Both of shape (nodes, literals, 2), and both from the cells of the literal's own feature,
        so that they are never negative and together err by e.
        """
        return self.splits.parted(masses)


@dataclass(frozen=True, eq=False)
class RuleError(_SmoothUtility):
    """Score all literals, their negations and the constants by minus their weighted error.

    Candidate 2k is "class 1 where literal k is true, else class 0", 2k + 1 the opposite; literal 0
    is never true, so that 0 and 1 are the constants. There is one node.

    Range: adding or removing weight changes an error by between 0 and that weight. In all, weights
    of at most 2 change, so all changes lie within 2 of each other. A
    score is a sum of masses of disjoint cells, so it errs by e; before and after, for two
    candidates: 4e.
    """

    widest: ClassVar[int] = 2 * ROW + 4 * (ROW >> 9)

    @property
    def allowed(self) -> np.ndarray | None:
        """Mask of candidates: literals that split rows, and the constants."""
        return np.repeat(self.splits.allowed(self.splits.start_reach()), 2, axis=1)

    def scores(self, sums: np.ndarray, contribution: Contribution) -> np.ndarray:
        """Return the scores, of shape (1, 2 · literals)."""
        masses = self.masses(sums)
        left, right = (side[0] for side in self.sides(masses))
        error = right[:, 0] + left[:, 1]
        opposite = right[:, 1] + left[:, 0]
        return -np.stack([error, opposite], axis=1).reshape(1, -1)


@dataclass(frozen=True, eq=False)
class GiniGain(_SmoothUtility):
    """Score the splits of all leaves of a tree by how much they lower its Gini impurity.

    A leaf with weights u, v of the two classes has the impurity f(u, v) = 4uv/(u + v); a split is
    worth f of the leaf minus f of its two parts. There is one selection among all leaves: candidate
    `node · literals + literal`.

    Range: ∂f/∂u = 4v²/(u + v)² lies in [0, 4]. Adding weight d to a row changes the worth of a
    split of its own leaf by d times a difference p − q, where p belongs to the leaf (the same for
    all its splits) and q to a part of it; the splits of other leaves do not change. With p, q in
    [0, 4] all changes lie in [p − 4, p]·d or are 0, within 4d of each other. The same holds if
    weights d₁, d₂ of two leaves change at once: all changes lie in [p₁ − 4, p₁]·d₁, or in
    [p₂ − 4, p₂]·d₂, or are 0, within 4(d₁ + d₂) of each other. Weights of 2 change in all: 8.

    Masses that err by e change a worth by 8e at most (f is 4-Lipschitz, for the leaf and its
    parts), and float64 adds less than e; before and after, for two candidates, that is 36e.

    Parameters
    ----------
    reach : bool array of shape (nodes, cells)
        Public mask of the cells that the path to each leaf admits.
    """

    widest: ClassVar[int] = 8 * ROW + 36 * (ROW >> 9)
    reach: np.ndarray

    @property
    def allowed(self) -> np.ndarray | None:
        """Mask of candidates: splits of a leaf, and no split."""
        allowed = self.splits.allowed(self.reach)
        allowed[1:, 0] = False
        return allowed.reshape(1, -1)

    def scores(self, sums: np.ndarray, contribution: Contribution) -> np.ndarray:
        """Return the scores, of shape (1, nodes · literals)."""
        masses = self.masses(sums)
        left, right = self.sides(masses)
        worth = _impurity(left + right) - _impurity(left) - _impurity(right)
        scores: np.ndarray = np.floor(worth).astype(np.int64).reshape(1, -1)
        return scores


@dataclass(frozen=True, eq=False)
class LeafClass(_SmoothUtility):
    """Score the classes of each leaf: class 1 by its weight minus that of class 0.

    Range: a row's weight is in one leaf. Weights of at most 2 change, and each changes the score of
    one leaf by itself, so the ranges of all leaves add up to 2 at most. Leaves are disjoint, so all
    of them together err by 2e (both classes), before and after 4e.
    """

    widest: ClassVar[int] = 2 * ROW + 4 * (ROW >> 9)
    allowed: ClassVar[None] = None

    def scores(self, sums: np.ndarray, contribution: Contribution) -> np.ndarray:
        """Return the scores, of shape (nodes, 2)."""
        whole = self.whole(self.masses(sums))
        return np.stack([np.zeros(len(whole), dtype=np.int64), whole[:, 1] - whole[:, 0]], axis=1)


def _impurity(masses: np.ndarray) -> np.ndarray:
    """Return 4uv/(u + v) of masses by class, on the last axis."""
    u, v = masses[..., 0].astype(np.float64), masses[..., 1].astype(np.float64)
    impurity: np.ndarray = 4 * u * (v / np.maximum(u + v, 1.0))
    return impurity
