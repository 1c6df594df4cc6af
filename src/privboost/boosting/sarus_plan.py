"""The plan of greedy trees under pure ε: Laplace noise and choices, on samples or on all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from privboost.boosting.checks import (
    check_candidates,
    check_count,
    check_flag,
    check_histograms,
    check_rate,
    check_sampled_units,
    check_scores,
    check_share,
    check_shares,
    check_size,
    check_split_lambda,
    is_number,
    keep_checked,
)
from privboost.boosting.draft import Draft
from privboost.boosting.initial_score import initial_release
from privboost.boosting.newton import NewtonPlan, NewtonStep
from privboost.boosting.plan import Budget, at_most_rows
from privboost.losses import LossTable, filtered
from privboost.privacy.events.event import Planned, SampledGroup, Selection
from privboost.privacy.events.sums import LaplaceRelease
from privboost.privacy.utilities.splits import MOST_ROWS
from privboost.tables.encoding import Encoder
from privboost.trees.tree import MAX_DEPTH


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
        keep_checked(
            self,
            n_estimators=check_count,
            max_depth=partial(check_count, most=MAX_DEPTH),
            subsample=check_rate,
            n_candidates=check_count,
            init_share=partial(check_share, or_else=0),
            shares=partial(check_shares, count=3),
            split_lambda=check_split_lambda,
            gradient_filter=_check_filter,
            geometric_clip=check_flag,
            min_child_weight=_check_weight,
        )


def _check_filter(name: str, value: Any) -> float | None:
    return None if value is None else check_size(name, value)


def _check_weight(name: str, value: Any) -> float:
    if is_number(value) and value == 0:
        return 0.0
    return check_size(f"{name}, if not 0,", value)


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
    if settings.geometric_clip and step.learning_rate >= 1:
        raise ValueError(
            "geometric_clip needs a learning_rate below 1: the clip shrinks by 1 - learning_rate "
            "from tree to tree, to nothing"
        )
    check_scores(settings.n_estimators * step.leaf_clip * step.learning_rate)
    draft = Draft(encoder, weight_bound, budget, accountant)
    check_sampled_units(settings.subsample, draft.contribution)
    check_histograms(encoder, settings.n_candidates, settings.max_depth)
    made = draft.scale(_wanted(draft, step, settings))
    group = made.get("group")
    parts = [made["selection"], made["leaf"]] if group is None else [p.event for p in group.inner]
    selection, leaf = parts
    sigma = math.sqrt(2) * leaf.scales[1]
    return SarusPlan(
        **made.fields,
        step=step.with_noise_lambda(noise_lambda, sigma, weight_bound),
        settings=settings,
        init=made.get("init"),
        selection=selection,
        leaf=leaf,
        group=group,
        sketch=made.get("sketch"),
    )


def _wanted(draft: Draft, step: NewtonStep, settings: SarusSettings) -> list[tuple[str, Planned]]:
    """List the releases, with noise for an ε of about 1 in all, shared out."""
    outputs, bound = draft.task.n_outputs, draft.bound
    sketch_share, split_share, leaf_share = settings.shares
    if draft.n_numbers == 0:
        sketch_share = 0.0
    rest = (1 - settings.init_share) / (sketch_share + split_share + leaf_share)
    wanted = []
    if settings.init_share > 0:
        init = initial_release(LaplaceRelease, outputs / settings.init_share, bound)
        wanted.append(("init", Planned(init, outputs)))
    if sketch_share > 0:
        what, noise = "counts by candidate span of every number", 1 / (rest * sketch_share)
        sketch = LaplaceRelease(what, noise, cells=draft.n_numbers, shares=(1.0,), **bound)
        wanted.append(("sketch", Planned(sketch, 1)))
    trees, depth = settings.n_estimators * outputs, settings.max_depth
    # On a sample of rate γ a release costs about γ of its ε.
    per_tree = settings.subsample * trees / rest
    selection = Selection("the splits of all nodes of a level", per_tree * depth / split_share)
    what = "gradients and counts by leaf of a tree"
    leaf = LaplaceRelease(what, per_tree / leaf_share, cells=1, shares=step.shares, **bound)
    if settings.subsample < 1:
        inner = (Planned(selection, depth), Planned(leaf, 1))
        group = SampledGroup.of("a tree, on a sample", inner, settings.subsample)
        return [*wanted, ("group", Planned(group, trees))]
    return [
        *wanted,
        ("selection", Planned(selection, depth * trees)),
        ("leaf", Planned(leaf, trees)),
    ]
