"""S-BDT: random trees with leaf-balanced Gaussian noise, sampling and individual privacy filters.

Trees are drawn independently of the rows, so that only their leaves cost privacy. The totally
random trees of Maddock et al. are the same recipe with other parameters (`TR` among the presets).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from privboost._core.checks import check_choice
from privboost._core.grid import BUDGET_STEPS
from privboost._core.progress import Track
from privboost.accounting.accountant import Accountant
from privboost.accounting.accountants import RdpProfile
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
from privboost.losses.base import newton_losses
from privboost.mechanisms.curator import Curator
from privboost.models.forest import Forest
from privboost.models.trees import TreeScores
from privboost.recipes.common.candidates import (
    CATEGORY_SPLITS,
    RULES,
    HessianThresholds,
    RandomTrees,
    Thresholds,
    even_thresholds,
)
from privboost.recipes.common.limits import (
    check_candidates,
    check_grid,
    check_sampled_units,
    check_scores,
)
from privboost.recipes.common.newton import (
    NEWTON_STEP,
    SPANS,
    STEP_SIZE,
    NewtonPlan,
    NewtonStep,
    initial_release,
    noisy_mass,
)
from privboost.recipes.common.parameters import (
    RATE,
    SPAN_DOC,
    Parameters,
    count,
    options,
    options_or_count,
    or_none,
    parameter,
    share,
    size,
)
from privboost.recipes.common.plan import Budget, Draft, PublicRows, Shared, Task, task_of
from privboost.recipes.common.probability_calibration import check_calibration, counts_release
from privboost.recipes.common.target_range import plan_target_range
from privboost.trees.tree import MAX_DEPTH, Tree, stump

STREAM_RELEASES = 2**16
"""Releases that the individual filter of a stream's rows allows."""

_LATER_NOISE = 4
"""Factor by which the noise of later batches may be smaller than that of the first."""

_NOISE_LAMBDA = {"classes": 0.5, "number": 1.0}
"""Default λ, in standard deviations of the noise in a leaf's sum of Hessians."""

_TYPICAL_VALUE = {"newton": 1 / 8, "gradient": 1 / 50, "squared": 1 / 8, "number": 1 / 8}
"""Typical size of a leaf's value, which balances the noise of gradients and Hessians."""


@dataclass(frozen=True, kw_only=True)
class SBDTParameters(Parameters):
    """Parameters of S-BDT."""

    _apart: ClassVar[tuple[str, ...]] = (*NEWTON_STEP, "loss")

    n_estimators: int = parameter(
        None, count(), "Trees (for each class beyond two classes).", by_task=(300, 100)
    )
    max_depth: int = parameter(
        None,
        count(most=MAX_DEPTH),
        f"Depth of the trees, at most {MAX_DEPTH}; they are complete.",
        by_task=(6, 2),
    )
    learning_rate: float = parameter(0.1, size(), "Factor of each tree's values.")
    subsample: float = parameter(
        1.0,
        RATE,
        "Probability of a row to be used for a tree. Below 1 the noise of the accounted release is "
        "smaller, but so is the sum; it regularises (like a larger `reg_lambda`) and seldom helps.",
    )
    gradient_clip: float = parameter(
        0.3, size(), "Bound of a row's gradient; a smaller clip means less noise."
    )
    hessian_clip: float = parameter(None, size(), "Bound of a row's Hessian.", by_task=(0.1, 1.0))
    hessian_share: float | None = parameter(
        None,
        share(),
        "Share r₁ of the Hessian in a leaf's release. By default it balances the errors of both "
        "for values of a typical size.",
    )
    reg_lambda: float | None = parameter(
        None,
        STEP_SIZE,
        "λ, added to every sum of Hessians. By default it follows the noise, which is public: half "
        "a standard deviation of the noise in a leaf's sum for classes, a whole one for a number, "
        "so that leaves which noise alone could explain stay near zero; 1 without noise.",
    )
    leaf_clip: float = parameter(
        2.0, STEP_SIZE, "Bound of a tree's values (±), before the learning rate."
    )
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
        "probabilities and no streams; its leaves count rows, whatever `boosting` says. A number "
        "has the squared loss alone.",
        by_task=("logistic", "squared"),
    )
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
        "m*, bound of a number's labels for the initial score, in half widths of the target's "
        "bounds around their middle; at most 1, which is no clip and the default.",
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
        "Share of the budget (on μ²) of the counts of rows by score and class, which calibrate "
        "probabilities; 0 leaves them out. Default 0.04 for classes with the logistic loss; a "
        "number, the squared loss and streams have none.",
        by_task=(0.04, 0.0),
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
    n_candidates: int = parameter(
        32, count(), "Split candidates of a number: at most 191, or as many as its given edges."
    )
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
    span_share: float = parameter(None, share(or_else=0), SPAN_DOC, by_task=(0.0, 0.05))

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


