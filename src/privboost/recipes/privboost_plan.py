"""Plan of PrivBoost: parameters, the reserved budget of all measurements, calibrated scores.

The number and kind of measurements are decided once the number of rows is released: a fixed sum of
μ² is reserved for them, and exchanged for releases that follow from released values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease, NoisySums
from privboost.data.encoding import Encoder
from privboost.recipes.common.feature_posteriors import BINS, FINE_BINS, FeaturePosteriors
from privboost.recipes.common.interactions import Interactions
from privboost.recipes.common.limits import check_grid, check_monotone, check_slopes
from privboost.recipes.common.newton import grid_step, initial_release
from privboost.recipes.common.parameters import (
    FLAG,
    SPAN_DOC,
    Constraint,
    Parameters,
    count,
    parameter,
    share,
    size,
)
from privboost.recipes.common.plan import Budget, Draft, Plan, PublicRows, task_of
from privboost.recipes.common.posterior import Noise, largest_value
from privboost.recipes.common.probability_calibration import check_calibration, counts_release
from privboost.recipes.common.target_range import plan_target_range

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

_ALL = "reserve for all questions, divided once rows are counted"
"""Description of the reserved release; the releases that replace it have their own."""

_TYPICAL = {"classes": 0.5, "number": 0.15}
"""Size of an effect that a measurement should detect, by target."""

_SPREAD = {"classes": 1.0, "number": 0.05}
"""Variance of gradients, for a sum of Hessians of 1."""

_CLEAR = 4.0
"""Size of a typical effect in a cell, in standard deviations of the noise."""

_CLIP, _STRENGTH, _GROWTH = 0.3, 50.0, 0.2
"""Clip of gradients at a strength of a feature, and the exponent of its growth."""

_NARROWEST, _WIDEST = 0.25, 1.0
"""Limits of that clip."""

_LEAST_HESSIAN, _MOST_HESSIAN = 0.1, 0.25
"""Limits of the clip of a class' Hessians; the latter is the largest Hessian."""

MOST_CODES = 512
"""Most codes of a feature in interactions: a tree keeps them all at every node."""

MOST_LEAVES = 256
"""Most leaves of a tree."""

_MOST_CLIP = 1e3
"""Largest clip of Hessians: none is above 1, and far larger noise would hide them."""


