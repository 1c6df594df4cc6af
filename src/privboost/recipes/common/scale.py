"""Scales: what boosting knows of a loss on the rows' labels before its first round.

A recipe asks its loss for a scale. The scale names the releases of labels that come before the
rounds and the one that comes after them, makes them, and tells the rounds between how large
gradients, Hessians and their effects are. Whatever follows is the same for every loss.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import NoisySums
from privboost.mechanisms.curator import Curator
from privboost.recipes.common.corrections import (
    UNKNOWN_CLIP,
    Calibratable,
    ClipEffect,
    calibrate,
    last_release,
)
from privboost.recipes.common.exposure import Exposure
from privboost.recipes.common.initial_score import (
    initial_release,
    noisy_row_count,
    publish_initial_scores,
    release_initial_scores,
)
from privboost.recipes.common.label_shares import shares_at_bounds
from privboost.recipes.common.output_queries import AllClasses, OneOutput
from privboost.recipes.common.plan import Plan, PlanBasis
from privboost.recipes.common.target_range import TargetRange, plan_target_range

Calibrated = TypeVar("Calibrated", bound=Calibratable)

_CLIP = 0.3
"""Clip of gradients: of a number, and of classes where features have the strength `_STRENGTH`."""

_CLIPS = np.geomspace(0.1, 2.0, 27)
"""Clips of a number's gradients, in half widths of its range, of which one is chosen."""

_NOISE_OF_CLIP = 200.0
"""Noise of a prediction with a clip of 1: in parts of that of a mean of all rows in all rounds
together, and of the root of the number of features."""

_LEAST_CLIP = 0.7
"""Least clip, in standard deviations of labels: below it, far labels say next to nothing."""

_STRENGTH = 50.0
"""Rows for each feature, in standard deviations of the noise of all rounds together."""

_GROWTH = 0.2
"""Exponent with which the clip of classes grows with the strength."""

_NARROWEST = 0.25
"""Smallest clip of a class' gradients."""

_WIDEST = 1.0
"""Largest clip of a class' gradients, which no gradient exceeds."""

_LEAST_HESSIAN = 0.1
"""Smallest clip of a class' Hessians."""

_MOST_HESSIAN = 0.25
"""Largest clip of a class' Hessians, which no Hessian exceeds."""


