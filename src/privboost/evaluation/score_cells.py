"""Where cells of scores begin: from the model and the noise alone, never from rows."""

from __future__ import annotations

import math

import numpy as np

from privboost.boosting.probabilities import ScoreCells
from privboost.grid import SCORE_STEPS
from privboost.models.base import VOTES, Scores
from privboost.models.model import Model

_CELLS = ((60.0, 12), (8.0, 16), (4.0, 24), (0.0, 32))
"""How many cells there are, by how many rows the noise of one count is worth at least."""
_EXACT_CELLS, _LEAST_EXACT = 1024, 64
"""Without noise cells cost nothing but memory, of all outputs together and of each at least."""
MOST_CELLS = 4096
_REACH, _EXACT_REACH = 5.0, 12.0
"""Where the last cells begin, in log-odds."""
_REACH_OF_MEDIAN = 1.6
"""The same, at least, in parts of the median distance of scores from 0: a rare class has most rows
far below 0, and cells must tell them apart."""
_REACH_OF_MARGINS = 2.0
"""The same of scores that are meant to be −1 or 1."""
_VOTES = 3.0
"""The same of votes, in roots of their number."""
_BEYOND = 1.15
"""Where rows of the last cells lie, in parts of where those begin."""


def count_cells(noise: float, outputs: int) -> int:
    """Return how many cells of scores there should be: few where noise is loud.

    A cell that is too wide hides how scores within it order rows, which lowers an AUC; each further
    cell brings noise of its own. `docs/evaluation.md` says what was tried.

    Parameters
    ----------
    noise : float
        The standard deviation of the noise of a count, in rows.
    outputs : int
        How many outputs have such cells.
    """
    if noise == 0:
        return max(_EXACT_CELLS // outputs // 2 * 2, _LEAST_EXACT)
    return next(cells for least, cells in _CELLS if noise >= least)


def cells_of_scores(model: Model, count: int, exact: bool = False) -> ScoreCells:
    """Return cells that are narrow about 0 and wider towards both ends.

    The middle edge is where predictions change: a score above 0 is of the second class.

    Parameters
    ----------
    model : Model
        Whose scores they are.
    count : int
        How many there are: an even number.
    exact : bool
        Whether there is no noise, so that cells may reach further.
    """
    scores = model.scores
    reach = _EXACT_REACH if exact else _reach_of(scores)
    if not model.has_chances:
        reach = _REACH_OF_MARGINS
        if scores.unit == VOTES:
            votes = scores.n_trees // scores.n_outputs
            reach = min(float(votes), _VOTES * math.sqrt(votes))
    ends = reach * np.sinh(np.linspace(-1, 1, count - 1)) / math.sinh(1)
    edges = np.rint(ends * SCORE_STEPS).astype(np.int32)
    edges[len(edges) // 2] = 1  # a score of 0 is of the first class
    middles = (ends[1:] + ends[:-1]) / 2
    at = np.concatenate([[_BEYOND * ends[0]], middles, [_BEYOND * ends[-1]]])
    return ScoreCells(edges, at)


def _reach_of(scores: Scores) -> float:
    """Return where the last cells begin, by where released values say that scores lie."""
    typical = np.abs(scores.typical()) / SCORE_STEPS
    if not typical.size:
        return _REACH
    median = float(np.median(typical, axis=1).max())
    return min(max(_REACH, _REACH_OF_MEDIAN * median), _EXACT_REACH)