STREAM_PARAMETERS = frozenset(each.name for each in fields(SBDTParameters)) - {"loss"}
"""Parameters of the recipe that a stream's file keeps from batch to batch."""


@dataclass(frozen=True, eq=False)
class SBDTPlan(NewtonPlan):
    """Plan of boosting with data-independent trees.

    Attributes
    ----------
    leaf : GaussianRelease
        Release of the leaves of a batch of trees.
    hessian : GaussianRelease or None
        Release that refines candidates.
    life : IndividualBudget or None
        Budget of each row, where an individual privacy filter charges rows.
    """

    _hashed: ClassVar[tuple[str, ...]] = (*NewtonPlan._hashed, "leaf")

    leaf: GaussianRelease
    hessian: GaussianRelease | None
    life: IndividualBudget | None


def plan_sbdt(
    given: Mapping[str, Any],
    encoder: Encoder,
    weight_bound: float | None,
    budget: Budget,
    batch: int | None = None,
) -> SBDTPlan:
    """Plan a run with random trees, and calibrate its noise.

    Parameters
    ----------
    given : mapping
        Arguments of the estimator.
    encoder : Encoder
        Domain and binning.
    weight_bound : float or None
        Public bound of sample weights.
    budget : Budget
        Privacy budget.
    batch : int, optional
        Number of the batch in a stream, from 0: its rows have individual filters, and only the
        first batch has an initial score. None is a run of its own.
    """
    target = task_of(encoder.domain.target)
    settings = _read(given, target, batch)
    step = _step(settings, target)
    check_candidates(settings.n_candidates, encoder)
    trees = settings.n_estimators + settings.extra_estimators
    check_scores(trees * step.leaf_clip * step.learning_rate)
    draft = Draft(encoder, weight_bound, budget, given["accountant"], settings.loss)
    if batch is not None and target == "classes" and settings.loss != "logistic":
        raise ValueError('a stream of classes needs loss="logistic": its states are log-odds')
    check_calibration(settings.calibration_share, target, settings.loss)
    if batch is not None and settings.calibration_share > 0:
        raise ValueError(
            "calibration_share must be 0 in a stream: rows would pay for the counts of every "
            "batch to come, on top of their individual budgets"
        )
    check_sampled_units(settings.subsample, draft.contribution)
    made = _calibrate(draft, step, settings, batch)
    planned = _n_releases(settings, draft.task)
    if made.life is not None and planned > made.life.releases:
        raise ValueError(
            f"n_estimators is too large: a stream has {made.life.releases} releases for life"
        )
    follows = _NOISE_LAMBDA[target] if settings.reg_lambda is None else None
    return SBDTPlan(
        **draft.fields,
        step=step.with_noise_lambda(follows, made.leaf.sigmas[1], weight_bound),
        settings=settings,
        **vars(made),
    )


