"""BoostedAdaSSP: a linear model boosted from noisy sufficient statistics.

XᵀX is released once, and gives the shape of every step; each round releases Xᵀg for the gradients
g at the rows' scores so far, and takes a ridge step. Where the noise is larger than the signal, the
ridge follows it: the smallest eigenvalue becomes that of pure noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privboost.boosting.adassp_plan import AdaSSPPlan
from privboost.boosting.calibrated import release_line_and_error
from privboost.boosting.probabilities import ScoreCells
from privboost.engine.queries import GRADIENT_COUNT, GramSums, LinearSums, TreeSums
from privboost.engine.updates import SetLinearScores, SetTerms, Start, UseLoss
from privboost.grid import FACTOR_STEPS, MAX_SCORE, SCORE_STEPS, VECTOR_STEPS
from privboost.losses import LossTable, class_indicator
from privboost.models.linear import LinearScores
from privboost.models.told_rows import pool_counts
from privboost.privacy.curator import Curator
from privboost.progress import Track
from privboost.trees.tree import stump

_PUBLISHED: dict[str, Any] = {
    "learning_rate": 1.0,
    "ratio": (1.0, 1.0, 1.0),  # of which the paper has no numbers; AdaSSP divides evenly
    "ridge": "adassp",
    "gradient_clip": 1.0,
    "clip_decay": 1.0,
    "tail": 0.0,
    "intercept": False,  # X has no constant column
    "norm_bound": "longest",
}
PRESETS = {"Algorithm2": _PUBLISHED, "AdaSSP": {"n_estimators": 1} | _PUBLISHED}
"""The published algorithm, its rounds left open, and the one that it boosts."""

_FAILURE = 0.05
"""The chance that AdaSSP's rule leaves open, of a ridge that is too small."""


def boost_adassp(curator: Curator, plan: AdaSSPPlan, track: Track = iter) -> LinearScores:
    """Train a linear model.

    Parameters
    ----------
    curator : Curator
        Who releases.
    plan : AdaSSPPlan
        What was decided; its releases are reserved.
    track : callable
        Wraps the rounds, to show progress.

    Privacy
    -------
    Spends exactly `plan.releases`, whatever the rows: the matrix once, the smallest eigenvalue and
    class counts if they are asked for, for each round and output one vector, and at last the counts
    by score of each output.
    """
    settings, terms = plan.settings, plan.design.terms
    outputs, coordinates = plan.task.n_outputs, terms.n_coordinates
    curator.publish(SetTerms(terms))
    weights = _class_weights(curator, plan)
    curator.publish(Start(_table(plan, weights, 0), outputs))
    shape = _released_shape(curator, plan, weights)

    theta = np.zeros((outputs, coordinates))
    tail, first_of_tail = np.zeros_like(theta), _first_of_tail(plan, settings.n_estimators)
    history: list[np.ndarray] = []
    for round_ in track(range(settings.n_estimators)):
        if round_ and settings.clip_decay < 1:
            curator.publish(UseLoss(_table(plan, weights, round_)))
        for output in range(outputs):
            sums = curator.linear(LinearSums.of(terms, output), plan.gradients)
            gradient = sums * (settings.clip(round_) / (FACTOR_STEPS * VECTOR_STEPS))
            theta[output] -= settings.learning_rate * (shape.inverse @ gradient)
            theta[output] = _within_scores(theta[output], plan)
            curator.publish(SetLinearScores(_on_the_grid(theta[output]), output))
        if round_ >= first_of_tail:
            tail += theta
        if settings.keep_stages:
            history.append(theta.copy())
    tail = _centred(tail / (settings.n_estimators - first_of_tail), plan)
    lines, errors = _released_lines(curator, plan, tail)
    final, stages = _on_lines(tail, lines, plan), None
    if settings.keep_stages:
        stages = np.concatenate([_stages(np.array(history[:-1]), lines, plan), final[None]])
    scale = 1 / plan.design.norm_bound
    # A slope's error stretches all coefficients alike: it is the largest for strong ones.
    stretched = errors[:, None] * tail * SCORE_STEPS
    noise = lines[:, :1] * np.hypot(_coefficient_noise(plan, shape), stretched)
    told = _moments(plan, shape.gram), noise
    meaning, rows = plan.design.coordinates, _rows(plan, shape.gram)
    return LinearScores(terms, meaning, final, plan.loss.log_odds, scale, *told, stages, rows)


