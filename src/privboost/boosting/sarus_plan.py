"""The plan of greedy trees under pure ε: Laplace noise and choices, on samples or on all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from privboost.boosting.calibrated import check_calibration, counts_release
from privboost.boosting.checks import (
    check_candidates,
    check_choice,
    check_count,
    check_flag,
    check_histograms,
    check_rate,
    check_rest,
    check_sampled_units,
    check_scores,
    check_share,
    check_shares,
    check_size,
    check_sketch_bins,
    check_split_lambda,
    is_number,
    keep_checked,
)
from privboost.boosting.draft import Draft
from privboost.boosting.initial_score import initial_release
from privboost.boosting.newton import SPANS, NewtonPlan, NewtonStep
from privboost.boosting.plan import Budget, at_most_rows
from privboost.boosting.target_span import plan_span
from privboost.losses import LossTable, filtered, loss_of
from privboost.privacy.events.event import Planned, SampledGroup, Selection
from privboost.privacy.events.sums import LaplaceRelease
from privboost.privacy.leaf_means import lambda_steps, row_steps
from privboost.privacy.utilities.splits import MOST_ROWS
from privboost.tables.encoding import Encoder
from privboost.trees.tree import MAX_DEPTH

_PARTS = ("sketch", "selection", "leaf")
_SKETCHES = {
    "count": "counts by candidate span of every number",
    "hessian": SPANS,
}


@dataclass(frozen=True)
class SarusSettings:
    """What is chosen about the trees; `SarusXGBClassifier` says what each means."""

    n_estimators: int
    max_depth: int
    subsample: float
    n_candidates: int
    init_share: float
    calibration_share: float
    shares: tuple[float, float, float]
    split_lambda: float
    gradient_filter: float | None
    geometric_clip: bool
    min_child_weight: float
    leaves: str
    sketch_bins: int | None
    sketch_weights: str
    sketch_each_tree: bool
    span_share: float = 0.0

    def __post_init__(self) -> None:
        keep_checked(
            self,
            n_estimators=check_count,
            max_depth=partial(check_count, most=MAX_DEPTH),
            subsample=check_rate,
            n_candidates=check_count,
            init_share=partial(check_share, or_else=0),
            calibration_share=partial(check_share, or_else=0),
            shares=partial(check_shares, count=3),
            split_lambda=check_split_lambda,
            gradient_filter=_check_filter,
            geometric_clip=check_flag,
            min_child_weight=_check_weight,
            leaves=partial(check_choice, choices=("sums", "means")),
            sketch_bins=check_sketch_bins,
            sketch_weights=partial(check_choice, choices=("count", "hessian")),
            sketch_each_tree=check_flag,
            span_share=partial(check_share, or_else=0),
        )
        check_rest(
            init_share=self.init_share,
            calibration_share=self.calibration_share,
            span_share=self.span_share,
        )
        if self.leaves == "means" and self.min_child_weight > 0:
            raise ValueError(
                'min_child_weight looks at released counts, and leaves="means" releases none'
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
        A tree's choices and leaves (and its sketch) on one sample, where rows are sampled.
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
        most_bend = 2 * loss_of(self.task.target, self.task.loss).curvature
        table = self.task.table(self.step.gradient_clip, most_bend)  # leaves count rows instead
        limit = self.settings.gradient_filter
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
    loss: str | None = None,
) -> SarusPlan:
    """Decide everything about a run, and calibrate its noise.

    Parameters
    ----------
    noise_lambda : float, optional
        If given, λ is this many standard deviations of the noise in a leaf's count.
    loss : str, optional
        The loss of classes; logistic by default.
    """
    _check(encoder, step, settings, weight_bound)
    draft = Draft(encoder, weight_bound, budget, accountant, loss)
    check_calibration(settings.calibration_share, draft.task.target, draft.task.loss)
    check_sampled_units(settings.subsample, draft.contribution)
    made = draft.scale(_wanted(draft, step, settings))
    group = made.get("group")
    parts = {name: made.get(name) for name in _PARTS}
    if group is not None:  # which ends with the leaves, and may begin with a sketch
        inner = reversed([planned.event for planned in group.inner])
        parts |= dict(zip(reversed(_PARTS), inner, strict=False))
    sigma = math.sqrt(2) * parts["leaf"].scales[-1]
    return SarusPlan(
        **made.fields,
        step=step.with_noise_lambda(noise_lambda, sigma, weight_bound),
        settings=settings,
        init=made.get("init"),
        scores=made.get("scores"),
        group=group,
        **parts,
    )


def _check(
    encoder: Encoder, step: NewtonStep, settings: SarusSettings, weight_bound: float | None
) -> None:
    """Refuse what no plan can have."""
    check_candidates(settings.n_candidates, encoder, settings.sketch_bins)
    if settings.leaves == "means" and weight_bound is not None:
        raise ValueError(
            'leaves="means" takes no sample_weight: the bound of a mean is proved for whole counts'
        )
    limit = settings.gradient_filter
    if limit is not None and limit >= step.gradient_clip:
        raise ValueError(
            "gradient_filter must be below gradient_clip: gradients are clipped first, so that "
            "none is above the clip, and nobody would be left out"
        )
    if settings.geometric_clip and step.learning_rate >= 1:
        raise ValueError(
            "geometric_clip needs a learning_rate below 1: the clip shrinks by 1 - learning_rate "
            "from tree to tree, to nothing"
        )
    check_scores(settings.n_estimators * step.leaf_clip * step.learning_rate)
    check_histograms(encoder, settings.n_candidates, settings.max_depth)


def _wanted(draft: Draft, step: NewtonStep, settings: SarusSettings) -> list[tuple[str, Planned]]:
    """List the releases, with noise for an ε of about 1 in all, shared out."""
    outputs, bound = draft.task.n_outputs, draft.bound
    sketch_share, split_share, leaf_share = settings.shares
    if draft.n_numbers == 0:
        sketch_share = 0.0
    rest = 1 - settings.init_share - settings.calibration_share - settings.span_share
    rest /= sketch_share + split_share + leaf_share
    wanted = _once(draft, settings)
    trees, depth = settings.n_estimators * outputs, settings.max_depth
    # On a sample of rate γ a release costs about γ of its ε.
    per_tree = settings.subsample * trees / rest
    own: list[tuple[str, Planned]] = []
    if sketch_share > 0:
        each = settings.sketch_each_tree
        what = _SKETCHES[settings.sketch_weights]
        noise = per_tree / sketch_share if each else 1 / (rest * sketch_share)
        sketch = LaplaceRelease(what, noise, cells=draft.n_numbers, shares=(1.0,), **bound)
        (own if each else wanted).append(("sketch", Planned(sketch, 1)))
    selection = Selection("the splits of all nodes of a level", per_tree * depth / split_share)
    leaf = _leaf_release(draft, step, settings, per_tree / leaf_share)
    own += [("selection", Planned(selection, depth)), ("leaf", Planned(leaf, 1))]
    if settings.subsample < 1:
        inner = tuple(planned for _, planned in own)
        group = SampledGroup.of("a tree, on a sample", inner, settings.subsample)
        return [*wanted, ("group", Planned(group, trees))]
    return wanted + [(name, Planned(p.event, p.count * trees)) for name, p in own]


def _once(draft: Draft, settings: SarusSettings) -> list[tuple[str, Planned]]:
    """List what is released of all rows before the trees, and after them, with its noise."""
    outputs, bound = draft.task.n_outputs, draft.bound
    wanted = []
    span = plan_span(draft, settings.span_share, LaplaceRelease)
    if settings.span_share > 0:
        wanted.append(("span", span.scaled(span.count / settings.span_share)))
    if settings.init_share > 0:
        init = initial_release(LaplaceRelease, outputs / settings.init_share, bound)
        wanted.append(("init", Planned(init, outputs)))
    if settings.calibration_share > 0:
        scores = counts_release(LaplaceRelease, bound, outputs / settings.calibration_share)
        wanted.append(("scores", Planned(scores, outputs)))
    return wanted


def _leaf_release(
    draft: Draft, step: NewtonStep, settings: SarusSettings, noise: float
) -> LaplaceRelease:
    """Return the release of a tree's leaves: their sums and counts, or their means."""
    if settings.leaves == "sums":
        what = "gradients and counts by leaf of a tree"
        return LaplaceRelease(what, noise, cells=1, shares=step.shares, **draft.bound)
    rows = draft.contribution.rows
    steps = row_steps(lambda_steps(step.reg_lambda)) * rows
    what = "mean gradients by leaf of a tree"
    return LaplaceRelease(what, noise, steps=steps, cells=1, rows=rows, shares=(1.0,))
