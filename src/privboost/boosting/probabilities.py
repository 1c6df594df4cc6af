"""Calibration of probabilities: a slope and a shift of scores, fitted to noisy counts by score.

A clip of gradients biases probabilities at every ε. Counts of rows by score and class estimate the
bias; an increasing line through the log-odds corrects it without changing the order of scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privboost.compiling import compiled
from privboost.grid import SCORE_STEPS, VOTE

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

    A line needs two; every further one adds its own noise.

    Parameters
    ----------
    rows : float
        Noisy count of rows.
    sigma : float
        Standard deviation of the noise in a count.
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
    """Return the mean score of each cell, its middle where there is none.

    Where scores are few, or lie close together, the middle of a cell is a poor estimate.

    Parameters
    ----------
    scores : int array
        Expected scores, in score steps.
    edges : int array
        Edges between cells.
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
    """Cells of scores.

    Attributes
    ----------
    edges : int32 array
        Edges between them, in steps of a row's state.
    at : float array
        Expected log-odds of a row of each.
    """

    edges: np.ndarray
    at: np.ndarray

    @classmethod
    def around(cls, scores: np.ndarray, cells: int | None = None) -> ScoreCells:
        """Return the default cells, or so many around the expected scores."""
        edges = EDGES if cells is None else edges_around(scores, cells)
        return cls(edges, centres(scores, edges))

    @classmethod
    def of_votes(cls, votes: int) -> ScoreCells:
        """Return cells of the sums of so many votes; each contains a possible sum.

        The log-odds of a vote are taken to be `_WORTH_OF_VOTES` over the root of their number.
        """
        worth = worth_of_vote(votes)
        sums = np.arange(-votes, votes + 1, 2) * VOTE
        edges = np.rint(_SCORES / worth * VOTE).astype(np.int32)
        cells = np.searchsorted(edges, sums, side="right")
        held = np.unique(cells)
        at = [sums[cells == cell].mean() * worth / VOTE for cell in held]
        return cls(edges[held[1:] - 1], np.clip(at, -_FAR, _FAR))


def worth_of_vote(votes: int) -> float:
    """Return the assumed log-odds of one of so many votes."""
    return _WORTH_OF_VOTES / math.sqrt(votes)


def fit_line(counts: np.ndarray, sigma: float, at: np.ndarray) -> tuple[float, float]:
    """Return the slope and shift with which scores fit noisy counts.

    Parameters
    ----------
    counts : float array of shape (cells, 2)
        Counts by score and class, in rows; noise may leave less than 0.
    sigma : float
        Standard deviation of the noise in a count.
    at : float array
        Approximate score of each cell's rows: see `centres`.
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
