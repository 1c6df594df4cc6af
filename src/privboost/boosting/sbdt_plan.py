"""The plan of boosting with data-independent trees: settings, releases and their noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from privboost.boosting.calibrated import check_calibration, counts_release
from privboost.boosting.candidates import RULES
from privboost.boosting.checks import (
    check_candidates,
    check_choice,
    check_choice_or_count,
    check_count,
    check_grid,
    check_rate,
    check_rest,
    check_sampled_units,
    check_scores,
    check_share,
    check_size,
    keep_checked,
)
from privboost.boosting.draft import Draft, Shared
from privboost.boosting.initial_score import initial_release
from privboost.boosting.newton import SPANS, NewtonPlan, NewtonStep
from privboost.boosting.plan import Budget, PublicRows, Task
from privboost.boosting.structures import CATEGORY_SPLITS
from privboost.boosting.target_span import plan_span
from privboost.engine.queries import GRADIENT_COUNT, GRADIENT_HESSIAN
from privboost.grid import BUDGET_STEPS
from privboost.privacy.accountants.base import Accountant
from privboost.privacy.accountants.rdp import RdpProfile
from privboost.privacy.budgets.life import GaussianBudget, LifeBudget, RenyiBudget
from privboost.privacy.calibration import by_shares
from privboost.privacy.events.event import Planned
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease
from privboost.privacy.formulas import best_order
from privboost.tables.encoding import Encoder
from privboost.trees.tree import MAX_DEPTH

STREAM_RELEASES = 2**16
"""How many releases the budget for life of a stream's rows may see."""

_STREAM_ROOM = 4
"""By how much the noise of later batches may be smaller than that of the first."""


