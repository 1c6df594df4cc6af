"""The plan of greedy trees under pure ε: Laplace noise and choices, on samples or on all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from privboost.boosting.checks import (
    check_candidates,
    check_count,
    check_grid,
    check_histograms,
    check_number,
    check_part,
    check_sampled_units,
    check_scores,
    check_shares,
)
from privboost.boosting.greedy_plan import n_numbers
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
from privboost.encoding import Encoder
from privboost.engine.tree import MAX_DEPTH
from privboost.grid import UNIT, Contribution
from privboost.losses import LossTable, filtered
from privboost.privacy.accountants.choice import choose_accountant
from privboost.privacy.calibration import calibrate
from privboost.privacy.events import Event, Planned, SampledGroup, Selection
from privboost.privacy.sum_events import LaplaceRelease
from privboost.privacy.utilities import MOST_ROWS


@dataclass(frozen=True)
class SarusSettings:
    """What is chosen about the trees; `SarusXGBClassifier` says what each means."""

    n_estimators: int
    max_depth: int
    subsample: float
    n_candidates: int
    init_share: float
    shares: tuple[float, float, float]
    split_lambda: float
    gradient_filter: float | None
    geometric_clip: bool
    min_child_weight: float

    def __post_init__(self) -> None:
        for name in ("n_estimators", "max_depth", "n_candidates"):
            object.__setattr__(self, name, check_count(name, getattr(self, name), 1))
        if self.max_depth > MAX_DEPTH:
            raise ValueError(f"max_depth must be at most {MAX_DEPTH}; {self.max_depth!r} is not")
        object.__setattr__(self, "subsample", check_part("subsample", self.subsample, or_else=1))
        check_part("init_share", self.init_share, or_else=0)
        check_number("split_lambda", self.split_lambda, above=1 / UNIT)
        if self.gradient_filter is not None:
            check_number("gradient_filter", self.gradient_filter, above=0)
        check_number("min_child_weight", self.min_child_weight, above=-1e-300)
        object.__setattr__(self, "shares", check_shares("shares", self.shares, 3))


@dataclass(frozen=True, eq=False)
class SarusPlan(NewtonPlan):
    """The plan of greedy trees under pure ε.

    Attributes
    ----------
    selection : Selection
        The choice of the splits of one level.
    leaf : LaplaceRelease
        The release of a tree's leaves.
    group : SampledGroup or None
        A tree's choices and leaves on one sample, where rows are sampled.
    sketch : LaplaceRelease or None
        The release of the histograms that candidates follow.
    """

    selection: Selection
    leaf: LaplaceRelease
    group: SampledGroup | None
    sketch: LaplaceRelease | None

    @property
    def loss(self) -> LossTable:
        """The loss, without the rows whose gradient is filtered."""
        table, limit = super().loss, self.settings.gradient_filter
        return table if limit is None else filtered(table, limit, self.step.gradient_clip)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the ranges of splits rest on."""
        return (at_most_rows(MOST_ROWS),)


def plan_sarus(
    encoder: Encoder,
    step: NewtonStep,
    settings: SarusSettings,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
    noise_lambda: float | None = None,
) -> SarusPlan:
    """Decide everything about a run, and calibrate its noise.

    Parameters
    ----------
    noise_lambda : float, optional
        If given, λ is this many standard deviations of the noise in a leaf's count.
    """
    check_candidates(settings.n_candidates, encoder)
    limit = settings.gradient_filter
    if limit is not None and limit > step.gradient_clip:
        raise ValueError("gradient_filter must be at most gradient_clip: what is above is clipped")
    task = Task.of(encoder.domain.target)
    check_scores(settings.n_estimators * step.leaf_clip * step.learning_rate)
    contribution = contribution_of(encoder.domain, weight_bound)
    check_sampled_units(settings.subsample, contribution)
    check_histograms(encoder, settings.n_candidates, settings.max_depth)
    wanted = _wanted(encoder, task, step, settings, contribution)
    chosen = choose_accountant(accountant, [*budget.before, *wanted.values()], budget.delta)
    made = calibrate(list(wanted.values()), budget.epsilon, budget.delta, chosen, budget.before)
    events: dict[str, Event] = {
        name: planned.event for name, planned in zip(wanted, made, strict=True)
    }
    group: Any = events.get("group")
    selection, leaf = (
        (planned.event for planned in group.inner)
        if group is not None
        else (events["selection"], events["leaf"])
    )
    assert isinstance(selection, Selection)
    assert isinstance(leaf, LaplaceRelease)
    init: Any = events.get("init")
    sketch: Any = events.get("sketch")
    check_grid(filter(None, (leaf, init, sketch)))
    if noise_lambda is not None:
        noise = math.sqrt(2) * leaf.scales[1] * grid_unit(weight_bound)
        step = replace(step, reg_lambda=noise_lambda * noise)
    return SarusPlan(
        encoder=encoder,
        task=task,
        step=step,
        settings=settings,
        contribution=contribution,
        weight_bound=weight_bound,
        budget=budget,
        accountant=chosen,
        releases=made,
        init=init,
        selection=selection,
        leaf=leaf,
        group=group,
        sketch=sketch,
    )


def _wanted(
    encoder: Encoder,
    task: Task,
    step: NewtonStep,
    settings: SarusSettings,
    contribution: Contribution,
) -> dict[str, Planned]:
    """List the releases by name, with noise for an ε of about 1 in all, shared out."""
    bound: dict[str, Any] = {
        "units": contribution.row_units * contribution.rows,
        "rows": contribution.rows,
    }
    sketch_share, split_share, leaf_share = settings.shares
    numbers = n_numbers(encoder)
    if numbers == 0:
        sketch_share = 0.0
    rest = (1 - settings.init_share) / (sketch_share + split_share + leaf_share)
    wanted: dict[str, Planned] = {}
    if settings.init_share > 0:
        noise = task.n_outputs / settings.init_share
        what = "labels and their count, for the initial score"
        wanted["init"] = Planned(
            LaplaceRelease(what, noise, cells=1, shares=INIT_SHARES, **bound), task.n_outputs
        )
    if sketch_share > 0:
        what = "counts by candidate span of every number"
        event = LaplaceRelease(
            what, 1 / (rest * sketch_share), cells=numbers, shares=(1.0,), **bound
        )
        wanted["sketch"] = Planned(event, 1)
    trees = settings.n_estimators * task.n_outputs
    # On a sample of rate γ a release costs about γ of its ε.
    per_tree = settings.subsample * trees / rest
    selection = Planned(
        Selection(
            "the splits of all nodes of a level", per_tree * settings.max_depth / split_share
        ),
        settings.max_depth,
    )
    leaf = Planned(
        LaplaceRelease(
            "gradients and counts by leaf of a tree",
            per_tree / leaf_share,
            cells=1,
            shares=step.shares,
            **bound,
        ),
        1,
    )
    if settings.subsample < 1:
        group = SampledGroup.of("a tree, on a sample", (selection, leaf), settings.subsample)
        return wanted | {"group": Planned(group, trees)}
    return wanted | {
        "selection": replace(selection, count=selection.count * trees),
        "leaf": replace(leaf, count=trees),
    }
