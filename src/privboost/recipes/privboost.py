"""PrivBoost, the default recipe: queries at the resolution that noise allows, pooled posteriors.

Each round measures the sums of gradients and Hessians in a few cells: first of one feature, then of
a pair of features or by leaf of a random tree. All measurements of a feature, or a pair, are pooled
in the posterior of its effect, whose mean updates the rows' scores. First every feature is measured
in turn, then those more often whose effect, or its uncertainty, is large; pairs and trees are drawn
where effects are large. These choices follow from released values, so they are free. At last rows
are counted by score and class, and two numbers calibrate probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost._core.progress import Track
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease, NoisySums
from privboost.data.encoding import Encoder
from privboost.data.targets import NumberTarget, has_log_bounds
from privboost.engine.updates import Start
from privboost.losses.base import Loss, Pinball, loss_of, losses_of
from privboost.mechanisms.curator import Curator
from privboost.models.additive import AdditiveScores
from privboost.models.forest import Forest
from privboost.models.interactions import InteractionScores, PairValues
from privboost.models.trees import TreeScores
from privboost.recipes.common.allowed_interactions import (
    Allowed,
    check_groups,
    check_interactions,
    check_named,
)
from privboost.recipes.common.feature_posteriors import BINS, FINE_BINS, FeaturePosteriors
from privboost.recipes.common.initial_score import (
    initial_release,
    noisy_row_count,
    publish_initial_scores,
    release_initial_scores,
)
from privboost.recipes.common.interactions import CodeQuantiles, Interactions
from privboost.recipes.common.intervals import plan_intervals
from privboost.recipes.common.log_scale import (
    Exposure,
    LogScale,
    check_exposure,
    correction_release,
    plan_label_counts,
    release_log_scale,
)
from privboost.recipes.common.mean_correction import ClipEffect, calibrate, last_release
from privboost.recipes.common.monotone import MONOTONE, check_slopes, slopes_of
from privboost.recipes.common.noise_replay import NoiseReplay
from privboost.recipes.common.parameters import (
    SPAN_SHARE,
    Constraint,
    Parameters,
    between,
    count,
    options,
    parameter,
    part,
    share,
    size,
)
from privboost.recipes.common.plan import Budget, Plan, PlanBasis, PublicRows, Task, check_grid
from privboost.recipes.common.posterior import Noise, largest_value
from privboost.recipes.common.probability_calibration import check_calibration
from privboost.recipes.common.quantile_scale import (
    QuantileScale,
    plan_quantile_releases,
    release_quantile_scale,
)
from privboost.recipes.common.softmax import (
    LENGTH_OF_HESSIANS,
    SOFTMAX_LOSS,
    TOP_CLASS_PART,
    AllClasses,
    ClassCounts,
    OneOutput,
    SoftmaxClips,
    bound_of_all,
    calibrate_softmax,
    centred,
    centred_changes,
    centred_deviations,
    class_counts_release,
    couplings,
    release_class_counts,
    shifts_release,
    top_class_release,
    typical_hessians,
)
from privboost.recipes.common.target_range import WHOLE_RANGE, TargetRange, plan_target_range
from privboost.trees.cell_map import CellMap

SWEEPS, PURE_SWEEPS = 12, 3
"""Average measurements of a feature; the latter with pure ε.

There each measurement has a part of ε, not of μ²: twice as many have twice the noise."""

PURE_HESSIAN_SHARE = 0.2
"""Hessian's share of a measurement with pure ε, where noise grows with 1/share, not its root."""

FEWEST_CELLS = 4
"""Fewest cells of one query; the most are half of a number's bins, or all where bins are finer.

Fine bins that share cells could only be distinguished by differences of measurements from different
rounds. Other effects move in between, and where noise is too small to hide that, bins diverge."""

_FINE = 4.0
"""Cells for each bin from which numbers have finer bins."""

_RESERVED_WHAT = "reserve for all questions, divided once rows are counted"
"""Description of the reserved release; the releases that replace it have their own."""

_TYPICAL = {"classes": 0.5, "number": 0.15}
"""θ₀: size of an effect that a measurement should detect, by target."""

_SPREAD = {"classes": 1.0, "number": 0.05}

"""φ: variance of gradients, for a sum of Hessians of 1."""

_CLEAR = 4.0
"""κ: size of a typical effect in a cell, in standard deviations of the noise."""

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

_CLIP_OF_SEVERAL, _GROWTH_OF_SEVERAL = 0.48, 0.25
"""The same two of more than two classes, whose gradients a clip shrinks together."""

_NARROWEST = 0.25
"""Smallest clip of a class' gradients."""

_WIDEST = 1.0
"""Largest clip of a class' gradients, which no gradient exceeds."""

_LEAST_HESSIAN = 0.1
"""Smallest clip of a class' Hessians."""

_MOST_HESSIAN = 0.25
"""Largest clip of a class' Hessians, which no Hessian exceeds."""

MOST_INTERACTING_CODES = 512
"""Most codes of a feature in interactions: a tree keeps them all at every node."""

MOST_LEAVES = 256
"""Most leaves of a tree."""

_MOST_CLIP = 1e3
"""Largest clip of Hessians: none is above 1, and far larger noise would hide them."""


_PAIR_SWEEPS = 8
"""Measurements of each pair, where pairs are named or their number is limited."""