@dataclass(frozen=True)
class SBDTSettings:
    """What is chosen about trees; `SBDTClassifier` says what each means."""

    n_estimators: int
    max_depth: int
    subsample: float
    boosting: str
    init_share: float
    init_noise: str
    init_clip: float | None
    init_epsilon: float | None
    init_count_epsilon: float | None
    calibration_share: float
    features: str | int
    candidates: str
    n_candidates: int
    candidate_rounds: int
    candidate_share: float | None
    candidate_rule: str
    category_splits: str
    extra_estimators: int
    batch_size: int
    negative_hessian: str
    span_share: float = 0.0

    def __post_init__(self) -> None:
        keep_checked(
            self,
            n_estimators=check_count,
            max_depth=partial(check_count, most=MAX_DEPTH),
            subsample=check_rate,
            boosting=partial(check_choice, choices=("newton", "gradient")),
            init_share=partial(check_share, or_else=0),
            init_noise=partial(check_choice, choices=("gaussian", "laplace")),
            calibration_share=partial(check_share, or_else=0),
            features=partial(check_choice_or_count, choices=("cyclical", "uniform")),
            candidates=partial(check_choice, choices=("grid", "all", "hessian")),
            n_candidates=check_count,
            candidate_rounds=check_count,
            candidate_rule=partial(check_choice, choices=RULES),
            category_splits=partial(check_choice, choices=CATEGORY_SPLITS),
            extra_estimators=partial(check_count, least=0),
            batch_size=check_count,
            negative_hessian=partial(check_choice, choices=("floor", "zero")),
            span_share=partial(check_share, or_else=0),
        )
        given = {
            "init_clip": check_size,
            "init_epsilon": check_size,
            "init_count_epsilon": check_size,
            "candidate_share": check_share,
        }
        keep_checked(
            self, **{name: c for name, c in given.items() if getattr(self, name) is not None}
        )
        check_rest(
            init_share=self.init_share,
            calibration_share=self.calibration_share,
            span_share=self.span_share,
        )
        self._check_initial_score()

    def _check_initial_score(self) -> None:
        """Refuse what does not go together about the initial score."""
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
        """How many updates the regular trees make."""
        return -(-self.n_estimators // self.batch_size)

    @property
    def refinements(self) -> int:
        """How often split candidates are refined."""
        if self.candidates != "hessian":
            return 0
        return min(self.candidate_rounds, self.n_regular_updates)

    @property
    def n_updates(self) -> int:
        """How often the rows follow the model: once for each batch of trees, extra ones too."""
        return -(-(self.n_estimators + self.extra_estimators) // self.batch_size)

    @property
    def statistics(self) -> tuple[str, str]:
        """What a leaf adds up."""
        return GRADIENT_HESSIAN if self.boosting == "newton" else GRADIENT_COUNT

    def left_at_zero(self, hessians: np.ndarray) -> np.ndarray:
        """Whether a leaf's value is 0, given its released sum of Hessians or its count."""
        return (hessians < 0) & (self.negative_hessian == "zero")


@dataclass(frozen=True, eq=False)
class SBDTPlan(NewtonPlan):
    """The plan of boosting with data-independent trees.

    Attributes
    ----------
    leaf : GaussianRelease
        The release of a batch of trees' leaves.
    hessian : GaussianRelease or None
        The release that refines candidates.
    life : LifeBudget or None
        The budget of each row, where a filter charges rows.
    """

    _hashed: ClassVar[tuple[str, ...]] = (*NewtonPlan._hashed, "leaf")

    leaf: GaussianRelease
    hessian: GaussianRelease | None
    life: LifeBudget | None


def plan_sbdt(
    encoder: Encoder,
    step: NewtonStep,
    settings: SBDTSettings,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
    batch: int | None = None,
    noise_lambda: float | None = None,
    loss: str | None = None,
) -> SBDTPlan:
    """Decide everything about a run with random trees, and calibrate its noise.

    Parameters
    ----------
    noise_lambda : float, optional
        If given, λ is this many standard deviations of the noise in a leaf's sum of Hessians.
    batch : int, optional
        The number of the batch in a stream, from 0: its rows get budgets for life, and only the
        first batch has an initial score. None is a run of its own.
    loss : str, optional
        The loss of classes; logistic by default, and the only one of a stream.
    """
    check_candidates(settings.n_candidates, encoder)
    trees = settings.n_estimators + settings.extra_estimators
    check_scores(trees * step.leaf_clip * step.learning_rate)
    draft = Draft(encoder, weight_bound, budget, accountant, loss)
    if batch is not None and draft.task.target == "classes" and draft.task.loss != "logistic":
        raise ValueError('a stream of classes needs loss="logistic": its states are log-odds')
    check_calibration(settings.calibration_share, draft.task.target, draft.task.loss)
    if batch is not None and settings.calibration_share > 0:
        raise ValueError(
            "calibration_share must be 0 in a stream: rows would pay for the counts of every "
            "batch to come, beside their budgets for life"
        )
    check_sampled_units(settings.subsample, draft.contribution)
    made = _calibrate(draft, step, settings, batch)
    planned = _n_releases(settings, draft.task)
    if made.life is not None and planned > made.life.releases:
        raise ValueError(
            f"n_estimators is too large: a stream has {made.life.releases} releases for life"
        )
    return SBDTPlan(
        **draft.fields,
        step=step.with_noise_lambda(noise_lambda, made.leaf.sigmas[1], weight_bound),
        settings=settings,
        **vars(made),
    )


@dataclass(frozen=True)
class _Made:
    """Calibrated releases; the names are those of `SBDTPlan`."""

    accountant: Accountant
    releases: tuple[Planned, ...]
    leaf: GaussianRelease
    init: GaussianRelease | LaplaceRelease | None
    hessian: GaussianRelease | None
    scores: GaussianRelease | None
    life: LifeBudget | None
    span: GaussianRelease | None = None


_BESIDE = ("init", "scores", "span")
"""Releases that are no part of the budgets of rows: before them, and after."""


def _wanted(draft: Draft, step: NewtonStep, settings: SBDTSettings, first: bool) -> list[Shared]:
    """List the regular releases with their shares; leaves, of which there may be more, last.

    Extra rounds are no part of what is paid for.
    """
    bound, outputs = draft.bound, draft.task.n_outputs
    second = "Hessians" if settings.boosting == "newton" else "counts"
    trees = "random trees" if settings.batch_size == 1 else f"{settings.batch_size} random trees"
    wanted: list[Shared] = []
    left = 1.0
    span = plan_span(draft, settings.span_share, GaussianRelease)
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


def _candidate_share(settings: SBDTSettings, draft: Draft) -> float:
    """Return the share that refining has of what is left; None: a histogram counts as a tree."""
    if settings.candidate_share is not None:
        return settings.candidate_share
    histograms = settings.refinements * draft.n_numbers
    return histograms / (histograms + settings.n_regular_updates * draft.task.n_outputs)


def _calibrate(draft: Draft, step: NewtonStep, settings: SBDTSettings, batch: int | None) -> _Made:
    """Find the noise of all releases; an initial score with an ε of its own is paid for first."""
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


def _fixed_initial_score(draft: Draft, settings: SBDTSettings) -> Planned | None:
    """Return the initial score whose sum and count have an ε each, if it is wanted.

    It is one Laplace release of both: its ε is the sum of theirs, and its shares are theirs.
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
    draft: Draft, wanted: list[Shared], fixed: Planned | None, settings: SBDTSettings
) -> _Made:
    """Plan what public rows tell: no budget ends, so extra trees are like all others."""
    *others, (name, leaf, share) = wanted
    first: list[Shared] = [] if fixed is None else [("init", fixed, share)]
    trees = replace(leaf, count=settings.n_updates * draft.task.n_outputs)
    return _calibrate_plain(draft, [*first, *others, (name, trees, share)])


def _calibrate_gaussian_budget(
    draft: Draft, wanted: list[Shared], settings: SBDTSettings, batch: int | None
) -> _Made:
    """Calibrate a budget of μ² for each row, which the regular releases fill."""
    beside = [part for part in wanted if part[0] in _BESIDE]
    paid = [part for part in wanted if part[0] not in _BESIDE]
    shared = by_shares([(planned, share) for _, planned, share in paid])
    whole: dict[str, Any] = {  # releases that fill a budget of μ = 1
        name: planned.event.scaled(1 + _rounding(paid))
        for (name, _, _), planned in zip(paid, shared, strict=True)
    }
    smallest = min(float(event.sigmas.min()) for event in whole.values())
    life = GaussianBudget(
        _life_of(batch),
        1.0,
        releases=_most_releases(settings, draft.task, batch),
        touched=max(event.touched for event in whole.values()),
        least_sigma=smallest * (1 - 1e-9) / (1 if batch is None else _STREAM_ROOM),
    )
    share = sum(share for _, _, share in paid)
    made = draft.share([*beside, ("life", Planned(life, 1), share)])
    life = made["life"]
    events = {name: event.scaled(life.noise) for name, event in whole.items()}
    check_grid(events.values())
    leaf, hessian = events["leaf"], events.get("hessian")
    init, scores, span = (made.get(name) for name in _BESIDE)
    return _Made(made.accountant, made.releases, leaf, init, hessian, scores, life, span)


def _calibrate_renyi_budget(
    draft: Draft, wanted: list[Shared], settings: SBDTSettings, batch: int | None
) -> _Made:
    """Calibrate by Rényi divergence; what regular releases cost at the best order is the budget."""
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
    beside = tuple(p for p in made.releases if any(p.event is each for each in own))
    paid = tuple(p for p in made.releases if p not in beside)
    rho = RdpProfile(paid).rho(alpha) * (1 + rounding)
    if not rho > 0:
        raise ValueError("epsilon is too small for a budget of Rényi divergence")
    releases = _most_releases(settings, draft.task, batch)
    life = RenyiBudget(_life_of(batch), 1 / rho, releases=releases, alpha=alpha)
    return replace(made, life=life, releases=(*beside, Planned(life, 1)))


def _rounding(wanted: list[Shared]) -> float:
    """What a budget has beyond its regular releases: each charge is rounded up."""
    return 2 * sum(planned.count for _, planned, _ in wanted) / BUDGET_STEPS + 1e-9


def _most_releases(settings: SBDTSettings, task: Task, batch: int | None) -> int:
    return _n_releases(settings, task) if batch is None else STREAM_RELEASES


def _n_releases(settings: SBDTSettings, task: Task) -> int:
    """Return how many releases rows pay for, extra rounds included."""
    return settings.n_updates * task.n_outputs + settings.refinements


def _life_of(batch: int | None) -> str:
    rows = "the rows" if batch is None else f"the rows of batch {batch + 1}"
    return f"all trees, within the budget of each of {rows}"
