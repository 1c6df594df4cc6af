"""DP-XGBoost of Sarus, made sound: greedy trees under pure ε.

Split candidates follow noisy histograms of each number, released once or for each tree. A tree is
grown and its leaves are released on one Poisson sample; noise is added to sums of gradients and
counts, or to their quotients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from privboost._core.checks import check_size, is_number
from privboost._core.grid import SCORE_STEPS
from privboost._core.progress import Track
from privboost.accounting.events import Planned, SampledGroup, Selection
from privboost.accounting.noisy_sums import LaplaceRelease
from privboost.data.encoding import Encoder
from privboost.engine.queries import COUNT, GRADIENT_COUNT, HESSIAN, NodeHistograms, TreeSums
from privboost.engine.updates import AddTreeValues
from privboost.losses.base import LossTable, filtered, loss_of
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.sensitivity import MEAN_STEPS, lambda_steps, mean_steps_of_row
from privboost.mechanisms.utilities import MAX_SPLIT_ROWS
from privboost.models.forest import Forest
from privboost.models.trees import TreeScores
from privboost.recipes.common import newton
from privboost.recipes.common.candidates import (
    HessianThresholds,
    check_candidates,
    check_histograms,
    grow,
    of_each,
    splits_of,
)
from privboost.recipes.common.corrections import calibrate, last_release
from privboost.recipes.common.initial_score import initial_release
from privboost.recipes.common.newton import NewtonPlan, NewtonStep
from privboost.recipes.common.parameters import (
    FLAG,
    SPAN_SHARE,
    Constraint,
    Parameters,
    options,
    parameter,
    share,
    size,
)
from privboost.recipes.common.plan import Budget, PlanBasis, Task, grid_step
from privboost.recipes.common.probability_calibration import check_calibration
from privboost.recipes.common.target_range import plan_target_range
from privboost.reports.report import at_most_rows
from privboost.trees.tree import Tree, stump

_PARTS = ("sketch", "selection", "leaf")
"""Releases of a tree, in order."""
_SKETCHES = {"count": "counts by candidate span of every number", "hessian": newton.SPANS}
_NOISE_LAMBDA = {"classes": 0.5, "number": 3.0}
"""Default λ, in standard deviations of the noise in a leaf's count."""


def _check_weight(name: str, value: Any) -> float:
    if is_number(value) and value == 0:
        return 0.0
    return check_size(f"{name}, if not 0,", value)


@dataclass(frozen=True, kw_only=True)
class SarusParameters(Parameters):
    """Parameters of Sarus' DP-XGBoost."""

    _apart: ClassVar[tuple[str, ...]] = (
        "loss",
        "learning_rate",
        "gradient_clip",
        "count_share",
        "reg_lambda",
        "leaf_clip",
    )

    loss: str = parameter(
        None,
        "str",
        'Loss: "logistic" (the default of classes), or "squared", with classes as -1 and 1, which '
        "gives no probabilities. A number has the squared loss alone.",
        by_task=("logistic", "squared"),
    )
    n_estimators: int = parameter(20, *newton.TREES)
    max_depth: int = parameter(4, *newton.DEPTH)
    learning_rate: float = parameter(
        None,
        size(),
        "Factor of each tree's values. Default 0.3 for a number and with `geometric_clip`, else 1.",
        by_task=(1.0, 0.3),
    )
    subsample: float = parameter(
        1.0,
        newton.RATE,
        "Probability of a row to be used for a tree: one sample for a tree's splits and leaves.",
    )
    n_candidates: int = parameter(32, *newton.CANDIDATES)
    gradient_clip: float = parameter(0.5, size(), "Bound of a row's gradient.")
    count_share: float = parameter(
        0.25,
        share(),
        "Share of a leaf's count in its release; the sum of gradients has the rest. For sums.",
    )
    reg_lambda: float | None = parameter(
        None,
        newton.STEP_SIZE,
        "λ, added to every leaf's count. By default half a standard deviation of its noise for "
        'classes, three for a number; with `leaves="means"`, or without noise, 1.',
    )
    leaf_clip: float = parameter(2.0, *newton.LEAF_CLIP)
    init_share: float = parameter(
        0.05, share(or_else=0), "Share of ε of the initial score; 0 for none."
    )
    calibration_share: float = parameter(
        None,
        share(or_else=0),
        "Share of ε of the last release, which calibrates the model: counts of rows by score and "
        "class for probabilities, sums of residuals by prediction for the mean of a number; 0 "
        "leaves it out. Default 0.04; classes with the squared loss have none.",
        by_task=(0.04, 0.04),
    )
    shares: tuple[float, float, float] = parameter(
        (0.1, 0.45, 0.45),
        newton.SHARES,
        "Division of the rest of ε between the sketch of split candidates, the choice of splits, "
        "and leaves. A sketch of share 0 leaves candidates evenly spread.",
    )
    split_lambda: float = parameter(1.0, *newton.SPLIT_LAMBDA)
    gradient_filter: float | None = parameter(
        None,
        size(),
        "Rows whose gradient is above this are left out of a tree. It must be below "
        "`gradient_clip`, above which there is none.",
    )
    geometric_clip: bool = parameter(
        False,
        FLAG,
        "Whether the clip shrinks by (1 − learning_rate) from tree to tree. The rate must be below "
        "1, which would leave nothing to all trees but the first; it is 0.3 unless given.",
    )
    min_child_weight: float = parameter(
        0.0,
        Constraint(_check_weight, "float"),
        "Leaves whose released count is below this have the value 0. For sums.",
    )
    leaves: str = parameter(
        "sums",
        options("sums", "means"),
        "What of a leaf has noise: the sum of its gradients and its count; or the mean of its "
        "gradients, G/(n + λ), which one row moves by at most gradient_clip/(1 + λ). Means hide "
        "the number of a leaf's rows, need far more noise, have no importances and take no "
        "weights.",
    )
    sketch_bins: int | None = parameter(None, *newton.SKETCH_BINS)
    sketch_weights: str = parameter(
        "count", options("count", "hessian"), "Statistic of the sketch: rows, or their Hessians."
    )
    sketch_each_tree: bool = parameter(
        False,
        FLAG,
        "Whether each tree has a sketch, on its own sample, instead of one before all trees; their "
        "share is divided among them.",
    )
    span_share: float = parameter(None, *SPAN_SHARE, by_task=(0.0, 0.2))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.leaves == "means" and self.min_child_weight > 0:
            raise ValueError(
                'min_child_weight looks at released counts, and leaves="means" releases none'
            )


