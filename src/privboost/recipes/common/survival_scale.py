"""Scale of survival times: where scores begin, and how far log times lie around them.

Rows are counted by log time, in even cells of the clipping range, and by whether their event was
observed. The log-logistic distribution that explains these counts gives the initial score and the
scale with which the model is trained. At last rows are counted likewise by residual: scores explain
a part of what the first scale had to, so that a smaller one is right for predictions.

Log-likelihoods are sums over counts, so that noise leaves them unbiased; they are weighed against a
prior by how large that noise is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.special import expit, logit

from privboost._core.grid import FULL_RANGE, SCORE_STEPS
from privboost.accounting.noisy_sums import NoisySums
from privboost.engine.queries import ScoreCounts
from privboost.engine.updates import Start
from privboost.losses.log_logistic import LogLogistic
from privboost.mechanisms.curator import Curator
from privboost.recipes.common.initial_score import publish_initial_scores
from privboost.recipes.common.label_shares import shares_of_times
from privboost.recipes.common.plan import Plan, PlanBasis, counts_release
from privboost.recipes.common.scale import Calibrated, Scale, ScaledPlan, clips_of_rows
from privboost.recipes.common.target_range import TargetRange

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
        """About how many rows there are, at least 1."""
        return max(float(self.counts.sum()), 1.0)

    @property
    def total(self) -> np.ndarray:
        """The noisy count of all rows, and its standard deviation."""
        return np.array([self.counts.sum(), self.noise * math.sqrt(self.counts.size)])

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


@dataclass(frozen=True, eq=False, kw_only=True)
class SurvivalScale(Scale):
    """Start and scale of the loss of survival times, from released counts by log time and event.

    Attributes
    ----------
    loss : LogLogistic
        The loss, with its scale.
    fixed : bool
        Whether the scale is public, and stays.
    curvature : float
        About the mean Hessian at the initial score.
    """

    loss: LogLogistic
    fixed: bool
    curvature: float

    @classmethod
    def init_release(cls, basis: PlanBasis, kind: type[NoisySums]) -> NoisySums:
        """Return the release of counts by log time and event."""
        what = "rows by log time and event, for the initial score and the scale"
        return counts_release(kind, what, basis.bound)

    @classmethod
    def begin(cls, curator: Curator, plan: ScaledPlan, target_range: TargetRange) -> Self:
        """Count rows by log time and event; publish the loss and the typical time.

        Privacy
        -------
        Spends `plan.init_release` once: a row lies in one of `_CELLS` even cells of the clipping
        range, of censored rows or of events.
        """
        loss, given, release = plan.task.loss_instance, plan.settings.scale, plan.first_release
        assert isinstance(loss, LogLogistic)
        curator.publish(Start(loss.table(loss.largest_gradient, loss.largest_hessian)))
        ends = np.linspace(-1.0, 1.0, _CELLS + 1)
        known = _count(curator, plan, release, ends)
        _, half = plan.encoder.domain.target.middle_and_half(target_range.ends)
        log_scale, spread = _LOG_SCALE, _LOG_SCALE_SPREAD
        if given is not None:
            log_scale, spread = math.log(given), 0.0
        found = known.fit(Belief(_START, _START_SPREAD, log_scale - math.log(half), spread))
        loss = LogLogistic(math.exp(found.log_scale))
        clip, hessian_clip = clips_of_rows(plan, known.rows)
        clip, hessian_clip = clip / loss.scale, hessian_clip / loss.scale**2
        curvature, rows = known.curvature(found.location, loss.scale), np.array([known.rows])
        at_bound = target_range.low == FULL_RANGE[0]
        scale = cls(
            clip=clip,
            hessian_clip=hessian_clip,
            start=np.array([round(found.location * SCORE_STEPS)], dtype=np.int32),
            start_noise=np.array([found.spread]),
            rows=rows,
            weights=rows * curvature,
            counted=known.total,
            spread=1.0,  # as of any log-likelihood
            typical=loss.scale / 2,
            most_step=2 * loss.scale,  # Hessians vanish where hardly a row is known
            row_mass=hessian_clip,
            loss=loss,
            fixed=given is not None,
            curvature=curvature,
            label_shares=shares_of_times(known.counts, known.noise, at_bound),
        )
        publish_initial_scores(curator, loss.table(clip, hessian_clip), scale.start)
        return scale

    def response(self, output: int, scores: np.ndarray) -> np.ndarray:
        """See `Scale.response`."""
        return np.full(len(scores), self.rows[output] * self.curvature)

    def correct(self, curator: Curator, plan: ScaledPlan, model: Calibrated) -> Calibrated:
        """See `Scale.correct`: all scores are shifted, and the model has the scale around them.

        Privacy
        -------
        Spends `plan.calibration_release` once, if there is one: a row lies in one cell of
        residuals, of censored rows or of events.
        """
        scale = self.loss.scale
        if plan.calibration_release is None:
            return model.with_time_scale(scale)
        late = scale * logit(np.arange(1, _RESIDUAL_CELLS) / _RESIDUAL_CELLS)
        ends = np.concatenate([[-math.inf], late, [math.inf]])
        known = _count(curator, plan, plan.calibration_release, ends)
        log_spread = 0.0 if self.fixed else _LAST_SPREAD
        found = known.fit(Belief(0.0, _LAST_SHIFT * scale, math.log(scale), log_spread))
        corrected = model.with_calibration(np.array([[1.0, found.location]]))
        return corrected.with_time_scale(math.exp(found.log_scale))


def _count(curator: Curator, plan: Plan, release: NoisySums, ends: np.ndarray) -> EventCounts:
    """Release counts of rows by event, and by interval of their log time less their score.

    States are scores less log times. Rows beyond the outer ends are in the outer intervals.
    """
    inner = np.unique(np.rint(ends[1:-1] * SCORE_STEPS).astype(np.int32))
    counts = curator.sums(ScoreCounts(-inner[::-1]), release)[::-1, :, 0] * plan.count_step
    steps = np.concatenate([ends[:1], inner / SCORE_STEPS, ends[-1:]])
    return EventCounts(steps, counts, float(release.deviations[0]) * plan.count_step)