def _released_lines(
    curator: Curator, plan: AdaSSPPlan, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope and shift of each output's scores; 1 and 0 where nothing is counted.

    Beside them, the error of each slope, in parts of it. Rows' scores are put to those of the model
    first, which is a mean over rounds.
    """
    lines = np.tile([1.0, 0.0], (plan.task.n_outputs, 1))
    errors = np.zeros(plan.task.n_outputs)
    if plan.scores is None:
        return lines, errors
    curator.publish(UseLoss(plan.task.table(1.0, 1.0)))
    cells = ScoreCells.around(np.zeros(0))
    for output, own in enumerate(theta):
        curator.publish(SetLinearScores(_on_the_grid(own), output))
        lines[output], errors[output] = release_line_and_error(
            curator, plan, plan.scores, output, cells
        )
    return lines, errors


def _on_lines(theta: np.ndarray, lines: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    """Put each output's scores on its line; return coefficients on the grid."""
    if plan.scores is None:
        return _on_the_grid(theta)
    moved = theta * lines[:, :1]
    moved[:, 0] += lines[:, 1] / (plan.design.terms.value[0][0] / VECTOR_STEPS)
    return np.stack([_on_the_grid(_within_scores(own, plan)) for own in moved])


def _stages(history: np.ndarray, lines: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    """Return what the model would be had it ended after each of these rounds, on the grid."""
    shape = plan.task.n_outputs, plan.design.terms.n_coordinates
    so_far = np.cumsum([np.zeros(shape), *history], axis=0)
    stages = np.empty((len(history), *shape), dtype=np.int32)
    for rounds in range(1, len(history) + 1):
        first = _first_of_tail(plan, rounds)
        mean = (so_far[rounds] - so_far[first]) / (rounds - first)
        stages[rounds - 1] = _on_lines(_centred(mean, plan), lines, plan)
    return stages


@dataclass(frozen=True, eq=False)
class _Shape:
    """XᵀX as it was released, and as steps use it, in parts of the norm bound.

    Attributes
    ----------
    gram : array of shape (coordinates, coordinates)
        The released matrix.
    values, vectors : arrays
        Its eigenvalues and eigenvectors.
    edge : float
        The edge of the spectrum of the noise alone.
    lifted : array
        The eigenvalues of XᵀX + λI.
    """

    gram: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    edge: float
    lifted: np.ndarray

    @cached_property
    def inverse(self) -> np.ndarray:
        """(XᵀX + λI)⁻¹."""
        inverse: np.ndarray = (self.vectors / self.lifted) @ self.vectors.T
        return inverse


def _released_shape(curator: Curator, plan: AdaSSPPlan, weights: tuple[float, float]) -> _Shape:
    """Release XᵀX, and λ_min where it is asked for; no eigenvalue stays below the noise's edge."""
    factor = np.floor(np.sqrt(weights) * VECTOR_STEPS).astype(np.int32)
    query = GramSums.of(plan.design.terms, factor)
    size = 1 / VECTOR_STEPS**2
    gram = curator.gram(query, plan.gram) * size
    values, vectors = np.linalg.eigh(gram)
    edge = plan.gram.sigmas[0] * size * np.sqrt(2 * len(values))
    least = None
    if plan.least is not None:
        least = curator.least_eigenvalue(query, plan.least) * size
    lifted = np.maximum(values + _ridge(plan, values[0], edge, least), edge)
    if edge == 0:  # a direction that rounding to the grid alone may give is left as it is
        lifted[lifted <= np.trace(gram) * size] = np.inf
    return _Shape(gram, values, vectors, edge, lifted)


def _ridge(plan: AdaSSPPlan, smallest: float, edge: float, least: float | None) -> float:
    """Return λ, in parts of the norm bound's square.

    By default it lifts the smallest eigenvalue to the edge of the noise's own spectrum, σ√(2d).
    AdaSSP's rule takes a lower confidence bound of the released eigenvalue, and lifts that to what
    the noise of a matrix exceeds with a chance of `_FAILURE` at most.

    Parameters
    ----------
    plan : AdaSSPPlan
        The rule, and how much noise there is.
    smallest : float
        The smallest eigenvalue of the released matrix.
    edge : float
        σ√(2d).
    least : float, optional
        The released eigenvalue.
    """
    given = plan.settings.ridge
    if isinstance(given, float):
        return given / plan.design.norm_bound**2
    if edge == 0:  # no noise to stand above
        return 0.0
    if given == "adassp":
        assert plan.least is not None
        assert least is not None
        size, dimension = 1 / VECTOR_STEPS**2, plan.design.terms.n_coordinates
        doubt = math.sqrt(math.log(6 / plan.budget.delta)) * plan.least.sigmas[0] * size
        reach = math.sqrt(dimension * math.log(2 * dimension**2 / _FAILURE))
        return float(max(reach * plan.gram.sigmas[0] * size - max(least - doubt, 0.0), 0.0))
    if least is None:
        least = smallest
    # What noise does to the spectrum is not in the released eigenvalue.
    return max(edge - min(least, smallest + edge), 0.0)


def _moments(plan: AdaSSPPlan, gram: np.ndarray) -> np.ndarray | None:
    """Return the mean and the mean square of each coordinate's entries, as the matrix tells.

    Without a constant coordinate nothing tells how many rows there are, and there are none.
    """
    told = _rows(plan, gram)
    if told is None:
        return None
    one = plan.design.terms.value[0][0] / VECTOR_STEPS
    moments: np.ndarray = np.stack([gram[0] / one, np.diag(gram)]) / max(told[0], 1.0)
    return moments


def _rows(plan: AdaSSPPlan, gram: np.ndarray) -> np.ndarray | None:
    """Return how many rows the square of the constant coordinate tells of, where there is one."""
    if not plan.design.has_intercept:
        return None
    one = plan.design.terms.value[0][0] / VECTOR_STEPS
    noise = float(plan.gram.sigmas[0]) / VECTOR_STEPS**2
    return pool_counts([gram[0, 0] / one**2], noise / one**2)


def _coefficient_noise(plan: AdaSSPPlan, shape: _Shape) -> np.ndarray:
    """Return the standard deviation that noise alone gives to each coefficient, on the grid.

    In each direction of the matrix, an error of one round is mended in the next as far as the
    loss bends; coefficients are means over the last rounds.
    """
    settings = plan.settings
    first = _first_of_tail(plan, settings.n_estimators)
    bend = plan.loss.curvature * min(settings.clip(settings.n_estimators), 1.0)
    heard = np.maximum(shape.values - shape.edge, 0.0) / shape.lifted
    left = np.maximum(1 - settings.learning_rate * bend * heard, 0.0)
    last, with_sum, sum_ = np.zeros((3, len(left)))
    for round_ in range(settings.n_estimators):
        sigma = plan.gradients.sigmas[0] * settings.clip(round_) / (FACTOR_STEPS * VECTOR_STEPS)
        last = left**2 * last + (settings.learning_rate * sigma / shape.lifted) ** 2
        with_sum = left * with_sum
        if round_ >= first:
            sum_ = sum_ + 2 * with_sum + last
            with_sum = with_sum + last
    mean = sum_ / (settings.n_estimators - first) ** 2
    directions = _without_levels(shape.vectors.T, plan)
    noise: np.ndarray = np.sqrt(mean @ directions**2) * SCORE_STEPS
    return noise


def _class_weights(curator: Curator, plan: AdaSSPPlan) -> tuple[float, float]:
    """Return the weights of the two classes, of which the larger is 1.

    Those of "balanced" classes follow their released counts.
    """
    given = plan.settings.class_weight
    if isinstance(given, tuple):
        return given[0] / max(given), given[1] / max(given)
    if plan.counts is None:
        return 1.0, 1.0
    curator.publish(Start(class_indicator(), plan.task.n_outputs))
    own, all_rows = curator.sums(TreeSums((stump(),), 0, GRADIENT_COUNT), plan.counts)[0, 0]
    counts = np.maximum([all_rows - own, own], plan.contribution.row_steps)
    other, same = counts.min() / counts
    return float(other), float(same)


def _table(plan: AdaSSPPlan, weights: tuple[float, float], round_: int) -> LossTable:
    return plan.loss.gradient_table(plan.settings.clip(round_), weights)


def _centred(theta: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    """Move the mean of each feature's indicators into the intercept.

    Only their differences are learned, as every row has one of them: the common level is noise. A
    value without an indicator then has the mean of those that have one.
    """
    if not plan.design.has_intercept:
        return theta
    return np.stack([_within_scores(own, plan) for own in _without_levels(theta, plan)])


def _without_levels(theta: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    """Give the mean of each feature's indicators to the intercept, if there is one."""
    terms = plan.design.terms
    if not plan.design.has_intercept:
        return theta
    centred = theta.copy()
    for (_, second), coordinate, value in zip(
        terms.features, terms.coordinate, terms.value, strict=True
    ):
        own = np.unique(coordinate)
        alike = {int(entry) for entry in np.unique(value)} - {0}
        if second < 0 and len(own) > 1 and len(alike) == 1 and own[0] > 0:
            mean = theta[:, own].mean(axis=1)
            centred[:, own] -= mean[:, None]
            centred[:, 0] += mean * (alike.pop() / terms.value[0][0])
    return centred


def _first_of_tail(plan: AdaSSPPlan, rounds: int) -> int:
    return rounds - max(1, round(plan.settings.tail * rounds))


def _within_scores(theta: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    """Shorten coefficients with which a row's score could leave the grid."""
    longest = math.sqrt(plan.design.terms.most_square) / VECTOR_STEPS
    most = MAX_SCORE / 2 / max(longest, 1.0)
    short: np.ndarray = theta * min(1.0, most / max(float(np.linalg.norm(theta)), 1e-300))
    return short


def _on_the_grid(theta: np.ndarray) -> np.ndarray:
    steps: np.ndarray = np.rint(theta * SCORE_STEPS).astype(np.int32)
    return steps
