"""The plan of boosting with data-independent trees: settings, releases and their noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from privboost.boosting.checks import (
    check_candidates,
    check_choice,
    check_count,
    check_grid,
    check_number,
    check_part,
    check_sampled_units,
    check_scores,
)
from privboost.boosting.plan import (
    INIT_SHARES,
    Budget,
    NewtonPlan,
    NewtonStep,
    Task,
    contribution_of,
    grid_unit,
)
from privboost.boosting.structures import CATEGORY_SPLITS
from privboost.domain import CategoricalFeature
from privboost.encoding import Encoder
from privboost.engine.commands import GRADIENT_COUNT, GRADIENT_HESSIAN
from privboost.engine.tree import MAX_DEPTH
from privboost.grid import BUDGET_UNITS, Contribution
from privboost.privacy.accountants.base import Accountant
from privboost.privacy.accountants.choice import choose_accountant
from privboost.privacy.accountants.rdp import RdpProfile
from privboost.privacy.budgets import GaussianBudget, LifeBudget, RenyiBudget
from privboost.privacy.calibration import by_shares, calibrate
from privboost.privacy.events import Planned
from privboost.privacy.formulas import best_order
from privboost.privacy.sum_events import GaussianRelease, LaplaceRelease

STREAM_RELEASES = 2**16
"""How many releases the budget for life of a stream's rows may see."""

_STREAM_ROOM = 4
"""By how much the noise of later batches may be smaller than that of the first."""


@dataclass(frozen=True)
class TreeSettings:
    """What is chosen about trees; `SBDTClassifier` says what each means."""

    n_estimators: int
    max_depth: int
    subsample: float
    boosting: str
    init_share: float
    init_noise: str
    features: str | int
    candidates: str
    n_candidates: int
    candidate_rounds: int
    candidate_share: float
    category_splits: str
    extra_estimators: int
    batch_size: int

    def __post_init__(self) -> None:
        for name, least in (
            ("n_estimators", 1),
            ("max_depth", 1),
            ("n_candidates", 1),
            ("candidate_rounds", 1),
            ("extra_estimators", 0),
            ("batch_size", 1),
        ):
            object.__setattr__(self, name, check_count(name, getattr(self, name), least))
        if self.max_depth > MAX_DEPTH:
            raise ValueError(f"max_depth must be at most {MAX_DEPTH}; {self.max_depth!r} is not")
        check_part("subsample", self.subsample, or_else=1)
        check_part("init_share", self.init_share, or_else=0)
        check_number("candidate_share", self.candidate_share, above=0, below=1)
        check_choice("boosting", self.boosting, ("newton", "gradient"))
        check_choice("init_noise", self.init_noise, ("gaussian", "laplace"))
        check_choice("candidates", self.candidates, ("grid", "all", "hessian"))
        check_choice("category_splits", self.category_splits, CATEGORY_SPLITS)
        if isinstance(self.features, str):
            check_choice("features", self.features, ("cyclical", "uniform"), "a whole number")
        else:
            object.__setattr__(self, "features", check_count("features", self.features, 1))
        object.__setattr__(self, "subsample", float(self.subsample))

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


@dataclass(frozen=True, eq=False)
class TreePlan(NewtonPlan):
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


def plan_trees(
    encoder: Encoder,
    step: NewtonStep,
    settings: TreeSettings,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
    batch: int | None = None,
    noise_lambda: float | None = None,
) -> TreePlan:
    """Decide everything about a run with random trees, and calibrate its noise.

    Parameters
    ----------
    noise_lambda : float, optional
        If given, λ is this many standard deviations of the noise in a leaf's sum of Hessians.
    batch : int, optional
        The number of the batch in a stream, from 0: its rows get budgets for life, and only the
        first batch has an initial score. None is a run of its own.
    """
    check_candidates(settings.n_candidates, encoder)
    task = Task.of(encoder.domain.target)
    trees = settings.n_estimators + settings.extra_estimators
    check_scores(trees * step.leaf_clip * step.learning_rate)
    contribution = contribution_of(encoder.domain, weight_bound)
    check_sampled_units(settings.subsample, contribution)
    wanted = _wanted(encoder, task, step, settings, contribution, first=not batch)
    if batch is None and settings.extra_estimators == 0:
        made = _calibrate_plain(wanted, budget, accountant)
    elif settings.subsample == 1:
        made = _calibrate_gaussian_budget(wanted, budget, accountant, settings, task, batch)
    else:
        made = _calibrate_renyi_budget(wanted, budget, accountant, settings, task, batch)
    check_grid(filter(None, (made.leaf, made.init, made.hessian)))
    planned = settings.n_updates * task.n_outputs + settings.refinements
    if made.life is not None and planned > made.life.releases:
        raise ValueError(
            f"n_estimators is too large: a stream has {made.life.releases} releases for life"
        )
    if noise_lambda is not None:
        noise = made.leaf.sigmas[1] * step.hessian_clip * grid_unit(weight_bound)
        step = replace(step, reg_lambda=noise_lambda * noise)
    return TreePlan(
        encoder=encoder,
        task=task,
        step=step,
        settings=settings,
        contribution=contribution,
        weight_bound=weight_bound,
        budget=budget,
        **vars(made),
    )


@dataclass(frozen=True)
class _Made:
    """Calibrated releases; the names are those of `TreePlan`."""

    accountant: Accountant
    leaf: Any
    init: Any
    hessian: Any
    life: LifeBudget | None
    releases: tuple[Planned, ...]


_Wanted = dict[str, tuple[Planned, float]]
"""Releases by name, in the order in which they are first made, each with its share of μ²."""


