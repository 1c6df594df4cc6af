"""DP-XGB: greedy trees under (ε, δ).

Splits are chosen privately on exact node histograms, and leaves are released. A tree grows level by
level. All nodes of a level are chosen at once, for the price of one selection, because a row lies
in one node. Below `greedy_depth` splits are random, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from privboost._core.progress import Track
from privboost.accounting.events import Planned, Selection
from privboost.accounting.noisy_sums import GaussianRelease
from privboost.data.encoding import Encoder
from privboost.engine.queries import HESSIAN, NodeHistograms, TreeSums
from privboost.engine.updates import AddTreeValues
from privboost.losses.base import loss_of
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.utilities import MAX_SPLIT_ROWS
from privboost.models.forest import Forest
from privboost.models.trees import TreeScores
from privboost.recipes.common import newton
from privboost.recipes.common.candidates import (
    HessianThresholds,
    RandomTrees,
    Thresholds,
    check_candidates,
    check_histograms,
    even_thresholds,
    grow,
    of_each,
    splits_of,
)
from privboost.recipes.common.corrections import last_release
from privboost.recipes.common.newton import NewtonPlan, NewtonStep
from privboost.recipes.common.own_scales import scale_kind
from privboost.recipes.common.parameters import (
    POWER,
    QUANTILE,
    SPAN_SHARE,
    Parameters,
    count,
    options,
    options_or_count,
    or_none,
    parameter,
    share,
    with_parameter,
)
from privboost.recipes.common.plan import Budget, PlanBasis, ReleaseShare, Task
from privboost.recipes.common.probability_calibration import check_calibration
from privboost.recipes.common.target_range import WHOLE_RANGE, TargetRange
from privboost.reports.report import at_most_rows
from privboost.trees.tree import stump

_NOISE_LAMBDA = {"classes": 0.5, "number": 6.0}
"""Default λ, in standard deviations of the noise in a leaf's sum of Hessians."""
_TYPICAL_VALUE = 0.25
"""Typical size of a leaf's value, which balances the noise of gradients and Hessians."""


@dataclass(frozen=True, kw_only=True)
class DPXGBParameters(Parameters):
    """Parameters of DP-XGB."""

    _apart: ClassVar[tuple[str, ...]] = (*newton.NEWTON_STEP, "loss", "power", "quantile")

    n_estimators: int = parameter(50, *newton.TREES)
    max_depth: int = parameter(4, *newton.DEPTH)
    greedy_depth: int | None = parameter(
        None,
        count(),
        "Levels from the top that are chosen privately; the others are drawn at random, which "
        "costs nothing. By default all.",
    )
    learning_rate: float = parameter(0.3, *newton.LEARNING_RATE)
    gradient_clip: float | None = parameter(
        None, newton.SCALED_CLIP[0], newton.SCALED_CLIP[1].format(0.5), by_task=(0.5, 0.5)
    )
    hessian_clip: float = parameter(None, *newton.HESSIAN_CLIP, by_task=(0.25, 1.0))
    hessian_share: float | None = parameter(
        None,
        share(),
        "Share of the Hessian in a leaf's release. By default it balances the errors of both for "
        "values of a typical size.",
    )
    reg_lambda: float | None = parameter(
        None,
        newton.STEP_SIZE,
        "λ, added to every leaf's sum of Hessians. By default half a standard deviation of its "
        "noise for classes, six for a number; 1 without noise.",
    )
    leaf_clip: float | None = parameter(
        2.0,
        or_none(newton.STEP_SIZE),
        f"{newton.LEAF_CLIP[1]} None is the largest that the grid of scores allows.",
    )
    loss: str = parameter(
        None,
        "str",
        newton.LOSS_OF_NUMBERS,
        by_task=("logistic", "squared"),
        tasks=("number",),
    )
    power: float = parameter(1.5, *POWER, tasks=("number",))
    quantile: float = parameter(0.5, *QUANTILE, tasks=("number",))
    features: str | int = parameter(
        "all",
        options_or_count("all", "cyclical"),
        "Features among which a split is chosen: all; one a tree, in turn; or so many that are "
        "drawn for each tree.",
    )
    candidates: str = parameter(
        "grid",
        options("grid", "hessian"),
        "Where numbers may be split: at `n_candidates` evenly spread edges, or at edges that "
        "follow released Hessians.",
    )
    n_candidates: int = parameter(32, *newton.CANDIDATES)
    candidate_rounds: str | int = parameter(
        1,
        options_or_count("all"),
        'How often "hessian" candidates are refined: once, before the first tree; in so many '
        "rounds; or in all.",
    )
    sketch_bins: int | None = parameter(None, *newton.SKETCH_BINS)
    init_share: float = parameter(
        0.05, share(or_else=0), "Share of the budget (on μ²) of the initial score; 0 for none."
    )
    calibration_share: float = parameter(
        None,
        share(or_else=0),
        "Share of the budget (on μ²) of the last release, which calibrates the model: counts of "
        "rows by score and class for probabilities, sums of residuals by prediction for the mean "
        "of a number; 0 leaves it out.",
        by_task=(0.04, 0.04),
    )
    shares: tuple[float, float, float] = parameter(
        (0.1, 0.6, 0.3),
        newton.SHARES,
        "Division of the rest of the budget (on μ²) between the sketch of split candidates, the "
        "choice of splits, and leaves. Where there is no sketch, the others have its share.",
    )
    split_lambda: float = parameter(1.0, *newton.SPLIT_LAMBDA)
    span_share: float = parameter(None, *SPAN_SHARE, by_task=(0.0, 0.05))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.greedy_depth is None:
            object.__setattr__(self, "greedy_depth", self.max_depth)
        if self.levels > self.max_depth:
            raise ValueError(
                f"greedy_depth must be at most max_depth; {self.greedy_depth} exceeds it"
            )
        if self.candidates == "hessian" and self.shares[0] == 0:
            raise ValueError('candidates="hessian" needs a sketch: the first of shares is 0')

    @property
    def levels(self) -> int:
        """Number of levels that are chosen privately."""
        return self.greedy_depth or 0

    @property
    def refinements(self) -> int:
        """Refinements of the split candidates."""
        if self.candidates == "grid":
            return 0
        rounds = self.candidate_rounds
        return self.n_estimators if isinstance(rounds, str) else min(rounds, self.n_estimators)