@dataclass(frozen=True, eq=False)
class SarusPlan(NewtonPlan):
    """Plan of greedy trees under pure ε.

    The choice of the splits of one level, and releases of a tree's leaves and of the histograms
    that candidates follow. Where rows are sampled, `group` has all of a tree on one sample.
    """

    selection: Selection
    leaf: LaplaceRelease
    group: SampledGroup | None
    sketch: LaplaceRelease | None

    @property
    def loss(self) -> LossTable:
        """Tabulated loss, without the rows whose gradient is filtered."""
        largest = 2 * loss_of(self.task.target, self.task.loss).curvature
        table = self.task.table(self.step.gradient_clip, largest)  # leaves count rows instead
        limit = self.settings.gradient_filter
        return table if limit is None else filtered(table, limit, self.step.gradient_clip)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumption of the range of a split's score."""
        return (at_most_rows(MAX_SPLIT_ROWS),)


def plan_sarus(
    given: Mapping[str, Any], encoder: Encoder, weight_bound: float | None, budget: Budget
) -> SarusPlan:
    """Return the plan of a run with greedy trees under pure ε.

    It has shares of ε for the target clipping range, the initial score, the calibration, the sketch
    of split candidates, the choice of splits and the leaves, with noise that costs the budget.
    `given` has the estimator's parameters.
    """
    target = Task.of(encoder.domain.target).target
    defaults: dict[str, Any] = {"loss": newton.loss_from(given, target)}
    if target == "classes" and defaults["loss"] != "logistic":
        defaults["calibration_share"] = 0
    if FLAG.check("geometric_clip", given["geometric_clip"]):  # whose published rate it is
        defaults["learning_rate"] = 0.3
    settings = SarusParameters.read(given, target, **defaults)
    step = NewtonStep(
        gradient_clip=settings.gradient_clip,
        hessian_clip=1.0,  # leaves count rows
        hessian_share=settings.count_share,
        reg_lambda=1.0 if settings.reg_lambda is None else settings.reg_lambda,
        leaf_clip=settings.leaf_clip,
        learning_rate=settings.learning_rate,
    )
    _check(encoder, step, settings, weight_bound)
    basis = PlanBasis(encoder, weight_bound, budget, given["accountant"], settings.loss)
    check_calibration(settings.calibration_share, target, settings.loss)
    newton.check_sampled_units(settings.subsample, basis.contribution)
    made = basis.calibrate(_wanted(basis, step, settings))
    fields = made.fields_with("init_release", "calibration_release", "group", *_PARTS)
    group = fields["group"]
    if group is not None:  # which ends with the leaves, and may begin with a sketch
        inner = reversed([planned.event for planned in group.inner])
        fields |= dict(zip(reversed(_PARTS), inner, strict=False))
    follows = settings.reg_lambda is None and settings.leaves == "sums"
    step = step.with_noise_lambda(
        _NOISE_LAMBDA[target] if follows else None,
        math.sqrt(2) * fields["leaf"].scales[-1],
        weight_bound,
    )
    return SarusPlan(**fields, step=step, settings=settings)