def _wanted(
    encoder: Encoder,
    task: Task,
    step: NewtonStep,
    settings: TreeSettings,
    contribution: Contribution,
    first: bool,
) -> _Wanted:
    """List the regular releases; extra rounds are no part of what is paid for."""
    bound: dict[str, Any] = {
        "units": contribution.row_units * contribution.rows,
        "rows": contribution.rows,
    }
    second = "Hessians" if settings.boosting == "newton" else "counts"
    trees = "random trees" if settings.batch_size == 1 else f"{settings.batch_size} random trees"
    numbers = [f for f in encoder.domain.features if not isinstance(f, CategoricalFeature)]
    wanted, left = {}, 1.0
    if first and settings.init_share > 0:
        kind = GaussianRelease if settings.init_noise == "gaussian" else LaplaceRelease
        what = "labels and their count, for the initial score"
        event: Any = kind(what, 1.0, cells=1, shares=INIT_SHARES, **bound)
        wanted["init"] = (Planned(event, task.n_outputs), settings.init_share)
        left -= settings.init_share
    if settings.candidates == "hessian" and numbers:
        what = "Hessians by candidate span of every number"
        event = GaussianRelease(what, 1.0, cells=len(numbers), shares=(1.0,), **bound)
        share = settings.candidate_share * left
        wanted["hessian"] = (Planned(event, settings.refinements), share)
        left -= share
    what = f"gradients and {second} by leaf of {trees}"
    rate = settings.subsample
    event = GaussianRelease(
        what, 1.0, cells=settings.batch_size, shares=step.shares, sampling_rate=rate, **bound
    )
    wanted["leaf"] = (Planned(event, settings.n_regular_updates * task.n_outputs), left)
    return wanted


def _calibrate_plain(wanted: _Wanted, budget: Budget, accountant: str) -> _Made:
    """Multiply the noise of all releases by one factor."""
    shared = by_shares(list(wanted.values()))
    chosen = choose_accountant(accountant, [*budget.before, *shared], budget.delta)
    made = calibrate(shared, budget.epsilon, budget.delta, chosen, budget.before)
    events = {name: planned.event for name, planned in zip(wanted, made, strict=True)}
    return _Made(chosen, events["leaf"], events.get("init"), events.get("hessian"), None, made)


def _calibrate_gaussian_budget(
    wanted: _Wanted,
    budget: Budget,
    accountant: str,
    settings: TreeSettings,
    task: Task,
    batch: int | None,
) -> _Made:
    """Calibrate a budget of μ² for each row, which the regular releases fill."""
    init = {name: part for name, part in wanted.items() if name == "init"}
    paid = {name: part for name, part in wanted.items() if name != "init"}
    unit: dict[str, Any] = {  # releases that fill a budget of μ = 1
        name: planned.event.scaled(1 + _rounding(paid))
        for name, planned in zip(paid, by_shares(list(paid.values())), strict=True)
    }
    smallest = min(float(event.sigmas.min()) for event in unit.values())
    life = GaussianBudget(
        _life_of(batch),
        1.0,
        releases=_most_releases(settings, task, batch),
        touched=max(event.touched for event in unit.values()),
        least_sigma=smallest * (1 - 1e-9) / (1 if batch is None else _STREAM_ROOM),
    )
    share = sum(share for _, share in paid.values())
    made = _calibrate_plain(init | {"leaf": (Planned(life, 1), share)}, budget, accountant)
    leaf, hessian = (
        unit[name].scaled(made.leaf.noise) if name in unit else None for name in ("leaf", "hessian")
    )
    return replace(made, leaf=leaf, hessian=hessian, life=made.leaf)


def _calibrate_renyi_budget(
    wanted: _Wanted,
    budget: Budget,
    accountant: str,
    settings: TreeSettings,
    task: Task,
    batch: int | None,
) -> _Made:
    """Calibrate by Rényi divergence; what regular releases cost at the best order is the budget."""
    if accountant not in ("auto", "rdp"):
        raise ValueError(
            "extra_estimators and streams charge sampled rows by Rényi divergence: with subsample "
            'below 1 accountant must be "auto" or "rdp"'
        )
    rounding = _rounding(wanted)
    less = replace(budget, epsilon=budget.epsilon * (1 - 2 * rounding))
    made = _calibrate_plain(wanted, less, "rdp")
    alpha = best_order(RdpProfile((*budget.before, *made.releases)).rho, budget.delta)
    paid = tuple(p for p in made.releases if p.event is not made.init)
    rho = RdpProfile(paid).rho(alpha) * (1 + rounding)
    if not rho > 0:
        raise ValueError("epsilon is too small for a budget of Rényi divergence")
    life = RenyiBudget(
        _life_of(batch), 1 / rho, releases=_most_releases(settings, task, batch), alpha=alpha
    )
    beside = tuple(p for p in made.releases if p.event is made.init)
    return replace(made, life=life, releases=(*beside, Planned(life, 1)))


def _rounding(wanted: _Wanted) -> float:
    """What a budget has beyond its regular releases: each charge is rounded up."""
    return 2 * sum(planned.count for planned, _ in wanted.values()) / BUDGET_UNITS + 1e-9


def _most_releases(settings: TreeSettings, task: Task, batch: int | None) -> int:
    if batch is not None:
        return STREAM_RELEASES
    return settings.n_updates * task.n_outputs + settings.refinements


def _life_of(batch: int | None) -> str:
    rows = "the rows" if batch is None else f"the rows of batch {batch + 1}"
    return f"all trees, within the budget of each of {rows}"