def _read(given: Mapping[str, Any], target: str, batch: int | None) -> SBDTParameters:
    """Read the parameters; defaults of shares are 0 where nothing could use them."""
    unset = given["loss"] is None
    loss = SBDTParameters.default("loss", target) if unset else given["loss"]
    loss = check_choice("loss", loss, newton_losses(target))
    defaults: dict[str, Any] = {"loss": loss}
    if given["init_epsilon"] is not None or given["init_count_epsilon"] is not None:
        defaults["init_share"] = 0
    if loss != "logistic" or batch is not None:
        defaults["calibration_share"] = 0
    return SBDTParameters.read(given, target, **defaults)


def _step(settings: SBDTParameters, target: str) -> NewtonStep:
    """Return the Newton step; leaves of the squared loss of classes count rows."""
    squared = target == "classes" and settings.loss == "squared"
    counts = squared or settings.boosting == "gradient"
    typical = _TYPICAL_VALUE["squared" if squared else settings.boosting]
    if target == "number":
        typical = _TYPICAL_VALUE["number"]
    return NewtonStep.of(settings, 1.0 if counts else settings.hessian_clip, typical)


@dataclass(frozen=True)
class _Made:
    """Calibrated releases, by their names in `SBDTPlan`."""

    accountant: Accountant
    releases: tuple[Planned, ...]
    leaf: GaussianRelease
    init: GaussianRelease | LaplaceRelease | None
    hessian: GaussianRelease | None
    scores: GaussianRelease | None
    life: IndividualBudget | None
    span: GaussianRelease | None = None


_APART_FROM_FILTER = ("init", "scores", "span")
"""Releases that individual filters do not pay for: before the trees, and after them."""


def _wanted(draft: Draft, step: NewtonStep, settings: SBDTParameters, first: bool) -> list[Shared]:
    """List the regular releases with their shares of μ²; leaves last.

    Extra trees are not among them: individual filters pay for those.
    """
    bound, outputs = draft.bound, draft.task.n_outputs
    second = "Hessians" if settings.boosting == "newton" else "counts"
    trees = "random trees" if settings.batch_size == 1 else f"{settings.batch_size} random trees"
    wanted: list[Shared] = []
    left = 1.0
    span = plan_target_range(draft, settings.span_share, GaussianRelease)
    if first and settings.span_share > 0:
        wanted.append(("span", span, settings.span_share))
        left -= settings.span_share
    if first and settings.init_share > 0:
        kind = GaussianRelease if settings.init_noise == "gaussian" else LaplaceRelease
        init = initial_release(kind, 1.0, bound)
        wanted.append(("init", Planned(init, outputs), settings.init_share))
        left -= settings.init_share
    if settings.calibration_share > 0:
        scores = counts_release(GaussianRelease, bound)
        wanted.append(("scores", Planned(scores, outputs), settings.calibration_share))
        left -= settings.calibration_share
    if settings.candidates == "hessian" and draft.n_numbers:
        spans = GaussianRelease(SPANS, 1.0, cells=draft.n_numbers, shares=(1.0,), **bound)
        share = _candidate_share(settings, draft) * left
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


def _candidate_share(settings: SBDTParameters, draft: Draft) -> float:
    """Return the share of the refinements; by default a histogram counts as a tree."""
    if settings.candidate_share is not None:
        return settings.candidate_share
    histograms = settings.refinements * draft.n_numbers
    return histograms / (histograms + settings.n_regular_updates * draft.task.n_outputs)


def _calibrate(
    draft: Draft, step: NewtonStep, settings: SBDTParameters, batch: int | None
) -> _Made:
    """Calibrate all releases; an initial score with an ε of its own is subtracted first."""
    wanted = _wanted(draft, step, settings, first=not batch)
    fixed = _fixed_initial_score(draft, settings) if not batch else None
    if isinstance(draft.budget, PublicRows):
        return _without_noise(draft, wanted, fixed, settings)
    if fixed is not None:
        before = (*draft.budget.before, fixed)
        draft = replace(draft, budget=replace(draft.budget, before=before))
    if batch is None and settings.extra_estimators == 0:
        made = _calibrate_plain(draft, wanted)
    elif settings.subsample == 1:
        made = _calibrate_gaussian_budget(draft, wanted, settings, batch)
    else:
        made = _calibrate_renyi_budget(draft, wanted, settings, batch)
    if fixed is None:
        return made
    assert isinstance(fixed.event, LaplaceRelease)
    return replace(made, init=fixed.event, releases=(fixed, *made.releases))