@dataclass(frozen=True, kw_only=True)
class PrivBoostParameters(Parameters):
    """Parameters of PrivBoost."""

    _where_set: ClassVar[tuple[str, ...]] = ("interaction_constraints", "conformal_fraction")

    n_estimators: int = parameter(
        None,
        count(),
        "Measurements of single features (each of all classes), rounded up to whole "
        "rounds (`at_once`). Default 12 times the number of features, 3 times where delta is 0. "
        "Rounds of pairs and trees come on top, and are counted by the bar of `verbose` as well.",
    )
    _apart: ClassVar[tuple[str, ...]] = ("loss", "power", "quantile", "exposure")

    loss: str = parameter(
        None,
        options(*losses_of("number")),
        'Loss of a number, by default "squared". "poisson" is for counts, "gamma" for amounts '
        'above 0, "tweedie" for amounts that are often 0: their scores are logarithms of means, so '
        "that effects are factors, and clips are in parts of the released mean label. Predictions "
        'are quantiles with "quantile", and medians with "absolute".',
        by_task=(None, "squared"),
        tasks=("number",),
    )
    power: float = parameter(
        1.5,
        between(1, 2),
        'With loss="tweedie", the power of the mean to which the variance is proportional, between '
        "1 and 2.",
        tasks=("number",),
    )
    exposure: str | None = parameter(
        None,
        "str",
        "With a log link, the numeric feature in proportion to which labels grow, such as the "
        "insured part of a year; its bounds are above 0. Predictions are for a row's own exposure, "
        "those of `predict_rate` for an exposure of 1. Declare it on a log scale if it varies by "
        "factors; a missing one counts as its upper bound.",
        tasks=("number",),
    )
    quantile: float = parameter(
        0.5,
        between(0, 1),
        'With loss="quantile", the share of labels below the prediction, between 0 and 1.',
        tasks=("number",),
    )
    interactions: bool | int | tuple[tuple[str, str], ...] = parameter(
        True,
        Constraint(check_interactions, 'bool, int or list such as ["age*income"]'),
        "Whether features are measured jointly as well, in pairs and by random trees, where the "
        "released number of rows says that it pays. A number is the most pairs, "
        "without trees: those are kept that explain most. A list has the "
        "pairs, which are always measured, and no others. If False, and where delta is 0, the "
        "model is purely additive.",
    )
    interaction_constraints: tuple[tuple[str, ...], ...] = parameter(
        None,
        Constraint(check_groups, "list of lists of names"),
        "Groups of features of which only members of one group interact: a pair, and all of a "
        "tree, is within a group. A feature may be in several; of one in none there is its own "
        "effect alone. By default all may interact.",
        by_task=((), ()),
    )
    gradient_clip: float | None = parameter(
        None,
        size(),
        "Bound of a row's gradient, of several classes of its largest one, with which all shrink; "
        "a smaller clip means less noise and more bias. By default it "
        "follows the released number of rows (0.25 to 1) for classes, and released counts by label "
        "for a number; with a log link it is in parts of the mean label.",
    )
    hessian_clip: float | None = parameter(
        None,
        size(below=_MOST_CLIP),
        "Bound of a row's Hessian, of several classes of the length of all. By default a third of "
        "the gradient's for classes, and 1 for a number.",
    )
    hessian_share: float = parameter(
        None,
        share(),
        "Share of the Hessian in a measurement. Default 0.04 for classes, 0.1 for a number; 0.2 "
        "where delta is 0.",
        by_task=(0.04, 0.1),
    )
    init_share: float = parameter(
        0.02,
        share(),
        "Share of the budget (of μ²) of the initial score: the mean label, and the number of rows.",
    )
    calibration_share: float = parameter(
        None,
        share(or_else=0),
        "Share of the budget of the last release, which calibrates the model: counts by score and "
        "class for probabilities, sums of residuals by prediction for the mean of a number, counts "
        "by residual for a quantile; 0 leaves it out.",
        by_task=(0.04, 0.04),
    )
    span_share: float = parameter(None, *SPAN_SHARE, by_task=(0.0, 0.05))
    conformal_fraction: float = parameter(
        0.0,
        part(or_else=0),
        "Fraction of the protected units put aside for `predict_interval`, or `predict_set` of a "
        "classifier: chosen at random, they train nothing, and the errors of the model on them are "
        "counted. It costs no budget.",
    )
    at_once: int = parameter(
        1,
        count(),
        "Most features, pairs or trees that one round measures: fewer rounds for the same budget, "
        "where a round is expensive. It costs accuracy, since effects that are measured together "
        "are not yet corrected for each other.",
    )
    monotone: tuple[tuple[str, int], ...] = parameter(None, *MONOTONE, by_task=((), ()))

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.interactions, tuple) and self.interaction_constraints:
            raise ValueError(
                "give interaction_constraints, or the pairs themselves as interactions, not both"
            )

    def chosen(self) -> dict[str, Any]:
        """Return the parameters for reports and digests, an exposure only where there is one."""
        own = {} if self.exposure is None else {"exposure": self.exposure}
        return super().chosen() | own

    @property
    def loss_and_parameter(self) -> str | None:
        """Name of the loss of a number, with its parameter if it has one; see `loss_of`."""
        if self.loss is None:
            return None
        name = loss_of("number", self.loss).parameter
        return f"{self.loss} {getattr(self, name)!r}" if name else self.loss

    def single_rounds(self, features: int) -> tuple[int, int]:
        """Return the number of rounds about single features, and of features in each."""
        queries = min(self.at_once, features)
        return -(-self.n_estimators // queries), queries


def _describe(single: int = 0, joint: int = 0, classes: int = 1) -> str:
    """Describe a round about so many features, pairs or trees; which does not change its cost."""
    if single:
        cells = "a feature" if single == 1 else f"each of {single} features"
    elif joint == 1:
        cells = "two features, or by leaf of a tree"
    else:
        cells = f"each of {joint} pairs of features, or by leaf of each of {joint} trees"
    of_all = " of all classes" if classes > 1 else ""
    return f"gradients and Hessians{of_all} by cell of {cells}"


@dataclass(frozen=True)
class InteractionRule:
    """Division of measurements between single features and interactions.

    It reads public facts and released values alone, and is part of the plan's digest (with the
    names of its fields). Parts are of the reserved budget (on μ²); cells are those that a joint
    query could have: see `PrivBoostPlan._cells`.

    Attributes
    ----------
    tried : int
        Joint measurements, for half of the budget, with which the cells are estimated.
    fewest : float
        Cells at and below which there are no interactions.
    steep : float
        Part of the budget for each doubling of the cells beyond `fewest`.
    most_part : float
        Largest part of the budget.
    count : float
        Joint measurements for a part of 1, while there are few cells.
    many : float
        Cells beyond which the number of measurements grows with the root of the cells.
    most_count : int
        Most joint measurements.
    """

    tried: int = 100
    fewest: float = 1.4
    steep: float = 0.25
    most_part: float = 0.7
    count: float = 400.0
    many: float = 60.0
    most_count: int = 1500

    def divide(self, cells: float) -> tuple[float, int]:
        """Return the part of interactions and the number of their measurements."""
        part = self.steep * math.log2(max(cells, 1e-300) / self.fewest)
        part = min(max(part, 0.0), self.most_part)
        count = self.count * part * max(math.sqrt(cells / self.many), 1.0)
        return part, int(min(count, self.most_count))


@dataclass(frozen=True)
class Measurements:
    """Measurements that are made once the number of rows is known.

    Releases of one round about features, and about pairs or trees; so many rounds of each, of so
    many queries. A query is about all classes.
    """

    single: NoisySums
    joint: NoisySums | None
    n_single: int
    n_joint: int
    single_queries: int
    joint_queries: int

    def planned(self) -> list[Planned]:
        """Return all releases, to replace the reserved one."""
        single = [Planned(self.single, self.n_single)]
        if self.joint is None:
            return single
        return [*single, Planned(self.joint, self.n_joint)]


@dataclass(frozen=True, eq=False)
class PrivBoostPlan(Plan):
    """Plan of PrivBoost.

    The number and kind of measurements are decided once the number of rows is released: a fixed sum
    of μ² is reserved for them, and exchanged for releases that follow from released values. With
    pure ε both are fixed beforehand, and nothing is exchanged.

    Attributes
    ----------
    settings : PrivBoostParameters
        Parameters of the recipe.
    init_release : NoisySums
        Labels and their count, for the initial score; counts by class beyond two classes.
    reserved_release : NoisySums
        Stands for all measurements; with pure ε it is one round of them.
    calibration_release : NoisySums or None
        Counts by score and class; beyond two classes by the largest probability, and whether it is
        that of the row's own class; with a log link, sums of all rows.
    shifts_release : NoisySums or None
        Gradients of all classes, beyond two classes: the second release of the calibration.
    label_release : NoisySums or None
        Counts by label, with a log link.
    scale : LogScale, QuantileScale or None
        With a log link, or for a quantile, what was released about labels; None before that.
    rule : InteractionRule
        Division of measurements between single features and interactions.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("task", "settings", "contribution", "budget", "rule")

    settings: PrivBoostParameters
    init_release: NoisySums
    reserved_release: NoisySums
    calibration_release: NoisySums | None
    rule: InteractionRule = field(default_factory=InteractionRule)
    label_release: NoisySums | None = None
    shifts_release: NoisySums | None = None
    scale: LogScale | QuantileScale | None = None

    @property
    def loss(self) -> Loss:
        """Loss of the task."""
        return self.task.loss_instance

    @property
    def pure(self) -> bool:
        """Whether the budget is pure ε: then noise is Laplace, and only features are measured."""
        return self.budget.delta == 0

    @property
    def is_exchanged(self) -> bool:
        """Whether measurements replace the reserved release; with pure ε they do not."""
        return not self.pure

    @property
    def link(self) -> str:
        """The link of the model's scores; see `Model`."""
        return "softmax" if self.several else super().link

    @property
    def several(self) -> bool:
        """Whether there are more than two classes, about all of which one query asks."""
        return self.task.n_outputs > 1

    def softmax_clips(self, clip: float) -> SoftmaxClips:
        """Return the clips of several classes, as queries take them."""
        return SoftmaxClips.of(self.task.n_outputs, clip, self.hessian_clip_for(clip), self.pure)

    def step_values(self, clip: float, factor: float = 1.0) -> tuple[float, float]:
        """Return the values of one grid step of a measurement's gradients and Hessians.

        Hessians are multiplied by `factor`, that of a class beyond two: see `couplings`.
        """
        gradient, hessian = clip * self.count_step, self.hessian_clip_for(clip) * self.count_step
        if self.several:
            gradient, hessian = self.softmax_clips(clip).step_values(self.count_step)
        return gradient, hessian * factor

    def noise_of(self, release: NoisySums, clip: float, factor: float = 1.0) -> Noise:
        """Return the noise of a measurement where gradients are clipped to `clip`.

        See `step_values` for the factor of Hessians.
        """
        gradient, hessian = release.deviations * self.step_values(clip, factor)
        if self.scale is not None:
            about = self.scale.spread, self.scale.most_step
            return Noise(float(gradient), float(hessian), *about)
        return Noise(float(gradient), float(hessian), _SPREAD[self.task.target] / factor)

    def clip_for(self, rows: float, target_range: TargetRange = WHOLE_RANGE) -> float:
        """Return the clip of gradients, given the released number of rows and counts by label.

        For classes it grows slowly with the rows for each feature, in standard deviations of the
        noise of all rounds together.
        """
        if self.settings.gradient_clip is not None:
            return self.settings.gradient_clip
        if self.task.target == "number":
            return self._clip_of_a_number(rows, target_range)
        # Noise of all measurements, pooled as if they were one.
        noise = float(self.reserved_release.deviations[0])
        if self.pure:
            noise /= math.sqrt(math.prod(self.settings.single_rounds(self.n_measured)))
        clip, growth = _CLIP, _GROWTH
        if self.several:
            noise *= math.sqrt(2)  # a row's gradients are that much longer than its clip
            clip, growth = _CLIP_OF_SEVERAL, _GROWTH_OF_SEVERAL
        strength = rows / max(noise * self.count_step * self.n_features, 1e-300)
        grown = clip * (strength / _STRENGTH) ** growth
        return float(min(max(grown, _NARROWEST), _WIDEST))

    def _clip_of_a_number(self, rows: float, target_range: TargetRange) -> float:
        """Return the clip that costs least: squared residuals beyond it, and noise within it."""
        residuals, counts = target_range.residuals()
        if not len(residuals):
            return _CLIP
        noise = float(self.reserved_release.deviations[0]) * self.count_step
        if self.pure:
            noise /= math.sqrt(math.prod(self.settings.single_rounds(self.n_features)))
        noise *= _NOISE_OF_CLIP * math.sqrt(self.n_features)
        beyond = np.maximum(np.abs(residuals) - _CLIPS[:, None], 0.0) ** 2 @ counts
        best = float(_CLIPS[np.argmin(beyond + (noise * _CLIPS) ** 2 / rows)])
        best = max(best, _LEAST_CLIP * math.sqrt(float(residuals**2 @ counts / counts.sum())))
        # Effects that are measured together overshoot together, unless a clip shortens steps.
        return best if self.settings.at_once == 1 else min(best, _CLIP)

    def hessian_clip_for(self, clip: float) -> float:
        """Return the clip of Hessians: a third of the gradients' clip, for classes.

        Beyond two classes both are of the length of all together. Both sums are then biased alike.
        Gradients without and Hessians with a clip would make
        steps too long, and correlated features would overshoot in turn.
        """
        if self.settings.hessian_clip is not None:
            return self.settings.hessian_clip
        if self.scale is not None:
            return self.scale.hessian_clip
        if self.task.target == "number":
            return 1.0
        if self.several:
            return (
                min(2 * clip / 3, 1.0)
                if self.pure
                else min(math.sqrt(2) * clip / 3, LENGTH_OF_HESSIANS)
            )
        return min(max(clip / 3, _LEAST_HESSIAN), _MOST_HESSIAN)

    @staticmethod
    def effect_of_clip(clip: float, target_range: TargetRange) -> ClipEffect:
        """Return what a clip does to the mean of a number, by counts by label."""
        residuals, counts = target_range.residuals()
        if not len(residuals):
            return ClipEffect(_CLIP, None)
        share = counts / counts.sum()
        lost = residuals - np.clip(residuals, -clip, clip)
        return ClipEffect(abs(float(lost @ share)), float((lost != 0) @ share))

    def weight_of(self, rows: float, start: int, clip: float) -> float:
        """Return the approximate sum of all Hessians at the initial score."""
        if self.scale is not None:
            return rows * self.scale.curvature
        if self.task.target == "number":
            return rows
        rate = 1 / (1 + math.exp(-start / SCORE_STEPS))
        return rows * min(rate * (1 - rate), self.hessian_clip_for(clip))

    def weight_of_all(self, counts: ClassCounts, clip: float) -> float:
        """Return the approximate sum of all Hessians that several classes have together.

        Effects on each of K like classes are found with the noise of one, and are K times as many.
        """
        hessians = typical_hessians(counts.shares, self.softmax_clips(clip))
        return float(counts.rows[0] * np.sqrt((hessians**2).sum()))

    def queries_at(self, clip: float) -> OneOutput | AllClasses:
        """Return the kind of the queries of all measurements."""
        return AllClasses(self.softmax_clips(clip)) if self.several else OneOutput()

    def response_of_class(
        self, counts: ClassCounts, output: int, clip: float
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Return the derivative of all rows' clipped gradients of one class, as `response`.

        Other classes answer to a change of its scores: see `couplings`.
        """
        share, factor = counts.shares[output], couplings(counts.shares)[output]
        shift = math.log(share / (1 - share)) - counts.start[output] / SCORE_STEPS
        alone = self.response(float(counts.rows[0]), clip)
        return lambda scores: factor * alone(scores + shift)

    def response(self, rows: float, clip: float) -> Callable[[np.ndarray], np.ndarray]:
        """Return the derivative of so many rows' clipped gradients with respect to their scores.

        Labels are taken to be as likely as scores say, and a number's residuals to be Gaussian.
        """

        def respond(scores: np.ndarray) -> np.ndarray:
            if self.scale is not None:
                return self.scale.response(rows, scores)
            if self.task.target == "number":
                inside = math.erf(clip / math.sqrt(2 * _SPREAD["number"]))
                return np.full(len(scores), rows * inside)
            rate = 1 / (1 + np.exp(-scores))
            inside = rate * (1 - rate <= clip) + (1 - rate) * (rate <= clip)
            response: np.ndarray = rows * (rate * (1 - rate) * inside)
            return response

        return respond

    def initial_score_noise(self, start: int, count: int) -> float:
        """Return the standard deviation of the initial score."""
        if self.scale is not None:
            return self.scale.start_noise
        mean = float(self.init_release.deviations[0]) / max(count, self.contribution.row_steps)
        if self.task.target == "number":
            return mean
        rate = 1 / (1 + math.exp(-start / SCORE_STEPS))
        return mean / (2 * rate * (1 - rate))

    def measurements_for(self, weight: float, clip: float) -> Measurements:
        """Return the measurements, given the approximate sum of all Hessians.

        The part of interactions grows with the cells that a joint query could have.
        """
        if self.pure:
            rounds, queries = self.settings.single_rounds(self.n_measured)
            return Measurements(self.reserved_release, None, rounds, 0, queries, 1)
        tried = self.reserved_release.scaled(math.sqrt(2 * self.rule.tried))
        cells = self._cells(tried, self.rule.tried, weight, clip)
        part, joint = self.rule.divide(cells)
        if self._pair_measurements is not None and (joint or self.allowed.pairs is not None):
            return self._divided(*self._pair_measurements)
        return self._divided(part, joint) if self._may_interact and joint else self._divided(0.0, 0)

    @property
    def _may_interact(self) -> bool:
        """Whether there may be joint measurements."""
        return self.allowed.pairs is not None or bool(self.allowed.groups)

    @cached_property
    def _pair_measurements(self) -> tuple[float, int] | None:
        """Part of the budget, and number, of measurements of pairs alone, if there are no trees.

        They have the noise of a feature's, unless that would take too much of the budget.
        """
        pairs = self.allowed.n_pairs
        if not pairs:
            return None
        sweeps = max(min(_PAIR_SWEEPS, self.rule.most_count // pairs), 1)
        joint = self.allowed.n_tried + sweeps * pairs
        single = math.prod(self.settings.single_rounds(self.n_measured))
        return min(joint / (joint + single), self.rule.most_part), joint

    def _divided(self, part: float, joint: int) -> Measurements:
        """Return measurements of which so many are joint, and cost a part of the reserve."""
        joint_queries = min(
            self.settings.at_once, max(joint, 1), self.allowed.n_pairs or max(joint, 1)
        )
        n_single, features = self.settings.single_rounds(self.n_measured)
        n_joint = -(-joint // joint_queries)
        classes = self.task.n_outputs
        described = _describe(features, classes=classes)
        single = self._release(described, features, n_single / (1 - part))
        described = _describe(joint=joint_queries, classes=classes)
        jointly = self._release(described, joint_queries, n_joint / part) if joint else None
        return Measurements(single, jointly, n_single, n_joint, features, joint_queries)

    def check_measurements(self) -> None:
        """Refuse a plan whose measurements might exceed the grid, or the budget with its slack.

        Their number is known once the initial score is released; any that is possible must fit.
        """
        if self.pure or isinstance(self.budget, PublicRows):
            return
        most = [(self.rule.most_part, self.rule.most_count)] if self._may_interact else []
        most = most if self._pair_measurements is None else [self._pair_measurements]
        other_releases = [
            planned for planned in self.releases if planned.event is not self.reserved_release
        ]
        for joint_part, joint in [(0.0, 0), *most]:
            made = self._divided(joint_part, joint).planned()
            check_grid(planned.event for planned in made)
            together = [*self.budget.before, *other_releases, *made]
            if not self.accountant.cost(together, self.budget.delta) <= self.budget.epsilon:
                raise ValueError(
                    "delta is too large for so small an epsilon: what the integer grid adds to the "
                    "cost of many measurements would exceed it"
                )

    def _release(self, what: str, queries: int, times: float) -> NoisySums:
        """Return the release of one of so many rounds that cost the reserve together."""
        return replace(
            self.reserved_release.for_queries(queries).scaled(math.sqrt(times)), what=what
        )

    def _cells(self, release: NoisySums, count: int, weight: float, clip: float) -> float:
        """Return the cells that each of so many queries should have to detect an effect.

        `weight` is the approximate sum of all Hessians.
        """
        noise = float(self.noise_of(release, clip).gradient)
        effect = _TYPICAL[self.task.target] if self.scale is None else self.scale.typical
        typical = weight * effect * (count / self.n_features) ** 0.25
        return float(typical / max(_CLEAR * noise, 1e-300))

    def posteriors(
        self, measured: Measurements, weight: float, clip: float, factor: float = 1.0
    ) -> FeaturePosteriors:
        """Return the posteriors of one output's features, before any measurement.

        See `step_values` for the factor of Hessians.
        """
        queries = measured.single_queries
        wanted = self._cells(measured.single, measured.n_single * queries, weight, clip)
        bins, most = (FINE_BINS, FINE_BINS) if wanted > _FINE * BINS else (BINS, BINS // 2)
        cells = int(min(max(wanted, FEWEST_CELLS), most))
        noise = self.noise_of(measured.single, clip, factor)
        scale = self.step_values(clip, factor)
        about = (self.encoder, noise, cells, scale, self.slopes, bins, queries, self.known)
        return FeaturePosteriors(*about)

    def interactions(
        self,
        measured: Measurements,
        order: Sequence[CodeQuantiles],
        weight: float,
        clip: float,
        factor: float = 1.0,
    ) -> Interactions:
        """Return one output's pairs and trees, before any measurement.

        `order` has the quantiles of codes; see `step_values` for the factor of Hessians.
        """
        assert measured.joint is not None
        queries = measured.joint_queries
        count = measured.n_joint * queries
        cells = self._cells(measured.joint, count, weight, clip)
        leaves = int(min(max(cells, FEWEST_CELLS), MOST_LEAVES))
        noise = self.noise_of(measured.joint, clip, factor)
        scale, most = self.step_values(clip, factor), largest_value(count)
        return Interactions(order, noise, leaves, count, scale, most, self.allowed, queries)

    @property
    def exposure_name(self) -> str | None:
        """Name of the feature in proportion to which labels grow, if there is one."""
        return self.settings.exposure

    @cached_property
    def exposure(self) -> Exposure | None:
        """The effect of the exposure, if there is one."""
        name = self.exposure_name
        return None if name is None else Exposure.of(self.encoder, name)

    @property
    def known(self) -> int | None:
        """The feature whose effect is not measured, if any."""
        return None if self.exposure is None else self.exposure.feature

    @property
    def slopes(self) -> list[int]:
        """Direction of each feature's effect, 0 for any."""
        return slopes_of(self.settings.monotone, self.encoder)

    @cached_property
    def allowed(self) -> Allowed:
        """Interactions that the model may have."""
        wanted, names = self.settings.interactions, self.encoder.domain.feature_names
        slopes = tuple(self.slopes)
        if isinstance(wanted, tuple):
            keys = (sorted((names.index(one), names.index(other))) for one, other in wanted)
            return Allowed((), slopes, tuple((first, second) for first, second in keys))
        number = None if isinstance(wanted, bool) else wanted
        groups = self.settings.interaction_constraints or (names,)
        members = (sorted(map(names.index, group)) for group in groups) if wanted else ()
        few = [count <= MOST_INTERACTING_CODES for count in self.encoder.layout.n_codes]
        if self.known is not None:
            few[self.known] = False
        able = (tuple(f for f in group if few[f]) for group in members)
        return Allowed(tuple(g for g in able if len(g) > 1), slopes, None, number)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.encoder.domain.features)

    @property
    def n_measured(self) -> int:
        """Number of features whose effects are measured."""
        return self.n_features - (self.known is not None)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters for reports."""
        name, _, value = self.task.loss.partition(" ")
        own = {loss_of(self.task.target, name).parameter: float(value)} if value else {}
        name = SOFTMAX_LOSS if self.several else name
        return {"loss": name, **own, **self.settings.chosen()}


def plan_privboost(
    given: Mapping[str, Any], encoder: Encoder, weight_bound: float | None, budget: Budget
) -> PrivBoostPlan:
    """Return the plan of a run of PrivBoost.

    It has shares of μ² for the target clipping range, the initial score, the measurements and the
    calibration, with noise that costs the budget. `given` has the estimator's parameters.
    """
    pure = budget.delta == 0
    n_features = len(encoder.domain.features) - (given.get("exposure") is not None)
    sweeps = PURE_SWEEPS if pure else SWEEPS
    defaults: dict[str, Any] = {"n_estimators": sweeps * n_features}
    if pure:
        defaults["hessian_share"] = PURE_HESSIAN_SHARE
    target = Task.of(encoder.domain.target).target
    own_scale = _has_scale(given.get("loss"), encoder)
    settings = PrivBoostParameters.read(given, target, **defaults)
    if pure and isinstance(settings.interactions, tuple):
        raise ValueError(
            "interactions: pairs need a delta above 0; where it is 0 the model is additive, and "
            "interactions=False says so"
        )
    if pure:
        settings = replace(settings, interactions=False)
    basis = PlanBasis(
        encoder, weight_bound, budget, given["accountant"], settings.loss_and_parameter
    )
    outputs, last = basis.task.n_outputs, settings.calibration_share
    several = outputs > 1
    if settings.exposure is not None:
        _check_exposure(settings, encoder, target)
    if own_scale and settings.conformal_fraction > 0:
        raise ValueError('conformal_fraction must be 0 unless a number has loss="squared"')
    check_calibration(last, target, basis.task.loss)
    check_slopes(settings.monotone, encoder, outputs)
    check_named(
        settings.interactions, settings.interaction_constraints, encoder.domain.feature_names
    )
    shares, range_share = (1 - settings.hessian_share, settings.hessian_share), settings.span_share
    rest = 1 - settings.init_share - last - range_share
    kind: type[NoisySums] = LaplaceRelease if pure else GaussianRelease
    init = initial_release(kind, 1.0, basis.bound)
    scores = last_release(kind, basis.task, basis.bound)
    bound = {**basis.bound, "cells": 1}
    if several:
        bound = bound_of_all(kind, basis.bound, outputs)
        init, scores = (
            make(kind, basis.bound) for make in (class_counts_release, top_class_release)
        )
    reserve, times = kind(_RESERVED_WHAT, 1.0, shares=shares, **bound), 1
    if pure:
        rounds, queries = settings.single_rounds(n_features)
        reserve, times = reserve.for_queries(queries), rounds
        reserve = replace(reserve, what=_describe(queries, classes=outputs))
    about_labels = ("range_release", plan_target_range(basis, range_share, kind), range_share)
    if own_scale and loss_of(target, basis.task.loss).log_link:
        about_labels = ("label_release", plan_label_counts(basis, kind), range_share)
        scores = correction_release(kind, basis.bound)
    elif own_scale:
        init, scores = plan_quantile_releases(kind, basis.bound)
    wanted = [
        about_labels,
        ("init_release", Planned(init, 1), settings.init_share),
        ("reserved_release", Planned(reserve, times), rest),
    ]
    if several:
        shifts = shifts_release(kind, basis.bound, outputs)
        wanted.append(("calibration_release", Planned(scores, 1), last * TOP_CLASS_PART))
        wanted.append(("shifts_release", Planned(shifts, 1), last * (1 - TOP_CLASS_PART)))
    else:
        wanted.append(("calibration_release", Planned(scores, 1), last))
    made = basis.calibrate_by_shares(wanted)
    fields = made.fields_with("init_release", "reserved_release", "calibration_release")
    fields |= plan_intervals(made, "reserved_release", settings.conformal_fraction)
    about_scale = {name: made.get(name) for name in ("label_release", "shifts_release")}
    plan = PrivBoostPlan(**fields, **about_scale, settings=settings)
    plan.check_measurements()
    return plan


def _has_scale(loss: Any, encoder: Encoder) -> bool:
    """Return whether a loss of a number has a scale of its own; refuse a target it does not fit."""
    target = encoder.domain.target
    known = isinstance(loss, str) and loss in losses_of("number")
    if not known or not loss_of("number", loss).own_scale:
        return False
    if isinstance(target, NumberTarget) and loss_of("number", loss).log_link:
        if target.scale != "linear":
            raise ValueError(
                f'loss="{loss}" has a log link of its own: declare the target without a scale'
            )
        if not has_log_bounds(target):
            raise ValueError(
                f'loss="{loss}" needs a target with a positive upper bound, from 1e-50 to 1e50, '
                "and with a lower one that is not a million times as far below 0"
            )
    return True


def _check_exposure(settings: PrivBoostParameters, encoder: Encoder, target: str) -> None:
    """Refuse an exposure that the loss or the other parameters do not allow."""
    if target != "number" or not loss_of(target, settings.loss).log_link:
        raise ValueError('exposure needs a loss with a log link, such as loss="poisson"')
    check_exposure(settings.exposure, encoder)
    if settings.exposure in dict(settings.monotone):
        raise ValueError(f"monotone: {settings.exposure!r} is the exposure, whose effect is known")
    pairs = settings.interactions if isinstance(settings.interactions, tuple) else ()
    if any(settings.exposure in pair for pair in pairs):
        raise ValueError(f"interactions: {settings.exposure!r} is the exposure, which has none")


def boost_privboost(
    curator: Curator,
    plan: PrivBoostPlan,
    generator: np.random.Generator,
    track: Track = iter,
    target_range: TargetRange = WHOLE_RANGE,
) -> AdditiveScores | InteractionScores:
    """Return a model of effects, pairs and trees trained on the rows; `track` follows the rounds.

    `generator` is public randomness: where cells begin, which rare categories share one, pairs and
    trees.

    Privacy
    -------
    Spends `plan.releases`: the initial score, the counts by score, and between them measurements
    that cost at most the reserve together; their number and noise follow from the released number
    of rows (with pure ε both are fixed beforehand). Which features and which cells a query has
    follows from earlier measurements; a row lies in one cell of each query, whichever they are.
    """
    if plan.several:
        return _boost_classes(curator, plan, generator, track)
    begin = _own_beginning(plan)
    if begin is not None:
        plan, start, counts, clip = begin(curator, plan)
        rows = np.maximum(counts * plan.count_step, 1.0)
    else:
        start, counts = release_initial_scores(curator, plan, plan.init_release)
        rows = np.maximum(counts * plan.count_step, 1.0)
        clip = plan.clip_for(float(rows.max()), target_range)
        publish_initial_scores(curator, plan.task.table(clip, plan.hessian_clip_for(clip)), start)
    weight = plan.weight_of(float(rows[0]), start[0], clip)
    measured = plan.measurements_for(weight, clip)
    posteriors, interactions = _run_rounds(
        curator, plan, measured, (weight, clip), generator, track
    )
    replays = [
        NoiseReplay(
            posteriors[0],
            interactions[0] if interactions else None,
            start[0] / SCORE_STEPS,
            plan.initial_score_noise(start[0], counts[0]),
            plan.response(rows[0], clip),
        )
    ]
    if plan.scale is None:
        noisy_rows = noisy_row_count(plan, plan.init_release, counts)
    else:
        noisy_rows = plan.scale.counted
    if isinstance(plan.scale, LogScale):
        of_one = 0 if plan.exposure is None else plan.exposure.of_one
        start = np.array([plan.scale.start - of_one], dtype=np.int32)
    model = pack_model(plan, posteriors, interactions, start, replays, noisy_rows)
    if plan.scale is not None:
        if plan.calibration_release is None:
            return model
        shift = plan.scale.correct(curator, plan, plan.calibration_release)
        return model.with_calibration(np.array([[1.0, shift]]))
    effect = plan.effect_of_clip(clip, target_range)
    return calibrate(curator, plan, plan.calibration_release, model, list(rows), effect)


def _boost_classes(
    curator: Curator, plan: PrivBoostPlan, generator: np.random.Generator, track: Track
) -> AdditiveScores | InteractionScores:
    """Return a model of several classes, about all of which each query asks."""
    counts = release_class_counts(curator, plan, plan.init_release)
    clip, factors = plan.clip_for(float(counts.rows[0])), couplings(counts.shares)
    weight = plan.weight_of_all(counts, clip)
    measured = plan.measurements_for(weight, clip)
    posteriors, interactions = _run_rounds(
        curator, plan, measured, (weight, clip), generator, track, factors.tolist()
    )
    replays = [
        NoiseReplay(
            own,
            interactions[output] if interactions else None,
            float(counts.start[output]) / SCORE_STEPS,
            float(counts.errors[output]),
            plan.response_of_class(counts, output, clip),
        )
        for output, own in enumerate(posteriors)
    ]
    model = pack_model(plan, posteriors, interactions, counts.start, replays, counts.rows)
    if plan.calibration_release is None or plan.shifts_release is None:
        return model
    last = plan.calibration_release, plan.shifts_release
    return calibrate_softmax(curator, plan, last, model, counts)


def _run_rounds(
    curator: Curator,
    plan: PrivBoostPlan,
    measured: Measurements,
    about: tuple[float, float],
    generator: np.random.Generator,
    track: Track,
    factors: Sequence[float] = (1.0,),
) -> tuple[list[FeaturePosteriors], list[Interactions]]:
    """Make all measurements; return the posteriors of each output.

    `about` is the approximate sum of all Hessians, and the clip; `factors` are those of Hessians.
    """
    if plan.is_exchanged:
        curator.exchange(plan.reserved_release, measured.planned())
    ask = plan.queries_at(about[1])
    posteriors = [plan.posteriors(measured, *about, factor) for factor in factors]
    rounds = iter(track(range(measured.n_single + measured.n_joint)))
    for _ in islice(rounds, measured.n_single):
        _measure_features(curator, measured, posteriors, ask, generator)
    interactions: list[Interactions] = []
    if measured.joint is not None:
        order = posteriors[0].quantiles(posteriors[1:])
        interactions = [plan.interactions(measured, order, *about, own) for own in factors]
    for _ in rounds:
        _measure_interactions(curator, measured, interactions, ask, generator)
    return posteriors, interactions


_Beginning = tuple[PrivBoostPlan, np.ndarray, np.ndarray, float]
"""The plan with what was released about labels, the initial score, the noisy count of rows in grid
steps, and the clip of gradients."""


def _own_beginning(plan: PrivBoostPlan) -> Callable[[Curator, PrivBoostPlan], _Beginning] | None:
    """Return the function that begins boosting where a loss has a scale of its own."""
    if plan.loss.log_link:
        return _begin_on_log_scale
    return _begin_at_quantile if isinstance(plan.loss, Pinball) else None


def _begin_at_quantile(curator: Curator, plan: PrivBoostPlan) -> _Beginning:
    """Release counts by label, and publish the loss and the quantile of labels."""
    scale, counts = release_quantile_scale(curator, plan, plan.init_release)
    clip = scale.clip if plan.settings.gradient_clip is None else plan.settings.gradient_clip
    start = np.array([scale.start], dtype=np.int32)
    plan = replace(plan, scale=scale)
    publish_initial_scores(curator, scale.loss.table(clip, plan.hessian_clip_for(clip)), start)
    return plan, start, counts, clip


def _begin_on_log_scale(curator: Curator, plan: PrivBoostPlan) -> _Beginning:
    """Release the unit of labels, and publish the loss; scores begin at 0, the log of the unit."""
    noise = float(plan.reserved_release.deviations[0]) * plan.count_step
    if plan.pure:
        noise /= math.sqrt(math.prod(plan.settings.single_rounds(plan.n_measured)))
    last = plan.calibration_release
    scale, counts = release_log_scale(
        curator,
        plan,
        (plan.label_release, plan.init_release),
        noise * math.sqrt(plan.n_measured),
        0.0 if last is None else float(last.deviations[0]) * plan.count_step,
        plan.settings.gradient_clip,
        plan.exposure,
    )
    plan = replace(plan, scale=scale)
    curator.publish(Start(scale.table(plan.hessian_clip_for(scale.clip))))
    if plan.exposure is not None:
        plan.exposure.publish(curator)
    return plan, np.zeros(1, dtype=np.int32), counts, scale.clip


def _measure_features(
    curator: Curator,
    measured: Measurements,
    posteriors: Sequence[FeaturePosteriors],
    ask: OneOutput | AllClasses,
    generator: np.random.Generator,
) -> None:
    """Measure one feature, or several, update their posteriors, and the rows' scores."""
    leader, *others = posteriors
    queries = leader.next_queries(measured.single_queries, generator, others)
    cells = CellMap.side_by_side(leader.cells_of(query) for query in queries)
    sums = ask.by_cell(curator, cells, measured.single)
    counted = list(cells.split(sums[..., 1].sum(axis=0))) if others else None
    changes = [
        own.observe(queries, cells.split(sums[output]), counted)
        for output, own in enumerate(posteriors)
    ]
    if others:
        measured_effects = [[own.effect(q.feature) for q in queries] for own in posteriors]
        changes = centred_changes(measured_effects, changes)
    moved = CellMap.side_by_side(leader.bins[query.feature].map for query in queries)
    ask.add_by_cell(curator, moved, list(map(np.concatenate, changes)))


def _measure_interactions(
    curator: Curator,
    measured: Measurements,
    interactions: Sequence[Interactions],
    ask: OneOutput | AllClasses,
    generator: np.random.Generator,
) -> None:
    """Measure a pair or a tree, or several, update their posteriors, and the rows' scores."""
    release, queries = measured.joint, measured.joint_queries
    assert release is not None
    leader, *others = interactions
    pairs = leader.next_pairs(queries, generator, others)
    if pairs:
        same = [pairs, *([own.pairs[pair.key] for pair in pairs] for own in others)]
        cells = CellMap.side_by_side(pair.cells for pair in pairs)
        sums = ask.by_cell(curator, cells, release)
        changes = [
            own.observe_pairs(same[output], cells.split(sums[output]))
            for output, own in enumerate(interactions)
        ]
        if others:
            changes = centred_changes([[pair.effect for pair in own] for own in same], changes)
        ask.add_by_cell(curator, cells, list(map(np.concatenate, changes)))
    else:
        trees = leader.next_trees(queries, generator)
        sums = ask.by_leaf(curator, trees, release)
        values = [own.observe_trees(trees, sums[k]) for k, own in enumerate(interactions)]
        if others:
            values = list(centred(values))
            for own, leaves in zip(interactions, values, strict=True):
                own.replace_leaves(leaves)
        ask.add_by_leaf(curator, trees, values)


def pack_model(
    plan: PrivBoostPlan,
    posteriors: list[FeaturePosteriors],
    interactions: list[Interactions],
    start: np.ndarray,
    replays: list[NoiseReplay],
    rows: np.ndarray,
) -> AdditiveScores | InteractionScores:
    """Return the released model, with noisy counts and standard deviations of its values."""
    by_code = [[one.by_code(feature) for one in posteriors] for feature in range(plan.n_features)]
    parts = [[np.stack(part) for part in zip(*outputs, strict=True)] for outputs in by_code]
    values, mass = zip(*parts, strict=True)
    if plan.exposure is not None:
        known = plan.exposure.values[None] + np.int32(plan.exposure.of_one)
        values = (*values[: plan.exposure.feature], known, *values[plan.exposure.feature + 1 :])
    if plan.scale is not None:  # of Hessians, which may be above 1: a row's mass is at most 1
        mass = tuple(own / plan.hessian_clip_for(plan.scale.clip) for own in mass)
    noise = tuple(
        np.stack(
            [
                (replay.effects[feature] * SCORE_STEPS)[one.bins[feature].of_code]
                for one, replay in zip(posteriors, replays, strict=True)
            ]
        )
        for feature in range(plan.n_features)
    )
    if plan.several:
        noise = tuple(map(centred_deviations, noise))
    together = np.array([replay.together for replay in replays])
    missing = np.sum([one.missing for one in posteriors], axis=0)  # noise of outputs is independent
    missing[:, 2] = np.sqrt(missing[:, 2])
    single = AdditiveScores(start, values, mass, noise, together, rows, missing)
    if not interactions:
        return single
    pairs = tuple(
        pair
        for number, key in enumerate(interactions[0].pairs)
        for pair in _pair_values(interactions, replays, number, key)
    )
    trees = TreeScores.of(np.zeros(len(posteriors), dtype=np.int32), plan.encoder.layout.n_codes)
    if interactions[0].trees:
        forest = _forest(interactions, replays)
        trees = trees.extended(forest, [1] * len(interactions[0].trees))
    return InteractionScores.of(single, pairs, trees)


def _pair_values(
    interactions: Sequence[Interactions],
    replays: Sequence[NoiseReplay],
    number: int,
    key: tuple[int, int],
) -> Iterator[PairValues]:
    """Yield the values of a pair for each output."""
    measured = [own.pairs[key] for own in interactions]
    values = [pair.effect.published for pair in measured]
    noise = [replay.pairs[number] * SCORE_STEPS for replay in replays]
    if len(measured) > 1:
        noise = list(centred_deviations(noise))
    for output, pair in enumerate(measured):
        yield PairValues.of(output, pair.cells, values[output], pair.effect.rows, noise[output])


def _forest(interactions: Sequence[Interactions], replays: Sequence[NoiseReplay]) -> Forest:
    """Return the trees of all outputs as a forest."""
    grown = [own.trees for own in interactions]
    values = np.stack([np.stack([tree.published for tree in trees]) for trees in grown])
    mass = np.stack([np.stack([np.rint(tree.mass) for tree in trees]) for trees in grown])
    noise = np.stack([np.stack(replay.trees) * SCORE_STEPS for replay in replays])
    if len(grown) > 1:
        noise = centred_deviations(noise)
    parts = [each.swapaxes(0, 1) for each in (values, mass.astype(np.int32), noise)]
    trees = [tree.tree for tree in grown[0]]
    return Forest.of(trees, list(parts[0].astype(np.int32)), *parts[1:])
