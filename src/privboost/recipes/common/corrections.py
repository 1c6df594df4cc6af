"""The last release, and the correction of a model that follows from it, by kind of loss.

A clip of gradients biases predictions at every ε: of skewed labels a clipped fit finds something
between mean and median. So the last release of a squared loss has sums of labels less predictions,
and counts, in a few cells of the prediction. The line through predictions that explains them best,
given their noise, corrects the mean; where noise hides the bias that a clip can have, the line
stays as it is. With a log link all scores are shifted by what two sums say of the mean, and those
of a quantile by what counts by residual say of the share of labels below. Probabilities of classes
are calibrated (see `probability_calibration`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost.accounting.noisy_sums import NoisySums
from privboost.engine.queries import GRADIENT_HESSIAN, PredictionSums, TreeSums
from privboost.engine.updates import UseLoss
from privboost.losses.base import LogLink, Pinball, loss_of
from privboost.mechanisms.curator import Curator
from privboost.models.scores import UNKNOWN_SHARE
from privboost.recipes.common.label_counts import count_states
from privboost.recipes.common.plan import Plan, Task, counts_release
from privboost.recipes.common.probability_calibration import WHAT, Lineable, calibrate_scores
from privboost.trees.tree import stump


class Calibratable(Lineable, Protocol):
    """Scores of a model that can be calibrated."""

    def with_mean(self, mean: np.ndarray) -> Self:
        """Return the model with what is known of the mean label."""

    def with_label_shares(self, shares: np.ndarray | None) -> Self:
        """Return the model with unusual shares of labels, if there are any."""

    def with_time_scale(self, scale: float) -> Self:
        """Return the model with the scale of log times around scores."""


Calibrated = TypeVar("Calibrated", bound=Calibratable)

_WHAT = "labels less predictions, and rows, by prediction"

RESIDUAL_CLIP = 2.0
"""Bound of a residual, in half widths of the clipping range: none between label and prediction is
larger."""

_SHARES = (0.9, 0.1)
"""Shares of residuals and of counts in the release."""

_MOST_CELLS = 12
"""Most cells of predictions."""
_SLOPE_SIGNAL = 0.1
"""Deviation of predictions that noise may hide in a cell, in parts of that of all predictions."""
_SLOPE_PRIOR = 0.5
"""Prior standard deviation of the slope, around 1."""
_SHIFT_PRIOR = 0.03
"""Least prior standard deviation of the shift, in half widths of the range."""
_SPREAD = 0.05
"""Variance of a residual that is assumed, in squared half widths of the range."""
_LEVEL_PRIOR = 1.0
"""Prior standard deviation of the shift beside the slope."""
_STEEPEST = 3.0
"""Largest slope, inverse of the least, and largest shift."""


_LOG_SHARES = (0.75, 0.25)
"""Shares of the differences and of the predictions in the last release of a log link."""
_LAST_HESSIAN = 4.0
"""Clip of the predictions there, in units."""
_MOST_SHIFT = 1.0
"""Bound of the shift of logarithmic scores."""
RESIDUAL_CELLS = 64
"""Cells of residuals of a quantile."""
_FINE = 0.02
"""Residuals have even cells below this, in units of scores, and geometric ones above."""


class ClipEffect(NamedTuple):
    """Effect of the clip of gradients on a number, by released counts of labels.

    Attributes
    ----------
    bias : float
        Size of the shift of the mean that it may cause, in half widths of the range.
    share : float or None
        Share of the rows whose label is farther than the clip from the mean, if known.
    """

    bias: float
    share: float | None


UNKNOWN_CLIP = ClipEffect(0.03, None)
"""Where nothing is known of it."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Released residuals by cell of the prediction, in half widths of the clipping range.

    Attributes
    ----------
    edges : float array
        Edges of the cells of predictions, without the outer two.
    total, rows : float arrays
        Noisy sums of labels less predictions, and noisy counts.
    total_noise : float
        Standard deviation of a sum.
    """

    edges: np.ndarray
    total: np.ndarray
    rows: np.ndarray
    total_noise: float


def release_residuals(
    curator: Curator, plan: Plan, release: NoisySums, typical: np.ndarray, rows: float
) -> Residuals:
    """Release sums of labels less predictions and counts, by cell of the prediction.

    `typical` are scores of rows drawn from noisy counts, and `rows` is the noisy number of rows.

    Privacy
    -------
    Spends `release` once. Cells follow from released values; whatever they are, a row lies in one.
    """
    curator.publish(UseLoss(loss_of("number", "squared").table(RESIDUAL_CLIP, 1.0)))
    step = plan.count_step
    noise = RESIDUAL_CLIP * float(release.deviations[0]) * step
    edges = _edges(typical, _cells_for(rows, noise, typical / SCORE_STEPS))
    sums = curator.sums(PredictionSums(edges, SCORE_STEPS), release)
    total = -RESIDUAL_CLIP * step * sums[:, 0]
    return Residuals(edges / SCORE_STEPS, total, step * sums[:, 1], noise)


def _cells_for(rows: float, noise: float, typical: np.ndarray) -> int:
    """Return the number of cells: one where noise hides a slope, as every cell adds its own."""
    if not len(typical):
        return 1
    signal = _SLOPE_SIGNAL * rows * float(np.std(typical)) / max(noise, 1e-300)
    return int(min(max(signal, 1.0), math.sqrt(_MOST_CELLS)) ** 2 + 1e-9)


def _edges(typical: np.ndarray, cells: int) -> np.ndarray:
    """Return inner edges of cells of equally many expected rows."""
    at = len(typical) * np.arange(1, cells) // cells
    return np.unique(np.sort(typical)[at]).astype(np.int32)


@dataclass(frozen=True)
class Correction:
    """Correction of predictions, and what is then known of the mean label.

    Attributes
    ----------
    slope, shift : float
        The line through scores.
    label, error : float
        Mean label of the training rows by the released sums, and the error that noise gives to it.
    before, after : float
        Mean prediction before and after the correction.
    """

    slope: float
    shift: float
    label: float
    error: float
    before: float
    after: float

    @property
    def line(self) -> np.ndarray:
        """Slope and shift."""
        return np.array([self.slope, self.shift])

    def facts(self, clipped: float | None) -> np.ndarray:
        """Return what a model keeps of it; see `Scores.mean`."""
        share = UNKNOWN_SHARE if clipped is None else clipped
        return np.array([self.label, self.error, self.before, self.after, share])


def fit_correction(residuals: Residuals, typical: np.ndarray, bias: float) -> Correction:
    """Return the slope and shift of predictions that explain residuals best.

    The slope follows from the cells, the shift from all of them together: the mean is right
    whatever the slope. Both are shrunk by what noise hides.

    Parameters
    ----------
    typical : int32 array
        Scores of rows drawn from noisy counts.
    bias : float
        Size of the shift to expect from a clip, in half widths of the range.
    """
    scores = typical / SCORE_STEPS if len(typical) else np.zeros(1)
    rows = np.maximum(residuals.rows, 1.0)
    cell = np.searchsorted(residuals.edges, scores, side="right")
    number = np.maximum(np.bincount(cell, minlength=len(rows)), 1)
    weight = (rows / number)[cell]  # cells have the released counts, not those of typical rows
    weight /= weight.sum()
    centre = float(weight @ scores)
    far = np.bincount(cell, scores - centre, minlength=len(rows)) / number
    slope = 1.0
    if len(rows) > 1:
        variance = residuals.total_noise**2 + rows * _SPREAD
        pull = np.stack([rows * far, rows], axis=1)
        precision = (pull.T / variance) @ pull + np.diag([_SLOPE_PRIOR**-2, _LEVEL_PRIOR**-2])
        slope += float(np.linalg.solve(precision, (pull.T / variance) @ residuals.total)[0])
        slope = min(max(slope, 1 / _STEEPEST), _STEEPEST)
    prior = math.hypot(_SHIFT_PRIOR, bias)
    error = residuals.total_noise * math.sqrt(len(rows)) / float(rows.sum())
    change = float(residuals.total.sum()) / float(rows.sum())
    before = float(weight @ _bounded(scores))
    after = before + change * prior**2 / (prior**2 + error**2)
    shift = _shift_to(centre + slope * (scores - centre), weight, after)
    return Correction(slope, shift + centre * (1 - slope), before + change, error, before, after)


def _bounded(scores: np.ndarray) -> np.ndarray:
    """Return predictions within the clipping range."""
    bounded: np.ndarray = np.clip(scores, -1.0, 1.0)
    return bounded


def _shift_to(scores: np.ndarray, weight: np.ndarray, goal: float) -> float:
    """Return the shift with which the weighted mean of bounded predictions is nearest to a goal."""
    low, high = -_STEEPEST, _STEEPEST
    for _ in range(30):
        middle = (low + high) / 2
        if float(weight @ _bounded(scores + middle)) < goal:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def last_release(
    kind: type[NoisySums], task: Task, bound: Mapping[str, Any], noise: float = 1.0
) -> NoisySums:
    """Return the release of one output after the last round, by its kind of target and loss."""
    if task.target == "classes":
        return counts_release(kind, WHAT, bound, noise)
    if task.target == "survival":
        what = "rows by residual and event, to correct the scale"
        return counts_release(kind, what, bound, noise)
    if isinstance(task.loss_instance, Pinball):
        what = "rows by residual, to correct the share below predictions"
        return counts_release(kind, what, bound, noise)
    if task.loss_instance.log_link:
        what = "predictions less labels, and predictions, to correct their mean"
        return kind(what, noise, cells=1, shares=_LOG_SHARES, **bound)
    return kind(_WHAT, noise, cells=1, shares=_SHARES, **bound)


def shift_log_mean(
    curator: Curator,
    plan: Plan,
    release: NoisySums,
    labels: np.ndarray,
    clip: float,
    rows: float,
    beyond: float,
) -> float:
    """Return the shift of logarithmic scores with which the mean prediction is that of the labels.

    Parameters
    ----------
    labels : float array
        The label of each line, in the unit of e^score.
    clip : float
        Clip of the difference between prediction and label, wider than that of measurements.
    rows : float
        About how many rows there are.
    beyond : float
        About how much of the sum of labels lies beyond the clip.

    Privacy
    -------
    Spends `release` once, in addition to individual budgets where rows have some: the sums of all
    rows' differences between prediction and label, and of predictions.
    """
    means = loss_of("number", "poisson")  # whose gradients are these differences
    assert isinstance(means, LogLink)
    clips = clip, _LAST_HESSIAN
    curator.close_budgets()
    curator.publish(UseLoss(means.label_table(labels, *clips)))
    sums = curator.sums(TreeSums((stump(),), 0, GRADIENT_HESSIAN), release)[0, 0]
    gradient, hessian = sums * plan.count_step * clips
    predicted = max(float(hessian), 0.1 * rows, 1.0)
    wanted = predicted - float(gradient) + beyond
    shift = math.log(max(wanted, 0.1 * predicted) / predicted)
    return min(max(shift, -_MOST_SHIFT), _MOST_SHIFT)


def shift_share(curator: Curator, plan: Plan, release: NoisySums, share: float) -> float:
    """Return the shift of scores with which a share of the labels lies below them.

    Privacy
    -------
    Spends `release` once, in addition to individual budgets where rows have some: a row lies in one
    cell of residuals, which are states.
    """
    steps = np.arange(1, RESIDUAL_CELLS // 2) * (math.asinh(2 / _FINE) / (RESIDUAL_CELLS // 2))
    sizes = _FINE * np.sinh(steps)
    edges = np.concatenate([[-2.0], -sizes[::-1], [0.0], sizes, [2.0]]) * SCORE_STEPS
    curator.close_budgets()
    # A label lies below its prediction where the residual is above 0.
    return -count_states(curator, plan, release, edges).level(1 - share)


def calibrate(
    curator: Curator,
    plan: Plan,
    release: NoisySums | None,
    model: Calibrated,
    rows: Sequence[float] | None = None,
    clip: ClipEffect = UNKNOWN_CLIP,
) -> Calibrated:
    """Map the scores of a model by the lines that released values suggest.

    Those of classes become calibrated (see `calibrate_scores`), and the predictions of a number
    right on average. Without a `release` the model is returned unchanged. `rows` are noisy counts
    of each output, and `clip` is the effect of the clip of gradients by released counts.

    Privacy
    -------
    Spends `release` once for each output, in addition to individual budgets where rows have some.
    """
    if release is None or plan.task.target == "classes":
        return calibrate_scores(curator, plan, release, model, rows)
    typical = model.typical()[0]
    curator.close_budgets()
    residuals = release_residuals(curator, plan, release, typical, rows[0] if rows else 0.0)
    found = fit_correction(residuals, typical, clip.bias)
    return model.with_calibration(found.line[None]).with_mean(found.facts(clip.share))
