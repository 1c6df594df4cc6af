"""The plan of greedy trees under (ε, δ): candidates, choices of splits, leaves, and their noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from privboost.boosting.calibrated import check_calibration, counts_release
from privboost.boosting.checks import (
    check_candidates,
    check_choice,
    check_choice_or_count,
    check_count,
    check_histograms,
    check_rest,
    check_scores,
    check_share,
    check_shares,
    check_sketch_bins,
    check_split_lambda,
    keep_checked,
)
from privboost.boosting.draft import Draft, Shared
from privboost.boosting.initial_score import initial_release
from privboost.boosting.newton import SPANS, NewtonPlan, NewtonStep
from privboost.boosting.plan import Budget, at_most_rows
from privboost.boosting.target_span import plan_span
from privboost.privacy.events.event import Planned, Selection
from privboost.privacy.events.sums import GaussianRelease
from privboost.privacy.utilities.splits import MOST_ROWS
from privboost.tables.encoding import Encoder
from privboost.trees.tree import MAX_DEPTH


@dataclass(frozen=True)
class DPXGBSettings:
    """What is chosen about greedy trees; `DPXGBClassifier` says what each means."""

    n_estimators: int
    max_depth: int
    greedy_depth: int | None
    features: str | int
    candidates: str
    n_candidates: int
    candidate_rounds: str | int
    sketch_bins: int | None
    init_share: float
    calibration_share: float
    shares: tuple[float, float, float]
    split_lambda: float
    span_share: float = 0.0

    def __post_init__(self) -> None:
        keep_checked(
            self,
            n_estimators=check_count,
            max_depth=partial(check_count, most=MAX_DEPTH),
            greedy_depth=self._check_greedy_depth,
            features=partial(check_choice_or_count, choices=("all", "cyclical")),
            candidates=partial(check_choice, choices=("grid", "hessian")),
            n_candidates=check_count,
            candidate_rounds=partial(check_choice_or_count, choices=("all",)),
            sketch_bins=check_sketch_bins,
            init_share=partial(check_share, or_else=0),
            calibration_share=partial(check_share, or_else=0),
            shares=partial(check_shares, count=3),
            split_lambda=check_split_lambda,
            span_share=partial(check_share, or_else=0),
        )
        check_rest(
            init_share=self.init_share,
            calibration_share=self.calibration_share,
            span_share=self.span_share,
        )
        if self.candidates == "hessian" and self.shares[0] == 0:
            raise ValueError('candidates="hessian" needs a sketch: the first of shares is 0')

    def _check_greedy_depth(self, name: str, value: Any) -> int:
        depth = self.max_depth if value is None else check_count(name, value)
        if depth > self.max_depth:
            raise ValueError(f"{name} must be at most max_depth; {depth} exceeds it")
        return depth

    @property
    def refinements(self) -> int:
        """How often split candidates are refined."""
        if self.candidates == "grid":
            return 0
        rounds = self.candidate_rounds
        return self.n_estimators if isinstance(rounds, str) else min(rounds, self.n_estimators)


@dataclass(frozen=True, eq=False)
class DPXGBPlan(NewtonPlan):
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


def plan_dpxgb(
    encoder: Encoder,
    step: NewtonStep,
    settings: DPXGBSettings,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
    noise_lambda: float | None = None,
) -> DPXGBPlan:
    """Decide everything about a run with greedy trees, and calibrate its noise.

    Parameters
    ----------
    noise_lambda : float, optional
        If given, λ is this many standard deviations of the noise in a leaf's sum of Hessians.
    """
    check_candidates(settings.n_candidates, encoder, settings.sketch_bins)
    check_scores(settings.n_estimators * step.leaf_clip * step.learning_rate)
    check_histograms(encoder, settings.n_candidates, settings.greedy_depth or 0)
    draft = Draft(encoder, weight_bound, budget, accountant)
    check_calibration(settings.calibration_share, draft.task.target, draft.task.loss)
    made = draft.share(_wanted(draft, step, settings))
    leaf = made["leaf"]
    return DPXGBPlan(
        **made.fields,
        step=step.with_noise_lambda(noise_lambda, leaf.sigmas[1], weight_bound),
        settings=settings,
        init=made.get("init"),
        selection=made["selection"],
        leaf=leaf,
        sketch=made.get("sketch"),
        scores=made.get("scores"),
    )


def _wanted(draft: Draft, step: NewtonStep, settings: DPXGBSettings) -> list[Shared]:
    """List the releases with their shares; where there is no sketch, the others have its share."""
    outputs, bound = draft.task.n_outputs, draft.bound
    trees = settings.n_estimators * outputs
    choice = Selection("the splits of all nodes of a level", 1.0)
    leaf = GaussianRelease(
        "gradients and Hessians by leaf of a tree", 1.0, cells=1, shares=step.shares, **bound
    )
    parts: list[Shared] = [
        ("selection", Planned(choice, trees * (settings.greedy_depth or 0)), settings.shares[1]),
        ("leaf", Planned(leaf, trees), settings.shares[2]),
    ]
    if settings.refinements and draft.n_numbers:
        sketch = GaussianRelease(SPANS, 1.0, cells=draft.n_numbers, shares=(1.0,), **bound)
        parts.insert(0, ("sketch", Planned(sketch, settings.refinements), settings.shares[0]))
    total, span = sum(share for _, _, share in parts), settings.span_share
    rest = 1 - settings.init_share - settings.calibration_share - span
    init = Planned(initial_release(GaussianRelease, 1.0, bound), outputs)
    scores = Planned(counts_release(GaussianRelease, bound), outputs)
    return [
        ("span", plan_span(draft, span, GaussianRelease), span),
        ("init", init, settings.init_share),
        *((name, planned, rest * share / total) for name, planned, share in parts),
        ("scores", scores, settings.calibration_share),
    ]