@dataclass(frozen=True, eq=False)
class ScaledPlan(Plan):
    """Plan of a recipe that begins and ends with the scale of its loss.

    Attributes
    ----------
    settings : Parameters
        Parameters of the recipe, among them `gradient_clip` and `hessian_clip`, None by default.
    init_release : NoisySums or None
        What one output's initial score follows from; where it is None, scores begin at 0.
    calibration_release : NoisySums or None
        The last release of one output.
    label_release : NoisySums or None
        Counts by label beside those of a clipping range.
    shifts_release : NoisySums or None
        A second last release, of several classes.
    """

    settings: Any
    init_release: NoisySums | None
    calibration_release: NoisySums | None
    label_release: NoisySums | None = field(default=None, kw_only=True)
    shifts_release: NoisySums | None = field(default=None, kw_only=True)

    @property
    def first_release(self) -> NoisySums:
        """The release of the initial score, where there is one."""
        assert self.init_release is not None
        return self.init_release

    @property
    def pure(self) -> bool:
        """Whether the budget is pure ε: then noise is Laplace."""
        return self.budget.delta == 0

    @property
    @abstractmethod
    def n_measured(self) -> int:
        """Number of features whose effects are measured."""

    @property
    @abstractmethod
    def pooled_noise(self) -> float:
        """Noise of the mean of all measurements of one output, in rows, for a clip of 1."""

    @property
    def exposure(self) -> Exposure | None:
        """The effect of the exposure, if there is one."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Scale(ABC):
    """The scale of a loss, from released values; arrays have one entry for each output.

    Attributes
    ----------
    clip, hessian_clip : float
        Clips of gradients and Hessians.
    start : int32 array
        Scores at which rows begin, in score steps.
    zero : int
        What a score of 0 stands for in the model, in score steps.
    start_noise : float array
        Standard deviations of the initial scores.
    rows : float array
        Noisy counts of rows, at least 1.
    weights : float array
        About the sums of all Hessians at the initial scores.
    counted : float array
        The noisy count of rows, and its standard deviation, in rows of the largest weight.
    spread : float
        φ: variance of gradients, for a sum of Hessians of 1.
    typical : float
        θ₀: size of an effect that a measurement should detect.
    most_step : float
        Largest step of one measurement, in scores.
    row_mass : float
        Hessian of a row that counts as one, in a model's counts.
    effect : ClipEffect
        What the clip of gradients does to the mean of a number.
    label_shares : float array, or None
        Unusual shares of labels; see `Scores.label_shares`.
    """

    clip: float
    hessian_clip: float
    start: np.ndarray
    start_noise: np.ndarray
    rows: np.ndarray
    weights: np.ndarray
    counted: np.ndarray
    spread: float
    typical: float
    zero: int = 0
    most_step: float = math.inf
    row_mass: float = 1.0
    effect: ClipEffect = UNKNOWN_CLIP
    label_shares: np.ndarray | None = None

    @classmethod
    def label_release(
        cls, basis: PlanBasis, kind: type[NoisySums], share: float
    ) -> tuple[str, Planned]:
        """Return the releases that find where labels lie, and their name in the plan.

        Raises
        ------
        ValueError
            If the loss does not fit the declared target.
        """
        return "range_release", plan_target_range(basis, share, kind)

    @classmethod
    def init_release(cls, basis: PlanBasis, kind: type[NoisySums]) -> NoisySums:
        """Return the release of one output's initial score."""
        return initial_release(kind, 1.0, basis.bound)

    @classmethod
    @abstractmethod
    def begin(cls, curator: Curator, plan: ScaledPlan, target_range: TargetRange) -> Self:
        """Release what the scale follows from; publish the loss and the initial scores.

        Privacy
        -------
        Spends `plan.label_release`, if there is one, as often as it is planned, and
        `plan.init_release` once for each output.
        """

    @classmethod
    def bound_of_query(cls, basis: PlanBasis, kind: type[NoisySums]) -> dict[str, Any]:
        """Return the bound of a query about one feature, as events take it."""
        return {**basis.bound, "cells": 1}

    @classmethod
    def last_releases(
        cls, basis: PlanBasis, kind: type[NoisySums], share: float
    ) -> list[tuple[str, Planned, float]]:
        """Return the releases after the rounds: their names in the plan, and shares of μ²."""
        last = last_release(kind, basis.task, basis.bound)
        return [("calibration_release", Planned(last, 1), share)]

    def step_values(self, count_step: float, output: int) -> tuple[float, float]:
        """Return the values of one grid step of a measurement's gradients and Hessians."""
        return self.clip * count_step, self.hessian_clip * count_step

    def spread_of(self, output: int) -> float:
        """Return `spread`, for a sum of the Hessians that `step_values` gives."""
        return self.spread

    @property
    def queries(self) -> OneOutput | AllClasses:
        """The kind of the queries of all measurements."""
        return OneOutput()

    @abstractmethod
    def response(self, output: int, scores: np.ndarray) -> np.ndarray:
        """Return about the derivative of all rows' clipped gradients with respect to their scores.

        Every row is taken to have one of these scores in turn.
        """

    def correct(self, curator: Curator, plan: ScaledPlan, model: Calibrated) -> Calibrated:
        """Return the model, corrected by what the last release says, if there is one.

        Privacy
        -------
        Spends `plan.calibration_release` once for each output.
        """
        last = plan.calibration_release
        return calibrate(curator, plan, last, model, list(self.rows), self.effect)


class MeanScale(Scale):
    """Scale whose initial scores follow from mean gradients at a score of 0."""

    @classmethod
    def begin(cls, curator: Curator, plan: ScaledPlan, target_range: TargetRange) -> Self:
        """See `Scale.begin`."""
        start, counts = release_initial_scores(curator, plan, plan.first_release)
        scale = cls.of(plan, start, counts, target_range)
        publish_initial_scores(curator, plan.task.table(scale.clip, scale.hessian_clip), start)
        return scale

    @classmethod
    @abstractmethod
    def of(
        cls, plan: ScaledPlan, start: np.ndarray, counts: np.ndarray, target_range: TargetRange
    ) -> Self:
        """Return the scale of initial scores and noisy counts of rows, in grid steps."""


