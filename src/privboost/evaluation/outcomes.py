"""What rows are told apart by: integers that follow from a row and a model, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_expit, softmax

from privboost.grid import SCORE_STEPS
from privboost.losses import UNKNOWN_LABEL
from privboost.models.model import Model
from privboost.tables.encoding import code_target
from privboost.tables.pieces import Column
from privboost.tables.rows import Codes
from privboost.tables.values import read_numbers

STEPS = 4096
"""Steps between the two ends of a clipped number: as many as a table of a loss has."""
_LEAST_CHANCE = 1e-30


@dataclass(frozen=True, eq=False)
class ClassOutcomes:
    """Whether the prediction is right, by class; then scores by cell, and whose they are.

    The first column is 2 · class + (1 if the prediction is right). Then, for each output, it is
    2 · cell + (1 if the row is of the output's own class). Without curves one column follows
    instead: the cell of the probability that the row's own class was given.

    Attributes
    ----------
    edges : int32 array
        Where cells of scores begin, but the first, in score steps.
    curves : bool
        Whether each output has a column.
    """

    kind: ClassVar[str] = "classes"
    edges: np.ndarray
    curves: bool

    @property
    def n_cells(self) -> int:
        """How many cells of scores there are."""
        return len(self.edges) + 1

    def sizes(self, model: Model) -> tuple[int, ...]:
        """Return how many codes each column has."""
        hits = 2 * len(model.classes)
        if self.curves:
            return (hits, *[2 * self.n_cells] * model.scores.n_outputs)
        return (hits, self.n_cells) if model.has_chances else (hits,)

    def code(
        self, model: Model, codes: Codes, column: Column
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the label of each row (0, or unknown), and its columns."""
        label, _ = code_target(column, model.domain.target)
        known = label != UNKNOWN_LABEL
        own = np.where(known, label, 0).astype(np.int64)
        scores = model.scores.scores(codes)
        best = (scores[0] > 0).astype(np.int64) if len(scores) == 1 else scores.argmax(axis=0)
        columns = [2 * own + (best == own)]
        if len(scores) == 1:
            columns.append(2 * self._cells(scores[0]) + own)
        elif self.curves or model.has_chances:
            odds = _odds_of_chances(scores) if model.has_chances else scores
            if self.curves:
                columns += [2 * self._cells(each) + (own == k) for k, each in enumerate(odds)]
            else:
                columns.append(self._cells(odds[own, np.arange(len(own))]))
        return np.where(known, 0, UNKNOWN_LABEL).astype(np.uint8), columns

    def _cells(self, scores: np.ndarray) -> np.ndarray:
        cells: np.ndarray = np.searchsorted(self.edges, scores, side="right")
        return cells

    def to_form(self) -> dict[str, Any]:
        """Return what travels."""
        return {"kind": self.kind, "edges": self.edges, "curves": self.curves}


@dataclass(frozen=True, eq=False)
class NumberOutcomes:
    """How far the prediction is off, and the label: both clipped, in `STEPS` from end to end.

    Attributes
    ----------
    clip : float
        What residuals are clipped to, on the scale of the target. Labels are clipped to the
        model's span.
    """

    kind: ClassVar[str] = "number"
    clip: float

    def sizes(self, model: Model) -> tuple[int, ...]:
        """Return how many codes each column has."""
        return STEPS, STEPS

    def code(
        self, model: Model, codes: Codes, column: Column
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the label of each row (0, or unknown), and its columns."""
        target: Any = model.domain.target
        values = np.asarray(read_numbers(column, target.name), dtype=np.float64)
        unknown = np.isnan(values)
        labels = np.clip(np.where(unknown, target.bounds[0], values), *target.bounds)
        middle, half = model.middle_and_half_of_labels
        predicted = model.numbers(model.scores.scores(codes)[0] / SCORE_STEPS)
        with np.errstate(over="ignore"):  # no value may warn
            columns = [
                _in_steps((labels - predicted) / self.clip),
                _in_steps((labels - middle) / half),
            ]
        return np.where(unknown, UNKNOWN_LABEL, 0).astype(np.uint8), columns

    def to_form(self) -> dict[str, Any]:
        """Return what travels."""
        return {"kind": self.kind, "clip": self.clip}


Outcomes = ClassOutcomes | NumberOutcomes


def read_outcomes(form: dict[str, Any]) -> Outcomes:
    """Read what `to_form` gave."""
    if form["kind"] == ClassOutcomes.kind:
        return ClassOutcomes(form["edges"], form["curves"])
    return NumberOutcomes(form["clip"])


def _in_steps(values: np.ndarray) -> np.ndarray:
    """Return which step numbers from −1 to 1 lie in; those beyond in the last."""
    at = np.nan_to_num((np.clip(values, -1, 1) + 1) * (STEPS / 2))
    steps: np.ndarray = np.minimum(at, STEPS - 1).astype(np.int64)
    return steps


def _odds_of_chances(scores: np.ndarray) -> np.ndarray:
    """Return the log-odds of each class's probability, in score steps, given one-vs-rest scores."""
    chances = np.clip(softmax(log_expit(scores / SCORE_STEPS), axis=0), _LEAST_CHANCE, 1.0)
    others = np.clip(chances.sum(axis=0) - chances, _LEAST_CHANCE, 1.0)
    odds: np.ndarray = np.rint((np.log(chances) - np.log(others)) * SCORE_STEPS)
    steps: np.ndarray = odds.astype(np.int32)
    return steps
