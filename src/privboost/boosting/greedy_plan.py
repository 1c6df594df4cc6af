"""The plan of greedy trees under (ε, δ): candidates, choices of splits, leaves, and their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from privboost.boosting.checks import (
    check_candidates,
    check_choice,
    check_count,
    check_grid,
    check_histograms,
    check_number,
    check_part,
    check_scores,
    check_shares,
)
from privboost.boosting.plan import (
    INIT_SHARES,
    Budget,
    NewtonPlan,
    NewtonStep,
    Task,
    at_most_rows,
    contribution_of,
    grid_unit,
)
from privboost.domain import CategoricalFeature
from privboost.encoding import Encoder
from privboost.engine.tree import MAX_DEPTH
from privboost.grid import UNIT, Contribution
from privboost.privacy.accountants.choice import choose_accountant
from privboost.privacy.calibration import by_shares, calibrate
from privboost.privacy.events import Planned, Selection
from privboost.privacy.sum_events import GaussianRelease
from privboost.privacy.utilities import MOST_ROWS


@dataclass(frozen=True)
class GreedySettings:
    """What is chosen about greedy trees; `DPXGBClassifier` says what each means."""

    n_estimators: int
    max_depth: int
    greedy_depth: int | None
    features: str | int
    candidates: str
    n_candidates: int
    candidate_rounds: int
    init_share: float
    shares: tuple[float, float, float]
    split_lambda: float

    def __post_init__(self) -> None:
        for name in ("n_estimators", "max_depth", "n_candidates", "candidate_rounds"):
            object.__setattr__(self, name, check_count(name, getattr(self, name), 1))
        if self.max_depth > MAX_DEPTH:
            raise ValueError(f"max_depth must be at most {MAX_DEPTH}; {self.max_depth!r} is not")
        greedy = self.max_depth if self.greedy_depth is None else self.greedy_depth
        greedy = check_count("greedy_depth", greedy, 1)
        if greedy > self.max_depth:
            raise ValueError(f"greedy_depth must be at most max_depth; {greedy} exceeds it")
        object.__setattr__(self, "greedy_depth", greedy)
        check_choice("candidates", self.candidates, ("grid", "hessian"))
        if isinstance(self.features, str):
            check_choice("features", self.features, ("all", "cyclical"), "a whole number")
        else:
            object.__setattr__(self, "features", check_count("features", self.features, 1))
        check_part("init_share", self.init_share, or_else=0)
        check_number("split_lambda", self.split_lambda, above=1 / UNIT)
        object.__setattr__(self, "shares", check_shares("shares", self.shares, 3))
        if self.candidates == "hessian" and self.shares[0] == 0:
            raise ValueError('candidates="hessian" needs a sketch: the first of shares is 0')

    @property
    def refinements(self) -> int:
        """How often split candidates are refined."""
        return min(self.candidate_rounds, self.n_estimators) if self.candidates == "hessian" else 0


@dataclass(frozen=True, eq=False)
class GreedyPlan(NewtonPlan):
    """The plan of greedy trees under (ε, δ).

    Attributes
    ----------
    selection : Selection
        The choice of the splits of one level.
    leaf : GaussianRelease
        The release of a tree's leaves.
    sketch : GaussianRelease or None
        The release of the Hessians that candidates follow.
    """

    selection: Selection
    leaf: GaussianRelease
    sketch: GaussianRelease | None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the ranges of splits rest on."""
        return (at_most_rows(MOST_ROWS),)


def plan_greedy(
    encoder: Encoder,
    step: NewtonStep,
    settings: GreedySettings,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
    noise_lambda: float | None = None,
) -> GreedyPlan:
    """Decide everything about a run with greedy trees, and calibrate its noise.

    Parameters
    ----------
    noise_lambda : float, optional
        If given, λ is this many standard deviations of the noise in a leaf's sum of Hessians.
    """
    check_candidates(settings.n_candidates, encoder)
    task = Task.of(encoder.domain.target)
    check_scores(settings.n_estimators * step.leaf_clip * step.learning_rate)
    contribution = contribution_of(encoder.domain, weight_bound)
    check_histograms(encoder, settings.n_candidates, settings.greedy_depth or 0)
    wanted = _wanted(encoder, task, step, settings, contribution)
    shared = by_shares(list(wanted.values()))
    chosen = choose_accountant(accountant, [*budget.before, *shared], budget.delta)
    made = calibrate(shared, budget.epsilon, budget.delta, chosen, budget.before)
    events: dict[str, Any] = {
        name: planned.event for name, planned in zip(wanted, made, strict=True)
    }
    check_grid([event for name, event in events.items() if name != "selection"])
    if noise_lambda is not None:
        noise = events["leaf"].sigmas[1] * step.hessian_clip * grid_unit(weight_bound)
        step = replace(step, reg_lambda=noise_lambda * noise)
    return GreedyPlan(
        encoder=encoder,
        task=task,
        step=step,
        settings=settings,
        contribution=contribution,
        weight_bound=weight_bound,
        budget=budget,
        accountant=chosen,
        releases=made,
        init=events.get("init"),
        selection=events["selection"],
        leaf=events["leaf"],
        sketch=events.get("sketch"),
    )


def _wanted(
    encoder: Encoder,
    task: Task,
    step: NewtonStep,
    settings: GreedySettings,
    contribution: Contribution,
) -> dict[str, tuple[Planned, float]]:
    """List the releases by name, each with its share of μ²."""
    bound: dict[str, Any] = {
        "units": contribution.row_units * contribution.rows,
        "rows": contribution.rows,
    }
    trees = settings.n_estimators * task.n_outputs
    sketch_share, selection_share, leaf_share = settings.shares
    wanted: dict[str, tuple[Planned, float]] = {}
    rest = 1 - settings.init_share
    if settings.init_share > 0:
        what = "labels and their count, for the initial score"
        event: Any = GaussianRelease(what, 1.0, cells=1, shares=INIT_SHARES, **bound)
        wanted["init"] = (Planned(event, task.n_outputs), settings.init_share)
    numbers = n_numbers(encoder)
    if settings.refinements and numbers:
        what = "Hessians by candidate span of every number"
        event = GaussianRelease(what, 1.0, cells=numbers, shares=(1.0,), **bound)
        wanted["sketch"] = (Planned(event, settings.refinements), sketch_share)
    levels = trees * (settings.greedy_depth or 0)
    wanted["selection"] = (
        Planned(Selection("the splits of all nodes of a level", 1.0), levels),
        selection_share,
    )
    event = GaussianRelease(
        "gradients and Hessians by leaf of a tree", 1.0, cells=1, shares=step.shares, **bound
    )
    wanted["leaf"] = (Planned(event, trees), leaf_share)
    total = sum(share for name, (_, share) in wanted.items() if name != "init")
    return {
        name: (planned, share if name == "init" else rest * share / total)
        for name, (planned, share) in wanted.items()
    }


def n_numbers(encoder: Encoder) -> int:
    """Return how many features are numbers."""
    features: Sequence[Any] = encoder.domain.features
    return sum(not isinstance(feature, CategoricalFeature) for feature in features)