@dataclass(frozen=True, eq=False)
class DPXGBPlan(NewtonPlan):
    """Plan of greedy trees under (ε, δ).

    The choice of the splits of one level, and releases of a tree's leaves and of the Hessians that
    candidates follow.
    """

    selection: Selection
    leaf: GaussianRelease
    sketch: GaussianRelease | None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumption of the range of a split's score."""
        return (at_most_rows(MAX_SPLIT_ROWS),)


def plan_dpxgb(
    given: Mapping[str, Any], encoder: Encoder, weight_bound: float | None, budget: Budget
) -> DPXGBPlan:
    """Return the plan of a run with greedy trees under (ε, δ).

    It has shares of μ² for the target clipping range, the initial score, the sketch of split
    candidates, the choice of splits, the leaves and the calibration, with noise that costs the
    budget. `given` has the estimator's parameters.
    """
    target = Task.of(encoder.domain.target).target
    loss = newton.loss_from({"loss": given.get("loss")}, target, own_scale=True)
    own_scale = loss_of(target, loss).own_scale
    settings = DPXGBParameters.read(given, target, **(newton.OWN_CLIPS if own_scale else {}))
    if settings.leaf_clip is None:
        widest = newton.widest_clip(settings.n_estimators, settings.learning_rate)
        settings = replace(settings, leaf_clip=widest)
    loss_name = with_parameter(target, settings)
    basis = PlanBasis(encoder, weight_bound, budget, given["accountant"], loss_name)
    likely = newton.scaled_clips(basis.task.loss_instance)
    step = NewtonStep.of(settings, settings.hessian_clip, _TYPICAL_VALUE, likely)
    newton.check_init_share(settings, basis.task.loss_instance)
    check_candidates(settings.n_candidates, encoder, settings.sketch_bins)
    newton.check_scores(settings.n_estimators * step.leaf_clip * step.learning_rate)
    check_histograms(encoder, settings.n_candidates, settings.levels)
    check_calibration(settings.calibration_share, target, basis.task.loss)
    made = basis.calibrate_by_shares(_wanted(basis, step, settings))
    follows = _NOISE_LAMBDA[target] if settings.reg_lambda is None else None
    return DPXGBPlan(
        **made.fields_with(
            "label_release", "init_release", "selection", "leaf", "sketch", "calibration_release"
        ),
        step=step.with_noise_lambda(follows, made["leaf"].scales[1], weight_bound),
        settings=settings,
    )