@dataclass(frozen=True, kw_only=True)
class PrivBoostParameters(Parameters):
    """Parameters of PrivBoost."""

    n_estimators: int = parameter(
        None,
        count(),
        "Measurements of single features (for each class beyond two classes), rounded up to whole "
        "rounds (`at_once`). Default 12 times the number of features, 3 times where delta is 0. "
        "Rounds of pairs and trees come on top, and are counted by the bar of `verbose` as well.",
    )
    interactions: bool = parameter(
        True,
        FLAG,
        "Whether features are measured jointly as well, in pairs and by random trees, where the "
        "released number of rows says that it pays. If not, and where delta is 0, the model is "
        "purely additive.",
    )
    gradient_clip: float | None = parameter(
        None,
        size(),
        "Bound of a row's gradient; a smaller clip means less noise and more bias. By default it "
        "follows the released number of rows (0.25 to 1) for classes, and is 0.3 for a number.",
    )
    hessian_clip: float | None = parameter(
        None,
        size(below=_MOST_CLIP),
        "Bound of a row's Hessian. By default a third of the gradient's, at most 0.25, for "
        "classes, and 1 for a number.",
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
        "Share of the budget of the counts by score and class, which calibrate probabilities; 0 "
        "leaves them out. Default 0.04 for classes; a number has none.",
        by_task=(0.04, 0.0),
    )
    span_share: float = parameter(None, share(or_else=0), SPAN_DOC, by_task=(0.0, 0.05))
    at_once: int = parameter(
        1,
        count(),
        "Most features, pairs or trees that one round measures: fewer rounds for the same budget, "
        "where a round is expensive. It costs accuracy, since effects that are measured together "
        "are not yet corrected for each other.",
    )
    monotone: tuple[tuple[str, int], ...] = parameter(
        None,
        Constraint(check_monotone, "mapping"),
        "From names of numeric features to 1 (predictions never fall as it grows), -1 (never rise) "
        "or 0 (any way): known facts, not read off the rows. Such features take no part in pairs "
        "and trees; a missing value is free. For two classes or a number. By default none.",
        by_task=((), ()),
    )

    def single_rounds(self, features: int) -> tuple[int, int]:
        """Return the number of rounds about single features, and of features in each."""
        queries = min(self.at_once, features)
        return -(-self.n_estimators // queries), queries


def describe_single(queries: int) -> str:
    """Describe the release of a round about features; which they are does not change its cost."""
    features = "a feature" if queries == 1 else f"each of {queries} features"
    return f"gradients and Hessians by cell of {features}"


def describe_joint(queries: int) -> str:
    """Describe the release of a round about pairs, or about trees."""
    if queries == 1:
        return "gradients and Hessians by cell of two features, or by leaf of a tree"
    return (
        f"gradients and Hessians by cell of each of {queries} pairs of features, or by leaf of "
        f"each of {queries} trees"
    )


@dataclass(frozen=True)
class Rule:
    """Division of measurements between single features and interactions.

    It reads public facts and released values alone, and is part of the plan's digest.

    Attributes
    ----------
    tried : int
        Number of joint measurements, for half of the budget, at which their cells are estimated.
    fewest : float
        Fewest cells with which there are interactions.
    steep, most_part : float
        Part of the budget for each doubling of cells, and the largest part.
    count : float
        Joint measurements for a part of 1.
    many : float
        Cells beyond which their number grows with the root of cells.
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

    Attributes
    ----------
    single : GaussianRelease or LaplaceRelease
        Release of one round about features.
    joint : GaussianRelease or None
        Release of one round about pairs, or about trees.
    n_single, n_joint : int
        Rounds of each, for each output.
    single_queries, joint_queries : int
        Queries of one round of each.
    """

    single: NoisySums
    joint: GaussianRelease | None
    n_single: int
    n_joint: int
    single_queries: int
    joint_queries: int

    def planned(self, outputs: int) -> list[Planned]:
        """Return all releases, to replace the reserved one."""
        single = [Planned(self.single, outputs * self.n_single)]
        if self.joint is None:
            return single
        return [*single, Planned(self.joint, outputs * self.n_joint)]


@dataclass(frozen=True, eq=False)
class PrivBoostPlan(Plan):
    """Plan of PrivBoost.

    Attributes
    ----------
    settings : PrivBoostParameters
        Parameters of the recipe.
    init : GaussianRelease or LaplaceRelease
        Release of the initial score and the number of rows.
    reserve : GaussianRelease or LaplaceRelease
        Cost of all measurements together: it is never made itself. With pure ε, one round.
    scores : GaussianRelease or LaplaceRelease or None
        Release of counts by score and class.
    rule : Rule
        Division of measurements.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("task", "settings", "contribution", "budget", "rule")

    settings: PrivBoostParameters
    init: GaussianRelease
    reserve: GaussianRelease
    scores: GaussianRelease | None
    rule: Rule = field(default_factory=Rule)

    @property
    def pure(self) -> bool:
        """Whether the budget is pure ε: then noise is Laplace, and only features are measured."""
        return self.budget.delta == 0

    @property
    def is_exchanged(self) -> bool:
        """Whether measurements replace the reserved release; with pure ε they do not."""
        return not self.pure

    @property
    def step(self) -> float:
        """Value of one grid step of a sum, in clips of rows of the largest weight."""
        return grid_step(None if self.weight_bound is None else 1.0)

    def step_values(self, clip: float) -> tuple[float, float]:
        """Return the values of one grid step of a measurement's gradients and Hessians."""
        return clip * self.step, self.hessian_clip_for(clip) * self.step

    def noise_of(self, release: NoisySums, clip: float) -> Noise:
        """Return the noise of a measurement where gradients are clipped to `clip`."""
        gradient, hessian = release.deviations * self.step_values(clip)
        return Noise(float(gradient), float(hessian), _SPREAD[self.task.target])

    def clip_for(self, rows: float) -> float:
        """Return the clip of gradients, given the released number of rows.

        For classes it grows slowly with the rows for each feature, in standard deviations of the
        noise of all rounds together.
        """
        if self.settings.gradient_clip is not None:
            return self.settings.gradient_clip
        if self.task.target == "number":
            return _CLIP
        sigma = self._noise_of_all * self.step
        strength = rows / max(sigma * self.n_features, 1e-300)
        grown = _CLIP * (strength / _STRENGTH) ** _GROWTH
        return float(min(max(grown, _NARROWEST), _WIDEST))

    @property
    def _noise_of_all(self) -> float:
        """Noise in the mean of one output's measurements, times the root of their number."""
        noise = float(self.reserve.deviations[0])
        if self.pure:
            return noise / math.sqrt(math.prod(self.settings.single_rounds(self.n_features)))
        return noise * math.sqrt(self.task.n_outputs)

    def hessian_clip_for(self, clip: float) -> float:
        """Return the clip of Hessians: a third of the gradients' clip, for classes.

        Both sums are then biased alike. Gradients without and Hessians with a clip would make
        steps too long, and correlated features would overshoot in turn.
        """
        if self.settings.hessian_clip is not None:
            return self.settings.hessian_clip
        if self.task.target == "number":
            return 1.0
        return min(max(clip / 3, _LEAST_HESSIAN), _MOST_HESSIAN)

    def weight_of(self, rows: float, start: int, clip: float) -> float:
        """Return the approximate sum of all Hessians at the initial score."""
        if self.task.target == "number":
            return rows
        rate = 1 / (1 + math.exp(-start / SCORE_STEPS))
        return rows * min(rate * (1 - rate), self.hessian_clip_for(clip))

    def response_of(self, scores: np.ndarray, clip: float) -> np.ndarray:
        """Return the mean derivative of clipped gradients with respect to scores.

        Labels are taken to be as likely as scores say, and a number's residuals to be Gaussian.
        """
        if self.task.target == "number":
            inside = math.erf(clip / math.sqrt(2 * _SPREAD["number"]))
            return np.full(len(scores), inside)
        rate = 1 / (1 + np.exp(-scores))
        inside = rate * (1 - rate <= clip) + (1 - rate) * (rate <= clip)
        response: np.ndarray = rate * (1 - rate) * inside
        return response

    def response(self, rows: float, clip: float) -> Callable[[np.ndarray], np.ndarray]:
        """Return the same for so many rows, as a function of scores."""
        return lambda scores: rows * self.response_of(scores, clip)

    def start_noise(self, start: int, count: int) -> float:
        """Return the standard deviation of the initial score."""
        mean = float(self.init.deviations[0]) / max(count, self.contribution.row_steps)
        if self.task.target == "number":
            return mean
        rate = 1 / (1 + math.exp(-start / SCORE_STEPS))
        return mean / (2 * rate * (1 - rate))

    def measurements_for(self, weight: float, clip: float) -> Measurements:
        """Return the measurements, given the approximate sum of all Hessians.

        The part of interactions grows with the cells that a joint query could have.
        """
        if self.pure:
            rounds, queries = self.settings.single_rounds(self.n_features)
            return Measurements(self.reserve, None, rounds, 0, queries, 1)
        tried = self.reserve.scaled(math.sqrt(2 * self.task.n_outputs * self.rule.tried))
        cells = self._cells(tried, self.rule.tried, weight, clip)
        part, joint = self.rule.divide(cells)
        return self._divided(part, joint) if self._joins and joint else self._divided(0.0, 0)

    @property
    def _joins(self) -> bool:
        """Whether there may be joint measurements."""
        return self.settings.interactions and sum(self.free) > 1

    def _divided(self, part: float, joint: int) -> Measurements:
        """Return measurements of which so many are joint, and cost a part of the reserve."""
        outputs, others = self.task.n_outputs, min(self.settings.at_once, max(joint, 1))
        n_single, features = self.settings.single_rounds(self.n_features)
        n_joint = -(-joint // others)
        single = self._release(describe_single(features), features, outputs * n_single / (1 - part))
        jointly = (
            self._release(describe_joint(others), others, outputs * n_joint / part)
            if joint
            else None
        )
        return Measurements(single, jointly, n_single, n_joint, features, others)

    def check_measurements(self) -> None:
        """Refuse a plan whose measurements might exceed the grid, or the budget with its slack.

        Their number is known once the initial score is released; any that is possible must fit.
        """
        if self.pure or isinstance(self.budget, PublicRows):
            return
        most = [(self.rule.most_part, self.rule.most_count)] if self._joins else []
        others = [planned for planned in self.releases if planned.event is not self.reserve]
        for part, joint in [(0.0, 0), *most]:
            made = self._divided(part, joint).planned(self.task.n_outputs)
            check_grid(planned.event for planned in made)
            together = [*self.budget.before, *others, *made]
            if not self.accountant.cost(together, self.budget.delta) <= self.budget.epsilon:
                raise ValueError(
                    "delta is too large for so small an epsilon: what the integer grid adds to the "
                    "cost of many measurements would exceed it"
                )

    def _release(self, what: str, queries: int, times: float) -> GaussianRelease:
        """Return the release of one of so many rounds that cost the reserve together."""
        return replace(self.reserve.asking(queries).scaled(math.sqrt(times)), what=what)

    def _cells(self, release: NoisySums, count: int, weight: float, clip: float) -> float:
        """Return the cells that each of so many queries should have to detect an effect.

        Parameters
        ----------
        weight : float
            Approximate sum of all Hessians.
        """
        noise = float(self.noise_of(release, clip).gradient)
        typical = weight * _TYPICAL[self.task.target] * (count / self.n_features) ** 0.25
        return float(typical / max(_CLEAR * noise, 1e-300))

    def posteriors(self, plan: Measurements, weight: float, clip: float) -> FeaturePosteriors:
        """Return the prior of one output's effects."""
        queries = plan.single_queries
        wanted = self._cells(plan.single, plan.n_single * queries, weight, clip)
        bins, most = (FINE_BINS, FINE_BINS) if wanted > _FINE * BINS else (BINS, BINS // 2)
        cells = int(min(max(wanted, FEWEST_CELLS), most))
        noise, scale = self.noise_of(plan.single, clip), self.step_values(clip)
        return FeaturePosteriors(self.encoder, noise, cells, scale, self.slopes, bins, queries)

    def interactions(
        self, plan: Measurements, posteriors: FeaturePosteriors, weight: float, clip: float
    ) -> Interactions:
        """Return the prior of one output's pairs and trees, given its features' posteriors."""
        assert plan.joint is not None
        queries = plan.joint_queries
        count = plan.n_joint * queries
        cells = self._cells(plan.joint, count, weight, clip)
        leaves = int(min(max(cells, FEWEST_CELLS), MOST_LEAVES))
        noise, scale = self.noise_of(plan.joint, clip), self.step_values(clip)
        most, order = largest_value(count), posteriors.quantiles()
        return Interactions(order, noise, leaves, count, scale, most, self.free, queries)

    @property
    def slopes(self) -> list[int]:
        """Direction of each feature's effect, 0 for any."""
        chosen = dict(self.settings.monotone)
        return [chosen.get(name, 0) for name in self.encoder.domain.feature_names]

    @property
    def free(self) -> list[bool]:
        """Whether each feature may interact: a monotone one could lose its direction."""
        codes = self.encoder.layout.n_codes
        few = [count <= MOST_CODES for count in codes]
        return [slope == 0 and fits for slope, fits in zip(self.slopes, few, strict=True)]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.encoder.domain.features)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters for reports."""
        return {"loss": self.task.loss, **self.settings.chosen()}


def plan_privboost(
    given: Mapping[str, Any], encoder: Encoder, weight_bound: float | None, budget: Budget
) -> PrivBoostPlan:
    """Plan a run, and calibrate its noise; see `sbdt.plan_sbdt`."""
    pure = budget.delta == 0
    settings = _read(given, encoder, pure)
    draft = Draft(encoder, weight_bound, budget, given["accountant"])
    outputs, last, span = draft.task.n_outputs, settings.calibration_share, settings.span_share
    check_calibration(last, draft.task.target, draft.task.loss)
    check_slopes(settings.monotone, encoder, outputs)
    shares = (1 - settings.hessian_share, settings.hessian_share)
    kind = LaplaceRelease if pure else GaussianRelease
    init, scores = initial_release(kind, 1.0, draft.bound), counts_release(kind, draft.bound)
    reserve, times = kind(_ALL, 1.0, cells=1, shares=shares, **draft.bound), 1
    if pure:
        rounds, queries = settings.single_rounds(len(encoder.domain.features))
        reserve, times = reserve.asking(queries), outputs * rounds
        reserve = replace(reserve, what=describe_single(queries))
    made = draft.share(
        [
            ("span", plan_target_range(draft, span, kind), span),
            ("init", Planned(init, outputs), settings.init_share),
            ("reserve", Planned(reserve, times), 1 - settings.init_share - last - span),
            ("scores", Planned(scores, outputs), last),
        ]
    )
    plan = PrivBoostPlan(
        **made.fields,
        settings=settings,
        init=made["init"],
        reserve=made["reserve"],
        scores=made.get("scores"),
    )
    plan.check_measurements()
    return plan


def _read(given: Mapping[str, Any], encoder: Encoder, pure: bool) -> PrivBoostParameters:
    """Read the parameters; under pure ε there are fewer measurements, and no interactions."""
    sweeps = PURE_SWEEPS if pure else SWEEPS
    defaults: dict[str, Any] = {"n_estimators": sweeps * len(encoder.domain.features)}
    if pure:
        defaults["hessian_share"] = PURE_HESSIAN_SHARE
    target = task_of(encoder.domain.target)
    settings = PrivBoostParameters.read(given, target, **defaults)
    return replace(settings, interactions=False) if pure else settings
