"""Calibration of probabilities: a slope and a shift of scores, fitted to noisy counts by score.

A clip of gradients biases probabilities at every ε. Rows are counted by score and class, the last
and a small release of recipes whose scores are log-odds; an increasing line through the log-odds
that fits the counts best corrects the bias without changing the order of scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np

from privboost._core.compilation import compiled
from privboost._core.grid import SCORE_STEPS, VOTE
from privboost.accounting.noisy_sums import NoisySums
from privboost.engine.queries import ScoreCounts
from privboost.engine.updates import UseLoss
from privboost.losses.base import loss_of
from privboost.mechanisms.curator import Curator
from privboost.models.scores import pool_counts
from privboost.models.votes import CalibratedVotes, VoteScores
from privboost.recipes.common.plan import Plan

WHAT = "rows by score and class"
"""Description of the release of one output's counts."""

_SCORES = np.linspace(-6.0, 6.0, 23)
"""Edges of the cells of scores, in log-odds."""

EDGES = np.rint(_SCORES * SCORE_STEPS).astype(np.int32)
"""The same on the grid."""

_FAR = 8
"""Bound of a cell's score, in log-odds."""
_WIDEST = 2.0
"""Bound of the logarithm of the slope, and of the shift."""
_WORTH_OF_VOTES = 2.2
"""Log-odds of one vote, times the root of their number: measured on four tables."""
_ROWS, _FEWEST_CELLS = 8.0, 4
"""Mean count of a cell in standard deviations of the noise, and the fewest cells."""
_DEVIATIONS, _BEYOND = 4.0, 0.3
"""Reach of cells in standard deviations of scores; distance of rows beyond the last edge."""
_LEAST_SPREAD = 0.1
"""Least variance of a count, in squared rows: a cell without noise may have no rows."""


def cells_for(rows: float, sigma: float) -> int:
    """Return the number of cells of scores: few where noise is large.

    A line needs two; every further one adds its own noise. `sigma` is that in a count.
    """
    return int(min(max(rows / max(_ROWS * sigma, 1e-300), _FEWEST_CELLS), len(EDGES) + 1))


def edges_around(scores: np.ndarray, cells: int) -> np.ndarray:
    """Return the edges of so many even cells around the expected scores."""
    near = np.clip(scores, -_FAR * SCORE_STEPS, _FAR * SCORE_STEPS)
    whole, count = near.astype(np.int64), len(near)  # sums of integers are the same everywhere
    middle = int(whole.sum()) / count
    spread = math.sqrt(max(int((whole**2).sum()) / count - middle**2, 0.0))
    reach = min(_DEVIATIONS * spread, float(EDGES[-1]))
    evenly = middle + reach * np.linspace(-1.0, 1.0, cells - 1)
    return np.unique(np.rint(evenly).astype(np.int32))


def centres(scores: np.ndarray, edges: np.ndarray = EDGES) -> np.ndarray:
    """Return the mean expected score of each cell, its middle where there is none.

    Where scores are few, or lie close together, the middle of a cell is a poor estimate.
    """
    odds = edges / SCORE_STEPS
    middles = np.concatenate(
        [[odds[0] - _BEYOND], (odds[1:] + odds[:-1]) / 2, [odds[-1] + _BEYOND]]
    )
    cells = np.searchsorted(edges, scores, side="right")
    number = np.bincount(cells, minlength=len(middles))
    total = np.bincount(cells, scores / SCORE_STEPS, minlength=len(middles))
    return np.clip(np.where(number > 0, total / np.maximum(number, 1), middles), -_FAR, _FAR)


@dataclass(frozen=True, eq=False)
class ScoreCells:
    """Cells of scores: edges in steps of a row's state, expected log-odds of a row in each cell."""

    edges: np.ndarray
    at: np.ndarray

    @classmethod
    def around(cls, scores: np.ndarray, cells: int | None = None) -> ScoreCells:
        """Return the default cells, or so many around the expected scores."""
        edges = EDGES if cells is None else edges_around(scores, cells)
        return cls(edges, centres(scores, edges))

    @classmethod
    def of_votes(cls, votes: int) -> ScoreCells:
        """Return cells of the sums of so many votes; each contains a possible sum."""
        worth = worth_of_vote(votes)
        sums = np.arange(-votes, votes + 1, 2) * VOTE
        edges = np.rint(_SCORES / worth * VOTE).astype(np.int32)
        cells = np.searchsorted(edges, sums, side="right")
        held = np.unique(cells)
        at = [sums[cells == cell].mean() * worth / VOTE for cell in held]
        return cls(edges[held[1:] - 1], np.clip(at, -_FAR, _FAR))


def worth_of_vote(votes: int) -> float:
    """Return the assumed log-odds of one of so many votes: a constant over their root."""
    return _WORTH_OF_VOTES / math.sqrt(votes)


def fit_line(counts: np.ndarray, sigma: float, at: np.ndarray) -> tuple[float, float]:
    """Return the slope and shift with which scores, about `at` in each cell, fit noisy counts.

    Counts are by score and class, in rows; noise of deviation `sigma` may leave less than 0.
    """
    log_slope, shift = _search(at, counts[:, 1], counts.sum(axis=1), sigma, _WIDEST)
    return math.exp(log_slope), shift


