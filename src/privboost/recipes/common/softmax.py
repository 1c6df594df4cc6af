"""Several classes in one query: clips, initial scores and calibration of softmax probabilities.

One release has the gradients and Hessians of all classes, at a sensitivity that does not depend on
their number; so have the counts of rows by class at the start, and the two releases of the
calibration: counts by the largest probability and whether that class is the row's own, from which
the slope of scores follows, and the sums of all gradients at that slope, from which a shift of each
class follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import LaplaceRelease, NoisySums
from privboost.engine.softmax import MOST_SLOPE, LabelCounts, TopClassCounts, steps_of_each
from privboost.engine.softmax_kernels import PROBABILITY_STEPS, SLOPE_STEPS
from privboost.engine.updates import AddTreeValuesOfAll, Start
from privboost.mechanisms.curator import Curator
from privboost.recipes.common.output_queries import AllClasses, SoftmaxClips
from privboost.recipes.common.plan import Plan, PlanBasis
from privboost.recipes.common.posterior import Effect
from privboost.recipes.common.probability_calibration import ScoreCells, cells_for
from privboost.recipes.common.scale import Calibrated, Scale, ScaledPlan
from privboost.recipes.common.target_range import TargetRange
from privboost.trees.tree import stump

SOFTMAX_LOSS = "softmax, all classes in one query"
"""Name of the loss of several classes in reports."""

_TOP_CLASS_PART = 0.5
"""Part of the counts by the largest probability in the budget of the calibration."""

LENGTH_OF_HESSIANS = 0.385
"""Largest length of the vector of a row's Hessians: no clip is larger than that."""

_CLIP, _STRENGTH, _GROWTH = 0.48, 50.0, 0.25
"""Clip of gradients where features have a strength, which is rows for each feature, in standard
deviations of the noise of all rounds together; and the exponent with which the clip grows."""

_NARROWEST = 0.25
"""Smallest clip of gradients."""

_MOST_COUPLED = 2 / 3
"""Largest share of a class in `couplings`."""

_SLOPES = np.exp(np.linspace(-1.5, 1.5, 61))
"""Slopes of scores, of which one is chosen."""

_LOG_SLOPE_PRIOR, _SHIFT_PRIOR = 0.5, 0.3
"""Standard deviations of the logarithm of the slope, and of shifts, before anything is known."""

_LEAST_SPREAD = 0.1
"""Least variance of a count, in squared rows."""


