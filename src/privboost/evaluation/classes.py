"""Outcomes of rows of classes: counts by class and prediction, and by class and score."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_expit, softmax

from privboost._core.grid import CLIP_STEPS, SCORE_STEPS
from privboost.data.rows import Codes
from privboost.data.table import Column
from privboost.engine.queries import COUNT, CellSums
from privboost.engine.updates import Start
from privboost.evaluation.class_measures import ClassCounts, measure_classes
from privboost.evaluation.outcomes import (
    CHIEF,
    EvaluationPlan,
    Outcomes,
    Releases,
    deviations,
    release,
)
from privboost.evaluation.result import Measures
from privboost.losses.base import UNKNOWN_LABEL, class_indicator
from privboost.mechanisms.curator import Curator
from privboost.models.model import SOFTMAX, Model
from privboost.models.scores import VOTES, Scores
from privboost.recipes.common.plan import PlanBasis
from privboost.recipes.common.probability_calibration import ScoreCells
from privboost.trees.cell_map import CellMap

_LEAST_PROBABILITY = 1e-30


@dataclass(frozen=True, eq=False)
class ClassOutcomes(Outcomes):
    """Whether the prediction is right, by class; then scores by cell and class.

    The first column is 2 · class + (1 if the prediction is right). Each output has a column
    2 · cell + (1 if the row is of the output's own class). Without curves one column follows
    instead: the cell of the predicted probability of the row's own class.

    Attributes
    ----------
    edges : int32 array
        Lower ends of the cells of scores, except the first, in score steps.
    curves : bool
        Whether each output has a column.
    at : float array
        Assumed score of each cell, in log-odds; rows are coded without it.
    """

    kind: ClassVar[str] = "classes"
    edges: np.ndarray
    curves: bool
    at: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def sizes(self, model: Model) -> tuple[int, ...]:
        hits, n_cells = 2 * len(model.classes), len(self.edges) + 1
        if self.curves:
            return (hits, *[2 * n_cells] * model.scores.n_outputs)
        return (hits, n_cells) if model.has_probabilities else (hits,)

    def code(
        self, model: Model, codes: Codes, column: Column, event: Column | None = None
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        label = model.domain.target.code(column).label
        known = label != UNKNOWN_LABEL
        own = np.where(known, label, 0).astype(np.int64)
        scores = model.scores.scores(codes)
        best = (scores[0] > 0).astype(np.int64) if len(scores) == 1 else scores.argmax(axis=0)
        columns = [2 * own + (best == own)]
        if len(scores) == 1:
            columns.append(2 * self._cells(scores[0]) + own)
        elif self.curves or model.has_probabilities:
            odds = _log_odds(scores, model.link) if model.has_probabilities else scores
            if self.curves:
                columns += [2 * self._cells(each) + (own == k) for k, each in enumerate(odds)]
            else:
                columns.append(self._cells(odds[own, np.arange(len(own))]))
        return np.where(known, 0, UNKNOWN_LABEL).astype(np.uint8), columns

    def _cells(self, scores: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.edges, scores, side="right")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "edges": self.edges, "curves": self.curves}

    def maps(self, model: Model, groups: list[CellMap]) -> tuple[CellMap, ...]:
        sizes = self.sizes(model)
        columns = [CellMap.of_feature(place, np.arange(size)) for place, size in enumerate(sizes)]
        joint = [CellMap.joint([group, column]) for group in groups for column in columns]
        return (CellMap.side_by_side([*columns, *joint]),)

    def measure(self, curator: Curator, plan: EvaluationPlan) -> tuple[list[list[Measures]], None]:
        model, event = plan.model, plan.releases[0].event
        (cell_map,) = plan.maps
        curator.publish(Start(class_indicator()))
        counts = curator.sums(CellSums(cell_map, statistics=COUNT), event)[:, 0] / CLIP_STEPS  # type: ignore[arg-type]
        sizes, noise = self.sizes(model), float(deviations(event)[0])
        split = cell_map.split(counts)
        columns = [sums.reshape(-1, sizes[k % len(sizes)]) for k, sums in enumerate(split)]
        names, cells = tuple(map(str, model.classes)), ScoreCells(self.edges, self.at)
        return [
            [
                measure_classes(ClassCounts.of(names, own, noise, cells, model.has_probabilities))
                for own in zip(*columns[first : first + len(sizes)], strict=True)
            ]
            for first in range(0, len(columns), len(sizes))
        ], None


def _log_odds(scores: np.ndarray, link: str) -> np.ndarray:
    """Return log-odds of class probabilities, in score steps, from scores of several classes."""
    logs = scores / SCORE_STEPS if link == SOFTMAX else log_expit(scores / SCORE_STEPS)
    probability = np.clip(softmax(logs, axis=0), _LEAST_PROBABILITY, 1.0)
    others = np.clip(probability.sum(axis=0) - probability, _LEAST_PROBABILITY, 1.0)
    odds: np.ndarray = np.rint((np.log(probability) - np.log(others)) * SCORE_STEPS)
    return odds.astype(np.int32)


def class_releases(basis: PlanBasis, touched: int) -> Releases:
    """Return the release of all counts."""
    what = "rows by class and prediction, and by class and score"
    return lambda kind: [(CHIEF, release(kind, basis, what, touched), 1.0)]


_CELLS = ((60.0, 12), (8.0, 16), (4.0, 24), (0.0, 32))
"""Number of cells, by the least standard deviation of a count's noise, in rows."""
_EXACT_CELLS, _LEAST_EXACT = 1024, 64
"""Cells without noise: of all outputs together, and of each at least."""
_REACH, _EXACT_REACH = 5.0, 12.0
"""Lower end of the last cell, in log-odds."""
_REACH_OF_MEDIAN = 1.6
"""The same, at least, relative to the median distance of scores from 0: most scores of a rare class
lie far below 0, and cells must separate them."""
_REACH_OF_MARGINS = 2.0
"""The same for scores whose targets are −1 and 1."""
_VOTES = 3.0
"""The same for votes, relative to the square root of their number."""
_BEYOND = 1.15
"""Assumed score of the last cell, relative to its lower end."""


def count_cells(noise: float, outputs: int) -> int:
    """Return the number of cells of scores of so many outputs: few where noise is large.

    A wide cell hides the order of its rows, which lowers an AUC; each further cell adds noise, a
    standard deviation of `noise` rows in each count. `docs/evaluation.md` has the measurements.
    """
    if noise == 0:
        return max(_EXACT_CELLS // outputs // 2 * 2, _LEAST_EXACT)
    return next(cells for least, cells in _CELLS if noise >= least)


def cells_of_scores(model: Model, count: int, exact: bool = False) -> ScoreCells:
    """Return cells of scores: narrow about 0 and wider towards both ends.

    They follow from the model and the noise alone, never from rows. Their number is even:
    predictions change at the middle edge, since a score above 0 is of the second class. Without
    noise they reach further.
    """
    scores = model.scores
    reach = _EXACT_REACH if exact else _reach_of(scores)
    if not model.has_probabilities:
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
    """Return the lower end of the last cell, from typical scores of the released values."""
    typical = np.abs(scores.typical()) / SCORE_STEPS
    if not typical.size:
        return _REACH
    median = float(np.median(typical, axis=1).max())
    return min(max(_REACH, _REACH_OF_MEDIAN * median), _EXACT_REACH)