def _check(
    encoder: Encoder, step: NewtonStep, settings: SarusParameters, weight_bound: float | None
) -> None:
    """Refuse parameters that exclude each other, or exceed the grid or memory."""
    check_candidates(settings.n_candidates, encoder, settings.sketch_bins)
    if settings.leaves == "means" and weight_bound is not None:
        raise ValueError(
            'leaves="means" takes no sample_weight, and no rows that share the weight of a unit '
            '(weighting="units"): the bound of a mean is proved for whole counts'
        )
    limit = settings.gradient_filter
    if limit is not None and limit >= step.gradient_clip:
        raise ValueError(
            "gradient_filter must be below gradient_clip: gradients are clipped first, so that "
            "none is above the clip, and no row would be left out"
        )
    if settings.geometric_clip and step.learning_rate >= 1:
        raise ValueError(
            "geometric_clip needs a learning_rate below 1: the clip shrinks by 1 - learning_rate "
            "from tree to tree, to nothing"
        )
    newton.check_scores(settings.n_estimators * step.leaf_clip * step.learning_rate)
    check_histograms(encoder, settings.n_candidates, settings.max_depth)


def _wanted(
    basis: PlanBasis, step: NewtonStep, settings: SarusParameters
) -> list[tuple[str, Planned]]:
    """List the releases, with noise for an ε of about 1 in all."""
    outputs, bound = basis.task.n_outputs, basis.bound
    sketch_share, split_share, leaf_share = settings.shares
    if basis.n_numbers == 0:
        sketch_share = 0.0
    rest = 1 - settings.init_share - settings.calibration_share - settings.span_share
    rest /= sketch_share + split_share + leaf_share
    wanted = _once(basis, settings)
    trees, depth = settings.n_estimators * outputs, settings.max_depth
    # On a sample of rate γ a release costs about γ of its ε.
    per_tree = settings.subsample * trees / rest
    own: list[tuple[str, Planned]] = []
    if sketch_share > 0:
        each = settings.sketch_each_tree
        what = _SKETCHES[settings.sketch_weights]
        noise = per_tree / sketch_share if each else 1 / (rest * sketch_share)
        sketch = LaplaceRelease(what, noise, cells=basis.n_numbers, shares=(1.0,), **bound)
        (own if each else wanted).append(("sketch", Planned(sketch, 1)))
    selection = Selection("the splits of all nodes of a level", per_tree * depth / split_share)
    leaf = _leaf_release(basis, step, settings, per_tree / leaf_share)
    own += [("selection", Planned(selection, depth)), ("leaf", Planned(leaf, 1))]
    if settings.subsample < 1:
        inner = tuple(planned for _, planned in own)
        group = SampledGroup.of("a tree, on a sample", inner, settings.subsample)
        return [*wanted, ("group", Planned(group, trees))]
    return wanted + [(name, Planned(p.event, p.count * trees)) for name, p in own]


def _once(basis: PlanBasis, settings: SarusParameters) -> list[tuple[str, Planned]]:
    """List the releases of all rows before the trees, and after them, with their noise."""
    outputs, bound = basis.task.n_outputs, basis.bound
    wanted = []
    looks = plan_target_range(basis, settings.span_share, LaplaceRelease)
    if settings.span_share > 0:
        wanted.append(("range_release", looks.scaled(looks.count / settings.span_share)))
    if settings.init_share > 0:
        init = initial_release(LaplaceRelease, outputs / settings.init_share, bound)
        wanted.append(("init_release", Planned(init, outputs)))
    if settings.calibration_share > 0:
        scores = last_release(
            LaplaceRelease, basis.task, bound, outputs / settings.calibration_share
        )
        wanted.append(("calibration_release", Planned(scores, outputs)))
    return wanted


def _leaf_release(
    basis: PlanBasis, step: NewtonStep, settings: SarusParameters, noise: float
) -> LaplaceRelease:
    """Return the release of a tree's leaves: their sums and counts, or their means."""
    if settings.leaves == "sums":
        what = "gradients and counts by leaf of a tree"
        return LaplaceRelease(what, noise, cells=1, shares=step.shares, **basis.bound)
    rows = basis.contribution.rows
    steps = mean_steps_of_row(lambda_steps(step.reg_lambda)) * rows
    what = "mean gradients by leaf of a tree"
    return LaplaceRelease(what, noise, steps=steps, cells=1, rows=rows, shares=(1.0,))


def boost_sarus(curator: Curator, plan: SarusPlan, track: Track = iter) -> TreeScores:
    """Train a model of greedy trees.

    Privacy
    -------
    Spends `plan.releases`: the initial score, those of `add_trees`, and the calibration.
    """
    model = add_trees(curator, plan, newton.start_boosting(curator, plan), track)
    return calibrate(curator, plan, plan.calibration_release, model)


