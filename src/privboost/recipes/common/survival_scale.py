"""The loss of survival times: where scores begin, and the scale of log times around them.

Rows are counted by log time, in even cells of the clipping range, and by whether their event was
observed. The log-logistic distribution that explains these counts gives the initial score and the
scale with which the model is trained. At last rows are counted likewise by residual: scores explain
a part of what the first scale had to, so that a smaller one is right for predictions.

Log-likelihoods are sums over counts, so that noise leaves them unbiased; they are weighed against a
prior by how large that noise is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, logit

from privboost._core.grid import SCORE_STEPS
from privboost.accounting.noisy_sums import NoisySums
from privboost.engine.queries import ScoreCounts
from privboost.engine.updates import Start
from privboost.losses.log_logistic import LogLogistic
from privboost.mechanisms.curator import Curator
from privboost.recipes.common.plan import Plan

_CELLS = 24
"""Cells of log times."""

_RESIDUAL_CELLS = 16
"""Cells of residuals, equally likely if all events were observed."""

_LOG_SCALE, _LOG_SCALE_SPREAD = math.log(0.7), 0.5
"""Prior of the logarithm of the scale, in logarithms of time: that of exponential times is 0.7."""

_START, _START_SPREAD = 0.5, 1.5
"""Prior of the initial score, in scores."""

_LAST_SHIFT, _LAST_SPREAD = 0.5, 0.3
"""Prior deviations of the last shift, in scales, and of the logarithm of the last scale."""

_LEAST_SCALE, _MOST_SCALE = 0.01, 4.0
"""Bounds of the scale, in scores."""

_GRID, _ZOOMS = 41, 5
"""Points of the grid of each unknown, and how often it is refined."""

_LEAST_CURVATURE = 0.02
"""Least mean Hessian that is assumed, for a scale of 1."""

_NEAR = 1e-9
"""Least probability of a cell: one of 0 would decide alone, even if its count were noise."""


def plan_survival_releases(
    kind: type[NoisySums], bound: Mapping[str, Any]
) -> tuple[NoisySums, NoisySums]:
    """Return the releases of start and scale, and of their last correction, with a noise of 1."""
    first = "rows by log time and event, for the initial score and the scale"
    last = "rows by residual and event, to correct the scale"
    return (
        kind(first, 1.0, cells=1, shares=(1.0,), **bound),
        kind(last, 1.0, cells=1, shares=(1.0,), **bound),
    )


class Belief(NamedTuple):
    """What is believed of a location and of the logarithm of a scale: means and deviations."""

    location: float
    spread: float
    log_scale: float
    log_spread: float


@dataclass(frozen=True, eq=False)
class EventCounts:
    """Noisy counts of rows by interval of a number, censored rows and events apart.

    Attributes
    ----------
    ends : float array
        The ends of intervals, infinite at both sides if numbers may lie beyond.
    counts : float array of shape (intervals, 2)
        Censored rows, and events.
    noise : float
        Standard deviation of each count.
    """

    ends: np.ndarray
    counts: np.ndarray
    noise: float

    @property
    def rows(self) -> float:
        """About how many rows there are."""
        return max(float(self.counts.sum()), 1.0)

    def fit(self, prior: Belief) -> Belief:
        """Return what the counts leave to believe of a log-logistic distribution."""
        events = max(float(self.counts[:, 1].sum()), 0.0)
        # Noise moves a log-likelihood's slope by that of some half of all counts.
        weight = 1 / (1 + self.noise**2 * len(self.counts) / max(events, 1.0))
        found, wide = prior, 4.0
        for _ in range(_ZOOMS):
            locations = found.location + wide * found.spread * np.linspace(-1, 1, _GRID)
            logs = found.log_scale + wide * found.log_spread * np.linspace(-1, 1, _GRID)
            logs = np.clip(logs, math.log(_LEAST_SCALE), math.log(_MOST_SCALE))
            belief = weight * self._log_likelihood(locations, np.exp(logs))
            belief -= ((locations - prior.location) / prior.spread)[:, None] ** 2 / 2
            if prior.log_spread > 0:
                belief -= ((logs - prior.log_scale) / prior.log_spread) ** 2 / 2
            shares = np.exp(belief - belief.max())
            shares /= shares.sum()
            steps = locations[1] - locations[0], logs[-1] - logs[-2]
            found = Belief(
                *_moments(locations, shares.sum(axis=1), steps[0]),
                *_moments(logs, shares.sum(axis=0), steps[1]),
            )
        return found

    def _log_likelihood(self, locations: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of each location and scale."""
        late = (self.ends - locations[:, None, None]) / scales[:, None]
        alive = expit(-late)
        censored = np.log(np.maximum((alive[..., 1:] + alive[..., :-1]) / 2, _NEAR))
        event = np.log(np.maximum(alive[..., :-1] - alive[..., 1:], _NEAR))
        found: np.ndarray = censored @ self.counts[:, 0] + event @ self.counts[:, 1]
        return found

    def curvature(self, location: float, scale: float) -> float:
        """Return about the mean Hessian at a location."""
        middles = np.clip((self.ends[1:] + self.ends[:-1]) / 2, self.ends[1], self.ends[-2])
        late = (middles - location) / scale
        each = expit(late) * expit(-late)
        seen = np.maximum(self.counts - self.noise, 0.0)
        mean = float(each @ seen @ np.array([1.0, 2.0])) / max(float(seen.sum()), 1.0)
        return min(max(mean, _LEAST_CURVATURE), 0.5) / scale**2