class LogOddsScale(MeanScale):
    """Scale of classes, whose scores are log-odds."""

    @classmethod
    def of(
        cls, plan: ScaledPlan, start: np.ndarray, counts: np.ndarray, target_range: TargetRange
    ) -> Self:
        """See `MeanScale.of`.

        For the clips see `clips_of_rows`.
        """
        rows = np.maximum(counts * plan.count_step, 1.0)
        clip, hessian_clip = clips_of_rows(plan, float(rows.max()))
        rates = np.array([1 / (1 + math.exp(-one / SCORE_STEPS)) for one in start.tolist()])
        slopes = rates * (1 - rates)
        return cls(
            clip=clip,
            hessian_clip=hessian_clip,
            start=start,
            start_noise=_mean_noise(plan, counts) / (2 * slopes),
            rows=rows,
            weights=rows * np.minimum(slopes, hessian_clip),
            counted=noisy_row_count(plan, plan.first_release, counts),
            spread=1.0,
            typical=0.5,
        )

    def response(self, output: int, scores: np.ndarray) -> np.ndarray:
        """See `Scale.response`: classes are taken to be as likely as scores say."""
        rate = 1 / (1 + np.exp(-scores))
        inside = rate * (1 - rate <= self.clip) + (1 - rate) * (rate <= self.clip)
        response: np.ndarray = self.rows[output] * (rate * (1 - rate) * inside)
        return response


class SquaredScale(MeanScale):
    """Scale of a number's squared loss."""

    @classmethod
    def of(
        cls, plan: ScaledPlan, start: np.ndarray, counts: np.ndarray, target_range: TargetRange
    ) -> Self:
        """See `MeanScale.of`; the clip follows from counts by label."""
        rows = np.maximum(counts * plan.count_step, 1.0)
        chosen = plan.settings.gradient_clip
        clip = chosen or _clip_of_a_number(plan, float(rows.max()), target_range)
        return cls(
            clip=clip,
            hessian_clip=plan.settings.hessian_clip or 1.0,
            start=start,
            start_noise=_mean_noise(plan, counts),
            rows=rows,
            weights=rows,
            counted=noisy_row_count(plan, plan.first_release, counts),
            spread=0.05,
            typical=0.15,
            effect=_effect_of_clip(clip, target_range),
            label_shares=shares_at_bounds(target_range.labels, plan.encoder.domain.target),
        )

    def response(self, output: int, scores: np.ndarray) -> np.ndarray:
        """See `Scale.response`: residuals are taken to be Gaussian."""
        inside = math.erf(self.clip / math.sqrt(2 * self.spread))
        return np.full(len(scores), self.rows[output] * inside)


def clips_of_rows(plan: ScaledPlan, rows: float) -> tuple[float, float]:
    """Return the clips of gradients and Hessians of classes, by the noisy count of rows.

    The clip of gradients grows slowly with the rows for each feature, in standard deviations of the
    noise of all rounds together. That of Hessians is a third of it: both sums are then biased
    alike. Gradients without and Hessians with a clip would make steps too long, and correlated
    features would overshoot in turn.
    """
    strength = rows / max(plan.pooled_noise * plan.n_measured, 1e-300)
    grown = _CLIP * (strength / _STRENGTH) ** _GROWTH
    clip = plan.settings.gradient_clip or float(min(max(grown, _NARROWEST), _WIDEST))
    third = min(max(clip / 3, _LEAST_HESSIAN), _MOST_HESSIAN)
    return clip, plan.settings.hessian_clip or third


def _mean_noise(plan: ScaledPlan, counts: np.ndarray) -> np.ndarray:
    """Return the noise of mean gradients at a score of 0, in parts of their largest."""
    noise: np.ndarray = float(plan.first_release.deviations[0]) / np.maximum(
        counts, plan.contribution.row_steps
    )
    return noise


def _clip_of_a_number(plan: ScaledPlan, rows: float, target_range: TargetRange) -> float:
    """Return the clip that costs least: squared residuals beyond it, and noise within it."""
    residuals, counts = target_range.residuals()
    if not len(residuals):
        return _CLIP
    noise = plan.pooled_noise * (_NOISE_OF_CLIP * math.sqrt(plan.n_measured))
    beyond = np.maximum(np.abs(residuals) - _CLIPS[:, None], 0.0) ** 2 @ counts
    best = float(_CLIPS[np.argmin(beyond + (noise * _CLIPS) ** 2 / rows)])
    best = max(best, _LEAST_CLIP * math.sqrt(float(residuals**2 @ counts / counts.sum())))
    # Effects that are measured together overshoot together, unless a clip shortens steps.
    return best if plan.settings.at_once == 1 else min(best, _CLIP)


def _effect_of_clip(clip: float, target_range: TargetRange) -> ClipEffect:
    """Return what a clip does to the mean of a number, by counts by label."""
    residuals, counts = target_range.residuals()
    if not len(residuals):
        return ClipEffect(_CLIP, None)
    share = counts / counts.sum()
    lost = residuals - np.clip(residuals, -clip, clip)
    return ClipEffect(abs(float(lost @ share)), float((lost != 0) @ share))