def _fixed_initial_score(draft: Draft, settings: SBDTParameters) -> Planned | None:
    """Return the Laplace release of an initial score whose sum and count have an ε each, if any.

    Its ε is the sum of both, and its shares are theirs.
    """
    if draft.task.target == "classes" and settings.init_clip is not None:
        raise ValueError(
            "init_clip is for numbers: a class counts as 0 or 1, and a clip would only scale "
            "the mean"
        )
    if settings.init_epsilon is None or settings.init_count_epsilon is None:
        return None
    epsilon = settings.init_epsilon + settings.init_count_epsilon
    outputs = draft.task.n_outputs
    if outputs * epsilon >= draft.budget.epsilon:
        raise ValueError(
            "init_epsilon and init_count_epsilon, for each output, must add up to less than epsilon"
        )
    shares = (settings.init_epsilon / epsilon, settings.init_count_epsilon / epsilon)
    init = initial_release(LaplaceRelease, 1 / epsilon, draft.bound, shares)
    check_grid([init])
    return Planned(init, outputs)


def _calibrate_plain(draft: Draft, wanted: list[Shared]) -> _Made:
    """Multiply the noise of all releases by one factor."""
    made = draft.share(wanted)
    events = made["leaf"], made.get("init"), made.get("hessian"), made.get("scores")
    return _Made(made.accountant, made.releases, *events, life=None, span=made.get("span"))


def _without_noise(
    draft: Draft, wanted: list[Shared], fixed: Planned | None, settings: SBDTParameters
) -> _Made:
    """Plan exact releases of public rows: no budget ends, so extra trees are like all others."""
    *others, (name, leaf, share) = wanted
    first: list[Shared] = [] if fixed is None else [("init", fixed, share)]
    trees = replace(leaf, count=settings.n_updates * draft.task.n_outputs)
    return _calibrate_plain(draft, [*first, *others, (name, trees, share)])


def _calibrate_gaussian_budget(
    draft: Draft, wanted: list[Shared], settings: SBDTParameters, batch: int | None
) -> _Made:
    """Calibrate a Gaussian filter: a budget of μ² for each row that the regular releases fill."""
    apart = [part for part in wanted if part[0] in _APART_FROM_FILTER]
    paid = [part for part in wanted if part[0] not in _APART_FROM_FILTER]
    shared = by_shares([(planned, share) for _, planned, share in paid])
    whole: dict[str, Any] = {  # releases that fill a budget of μ = 1
        name: planned.event.scaled(1 + _rounding(paid))
        for (name, _, _), planned in zip(paid, shared, strict=True)
    }
    smallest = min(float(event.sigmas.min()) for event in whole.values())
    life = GaussianBudget(
        _life_of(batch),
        1.0,
        releases=_n_releases(settings, draft.task, batch),
        touched=max(event.touched for event in whole.values()),
        least_sigma=smallest * (1 - 1e-9) / (1 if batch is None else _LATER_NOISE),
    )
    share = sum(share for _, _, share in paid)
    made = draft.share([*apart, ("life", Planned(life, 1), share)])
    life = made["life"]
    events = {name: event.scaled(life.noise) for name, event in whole.items()}
    check_grid(events.values())
    leaf, hessian = events["leaf"], events.get("hessian")
    init, scores, span = (made.get(name) for name in _APART_FROM_FILTER)
    return _Made(made.accountant, made.releases, leaf, init, hessian, scores, life, span)