def add_trees(
    curator: Curator, plan: SarusPlan, before: TreeScores, track: Track = iter
) -> TreeScores:
    """Add greedy trees to a model that has an initial score.

    Privacy
    -------
    Spends, whatever the rows, one sketch (or one a tree), and for each round and output a selection
    for each level and a release of leaves.
    """
    settings, outputs, encoder = plan.settings, plan.task.n_outputs, plan.encoder
    features = tuple(range(len(encoder.domain.features)))
    sketch = HessianThresholds(encoder, settings.n_candidates, settings.sketch_bins)
    if not settings.sketch_each_tree:
        _refine(curator, plan, sketch, 0)
    trees, values, counts, noise = [], [], [], []
    for round_ in track(range(settings.n_estimators)):
        for output in range(outputs):
            with nullcontext() if plan.group is None else curator.sampling(plan.group):
                if settings.sketch_each_tree:
                    _refine(curator, plan, sketch, output)
                splits = splits_of(encoder, sketch.thresholds, features)
                depth, event = settings.max_depth, plan.selection
                tree = grow(curator, splits, depth, settings.split_lambda, event, output)
                sums = _released_leaves(curator, plan, tree, output)
            steps, deviation = _leaf_values(plan, sums, round_)
            curator.publish(AddTreeValues((tree,), steps[None], output))
            trees.append(tree)
            values.append(steps)
            counts.append(sums[:, -1])
            noise.append(deviation)
    leaves = list(of_each(np.stack(values), outputs))
    if settings.leaves == "means":  # which release no counts
        forest = Forest.of(trees, leaves)
    else:
        mass = of_each(newton.noisy_mass(np.stack(counts), plan.weight_bound), outputs)
        forest = Forest.of(trees, leaves, mass, of_each(np.stack(noise), outputs))
    return before.extended(forest, [outputs] * settings.n_estimators)


def _refine(curator: Curator, plan: SarusPlan, sketch: HessianThresholds, output: int) -> None:
    """Release a sketch, where there is one, and move the candidates."""
    if plan.sketch is not None:
        statistics = HESSIAN if plan.settings.sketch_weights == "hessian" else COUNT
        spans = NodeHistograms(stump(), sketch.cells(), output, statistics)
        sketch.refine(curator.sums(spans, plan.sketch)[0, :, 0])


def _released_leaves(curator: Curator, plan: SarusPlan, tree: Tree, output: int) -> np.ndarray:
    """Release sums and counts, or means, by leaf."""
    query = TreeSums((tree,), output, GRADIENT_COUNT)
    if plan.settings.leaves == "sums":
        sums: np.ndarray = curator.sums(query, plan.leaf)[0]
        return sums
    means = curator.laplace_means(query, lambda_steps(plan.step.reg_lambda), plan.leaf)
    return means.reshape(-1, 1)


def _leaf_values(plan: SarusPlan, sums: np.ndarray, round_: int) -> tuple[np.ndarray, np.ndarray]:
    """Return leaf values, and their standard deviations due to noise alone.

    Later trees have a smaller clip, and leaves of a small count the value 0.
    """
    settings, step = plan.settings, plan.step
    if settings.geometric_clip:
        clip = step.leaf_clip * max((1 - step.learning_rate) ** round_, 2 / SCORE_STEPS)
        step = replace(step, leaf_clip=clip)
    sigma = math.sqrt(2) * float(plan.leaf.scales[0])
    if settings.leaves == "means":
        scale, most = step.gradient_clip / MEAN_STEPS, step.leaf_clip
        rate = step.learning_rate * SCORE_STEPS
        values = np.rint(np.clip(-sums[:, 0] * scale, -most, most) * rate).astype(np.int32)
        return values, np.full(len(values), min(sigma * scale, most) * rate)
    values = step.values(sums[:, 0], sums[:, 1], plan.weight_bound)
    noise = step.noise(sums[:, 1], sigma, plan.weight_bound)
    thin = sums[:, 1] * grid_step(plan.weight_bound) < settings.min_child_weight
    return np.where(thin, 0, values).astype(np.int32), np.where(thin, 0.0, noise)


PRESETS: dict[str, dict[str, Any]] = {
    "DP_XGBoost": {
        "loss": "squared",
        "n_estimators": 20,
        "learning_rate": 0.3,
        "subsample": 0.1,
        "gradient_clip": 1.0,
        "reg_lambda": 0.1,
        "split_lambda": 0.1,
        "leaf_clip": 1.0,
        "init_share": 0.0,
        "calibration_share": 0.0,
        "span_share": 0.0,
        "shares": (1 / 3, 1 / 3, 1 / 3),
        "n_candidates": 50,
        "sketch_weights": "hessian",
        "sketch_each_tree": True,
    },
}
"""Published settings; depth, of which the paper says nothing, is the default."""
