"""S-BDT: random trees with leaf-balanced Gaussian noise, sampling and individual privacy filters.

Trees are drawn independently of the rows, so that only their leaves cost privacy. The totally
random trees of Maddock et al. are the same recipe with other parameters (`TR` among the presets).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from privboost._core.grid import BUDGET_STEPS
from privboost._core.progress import Track
from privboost.accounting.accountants import RdpAccountant
from privboost.accounting.calibration import by_shares
from privboost.accounting.events import Planned
from privboost.accounting.formulas import best_order
from privboost.accounting.individual_budgets import GaussianBudget, IndividualBudget, RenyiBudget
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.data.encoding import Encoder
from privboost.engine.queries import (
    GRADIENT_COUNT,
    GRADIENT_HESSIAN,
    HESSIAN,
    NodeHistograms,
    TreeSums,
)
from privboost.engine.updates import AddTreeValues
from privboost.losses.base import Loss, loss_of
from privboost.mechanisms.curator import Curator
from privboost.models.forest import Forest
from privboost.models.trees import TreeScores
from privboost.recipes.common import newton
from privboost.recipes.common.candidates import (
    CATEGORY_SPLITS,
    RULES,
    HessianThresholds,
    RandomTrees,
    Thresholds,
    check_candidates,
    even_thresholds,
)
from privboost.recipes.common.corrections import last_release
from privboost.recipes.common.initial_score import initial_release
from privboost.recipes.common.monotone import MONOTONE, RisingTrees, check_slopes, slopes_of
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
    size,
    with_parameter,
)
from privboost.recipes.common.plan import (
    Budget,
    PlanBasis,
    PublicRows,
    ReleaseShare,
    Task,
    check_grid,
)
from privboost.recipes.common.probability_calibration import check_calibration
from privboost.recipes.common.target_range import WHOLE_RANGE, TargetRange
from privboost.trees.tree import Tree, stump

STREAM_RELEASES = 2**16
"""Releases that the individual filter of a stream's rows allows."""

_LATER_NOISE = 4
"""Factor by which the noise of later batches may be smaller than that of the first."""

_NOISE_LAMBDA = {"classes": 0.5, "number": 1.0}
"""Default λ, in standard deviations of the noise in a leaf's sum of Hessians."""

_LOG_TREES = {"n_estimators": 300, "max_depth": 4}
"""Default trees with a log link: a mean that grows by factors needs more steps than a number."""

_TYPICAL_VALUE = {"newton": 1 / 8, "gradient": 1 / 50, "squared": 1 / 8, "number": 1 / 8}
"""Typical size of a leaf's value, which balances the noise of gradients and Hessians."""


_LOSS = ("loss", "power", "quantile")
"""Parameters that name the loss."""


