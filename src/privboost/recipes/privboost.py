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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost._core.progress import Track
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease, NoisySums
from privboost.data.encoding import Encoder
from privboost.losses.base import losses_of
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
from privboost.recipes.common.exposure import Exposure, check_exposure
from privboost.recipes.common.feature_posteriors import BINS, FINE_BINS, FeaturePosteriors
from privboost.recipes.common.interactions import (
    CodeQuantiles,
    InteractionRule,
    Interactions,
    Measurements,
    describe,
)
from privboost.recipes.common.intervals import plan_intervals
from privboost.recipes.common.monotone import MONOTONE, check_slopes, slopes_of
from privboost.recipes.common.noise_replay import NoiseReplay
from privboost.recipes.common.output_queries import AllClasses, OneOutput
from privboost.recipes.common.own_scales import scale_kind
from privboost.recipes.common.parameters import (
    POWER,
    QUANTILE,
    SPAN_SHARE,
    Constraint,
    Parameters,
    count,
    options,
    parameter,
    part,
    share,
    size,
    with_parameter,
)
from privboost.recipes.common.plan import Budget, PlanBasis, PublicRows, Task, check_grid
from privboost.recipes.common.posterior import Noise, largest_value
from privboost.recipes.common.probability_calibration import check_calibration
from privboost.recipes.common.scale import LogOddsScale, Scale, ScaledPlan, SquaredScale
from privboost.recipes.common.softmax import (
    SOFTMAX_LOSS,
    SoftmaxScale,
    centred,
    centred_changes,
    centred_deviations,
)
from privboost.recipes.common.survival_scale import SurvivalScale
from privboost.recipes.common.target_range import WHOLE_RANGE, TargetRange
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