def bound_of_all(kind: type[NoisySums], bound: Mapping[str, Any], n_outputs: int) -> dict[str, Any]:
    """Return the bound of a query about all classes, as events take it; see `SoftmaxQuery`."""
    absolute = issubclass(kind, LaplaceRelease)
    steps = steps_of_each(bound["steps"], n_outputs, absolute)
    return {**bound, "steps": steps, "cells": n_outputs}


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Released counts by class.

    Attributes
    ----------
    counts : array
        The noisy counts, in rows of the largest weight.
    deviation : float
        The standard deviation of each.
    """

    counts: np.ndarray
    deviation: float

    @property
    def rows(self) -> np.ndarray:
        """The noisy count of all rows, at least 1, and its standard deviation."""
        total = max(float(self.counts.sum()), 1.0)
        return np.array([total, self.deviation * math.sqrt(len(self.counts))])

    @property
    def shares(self) -> np.ndarray:
        """The share of each class: counts shrunk to their mean where noise hides differences."""
        spread = max(float(self.counts.var()) - self.deviation**2, 0.0)
        total = spread + self.deviation**2
        mean = float(self.rows[0]) / len(self.counts)
        kept = mean + (self.counts - mean) * (spread / total if total > 0 else 0.0)
        likely = np.maximum(kept, max(self.deviation / 2, 1.0))
        shares: np.ndarray = likely / likely.sum()
        return shares

    @property
    def errors(self) -> np.ndarray:
        """The standard deviations of the logarithms of shares."""
        errors: np.ndarray = self.deviation / (self.shares * self.rows[0])
        return errors

    @property
    def start(self) -> np.ndarray:
        """The initial scores, in score steps: logarithms of shares, with a mean of about 0."""
        logs = np.log(self.shares)
        start: np.ndarray = np.rint((logs - logs.mean()) * SCORE_STEPS).astype(np.int32)
        return start


def release_class_counts(curator: Curator, plan: Plan, release: NoisySums) -> ClassCounts:
    """Release counts by class, and publish the initial scores that follow from them.

    Privacy
    -------
    Spends `release` once: a row is in one class.
    """
    classes = plan.task.n_outputs
    curator.publish(Start(None, classes))
    counts = curator.sums(LabelCounts(classes), release)[:, 0] * plan.count_step
    found = ClassCounts(counts, float(release.deviations[0]) * plan.count_step)
    curator.publish(AddTreeValuesOfAll((stump(),), found.start.reshape(-1, 1, 1)))
    return found


def couplings(shares: np.ndarray) -> np.ndarray:
    """Return the factors of Hessians with which steps of all classes at once do not overshoot.

    A class' gradient depends on the scores of all. Where all rows have the probabilities π, the
    Newton step of a class is −g/π (up to a constant of all classes), and h = π(1 − π): the factor
    is 1/(1 − π), as 2 of two equal classes, which both move.
    """
    factors: np.ndarray = 1 / (1 - np.minimum(shares, _MOST_COUPLED))
    return factors


@dataclass(frozen=True, eq=False, kw_only=True)
class SoftmaxScale(Scale):
    """Scale of several classes, whose scores are logarithms of probabilities but for a constant.

    Attributes
    ----------
    counts : ClassCounts
        The released counts by class.
    clips : SoftmaxClips
        The clips, as queries take them.
    """

    counts: ClassCounts
    clips: SoftmaxClips

    @classmethod
    def init_release(cls, basis: PlanBasis, kind: type[NoisySums]) -> NoisySums:
        """Return the release of counts by class."""
        what = "rows of each class, for the initial scores"
        return kind(what, 1.0, cells=1, shares=(1.0,), **basis.bound)

    @classmethod
    def bound_of_query(cls, basis: PlanBasis, kind: type[NoisySums]) -> dict[str, Any]:
        """See `Scale.bound_of_query`."""
        return bound_of_all(kind, basis.bound, basis.task.n_outputs)

    @classmethod
    def last_releases(
        cls, basis: PlanBasis, kind: type[NoisySums], share: float
    ) -> list[tuple[str, Planned, float]]:
        """See `Scale.last_releases`: for the slope of scores, and for a shift of each class."""
        what = "rows by probability of their most probable class, and whether it is theirs"
        tops = kind(what, 1.0, cells=1, shares=(1.0,), **basis.bound)
        what = "gradients and Hessians of all classes, to calibrate probabilities"
        shifts = kind(what, 1.0, shares=(0.95, 0.05), **cls.bound_of_query(basis, kind))
        return [
            ("calibration_release", Planned(tops, 1), share * _TOP_CLASS_PART),
            ("shifts_release", Planned(shifts, 1), share * (1 - _TOP_CLASS_PART)),
        ]

    @classmethod
    def begin(cls, curator: Curator, plan: ScaledPlan, target_range: TargetRange) -> Self:
        """See `Scale.begin`."""
        return cls.of(plan, release_class_counts(curator, plan, plan.first_release))

    @classmethod
    def of(cls, plan: ScaledPlan, counts: ClassCounts) -> Self:
        """Return the scale of noisy counts by class.

        The clip grows as that of log-odds does. Effects on each of K like classes are found with
        the noise of one, and are K times as many: so weights are the root of a sum of squares.
        """
        classes, rows = plan.task.n_outputs, float(counts.rows[0])
        noise = plan.pooled_noise * math.sqrt(2)  # gradients are that much longer than the clip
        strength = rows / max(noise * plan.n_measured, 1e-300)
        grown = _CLIP * (strength / _STRENGTH) ** _GROWTH
        clip = plan.settings.gradient_clip or float(min(max(grown, _NARROWEST), 1.0))
        longest = (
            min(2 * clip / 3, 1.0)
            if plan.pure
            else min(math.sqrt(2) * clip / 3, LENGTH_OF_HESSIANS)
        )
        hessian_clip = plan.settings.hessian_clip or longest
        clips = SoftmaxClips.of(classes, clip, hessian_clip, plan.pure)
        weight = rows * float(np.sqrt((typical_hessians(counts.shares, clips) ** 2).sum()))
        return cls(
            clip=clip,
            hessian_clip=hessian_clip,
            start=counts.start,
            start_noise=counts.errors,
            rows=np.full(classes, rows),
            weights=np.full(classes, weight),
            counted=counts.rows,
            spread=1.0,
            typical=0.5,
            counts=counts,
            clips=clips,
        )

    def step_values(self, count_step: float, output: int) -> tuple[float, float]:
        """See `Scale.step_values`; Hessians are multiplied by their factor in `couplings`."""
        gradient, hessian = self.clips.step_values(count_step)
        return gradient, hessian * float(couplings(self.counts.shares)[output])

    def spread_of(self, output: int) -> float:
        """See `Scale.spread_of`."""
        return self.spread / float(couplings(self.counts.shares)[output])

    @property
    def queries(self) -> AllClasses:
        """The kind of the queries of all measurements."""
        return AllClasses(self.clips)

    def response(self, output: int, scores: np.ndarray) -> np.ndarray:
        """See `Scale.response`; other classes answer to a change of a score, as in `couplings`."""
        share = self.counts.shares[output]
        shift = math.log(share / (1 - share)) - self.start[output] / SCORE_STEPS
        rate = 1 / (1 + np.exp(-(scores + shift)))
        inside = rate * (1 - rate <= self.clip) + (1 - rate) * (rate <= self.clip)
        factor = float(couplings(self.counts.shares)[output])
        response: np.ndarray = self.rows[output] * factor * (rate * (1 - rate) * inside)
        return response

    def correct(self, curator: Curator, plan: ScaledPlan, model: Calibrated) -> Calibrated:
        """Multiply all scores by a slope, and shift each class', to fit the rows.

        Privacy
        -------
        Spends `plan.calibration_release` and `plan.shifts_release`, each once, at the scores of
        training: counts by the largest probability (a row has one), and the sums of all gradients
        at the slope that follows.
        """
        if plan.calibration_release is None or plan.shifts_release is None:
            return model
        return calibrate_softmax(
            curator, plan, (plan.calibration_release, plan.shifts_release), model, self.counts
        )


def typical_hessians(shares: np.ndarray, clips: SoftmaxClips) -> np.ndarray:
    """Return the mean clipped Hessian of each class, of rows with these probabilities."""
    each = shares * (1 - shares)
    length = float(each.sum() if clips.absolute else np.sqrt((each**2).sum()))
    most = clips.hessian / PROBABILITY_STEPS
    hessians: np.ndarray = each * min(1.0, most / length)
    return hessians


def calibrate_softmax(
    curator: Curator,
    plan: Plan,
    releases: tuple[NoisySums, NoisySums],
    scores: Calibrated,
    counts: ClassCounts,
) -> Calibrated:
    """Multiply all scores by a slope, and shift each class', so that probabilities fit the rows.

    Privacy
    -------
    Spends each of the releases once, at the scores of training: counts by the largest probability
    (a row has one), and the sums of all gradients at the slope that follows.
    """
    tops, shifts = releases
    classes, sigma = plan.task.n_outputs, float(tops.deviations[0]) * plan.count_step
    typical = scores.typical() / SCORE_STEPS
    odds = _top_odds(typical)
    cells = ScoreCells.around(
        np.rint(odds * SCORE_STEPS).astype(np.int32), cells_for(float(counts.rows[0]), sigma)
    )
    edges = PROBABILITY_STEPS / (1 + np.exp(-cells.edges / SCORE_STEPS))
    edges = np.unique(np.rint(edges).astype(np.int32))
    found = curator.sums(TopClassCounts(classes, edges), tops)[:, :, 0] * plan.count_step
    slope = _fit_slope(found, sigma, edges, typical)
    whole = min(max(round(slope * SLOPE_STEPS), 1), MOST_SLOPE)
    absolute = isinstance(shifts, LaplaceRelease)
    clips = SoftmaxClips.of(classes, 1.0, 1.0 if absolute else LENGTH_OF_HESSIANS, absolute)
    sums = curator.sums(clips.of_trees((stump(),), whole), shifts)[0, 0]
    values = np.array(clips.step_values(plan.count_step))
    gradient, hessian = sums.T * values[:, None]
    noise = shifts.deviations * values
    weight = np.maximum(hessian, 0.5 * float(noise[-1]) + 1.0) * couplings(counts.shares)
    variance = float(noise[0]) ** 2 + weight
    moved = -gradient * weight / (weight**2 + variance / _SHIFT_PRIOR**2)
    moved -= moved.mean()
    lines = np.stack([np.full(classes, whole / SLOPE_STEPS), moved], axis=1)
    return scores.with_calibration(lines)


def _top_odds(scores: np.ndarray) -> np.ndarray:
    """Return the log-odds of the most probable class of each column of scores."""
    if not scores.shape[1]:
        return np.zeros(0)
    ordered = np.sort(scores, axis=0)
    odds: np.ndarray = ordered[-1] - np.logaddexp.reduce(ordered[:-1], axis=0)
    return odds


def _fit_slope(counts: np.ndarray, sigma: float, edges: np.ndarray, typical: np.ndarray) -> float:
    """Return the slope with which the most probable class is right as often as it should be.

    `counts` are by cell of its probability, and whether it is right. Of typical rows in each cell
    the mean probability at each slope is known.
    """
    rows = np.maximum(counts.sum(axis=1), min(sigma, 1.0))
    inner = edges / PROBABILITY_STEPS
    odds = _top_odds(typical)
    cell = np.searchsorted(inner, 1 / (1 + np.exp(-odds)), side="right")
    number = np.bincount(cell, minlength=len(rows))
    ends = np.concatenate([[0.0], inner, [1.0]])
    middles = np.clip((ends[1:] + ends[:-1]) / 2, 1e-3, 1 - 1e-3)
    losses: list[float] = []
    for slope in _SLOPES:
        moved = 1 / (1 + np.exp(-_top_odds(typical * slope)))
        total = np.bincount(cell, moved, minlength=len(rows))
        alone = 1 / (1 + (1 / middles - 1) ** slope)
        rate = np.where(number > 0, total / np.maximum(number, 1), alone)
        spread = rows * rate * (1 - rate) + 2 * sigma**2 + _LEAST_SPREAD
        # Noise of the two counts of a cell, of which one is compared with its share of both.
        far = (counts[:, 1] - rows * rate) ** 2 / spread
        losses.append(0.5 * float(far.sum()) + 0.5 * (math.log(slope) / _LOG_SLOPE_PRIOR) ** 2)
    return float(_SLOPES[int(np.argmin(losses))])


def centred(values: Iterable[np.ndarray]) -> np.ndarray:
    """Return the values of all classes less their mean, rounded: no probability changes."""
    stacked = np.stack(list(values)).astype(np.int64)
    level = np.rint(stacked.mean(axis=0)).astype(np.int64)
    moved: np.ndarray = (stacked - level).astype(np.int32)
    return moved


def centred_changes(
    effects: Sequence[Sequence[Effect]], changes: Sequence[Sequence[np.ndarray]]
) -> list[list[np.ndarray]]:
    """Subtract from effects of all classes their mean; return the changes of published values.

    Both arguments are by class; `changes` are those of values that were published before.
    """
    for same in zip(*effects, strict=True):
        level = np.mean([effect.values for effect in same], axis=0)
        for effect in same:
            effect.values -= level  # in place: the step of a noise replay has the same values
    return [
        [change + effect.publish() for effect, change in zip(own, before, strict=True)]
        for own, before in zip(effects, changes, strict=True)
    ]


def centred_deviations(deviations: Iterable[np.ndarray]) -> np.ndarray:
    """Return the standard deviations of values less their mean, if they are independent."""
    variance = np.stack(list(deviations)) ** 2
    classes = len(variance)
    centred: np.ndarray = np.sqrt((1 - 2 / classes) * variance + variance.sum(axis=0) / classes**2)
    return centred