def _calibrate_renyi_budget(
    draft: Draft, wanted: list[Shared], settings: SBDTParameters, batch: int | None
) -> _Made:
    """Calibrate a Rényi filter: its budget is the regular releases' cost at the best order."""
    if draft.accountant not in ("auto", "rdp"):
        raise ValueError(
            "extra_estimators and streams charge sampled rows by Rényi divergence: with subsample "
            'below 1 accountant must be "auto" or "rdp"'
        )
    rounding, budget = _rounding(wanted), draft.budget
    less = replace(budget, epsilon=budget.epsilon * (1 - 2 * rounding))
    made = _calibrate_plain(replace(draft, budget=less, accountant="rdp"), wanted)
    alpha = best_order(RdpProfile((*budget.before, *made.releases)).rho, budget.delta)
    own = (made.init, made.scores, made.span)
    apart = tuple(p for p in made.releases if any(p.event is each for each in own))
    paid = tuple(p for p in made.releases if p not in apart)
    rho = RdpProfile(paid).rho(alpha) * (1 + rounding)
    if not rho > 0:
        raise ValueError("epsilon is too small for a budget of Rényi divergence")
    releases = _n_releases(settings, draft.task, batch)
    life = RenyiBudget(_life_of(batch), 1 / rho, releases=releases, alpha=alpha)
    return replace(made, life=life, releases=(*apart, Planned(life, 1)))


def _rounding(wanted: list[Shared]) -> float:
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
    structures: RandomTrees,
    before: TreeScores,
    track: Track = iter,
) -> TreeScores:
    """Add random trees to a model that has an initial score.

    Parameters
    ----------
    curator : Curator
        Releases noisy sums, and updates the rows' scores.
    plan : SBDTPlan
        Plan whose releases are reserved.
    structures : RandomTrees
        Generator of trees.
    before : TreeScores
        Model so far.
    track : callable
        Progress bar around the updates.

    Returns
    -------
    TreeScores
        Model with the new trees.

    Privacy
    -------
    Spends `plan.releases` but for the initial score: the leaves of each batch of trees for each
    output, and the refinements of candidates; or, with individual filters, the budgets of rows.
    The number of updates is fixed, however many rows are still active.
    """
    settings = plan.settings
    if plan.life is not None:
        curator.open_budget(plan.life)
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
            thresholds = _refine(curator, plan, refined, update)
        batch = tuple(
            structures.draw(number, thresholds)
            for number in range(len(trees), min(len(trees) + settings.batch_size, total))
        )
        steps = np.empty((plan.task.n_outputs, len(batch), batch[0].n_leaves), dtype=np.int32)
        hessian = np.empty(steps.shape, dtype=np.int64)
        for output in range(plan.task.n_outputs):
            query = TreeSums(batch, output, settings.statistics)
            sums = curator.sums(query, plan.leaf)
            hessian[output] = sums[..., 1]
            leaves = plan.step.values(sums[..., 0], sums[..., 1], plan.weight_bound)
            leaves[settings.left_at_zero(sums[..., 1])] = 0
            steps[output] = np.rint(leaves / len(batch))  # trees of one batch are averaged
            curator.publish(AddTreeValues(batch, steps[output], output))
        trees += batch
        values += list(steps.transpose(1, 0, 2))
        hessians += list(hessian.transpose(1, 0, 2))
        updates.append(len(batch))
    released = np.stack(hessians)
    noise = plan.step.noise(released, float(plan.leaf.sigmas[0]), plan.weight_bound)
    noise /= np.repeat(updates, updates)[:, None, None]
    noise[settings.left_at_zero(released)] = 0
    mass = noisy_mass(released, plan.weight_bound)
    return before.extended(Forest.of(trees, values, mass, noise), updates)


def _refine(
    curator: Curator, plan: SBDTPlan, refined: HessianThresholds, update: int
) -> Thresholds:
    """Release histograms of Hessians, of one output after the other, and move the thresholds."""
    assert plan.hessian is not None
    output = update % plan.task.n_outputs
    query = NodeHistograms(stump(), refined.cells(), output, HESSIAN)
    refined.refine(curator.sums(query, plan.hessian)[0, :, 0])
    return refined.thresholds
