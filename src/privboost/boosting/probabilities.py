"""Honest probabilities: a slope and a shift of scores, fitted to released counts by score.

A clip of gradients biases probabilities at every ε. Counts of rows by score and class tell by how
much; a line through the log-odds mends it, and cannot change the order of two scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privboost.compiling import compiled
from privboost.grid import SCORE_STEPS, VOTE

_SCORES = np.linspace(-6.0, 6.0, 23)
"""Where cells of scores begin, in log-odds."""

EDGES = np.rint(_SCORES * SCORE_STEPS).astype(np.int32)
"""The same on the grid."""

_FAR = 8
"""Scores beyond this are as sure as this, in log-odds."""
_WIDEST = 2.0
"""The largest logarithm of the slope, and the largest shift, either way."""
_WORTH_OF_VOTES = 2.2
"""The log-odds of one vote, times the root of their number: measured on four tables."""
_ROWS, _FEWEST_CELLS = 8.0, 4
"""Rows of a cell in deviations of the noise, on average, and the fewest cells."""
_DEVIATIONS, _BEYOND = 4.0, 0.3
"""How far cells reach about scores, in their deviations; and where rows beyond the last lie."""
_LEAST_SPREAD = 0.1
"""No count is surer than this, in squared rows: a cell without noise may be without rows, too."""


def cells_for(rows: float, sigma: float) -> int:
    """Return how many cells of scores there should be, few where noise is loud.

    A line needs two; every further one brings its own noise.

    Parameters
    ----------
    rows : float
        How many rows there are, as far as was released.
    sigma : float
        The standard deviation of the noise in a count.
    """
    return int(min(max(rows / max(_ROWS * sigma, 1e-300), _FEWEST_CELLS), len(EDGES) + 1))


def edges_around(scores: np.ndarray, cells: int) -> np.ndarray:
    """Return where so many cells begin that lie evenly about what scores are thought to be."""
    near = np.clip(scores, -_FAR * SCORE_STEPS, _FAR * SCORE_STEPS)
    whole, count = near.astype(np.int64), len(near)  # sums of integers are the same everywhere
    middle = int(whole.sum()) / count
    spread = math.sqrt(max(int((whole**2).sum()) / count - middle**2, 0.0))
    reach = min(_DEVIATIONS * spread, float(EDGES[-1]))
    evenly = middle + reach * np.linspace(-1.0, 1.0, cells - 1)
    return np.unique(np.rint(evenly).astype(np.int32))


def centres(scores: np.ndarray, edges: np.ndarray = EDGES) -> np.ndarray:
    """Return the mean score of each cell, its middle where no score lies.

    Scores may be few, or lie close together: then the middle of a cell is not where its rows are.

    Parameters
    ----------
    scores : int array
        What scores are thought to be, in score steps.
    edges : int array
        Where cells begin, but the first.
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
        Where they begin, but the first, in steps of a row's state.
    at : float array
        The log-odds that a row of each is thought to have.
    """

    edges: np.ndarray
    at: np.ndarray

    @classmethod
    def around(cls, scores: np.ndarray, cells: int | None = None) -> ScoreCells:
        """Return the usual cells, or so many about what scores are thought to be."""
        edges = EDGES if cells is None else edges_around(scores, cells)
        return cls(edges, centres(scores, edges))

    @classmethod
    def of_votes(cls, votes: int) -> ScoreCells:
        """Return cells of the sums of so many votes, none of them without a sum.

        A vote is taken to be worth `_WORTH_OF_VOTES` over the root of their number.
        """
        worth = worth_of_vote(votes)
        sums = np.arange(-votes, votes + 1, 2) * VOTE
        edges = np.rint(_SCORES / worth * VOTE).astype(np.int32)
        cells = np.searchsorted(edges, sums, side="right")
        held = np.unique(cells)
        at = [sums[cells == cell].mean() * worth / VOTE for cell in held]
        return cls(edges[held[1:] - 1], np.clip(at, -_FAR, _FAR))


def worth_of_vote(votes: int) -> float:
    """Return the log-odds of one of so many votes, before any row is asked."""
    return _WORTH_OF_VOTES / math.sqrt(votes)


def fit_line(counts: np.ndarray, sigma: float, at: np.ndarray) -> tuple[float, float]:
    """Return the slope and shift with which scores fit noisy counts.

    Parameters
    ----------
    counts : float array of shape (cells, 2)
        Rows by score and class, in rows; noise may leave less than 0.
    sigma : float
        The standard deviation of the noise in a count.
    at : float array
        The score of each cell's rows, about: see `centres`.
    """
    log_slope, shift = _search(at, counts[:, 1], counts.sum(axis=1), sigma, _WIDEST)
    return math.exp(log_slope), shift


def slope_error(
    counts: np.ndarray, sigma: float, at: np.ndarray, line: tuple[float, float]
) -> float:
    """Return the standard error that noise in the counts gives to a slope, in parts of it.

    To first order about the line that fits: what is told of a cell weighs as much as it did there.
    """
    slope, shift = line
    chance = 1 / (1 + np.exp(-(slope * at + shift)))
    rows = np.maximum(counts.sum(axis=1), min(sigma, 1.0))
    each = rows * chance * (1 - chance)
    pull = each[:, None] * np.stack([slope * at, np.ones_like(at)], axis=1)
    spread = each + 2 * sigma**2 + _LEAST_SPREAD
    bend = np.diag([4.0, 1.0]) + (pull.T / spread) @ pull  # of the loss that `_search` looks at
    noise = sigma**2 * (chance**2 + (1 - chance) ** 2)
    moved = np.linalg.solve(bend, pull.T / spread)
    return float(np.sqrt((moved[0] ** 2) @ noise))


@compiled
def _search(middles, own, rows, sigma, widest):  # type: ignore[no-untyped-def]
    """Look on finer and finer grids: few evaluations, and the same on every machine."""
    best_slope, best_shift, reach = 0.0, 0.0, widest
    for _ in range(12):
        slope, shift, least = best_slope, best_shift, math.inf
        for i in range(-4, 5):
            for j in range(-4, 5):
                a = min(max(slope + i * reach / 4, -widest), widest)
                b = min(max(shift + j * reach / 4, -widest), widest)
                loss = 2 * a * a + 0.5 * b * b
                for k in range(middles.size):
                    chance = 1 / (1 + math.exp(-(math.exp(a) * middles[k] + b)))
                    count = max(rows[k], min(sigma, 1.0))  # no row where none is, without noise
                    spread = count * chance * (1 - chance) + 2 * sigma * sigma + _LEAST_SPREAD
                    loss += 0.5 * (own[k] - count * chance) ** 2 / spread
                if loss < least:
                    least, best_slope, best_shift = loss, a, b
        reach /= 2
    return best_slope, best_shift
