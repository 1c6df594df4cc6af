"""Scale of quantiles: where scores begin, and how wide the step of the gradient is.

Rows are counted by label in even cells of the clipping range. The quantile of these counts is the
initial score, and their density there decides the width over which the step of the gradient is
smoothed, so that Hessians are densities that noise does not hide. At last rows are counted by
residual, and all scores are shifted so that the wanted share of labels lies below them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost.accounting.noisy_sums import NoisySums
from privboost.engine.updates import Start
from privboost.losses.base import Pinball
from privboost.mechanisms.curator import Curator
from privboost.recipes.common.corrections import shift_share
from privboost.recipes.common.initial_score import publish_initial_scores
from privboost.recipes.common.label_counts import count_labels
from privboost.recipes.common.label_shares import shares_at_bounds
from privboost.recipes.common.plan import PlanBasis, counts_release
from privboost.recipes.common.scale import Calibrated, Scale, ScaledPlan
from privboost.recipes.common.target_range import TargetRange

_CELLS = 64
"""Cells of labels."""

_NEAR = 0.2
"""Share of labels on either side of the quantile over which their density is taken."""

_SMOOTH = 0.25
"""Width of the step, in parts of the range of these labels."""

_LEAST_WIDTH, _MOST_WIDTH = 0.01, 0.25
"""Bounds of the width, in units of scores."""


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantileScale(Scale):
    """Start and width of a loss of quantiles, from released counts by label.

    Attributes
    ----------
    quantile : float
        The share of labels below.
    curvature : float
        About the mean Hessian at the initial score.
    """

    quantile: float
    curvature: float

    @classmethod
    def init_release(cls, basis: PlanBasis, kind: type[NoisySums]) -> NoisySums:
        """Return the release of counts by label."""
        return counts_release(kind, "rows by label, for the initial score", basis.bound)

    @classmethod
    def begin(cls, curator: Curator, plan: ScaledPlan, target_range: TargetRange) -> Self:
        """Count rows by label; publish the loss and the quantile of labels.

        Privacy
        -------
        Spends `plan.init_release` once: a row lies in one of `_CELLS` even cells of the clipping
        range.
        """
        loss, settings = plan.task.loss_instance, plan.settings
        assert isinstance(loss, Pinball)
        curator.publish(Start(loss.table(loss.largest_gradient, loss.largest_hessian)))
        edges = np.linspace(-SCORE_STEPS, SCORE_STEPS, _CELLS + 1)
        counts = count_labels(curator, plan, plan.first_release, edges)
        share = loss.quantile
        start, first, last = (
            counts.level(min(max(share + step, 0.02), 0.98)) for step in (0.0, -_NEAR, _NEAR)
        )
        reach = max(last - first, 2 / _CELLS)
        density = 2 * _NEAR / reach
        width = min(max(_SMOOTH * reach, _LEAST_WIDTH), _MOST_WIDTH)
        loss = loss.with_width(width)
        curvature, rows = min(density, loss.largest_hessian), np.array([counts.rows])
        clip = settings.gradient_clip or loss.largest_gradient
        hessian_clip = settings.hessian_clip or loss.largest_hessian
        found = cls(
            clip=clip,
            hessian_clip=hessian_clip,
            start=np.array([round(start * SCORE_STEPS)], dtype=np.int32),
            start_noise=np.array([min(float(counts.total[1]) / 2 / counts.rows / density, 1.0)]),
            rows=rows,
            weights=rows * curvature,
            counted=counts.total,
            spread=share * (1 - share) / curvature,
            typical=reach / 4,
            row_mass=hessian_clip,
            quantile=share,
            curvature=curvature,
            label_shares=shares_at_bounds(target_range.labels, plan.encoder.domain.target),
        )
        publish_initial_scores(curator, loss.table(clip, hessian_clip), found.start)
        return found

    def response(self, output: int, scores: np.ndarray) -> np.ndarray:
        """See `Scale.response`."""
        return np.full(len(scores), self.rows[output] * self.curvature)

    def correct(self, curator: Curator, plan: ScaledPlan, model: Calibrated) -> Calibrated:
        """See `Scale.correct`: all scores are shifted, so that the share below is right."""
        if plan.calibration_release is None:
            return model
        shift = shift_share(curator, plan, plan.calibration_release, self.quantile)
        return model.with_calibration(np.array([[1.0, shift]]))