_CLEAR = 4.0
"""κ: size of a typical effect in a cell, in standard deviations of the noise."""

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

    _where_set: ClassVar[tuple[str, ...]] = (
        "interaction_constraints",
        "conformal_fraction",
        "scale",
    )

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
        by_task=(None, "squared", None),
        tasks=("number",),
    )
    power: float = parameter(1.5, *POWER, tasks=("number",))
    exposure: str | None = parameter(
        None,
        "str",
        "With a log link, the numeric feature in proportion to which labels grow, such as the "
        "insured part of a year; its bounds are above 0. Predictions are for a row's own exposure, "
        "those of `predict_rate` for an exposure of 1. Declare it on a log scale if it varies by "
        "factors; a missing one counts as its upper bound.",
        tasks=("number",),
    )
    quantile: float = parameter(0.5, *QUANTILE, tasks=("number",))
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
        "for a number; with a log link it is in parts of the mean label. Of survival times it "
        "is in parts of the largest gradient, and follows the number of rows like that of classes.",
    )
    hessian_clip: float | None = parameter(
        None,
        size(below=_MOST_CLIP),
        "Bound of a row's Hessian, of several classes of the length of all. By default a third of "
        "the gradient's for classes and survival times (in units of the squared scale), and 1 for "
        "a number.",
    )
    hessian_share: float = parameter(
        None,
        share(),
        "Share of the Hessian in a measurement. Default 0.04 for classes and survival times, 0.1 "
        "for a number; 0.2 where delta is 0.",
        by_task=(0.04, 0.1, 0.04),
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
        "by residual for a quantile, or by residual and event for times; 0 leaves it out.",
        by_task=(0.04, 0.04),
    )
    span_share: float = parameter(None, *SPAN_SHARE, by_task=(0.0, 0.05))
    conformal_fraction: float = parameter(
        0.0,
        part(or_else=0),
        "Fraction of the protected units put aside for `predict_interval`, or `predict_set` of a "
        "classifier: chosen at random, they train nothing, and the errors of the model on them are "
        "counted. It costs no budget.",
        tasks=("classes", "number"),
    )
    scale: float | None = parameter(
        None,
        size(),
        "Scale of the logistic distribution of log times around a prediction, from public "
        "knowledge; about 0.7 where the hazard is constant. By default it follows released counts "
        "by log time and event.",
        tasks=("survival",),
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

    def single_rounds(self, features: int) -> tuple[int, int]:
        """Return the number of rounds about single features, and of features in each."""
        queries = min(self.at_once, features)
        return -(-self.n_estimators // queries), queries


@dataclass(frozen=True, eq=False)
class PrivBoostPlan(ScaledPlan):
    """Plan of PrivBoost.

    The number and kind of measurements are decided once the number of rows is released: a fixed sum
    of μ² is reserved for them, and exchanged for releases that follow from released values. With
    pure ε both are fixed beforehand, and nothing is exchanged.

    Attributes
    ----------
    settings : PrivBoostParameters
        Parameters of the recipe.
    reserved_release : NoisySums
        Stands for all measurements; with pure ε it is one round of them.
    rule : InteractionRule
        Division of measurements between single features and interactions.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("task", "settings", "contribution", "budget", "rule")

    settings: PrivBoostParameters
    reserved_release: NoisySums
    rule: InteractionRule = field(default_factory=InteractionRule)

    @property
    def is_exchanged(self) -> bool:
        """Whether measurements replace the reserved release; with pure ε they do not."""
        return not self.pure

    @property
    def several(self) -> bool:
        """Whether there are more than two classes, about all of which one query asks."""
        return self.task.n_outputs > 1

    @property
    def link(self) -> str:
        """The link of the model's scores; see `Model`."""
        return "softmax" if self.several else super().link

    def noise_of(self, release: NoisySums, scale: Scale, output: int = 0) -> Noise:
        """Return the noise of a measurement, for one output."""
        gradient, hessian = release.deviations * scale.step_values(self.count_step, output)
        spread = scale.spread_of(output)
        return Noise(float(gradient), float(hessian), spread, scale.most_step)

    @property
    def pooled_noise(self) -> float:
        """Noise of the mean of all measurements of one output, in rows, for a clip of 1."""
        noise = float(self.reserved_release.deviations[0]) * self.count_step
        if self.pure:
            noise /= math.sqrt(math.prod(self.settings.single_rounds(self.n_measured)))
        return noise

    def measurements_for(self, weight: float, scale: Scale) -> Measurements:
        """Return the measurements, given the approximate sum of all Hessians.

        The part of interactions grows with the cells that a joint query could have.
        """
        if self.pure:
            rounds, queries = self.settings.single_rounds(self.n_measured)
            return Measurements(self.reserved_release, None, rounds, 0, queries, 1)
        tried = self.reserved_release.scaled(math.sqrt(2 * self.rule.tried))
        cells = self._cells(tried, self.rule.tried, weight, scale)
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
        described = describe(features, classes=classes)
        single = self._release(described, features, n_single / (1 - part))
        described = describe(joint=joint_queries, classes=classes)
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

    def _cells(self, release: NoisySums, count: int, weight: float, scale: Scale) -> float:
        """Return the cells that each of so many queries should have to detect an effect.

        `weight` is the approximate sum of all Hessians.
        """
        noise = float(self.noise_of(release, scale).gradient)
        typical = weight * scale.typical * (count / self.n_features) ** 0.25
        return float(typical / max(_CLEAR * noise, 1e-300))

    def posteriors(self, measured: Measurements, scale: Scale, output: int) -> FeaturePosteriors:
        """Return the posteriors of one output's features, before any measurement."""
        weight = float(scale.weights[output])
        queries = measured.single_queries
        wanted = self._cells(measured.single, measured.n_single * queries, weight, scale)
        bins, most = (FINE_BINS, FINE_BINS) if wanted > _FINE * BINS else (BINS, BINS // 2)
        cells = int(min(max(wanted, FEWEST_CELLS), most))
        noise = self.noise_of(measured.single, scale, output)
        steps = scale.step_values(self.count_step, output)
        about = (self.encoder, noise, cells, steps, self.slopes, bins, queries, self.known)
        return FeaturePosteriors(*about)

    def interactions(
        self, measured: Measurements, order: Sequence[CodeQuantiles], scale: Scale, output: int
    ) -> Interactions:
        """Return one output's pairs and trees, before any measurement, by quantiles of codes."""
        weight = float(scale.weights[output])
        assert measured.joint is not None
        queries = measured.joint_queries
        count = measured.n_joint * queries
        cells = self._cells(measured.joint, count, weight, scale)
        leaves = int(min(max(cells, FEWEST_CELLS), MOST_LEAVES))
        noise = self.noise_of(measured.joint, scale, output)
        steps, most = scale.step_values(self.count_step, output), largest_value(count)
        return Interactions(order, noise, leaves, count, steps, most, self.allowed, queries)

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
        loss = {"loss": SOFTMAX_LOSS} if self.several else self.task.loss_parameters
        return {**loss, **self.settings.chosen()}


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
    settings = PrivBoostParameters.read(given, target, **defaults)
    if pure and isinstance(settings.interactions, tuple):
        raise ValueError(
            "interactions: pairs need a delta above 0; where it is 0 the model is additive, and "
            "interactions=False says so"
        )
    if pure:
        settings = replace(settings, interactions=False)
    basis = PlanBasis(
        encoder, weight_bound, budget, given["accountant"], with_parameter(target, settings)
    )
    outputs, last = basis.task.n_outputs, settings.calibration_share
    loss = basis.task.loss_instance
    scale = scale_of(basis.task)
    if settings.exposure is not None:
        check_exposure(settings, encoder, loss.log_link)
    check_calibration(last, target, basis.task.loss)
    check_slopes(settings.monotone, encoder, outputs)
    check_named(
        settings.interactions, settings.interaction_constraints, encoder.domain.feature_names
    )
    shares, range_share = (1 - settings.hessian_share, settings.hessian_share), settings.span_share
    rest = 1 - settings.init_share - last - range_share
    kind: type[NoisySums] = LaplaceRelease if pure else GaussianRelease
    init = scale.init_release(basis, kind)
    bound, times = scale.bound_of_query(basis, kind), 1
    reserve = kind(_RESERVED_WHAT, 1.0, shares=shares, **bound)
    if pure:
        times, queries = settings.single_rounds(n_features)
        reserve = reserve.for_queries(queries)
        reserve = replace(reserve, what=describe(queries, classes=outputs))
    made = basis.calibrate_by_shares(
        [
            (*scale.label_release(basis, kind, range_share), range_share),
            ("init_release", Planned(init, 1), settings.init_share),
            ("reserved_release", Planned(reserve, times), rest),
            *scale.last_releases(basis, kind, last),
        ]
    )
    names = "label_release", "init_release", "reserved_release", "calibration_release"
    fields = made.fields_with(*names, "shifts_release")
    fields |= plan_intervals(made, "reserved_release", settings.conformal_fraction)
    plan = PrivBoostPlan(**fields, settings=settings)
    plan.check_measurements()
    return plan


def scale_of(task: Task) -> type[Scale]:
    """Return the kind of scale of a task."""
    loss = task.loss_instance
    if loss.target == "survival":
        return SurvivalScale
    if loss.own_scale:
        return scale_kind(loss)
    if task.n_outputs > 1:
        return SoftmaxScale
    return LogOddsScale if loss.target == "classes" else SquaredScale


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
    outputs = range(plan.task.n_outputs)
    scale = scale_of(plan.task).begin(curator, plan, target_range)
    measured = plan.measurements_for(float(np.mean(scale.weights)), scale)
    if plan.is_exchanged:
        curator.exchange(plan.reserved_release, measured.planned())

    kind = scale.queries
    posteriors = [plan.posteriors(measured, scale, output) for output in outputs]
    rounds = iter(track(range(measured.n_single + measured.n_joint)))
    for _ in islice(rounds, measured.n_single):
        _measure_features(curator, measured, posteriors, kind, generator)
    interactions: list[Interactions] = []
    if measured.joint is not None:
        order = posteriors[0].quantiles(posteriors[1:])
        interactions = [plan.interactions(measured, order, scale, output) for output in outputs]
    for _ in rounds:
        _measure_interactions(curator, measured, interactions, kind, generator)
    replays = [
        NoiseReplay(
            posteriors[output],
            interactions[output] if interactions else None,
            scale.start[output] / SCORE_STEPS,
            float(scale.start_noise[output]),
            partial(scale.response, output),
        )
        for output in outputs
    ]
    model = pack_model(plan, scale, posteriors, interactions, replays)
    return scale.correct(curator, plan, model).with_label_shares(scale.label_shares)


def _measure_features(
    curator: Curator,
    measured: Measurements,
    posteriors: Sequence[FeaturePosteriors],
    kind: OneOutput | AllClasses,
    generator: np.random.Generator,
) -> None:
    """Measure one feature, or several, update their posteriors, and the rows' scores."""
    leader, *others = posteriors
    queries = leader.next_queries(measured.single_queries, generator, others)
    cells = CellMap.side_by_side(leader.cells_of(query) for query in queries)
    sums = kind.by_cell(curator, cells, measured.single)
    counted = list(cells.split(sums[..., 1].sum(axis=0))) if others else None
    changes = [
        own.observe(queries, cells.split(sums[output]), counted)
        for output, own in enumerate(posteriors)
    ]
    if others:
        measured_effects = [[own.effect(q.feature) for q in queries] for own in posteriors]
        changes = centred_changes(measured_effects, changes)
    moved = CellMap.side_by_side(leader.bins[query.feature].map for query in queries)
    kind.add_by_cell(curator, moved, list(map(np.concatenate, changes)))


def _measure_interactions(
    curator: Curator,
    measured: Measurements,
    interactions: Sequence[Interactions],
    kind: OneOutput | AllClasses,
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
        sums = kind.by_cell(curator, cells, release)
        changes = [
            own.observe_pairs(same[output], cells.split(sums[output]))
            for output, own in enumerate(interactions)
        ]
        if others:
            changes = centred_changes([[pair.effect for pair in own] for own in same], changes)
        kind.add_by_cell(curator, cells, list(map(np.concatenate, changes)))
    else:
        trees = leader.next_trees(queries, generator)
        sums = kind.by_leaf(curator, trees, release)
        values = [own.observe_trees(trees, sums[k]) for k, own in enumerate(interactions)]
        if others:
            values = list(centred(values))
            for own, leaves in zip(interactions, values, strict=True):
                own.replace_leaves(leaves)
        kind.add_by_leaf(curator, trees, values)


def pack_model(
    plan: PrivBoostPlan,
    scale: Scale,
    posteriors: list[FeaturePosteriors],
    interactions: list[Interactions],
    replays: list[NoiseReplay],
) -> AdditiveScores | InteractionScores:
    """Return the released model, with noisy counts and standard deviations of its values."""
    features = range(plan.n_features)
    by_code = [[one.by_code(feature) for one in posteriors] for feature in features]
    parts = [[np.stack(part) for part in zip(*outputs, strict=True)] for outputs in by_code]
    values, mass = zip(*parts, strict=True)
    if plan.exposure is not None:
        known = plan.exposure.values[None] + np.int32(plan.exposure.of_one)
        values = (*values[: plan.exposure.feature], known, *values[plan.exposure.feature + 1 :])
    mass = tuple(own / scale.row_mass for own in mass)
    noise = tuple(
        np.stack(
            [
                (replay.effects[feature] * SCORE_STEPS)[one.bins[feature].of_code]
                for one, replay in zip(posteriors, replays, strict=True)
            ]
        )
        for feature in features
    )
    if plan.several:
        noise = tuple(map(centred_deviations, noise))
    together = np.array([replay.together for replay in replays])
    missing = np.sum([one.missing for one in posteriors], axis=0)  # noise of outputs is independent
    missing[:, 2] = np.sqrt(missing[:, 2])
    start = scale.start + np.int32(scale.zero)
    single = AdditiveScores(start, values, mass, noise, together, scale.counted, missing)
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