def _moments(points: np.ndarray, shares: np.ndarray, step: float) -> tuple[float, float]:
    """Return mean and deviation, which is at least half a step of the grid."""
    mean = float(points @ shares)
    return mean, max(math.sqrt(float((points - mean) ** 2 @ shares)), abs(step) / 2)


@dataclass(frozen=True, eq=False)
class SurvivalScale:
    """Start and scale of the loss of survival times, from released counts by log time and event.

    Attributes
    ----------
    loss : LogLogistic
        The loss, with its scale.
    start : int
        The initial score, in score steps.
    start_noise : float
        About the standard deviation of the initial score.
    curvature : float
        About the mean Hessian at the initial score.
    fixed : bool
        Whether the scale is public, and stays.
    counted : float array
        The noisy count of rows, and its standard deviation.
    clip : float
        Clip of gradients.
    """

    loss: LogLogistic
    start: int
    start_noise: float
    curvature: float
    fixed: bool
    counted: np.ndarray
    clip: float

    spread: ClassVar[float] = 1.0
    """Variance of gradients for a sum of Hessians of 1, as of any log-likelihood."""

    @property
    def most_step(self) -> float:
        """Largest step of one measurement: where hardly a row is known, Hessians vanish."""
        return 2 * self.loss.scale

    @property
    def typical(self) -> float:
        """Size of an effect that a measurement should detect."""
        return self.loss.scale / 2

    def response(self, rows: float, scores: np.ndarray) -> np.ndarray:
        """Return about the derivative of so many rows' gradients with respect to their scores."""
        return np.full(len(scores), rows * self.curvature)

    def corrected(
        self, curator: Curator, plan: Plan, release: NoisySums | None
    ) -> tuple[float, float]:
        """Return the shift of all scores, and the scale of log times around them, in scores.

        Privacy
        -------
        Spends `release` once, if there is one: a row lies in one cell of residuals, of censored
        rows or of events.
        """
        scale = self.loss.scale
        if release is None:
            return 0.0, scale
        late = scale * logit(np.arange(1, _RESIDUAL_CELLS) / _RESIDUAL_CELLS)
        steps = np.unique(np.rint(late * SCORE_STEPS).astype(np.int64))
        # States are scores less log times.
        counts = curator.sums(ScoreCounts(-steps[::-1].astype(np.int32)), release)[::-1, :, 0]
        ends = np.concatenate([[-math.inf], steps / SCORE_STEPS, [math.inf]])
        deviation = float(release.deviations[0]) * plan.count_step
        known = EventCounts(ends, counts * plan.count_step, deviation)
        log_spread = 0.0 if self.fixed else _LAST_SPREAD
        found = known.fit(Belief(0.0, _LAST_SHIFT * scale, math.log(scale), log_spread))
        return found.location, math.exp(found.log_scale)


def release_survival_scale(
    curator: Curator, plan: Plan, release: NoisySums, scale: float | None
) -> tuple[SurvivalScale, np.ndarray]:
    """Count rows by log time and event; return start and scale, and the noisy count of rows.

    The count is in grid steps; `scale` is the scale in logarithms of time, if it is public.

    Privacy
    -------
    Spends `release` once: a row lies in one of `_CELLS` even cells of the clipping range, of
    censored rows or of events.
    """
    loss = plan.task.loss_instance
    assert isinstance(loss, LogLogistic)
    curator.publish(Start(loss.table(loss.largest_gradient, loss.largest_hessian)))
    _, half = plan.encoder.domain.target.middle_and_half(curator.target_range)
    edges = np.rint(np.linspace(-SCORE_STEPS, SCORE_STEPS, _CELLS + 1)).astype(np.int32)
    counts = curator.sums(ScoreCounts(-edges[-2:0:-1]), release)[::-1, :, 0]
    rows, noise = int(counts.sum()), float(release.deviations[0])
    known = EventCounts(edges / SCORE_STEPS, counts * plan.count_step, noise * plan.count_step)
    log_scale, spread = (_LOG_SCALE, _LOG_SCALE_SPREAD) if scale is None else (math.log(scale), 0.0)
    found = known.fit(Belief(_START, _START_SPREAD, log_scale - math.log(half), spread))
    own = math.exp(found.log_scale)
    start = round(found.location * SCORE_STEPS)
    scaled = SurvivalScale(
        LogLogistic(own),
        start,
        found.spread,
        known.curvature(start / SCORE_STEPS, own),
        scale is not None,
        np.array([rows, noise * math.sqrt(counts.size)]) * plan.count_step,
        loss.largest_gradient,
    )
    return scaled, np.array([rows])