def slope_error(
    counts: np.ndarray, sigma: float, at: np.ndarray, line: tuple[float, float]
) -> float:
    """Return the relative standard error of a slope due to noise in the counts.

    To first order around the fitted line, with the weights of cells there.
    """
    slope, shift = line
    probability = 1 / (1 + np.exp(-(slope * at + shift)))
    rows = np.maximum(counts.sum(axis=1), min(sigma, 1.0))
    each = rows * probability * (1 - probability)
    pull = each[:, None] * np.stack([slope * at, np.ones_like(at)], axis=1)
    spread = each + 2 * sigma**2 + _LEAST_SPREAD
    curvature = np.diag([4.0, 1.0]) + (pull.T / spread) @ pull  # of `_search`'s loss
    noise = sigma**2 * (probability**2 + (1 - probability) ** 2)
    moved = np.linalg.solve(curvature, pull.T / spread)
    return float(np.sqrt((moved[0] ** 2) @ noise))


@compiled
def _search(middles, own, rows, sigma, widest):  # type: ignore[no-untyped-def]
    """Search on finer and finer grids: few evaluations, and the same result on every machine."""
    best_slope, best_shift, reach = 0.0, 0.0, widest
    for _ in range(12):
        slope, shift, least = best_slope, best_shift, math.inf
        for i in range(-4, 5):
            for j in range(-4, 5):
                a = min(max(slope + i * reach / 4, -widest), widest)
                b = min(max(shift + j * reach / 4, -widest), widest)
                loss = 2 * a * a + 0.5 * b * b
                for k in range(middles.size):
                    rate = 1 / (1 + math.exp(-(math.exp(a) * middles[k] + b)))
                    count = max(rows[k], min(sigma, 1.0))  # exact counts may be 0
                    spread = count * rate * (1 - rate) + 2 * sigma * sigma + _LEAST_SPREAD
                    loss += 0.5 * (own[k] - count * rate) ** 2 / spread
                if loss < least:
                    least, best_slope, best_shift = loss, a, b
        reach /= 2
    return best_slope, best_shift


class Lineable(Protocol):
    """Scores of a model that can be mapped by lines."""

    def typical(self) -> np.ndarray:
        """Return the scores of rows drawn from noisy counts: shape (outputs, rows)."""

    def with_calibration(self, lines: np.ndarray) -> Self:
        """Return the model with a slope and a shift of each output's scores."""


_Model = TypeVar("_Model", bound=Lineable)


def check_calibration(share: float, target: str, loss: str) -> None:
    """Refuse to calibrate scores that are no log-odds."""
    if share == 0:
        return
    if target != "classes":
        return
    if not loss_of(target, loss).log_odds:
        raise ValueError(
            f'calibration_share must be 0 with loss="{loss}": its scores are no log-odds'
        )


def release_line(
    curator: Curator, plan: Plan, release: NoisySums, output: int, cells: ScoreCells
) -> tuple[tuple[float, float], float]:
    """Release counts by score and class; return slope and shift, and the slope's relative error.

    Privacy
    -------
    Spends `release` once. Cells follow from released values and public ones, and so does the line;
    whatever they are, a row lies in one.
    """
    counts, sigma = _release_counts(curator, plan, release, output, cells)
    line = fit_line(counts, sigma, cells.at)
    return line, slope_error(counts, sigma, cells.at, line)


def _release_counts(
    curator: Curator, plan: Plan, release: NoisySums, output: int, cells: ScoreCells
) -> tuple[np.ndarray, float]:
    """Release counts by score and class, with their standard deviation.

    Both are in rows of the largest weight.
    """
    counts = curator.sums(ScoreCounts(cells.edges, 2, output), release)[:, :, 0] * plan.count_step
    return counts, float(release.deviations[0]) * plan.count_step


def calibrate_votes(
    curator: Curator, plan: Plan, release: NoisySums, votes: VoteScores
) -> CalibratedVotes:
    """Calibrate votes: find the line from their sum to log-odds that fits the rows.

    Privacy
    -------
    Spends `release` once for each output.
    """
    curator.publish(UseLoss(plan.task.table(1.0, 1.0)))
    count = votes.n_trees // votes.n_outputs
    cells, worth = ScoreCells.of_votes(count), worth_of_vote(count)
    released = [
        _release_counts(curator, plan, release, output, cells) for output in range(votes.n_outputs)
    ]
    lines = [fit_line(*own, cells.at) for own in released]
    rows = pool_counts(
        [own.sum() for own, _ in released], released[0][1] * np.sqrt(released[0][0].size)
    )
    return CalibratedVotes.worth_of(votes, np.array(lines) * [worth, 1.0], rows)


def calibrate_scores(
    curator: Curator,
    plan: Plan,
    release: NoisySums | None,
    model: _Model,
    rows: Sequence[float] | None = None,
) -> _Model:
    """Map the scores of a model by the line that fits the rows, where counts are planned.

    All rows count, also those that training left out: rows whose gradient was filtered, or that
    have spent their individual budgets, are the ones that fit the model worst.

    Without a `release` the model is returned unchanged. Where the noisy counts
    of `rows` of each output are small, so are the numbers of cells.

    Privacy
    -------
    Spends `release` once for each output, in addition to individual budgets where rows have some.
    """
    if release is None:
        return model
    typical = model.typical()
    curator.close_budgets()
    curator.publish(UseLoss(plan.task.table(1.0, 1.0)))
    sigma = float(release.deviations[0]) * plan.count_step
    counts = [None] * len(typical) if rows is None else [cells_for(own, sigma) for own in rows]
    cells = [ScoreCells.around(*own) for own in zip(typical, counts, strict=True)]
    lines = [
        release_line(curator, plan, release, output, own)[0] for output, own in enumerate(cells)
    ]
    return model.with_calibration(np.array(lines))