@dataclass(frozen=True, kw_only=True)
class SBDTParameters(Parameters):
    """Parameters of S-BDT."""

    _apart: ClassVar[tuple[str, ...]] = (*newton.NEWTON_STEP, *_LOSS)
    _where_set: ClassVar[tuple[str, ...]] = ("monotone",)

    n_estimators: int = parameter(
        None,
        newton.TREES[0],
        f"{newton.TREES[1]} With a log link by default 300 of depth 4.",
        by_task=(300, 100),
    )
    max_depth: int = parameter(None, *newton.DEPTH, by_task=(6, 2))
    learning_rate: float = parameter(0.1, *newton.LEARNING_RATE)
    subsample: float = parameter(
        1.0,
        newton.RATE,
        "Probability of a row to be used for a tree. Below 1 the noise of the accounted release is "
        "smaller, but so is the sum; it regularises (like a larger `reg_lambda`) and seldom helps.",
    )
    gradient_clip: float | None = parameter(
        None, newton.SCALED_CLIP[0], newton.SCALED_CLIP[1].format(0.3), by_task=(0.3, 0.3)
    )
    hessian_clip: float = parameter(None, *newton.HESSIAN_CLIP, by_task=(0.1, 1.0))
    hessian_share: float | None = parameter(
        None,
        share(),
        "Share r₁ of the Hessian in a leaf's release. By default it balances the errors of both "
        "for values of a typical size.",
    )
    reg_lambda: float | None = parameter(
        None,
        newton.STEP_SIZE,
        "λ, added to every sum of Hessians. By default it follows the noise, which is public: half "
        "a standard deviation of the noise in a leaf's sum for classes, a whole one for a number, "
        "so that leaves which noise alone could explain stay near zero; 1 without noise.",
    )
    leaf_clip: float = parameter(2.0, *newton.LEAF_CLIP)
    boosting: str = parameter(
        "newton",
        options("newton", "gradient"),
        "Whether leaves divide by sums of Hessians, or by counts of rows. For a number, whose loss "
        'is squared, both are the same; for classes "gradient" keeps the gradients of the loss.',
    )
    loss: str = parameter(
        None,
        "str",
        'For classes "logistic", the default, or "squared" on labels −1 and 1, which gives no '
        "probabilities and no streams; its leaves count rows, whatever `boosting` says. "
        f"{newton.LOSS_OF_NUMBERS}",
        by_task=("logistic", "squared"),
    )
    power: float = parameter(1.5, *POWER, tasks=("number",))
    quantile: float = parameter(0.5, *QUANTILE, tasks=("number",))
    init_share: float = parameter(
        None,
        share(or_else=0),
        "Share of the budget (on μ²) of the initial score; 0 for none. Default 0.02 for classes, "
        "0.1 for a number.",
        by_task=(0.02, 0.1),
    )
    init_noise: str = parameter(
        "gaussian", options("gaussian", "laplace"), "Noise of the initial score."
    )
    init_clip: float | None = parameter(
        None,
        size(),
        "m*, bound of a number's labels for the initial score, in half widths of the target "
        "clipping range around its middle; at most 1, which is no clip and the default.",
    )
    init_epsilon: float | None = parameter(
        None,
        size(),
        "ε_init: an ε of its own for the initial score's sum of labels, instead of `init_share`. "
        "It is part of `epsilon`, and of Laplace noise; `init_count_epsilon` goes with it.",
    )
    init_count_epsilon: float | None = parameter(
        None, size(), "ε_ds: the same for the initial score's count of rows."
    )
    calibration_share: float = parameter(
        None,
        share(or_else=0),
        "Share of the budget (on μ²) of the last release, which calibrates the model: counts of "
        "rows by score and class for probabilities, sums of residuals by prediction for the mean "
        "of a number; 0 leaves it out. Default 0.04; classes with the squared loss, and streams, "
        "have none.",
        by_task=(0.04, 0.04),
    )
    features: str | int = parameter(
        "cyclical",
        options_or_count("cyclical", "uniform"),
        "One feature a tree, in turn (the model is then additive); any feature at each node; or "
        "any of so many features drawn for each tree (all, if there are fewer).",
    )
    candidates: str = parameter(
        "grid",
        options("grid", "all", "hessian"),
        "Where numbers may be split: at `n_candidates` evenly spread edges; anywhere within the "
        "bounds, on the finest grid that codes have (191 places on the feature's scale, or its "
        "given edges); or at edges that follow released Hessians, refined in the first "
        "`candidate_rounds` updates.",
    )
    n_candidates: int = parameter(32, *newton.CANDIDATES)
    candidate_rounds: int = parameter(5, count(), 'Releases that refine "hessian" candidates.')
    candidate_share: float | None = parameter(
        0.1,
        or_none(share()),
        "Share of the budget (on μ², after the initial score) of the refinements. None gives each "
        "feature's histogram as much as a tree.",
    )
    candidate_rule: str = parameter(
        "quantiles",
        options(*RULES),
        'How "hessian" candidates follow: at quantiles of the density that all releases show, or '
        "by joining intervals of little mass and dividing the others (Maddock et al.).",
    )
    category_splits: str = parameter(
        "one",
        options(*CATEGORY_SPLITS),
        "Whether a node on a category singles one out, or sends a random half right.",
    )
    extra_estimators: int = parameter(
        0,
        count(least=0),
        "Trees beyond `n_estimators` at no further cost: rows pay for what they contribute, and "
        "go on while their own budget lasts (individual privacy filter).",
    )
    batch_size: int = parameter(
        1,
        count(),
        "Trees that are released together, before scores are updated; their values are averaged.",
    )
    negative_hessian: str = parameter(
        "floor",
        options("floor", "zero"),
        "Value of a leaf where noise leaves its sum of Hessians (or its count) below 0: "
        '"floor" takes the sum as 0, "zero" makes the leaf\'s value 0, as S-BDT\'s authors do.',
    )
    span_share: float = parameter(None, *SPAN_SHARE, by_task=(0.0, 0.05))
    monotone: tuple[tuple[str, int], ...] = parameter(None, *MONOTONE, by_task=((), ()))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.init_clip is not None and self.init_clip > 1:
            raise ValueError(
                "init_clip must be at most 1, half the width of the target's bounds; "
                f"{self.init_clip!r} is not"
            )
        if (self.init_epsilon is None) != (self.init_count_epsilon is None):
            raise ValueError("give both init_epsilon and init_count_epsilon, or neither")
        if self.init_epsilon is None:
            return
        if self.init_noise != "laplace":
            raise ValueError(
                "init_epsilon and init_count_epsilon are those of Laplace noise: they need "
                'init_noise="laplace"'
            )
        if self.init_share > 0:
            raise ValueError("give init_share or init_epsilon, not both")

    @property
    def n_regular_updates(self) -> int:
        """Updates of the regular trees."""
        return -(-self.n_estimators // self.batch_size)

    @property
    def refinements(self) -> int:
        """Refinements of the split candidates."""
        if self.candidates != "hessian":
            return 0
        return min(self.candidate_rounds, self.n_regular_updates)

    @property
    def n_updates(self) -> int:
        """Updates of the scores: one for each batch of trees, extra ones included."""
        return -(-(self.n_estimators + self.extra_estimators) // self.batch_size)

    @property
    def statistics(self) -> tuple[str, str]:
        """Statistics that are summed by leaf."""
        return GRADIENT_HESSIAN if self.boosting == "newton" else GRADIENT_COUNT

    def left_at_zero(self, hessians: np.ndarray) -> np.ndarray:
        """Whether a leaf's value is 0, given its released sum of Hessians or its count."""
        return (hessians < 0) & (self.negative_hessian == "zero")


STREAM_PARAMETERS = frozenset(each.name for each in fields(SBDTParameters)) - {*_LOSS}
"""Parameters of the recipe that a stream's file keeps from batch to batch."""


@dataclass(frozen=True, eq=False)
class SBDTPlan(NewtonPlan):
    """Plan of boosting with data-independent trees.

    Releases of the leaves of a batch of trees, and of the Hessians that refine candidates; and the
    budget of each row for life, where an individual privacy filter charges rows.
    """

    _hashed: ClassVar[tuple[str, ...]] = (*NewtonPlan._hashed, "leaf")

    leaf: GaussianRelease
    hessian: GaussianRelease | None
    life: IndividualBudget | None

    @property
    def sums_hessians(self) -> bool:
        """Whether leaves divide by sums of Hessians, not by counts of rows."""
        return bool(self.settings.boosting == "newton")

    def rising_trees(self, tables: Sequence[np.ndarray] | None = None) -> RisingTrees:
        """Return trees that keep to `monotone`, given the tables of earlier ones."""
        slopes = slopes_of(self.settings.monotone, self.encoder)
        return RisingTrees(slopes, self.encoder.layout.n_codes, tables)


def plan_sbdt(
    given: Mapping[str, Any],
    encoder: Encoder,
    weight_bound: float | None,
    budget: Budget,
    batch: int | None = None,
) -> SBDTPlan:
    """Return the plan of a run with random trees.

    It has shares of μ² for the target clipping range, the initial score, the calibration, the
    refinement of split candidates and the leaves, with noise that costs the budget. `given` has the
    estimator's parameters, and `batch` is the number of the batch in a stream,
    from 0: its rows have individual filters, and only the first batch has an initial score. None is
    a run of its own.
    """
    target = Task.of(encoder.domain.target).target
    defaults: dict[str, Any] = {"loss": newton.loss_from(given, target, own_scale=True)}
    if loss_of(target, defaults["loss"]).own_scale:
        defaults |= newton.OWN_CLIPS
    if loss_of(target, defaults["loss"]).log_link:
        defaults |= _LOG_TREES
    if given["init_epsilon"] is not None or given["init_count_epsilon"] is not None:
        defaults["init_share"] = 0
    if (target == "classes" and defaults["loss"] != "logistic") or batch is not None:
        defaults["calibration_share"] = 0
    settings = SBDTParameters.read(given, target, **defaults)
    loss = with_parameter(target, settings)
    basis = PlanBasis(encoder, weight_bound, budget, given["accountant"], loss)
    step = _step(settings, basis.task)
    check_candidates(settings.n_candidates, encoder)
    trees = settings.n_estimators + settings.extra_estimators
    newton.check_scores(trees * step.leaf_clip * step.learning_rate)
    check_slopes(settings.monotone, encoder, basis.task.n_outputs)
    if batch is not None and target == "classes" and settings.loss != "logistic":
        raise ValueError('a stream of classes needs loss="logistic": its states are log-odds')
    _check_own_scale(settings, basis.task.loss_instance, batch)
    check_calibration(settings.calibration_share, target, settings.loss)
    if batch is not None and settings.calibration_share > 0:
        raise ValueError(
            "calibration_share must be 0 in a stream: rows would pay for the counts of every "
            "batch to come, on top of their individual budgets"
        )
    newton.check_sampled_units(settings.subsample, basis.contribution)
    made = _calibrate(basis, step, settings, batch)
    life, planned = made["life"], _n_releases(settings, basis.task)
    if life is not None and planned > life.releases:
        raise ValueError(
            f"n_estimators is too large: a stream has {life.releases} releases for life"
        )
    follows = _NOISE_LAMBDA[target] if settings.reg_lambda is None else None
    step = step.with_noise_lambda(follows, made["leaf"].scales[1], weight_bound)
    return SBDTPlan(**made | {"budget": budget}, step=step, settings=settings)


def _check_own_scale(settings: SBDTParameters, loss: Loss, batch: int | None) -> None:
    """Refuse what a loss with a scale of its own does not have."""
    if not loss.own_scale:
        return
    newton.check_init_share(settings, loss)
    if batch is not None:
        raise ValueError(f'a stream of numbers needs loss="squared", not "{loss.name}"')
    if settings.init_clip is not None or settings.init_epsilon is not None:
        raise ValueError(f'init_clip and init_epsilon need loss="squared", not "{loss.name}"')


def _step(settings: SBDTParameters, task: Task) -> NewtonStep:
    """Return the Newton step; leaves of the squared loss of classes count rows."""
    target, likely = task.target, newton.scaled_clips(task.loss_instance)
    squared = target == "classes" and settings.loss == "squared"
    counts = squared or settings.boosting == "gradient"
    typical = _TYPICAL_VALUE["squared" if squared else settings.boosting]
    if target == "number":
        typical = _TYPICAL_VALUE["number"]
    return NewtonStep.of(settings, 1.0 if counts else settings.hessian_clip, typical, likely)


_APART_FROM_FILTER = ("init_release", "calibration_release", "range_release", "label_release")
"""Releases that individual filters do not pay for: before the trees, and after them."""


def _wanted(
    basis: PlanBasis, step: NewtonStep, settings: SBDTParameters, first: bool
) -> list[ReleaseShare]:
    """List the regular releases with their shares of μ²; leaves last.

    Extra trees are not among them: individual filters pay for those.
    """
    bound, outputs = basis.bound, basis.task.n_outputs
    second = "Hessians" if settings.boosting == "newton" else "counts"
    trees = "random trees" if settings.batch_size == 1 else f"{settings.batch_size} random trees"
    wanted: list[ReleaseShare] = []
    left = 1.0
    loss = basis.task.loss_instance
    if settings.span_share > 0 or loss.own_scale:  # targets that do not fit are refused
        looks = scale_kind(loss).label_release(basis, GaussianRelease, settings.span_share)
        if first and settings.span_share > 0:
            wanted.append((*looks, settings.span_share))
            left -= settings.span_share
    if first and settings.init_share > 0:
        kind = GaussianRelease if settings.init_noise == "gaussian" else LaplaceRelease
        init = scale_kind(loss).init_release(basis, kind)
        wanted.append(("init_release", Planned(init, outputs), settings.init_share))
        left -= settings.init_share
    if settings.calibration_share > 0:
        scores = last_release(GaussianRelease, basis.task, bound)
        wanted.append(("calibration_release", Planned(scores, outputs), settings.calibration_share))
        left -= settings.calibration_share
    if settings.candidates == "hessian" and basis.n_numbers:
        spans = GaussianRelease(newton.SPANS, 1.0, cells=basis.n_numbers, shares=(1.0,), **bound)
        part = settings.candidate_share
        if part is None:  # a histogram counts as a tree
            histograms = settings.refinements * basis.n_numbers
            part = histograms / (histograms + settings.n_regular_updates * outputs)
        share = part * left
        wanted.append(("hessian", Planned(spans, settings.refinements), share))
        left -= share
    leaf = GaussianRelease(
        f"gradients and {second} by leaf of {trees}",
        1.0,
        cells=settings.batch_size,
        shares=step.shares,
        sampling_rate=settings.subsample,
        **bound,
    )
    return [*wanted, ("leaf", Planned(leaf, settings.n_regular_updates * outputs), left)]


def _calibrate(
    basis: PlanBasis, step: NewtonStep, settings: SBDTParameters, batch: int | None
) -> dict[str, Any]:
    """Calibrate all releases, and return the plan's fields.

    An initial score with an ε of its own is subtracted first.
    """
    wanted = _wanted(basis, step, settings, first=not batch)
    fixed = _fixed_initial_score(basis, settings) if not batch else None
    if isinstance(basis.budget, PublicRows):
        # No budget of exact releases ends, so extra trees are like all others.
        *others, (name, leaf, share) = wanted
        first: list[ReleaseShare] = [] if fixed is None else [("init_release", fixed, share)]
        trees = replace(leaf, count=settings.n_updates * basis.task.n_outputs)
        return _calibrate_plain(basis, [*first, *others, (name, trees, share)])
    if fixed is not None:
        before = (*basis.budget.before, fixed)
        basis = replace(basis, budget=replace(basis.budget, before=before))
    if batch is None and settings.extra_estimators == 0:
        made = _calibrate_plain(basis, wanted)
    elif settings.subsample == 1:
        made = _calibrate_gaussian_budget(basis, wanted, settings, batch)
    else:
        made = _calibrate_renyi_budget(basis, wanted, settings, batch)
    if fixed is None:
        return made
    return made | {"init_release": fixed.event, "releases": (fixed, *made["releases"])}


def _fixed_initial_score(basis: PlanBasis, settings: SBDTParameters) -> Planned | None:
    """Return the Laplace release of an initial score whose sum and count have an ε each, if any.

    Its ε is the sum of both, and its shares are theirs.
    """
    if basis.task.target == "classes" and settings.init_clip is not None:
        raise ValueError(
            "init_clip is for numbers: a class counts as 0 or 1, and a clip would only scale "
            "the mean"
        )
    if settings.init_epsilon is None or settings.init_count_epsilon is None:
        return None
    epsilon = settings.init_epsilon + settings.init_count_epsilon
    outputs = basis.task.n_outputs
    if outputs * epsilon >= basis.budget.epsilon:
        raise ValueError(
            "init_epsilon and init_count_epsilon, for each output, must add up to less than epsilon"
        )
    shares = (settings.init_epsilon / epsilon, settings.init_count_epsilon / epsilon)
    init = initial_release(LaplaceRelease, 1 / epsilon, basis.bound, shares)
    check_grid([init])
    return Planned(init, outputs)


def _calibrate_plain(basis: PlanBasis, wanted: list[ReleaseShare]) -> dict[str, Any]:
    """Multiply the noise of all releases by one factor."""
    made = basis.calibrate_by_shares(wanted)
    return made.fields_with("leaf", "hessian", *_APART_FROM_FILTER) | {"life": None}


def _calibrate_gaussian_budget(
    basis: PlanBasis, wanted: list[ReleaseShare], settings: SBDTParameters, batch: int | None
) -> dict[str, Any]:
    """Calibrate a Gaussian filter: a budget of μ² for each row that the regular releases fill."""
    apart = [part for part in wanted if part[0] in _APART_FROM_FILTER]
    paid = [part for part in wanted if part[0] not in _APART_FROM_FILTER]
    shared = by_shares([(planned, share) for _, planned, share in paid])
    whole: dict[str, Any] = {  # releases that fill a budget of μ = 1
        name: planned.event.scaled(1 + _rounding(paid))
        for (name, _, _), planned in zip(paid, shared, strict=True)
    }
    smallest = min(float(event.scales.min()) for event in whole.values())
    life = GaussianBudget(
        _life_of(batch),
        1.0,
        releases=_n_releases(settings, basis.task, batch),
        touched=max(event.touched for event in whole.values()),
        least_sigma=smallest * (1 - 1e-9) / (1 if batch is None else _LATER_NOISE),
    )
    share = sum(share for _, _, share in paid)
    made = basis.calibrate_by_shares([*apart, ("life", Planned(life, 1), share)])
    events = {name: event.scaled(made["life"].noise) for name, event in whole.items()}
    check_grid(events.values())
    return made.fields_with("hessian", "life", *_APART_FROM_FILTER) | events


def _calibrate_renyi_budget(
    basis: PlanBasis, wanted: list[ReleaseShare], settings: SBDTParameters, batch: int | None
) -> dict[str, Any]:
    """Calibrate a Rényi filter: its budget is the regular releases' cost at the best order."""
    if basis.accountant not in ("auto", "rdp"):
        raise ValueError(
            "extra_estimators and streams charge sampled rows by Rényi divergence: with subsample "
            'below 1 accountant must be "auto" or "rdp"'
        )
    rounding, budget = _rounding(wanted), basis.budget
    less = replace(budget, epsilon=budget.epsilon * (1 - 2 * rounding))
    made = _calibrate_plain(replace(basis, budget=less, accountant="rdp"), wanted)
    releases: tuple[Planned, ...] = made["releases"]
    alpha = best_order(RdpAccountant((*budget.before, *releases)).rho, budget.delta)
    own = [made[name] for name in _APART_FROM_FILTER]
    apart = tuple(p for p in releases if any(p.event is each for each in own))
    paid = tuple(p for p in releases if p not in apart)
    rho = RdpAccountant(paid).rho(alpha) * (1 + rounding)
    if not rho > 0:
        raise ValueError("epsilon is too small for a budget of Rényi divergence")
    n_releases = _n_releases(settings, basis.task, batch)
    life = RenyiBudget(_life_of(batch), 1 / rho, releases=n_releases, alpha=alpha)
    return made | {"life": life, "releases": (*apart, Planned(life, 1))}


def _rounding(wanted: list[ReleaseShare]) -> float:
    """Return the slack of a row's budget, since each charge is rounded up."""
    return 2 * sum(planned.count for _, planned, _ in wanted) / BUDGET_STEPS + 1e-9


def _n_releases(settings: SBDTParameters, task: Task, batch: int | None = None) -> int:
    """Return the number of releases that rows pay for, extra trees included."""
    if batch is not None:
        return STREAM_RELEASES
    return settings.n_updates * task.n_outputs + settings.refinements


def _life_of(batch: int | None) -> str:
    rows = "the rows" if batch is None else f"the rows of batch {batch + 1}"
    return f"all trees, within the budget of each of {rows}"


def boost_sbdt(
    curator: Curator,
    plan: SBDTPlan,
    generator: np.random.Generator,
    track: Track = iter,
    target_range: TargetRange = WHOLE_RANGE,
) -> TreeScores:
    """Return a model of random trees; `generator` is the public randomness of their structures.

    Privacy
    -------
    Spends `plan.releases`: the initial score, those of `add_trees`, and the calibration.
    """

    def add(scaled: SBDTPlan, before: TreeScores) -> TreeScores:
        return add_trees(curator, scaled, generator, before, track)

    found = newton.boost(curator, plan, target_range, add, plan.settings.init_clip)
    return _settled(plan, found) if plan.settings.monotone else found


def _settled(plan: SBDTPlan, model: TreeScores) -> TreeScores:
    """Return calibrated trees that keep to `monotone`, whatever rounding did to their sums."""
    rising, forests = plan.rising_trees(), []
    for forest in model.forests:
        even = np.ones(forest.values.shape[2])
        values = [rising.add(forest.tree(k), own[0], even) for k, own in enumerate(forest.values)]
        whole = np.stack(values)[:, None].astype(np.int32)
        forests.append(replace(forest, values=whole))
    return replace(model, forests=tuple(forests))


def add_trees(
    curator: Curator,
    plan: SBDTPlan,
    generator: np.random.Generator,
    before: TreeScores,
    track: Track = iter,
) -> TreeScores:
    """Add random trees to a model that has an initial score.

    Privacy
    -------
    Spends the leaves of each batch of trees for each output, and the refinements of candidates; or,
    with individual filters, the budgets of rows. The number of updates is fixed, however many rows
    are still active.
    """
    settings, outputs = plan.settings, plan.task.n_outputs
    structures = RandomTrees(
        plan.encoder, settings.max_depth, settings.features, settings.category_splits, generator
    )
    if plan.life is not None:
        curator.open_budget(plan.life)
    rising = plan.rising_trees([table[0] for table in before.parts().tables])
    thresholds: Thresholds = even_thresholds(
        plan.encoder, None if settings.candidates == "all" else settings.n_candidates
    )
    refined = HessianThresholds(plan.encoder, settings.n_candidates, rule=settings.candidate_rule)
    total = settings.n_estimators + settings.extra_estimators
    trees: list[Tree] = []
    values: list[np.ndarray] = []
    hessians: list[np.ndarray] = []
    updates = []
    for update in track(range(settings.n_updates)):
        if plan.hessian is not None and update < settings.refinements:
            spans = NodeHistograms(stump(), refined.cells(), update % outputs, HESSIAN)
            refined.refine(curator.sums(spans, plan.hessian)[0, :, 0])
            thresholds = refined.thresholds
        batch = tuple(
            structures.draw(number, thresholds)
            for number in range(len(trees), min(len(trees) + settings.batch_size, total))
        )
        steps = np.empty((outputs, len(batch), batch[0].n_leaves), dtype=np.int32)
        hessian = np.empty(steps.shape, dtype=np.int64)
        for output in range(outputs):
            query = TreeSums(batch, output, settings.statistics)
            sums = curator.sums(query, plan.leaf)
            hessian[output] = sums[..., 1]
            leaves = plan.step.values(sums[..., 0], sums[..., 1], plan.weight_bound)
            leaves[settings.left_at_zero(sums[..., 1])] = 0
            leaves = leaves / len(batch)  # trees of one batch are averaged
            weights = plan.step.curvature(sums[..., 1], plan.weight_bound)
            steps[output] = [rising.add(*each) for each in zip(batch, leaves, weights, strict=True)]
            curator.publish(AddTreeValues(batch, steps[output], output))
        trees += batch
        values += list(steps.transpose(1, 0, 2))
        hessians += list(hessian.transpose(1, 0, 2))
        updates.append(len(batch))
    released = np.stack(hessians)
    noise = plan.step.noise(released, float(plan.leaf.scales[0]), plan.weight_bound)
    noise /= np.repeat(updates, updates)[:, None, None]
    noise[settings.left_at_zero(released)] = 0
    mass = newton.noisy_mass(released, plan.weight_bound)
    return before.extended(Forest.of(trees, values, mass, noise), updates)


DELTA = 5e-8
"""δ of all published runs of S-BDT."""

COUNT_EPSILON = 0.005
"""ε_ds of the published runs: ε of the row count in S-BDT's initial score."""

_SBDT: dict[str, Any] = {
    "delta": DELTA,
    "learning_rate": 0.1,
    "leaf_clip": 2.0,
    "features": "cyclical",
    "candidates": "grid",
    "n_candidates": 32,
    "category_splits": "one",
    "negative_hessian": "zero",
    "init_noise": "laplace",
    "init_share": 0.0,
    "calibration_share": 0.0,
    "span_share": 0.0,
    "accountant": "rdp",
}


def _adult(epsilon: float, trees: int, depth: int, rate: float, clip: float, lam: float) -> Any:
    return _SBDT | {
        "epsilon": epsilon,
        "n_estimators": trees,
        "max_depth": depth,
        "subsample": rate,
        "gradient_clip": clip,
        "hessian_clip": 0.1,
        "hessian_share": 0.04,
        "reg_lambda": lam,
        "boosting": "newton",
    }


def _abalone(epsilon: float, trees: int, depth: int, clip: float, starts: bool = True) -> Any:
    own = {
        "init_clip": 0.5,
        "init_epsilon": 0.1 * epsilon,
        "init_count_epsilon": COUNT_EPSILON,
    }
    return (
        _SBDT
        | {
            "epsilon": epsilon,
            "n_estimators": trees,
            "max_depth": depth,
            "subsample": 0.1,
            "gradient_clip": clip,
            "hessian_clip": 1.0,
            "hessian_share": 0.3,
            "reg_lambda": 15.0,
            "boosting": "gradient",
        }
        | (own if starts else {})
    )


_TR: dict[str, Any] = {
    "max_depth": 4,
    "learning_rate": 0.3,
    "subsample": 1.0,
    "gradient_clip": 1.0,
    "reg_lambda": 1.0,
    "leaf_clip": 2.0,
    "init_share": 0.0,
    "calibration_share": 0.0,
    "span_share": 0.0,
    "boosting": "newton",
    "n_candidates": 32,
    "candidate_rounds": 5,
    "candidate_share": None,
    "candidate_rule": "merge",
    "category_splits": "one",
    "extra_estimators": 0,
    "batch_size": 1,
    "negative_hessian": "floor",
    "accountant": "rdp",
}
"""The number of trees is not among them: it was varied, from 25 to 300."""


def _totally_random(hessian_clip: float) -> dict[str, dict[str, Any]]:
    """Return the variants for a bound of Hessians; gradients are bounded by 1.

    Both sums have noise of one size, so the Hessian's share follows from its bound.
    """
    share = hessian_clip**2 / (1 + hessian_clip**2)
    shared = _TR | {"hessian_clip": hessian_clip, "hessian_share": share}
    return {
        "TR": shared | {"features": "uniform", "candidates": "grid"},
        "TR_cyc": shared | {"features": "cyclical", "candidates": "grid"},
        "TR_ada": shared | {"features": "uniform", "candidates": "hessian"},
        "TR_ada_cyc": shared | {"features": "cyclical", "candidates": "hessian"},
    }


CLASS_PRESETS: dict[str, dict[str, Any]] = {
    "S-BDT_adult_0.01": _adult(0.01, 50, 5, 0.01, 0.5, 10.0),
    "S-BDT_adult_0.02": _adult(0.02, 100, 6, 0.01, 0.5, 10.0),
    "S-BDT_adult_0.03": _adult(0.03, 400, 6, 0.01, 0.3, 10.0),
    "S-BDT_adult_0.1": _adult(0.1, 400, 6, 1.0, 0.3, 10.0),
    "S-BDT_adult_0.5": _adult(0.5, 200, 6, 1.0, 0.8, 5.0),
    **_totally_random(0.25),
}
"""For classes."""

NUMBER_PRESETS: dict[str, dict[str, Any]] = {
    "S-BDT_abalone_0.05": _abalone(0.05, 100, 2, 0.1),
    "S-BDT_abalone_0.1": _abalone(0.1, 50, 2, 0.3),
    "S-BDT_abalone_0.2": _abalone(0.2, 50, 3, 0.3),
    "S-BDT_abalone_0.3": _abalone(0.3, 100, 2, 0.3),
    "S-BDT_abalone_0.5": _abalone(0.5, 150, 2, 0.3, starts=False),
    **_totally_random(1.0),
}
"""For a number."""