def _wanted(basis: PlanBasis, step: NewtonStep, settings: DPXGBParameters) -> list[ReleaseShare]:
    """List the releases with their shares; where there is no sketch, the others have its share."""
    outputs, bound = basis.task.n_outputs, basis.bound
    trees = settings.n_estimators * outputs
    choice = Selection("the splits of all nodes of a level", 1.0)
    leaf = GaussianRelease(
        "gradients and Hessians by leaf of a tree", 1.0, cells=1, shares=step.shares, **bound
    )
    parts: list[ReleaseShare] = [
        ("selection", Planned(choice, trees * settings.levels), settings.shares[1]),
        ("leaf", Planned(leaf, trees), settings.shares[2]),
    ]
    if settings.refinements and basis.n_numbers:
        sketch = GaussianRelease(newton.SPANS, 1.0, cells=basis.n_numbers, shares=(1.0,), **bound)
        parts.insert(0, ("sketch", Planned(sketch, settings.refinements), settings.shares[0]))
    total, range_share = sum(share for _, _, share in parts), settings.span_share
    rest = 1 - settings.init_share - settings.calibration_share - range_share
    scale = scale_kind(basis.task.loss_instance)
    init = Planned(scale.init_release(basis, GaussianRelease), outputs)
    scores = Planned(last_release(GaussianRelease, basis.task, bound), outputs)
    return [
        (*scale.label_release(basis, GaussianRelease, range_share), range_share),
        ("init_release", init, settings.init_share),
        *((name, planned, rest * share / total) for name, planned, share in parts),
        ("calibration_release", scores, settings.calibration_share),
    ]


def boost_dpxgb(
    curator: Curator,
    plan: DPXGBPlan,
    generator: np.random.Generator,
    track: Track = iter,
    target_range: TargetRange = WHOLE_RANGE,
) -> TreeScores:
    """Train a model of greedy trees; `generator` is the public randomness of their features.

    Privacy
    -------
    Spends `plan.releases`: the initial score, those of `add_trees`, and the calibration.
    """

    def add(scaled: DPXGBPlan, before: TreeScores) -> TreeScores:
        return add_trees(curator, scaled, generator, before, track)

    return newton.boost(curator, plan, target_range, add)


def add_trees(
    curator: Curator,
    plan: DPXGBPlan,
    generator: np.random.Generator,
    before: TreeScores,
    track: Track = iter,
) -> TreeScores:
    """Add greedy trees to a model that has an initial score.

    Privacy
    -------
    Spends, whatever the rows, for each round and output one selection a greedy level and one
    release of leaves, and the sketches.
    """
    settings, outputs = plan.settings, plan.task.n_outputs
    structures = RandomTrees(plan.encoder, settings.max_depth, settings.features, "one", generator)
    sketch = HessianThresholds(plan.encoder, settings.n_candidates, settings.sketch_bins)
    thresholds: Thresholds = even_thresholds(plan.encoder, settings.n_candidates)
    trees, values, hessians = [], [], []
    for round_ in track(range(settings.n_estimators)):
        if plan.sketch is not None and round_ < settings.refinements:
            query = NodeHistograms(stump(), sketch.cells(), round_ % outputs, HESSIAN)
            sketch.refine(curator.sums(query, plan.sketch)[0, :, 0])
            thresholds = sketch.thresholds
        features = structures.features_of(round_)
        splits = splits_of(plan.encoder, thresholds, features)
        for output in range(outputs):
            levels, event = settings.levels, plan.selection
            tree = grow(curator, splits, levels, settings.split_lambda, event, output)
            tree = structures.deepen(tree, round_, thresholds, features)
            sums = curator.sums(TreeSums((tree,), output), plan.leaf)[0]
            steps = plan.step.values(sums[:, 0], sums[:, 1], plan.weight_bound)
            curator.publish(AddTreeValues((tree,), steps[None], output))
            trees.append(tree)
            values.append(steps)
            hessians.append(sums[:, 1])
    released = np.stack(hessians)
    noise = plan.step.noise(released, float(plan.leaf.scales[0]), plan.weight_bound)
    mass = of_each(newton.noisy_mass(released, plan.weight_bound), outputs)
    leaves = list(of_each(np.stack(values), outputs))
    forest = Forest.of(trees, leaves, mass, of_each(noise, outputs))
    return before.extended(forest, [outputs] * settings.n_estimators)


_PUBLISHED: dict[str, Any] = {
    "learning_rate": 0.3,
    "reg_lambda": 1.0,
    "split_lambda": 1.0,
    "gradient_clip": 1.0,
    "hessian_clip": 0.25,
    "hessian_share": 1 / 17,  # equal noise for gradients and Hessians
    "leaf_clip": None,
    "init_share": 0.0,
    "calibration_share": 0.0,
    "span_share": 0.0,
}
_UNIFORM = {"candidates": "grid", "shares": (0.0, 0.7, 0.3)}
_ADAPTIVE = {"candidates": "hessian", "candidate_rounds": "all", "shares": (0.1, 0.6, 0.3)}

PRESETS: dict[str, dict[str, Any]] = {
    "XGB": _PUBLISHED | _UNIFORM | {"features": "all"},
    "XGB_cyc": _PUBLISHED | _UNIFORM | {"features": "cyclical"},
    "XGB_ada": _PUBLISHED | _ADAPTIVE | {"features": "all"},
}
"""Published variants; trees and depth, of which the paper searched many, are the defaults."""
