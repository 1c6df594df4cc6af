"""The flagship's plan: where to begin, many equal questions about features, calibrated scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from privboost.boosting.checks import (
    LEAST_SHARE,
    check_count,
    check_share,
    check_size,
    keep_checked,
)
from privboost.boosting.draft import Draft
from privboost.boosting.effects import Noise
from privboost.boosting.initial_score import initial_release
from privboost.boosting.newton import grid_step
from privboost.boosting.plan import Budget, Plan, listed
from privboost.boosting.target_span import plan_span
from privboost.grid import SCORE_STEPS
from privboost.privacy.events.event import Planned
from privboost.privacy.events.sums import GaussianRelease
from privboost.tables.encoding import Encoder

SWEEPS = 12
"""How often a feature is asked about, on average."""

FEWEST_CELLS, MOST_CELLS = 4, 32
"""Cells of one answer."""

_TYPICAL = {"classes": 0.5, "number": 0.15}
"""The size of an effect that an answer should be able to tell, by the target."""

_SPREAD = {"classes": 1.0, "number": 0.05}
"""The variance of gradients, for a sum of Hessians of 1."""

_CLEAR = 4.0
"""In how many deviations of the noise a cell should show a typical effect."""

_CLIP, _STRENGTH, _GROWTH = 0.3, 50.0, 0.2
"""The clip of gradients, at which strength of a feature it is that, and how it grows with it."""

_NARROWEST, _WIDEST = 0.25, 1.0
"""Between these it stays."""

_MOST_BEND = 0.25
"""The largest Hessian of a class."""

_MOST_HESSIAN = 1e3
"""Of its clip: no Hessian is above 1, and noise that is far larger drowns what is known in it."""


@dataclass(frozen=True)
class PrivBoostSettings:
    """What can be chosen.

    Attributes
    ----------
    n_estimators : int
        Questions for each output.
    gradient_clip : float or None
        What a row's gradient is clipped to; None follows the released number of rows.
    hessian_clip : float or None
        The same for the Hessian; None follows the gradient's.
    hessian_share : float
        The Hessian's share of a question.
    init_share, calibration_share, span_share : float
        What the start, the calibration of scores, and finding a number's span, have of μ².
    """

    n_estimators: int
    gradient_clip: float | None
    hessian_clip: float | None
    hessian_share: float
    init_share: float
    calibration_share: float
    span_share: float = 0.0

    def __post_init__(self) -> None:
        keep_checked(
            self,
            n_estimators=check_count,
            gradient_clip=_check_clip,
            hessian_clip=partial(_check_clip, below=_MOST_HESSIAN),
            hessian_share=check_share,
            init_share=check_share,
            calibration_share=partial(check_share, or_else=0),
            span_share=partial(check_share, or_else=0),
        )
        if self.init_share + self.calibration_share + self.span_share > 1 - LEAST_SHARE:
            raise ValueError(
                "init_share, calibration_share and span_share leave nothing for the rounds"
            )


def _check_clip(name: str, value: Any, **bounds: float) -> float | None:
    return None if value is None else check_size(name, value, **bounds)


@dataclass(frozen=True, eq=False)
class PrivBoostPlan(Plan):
    """The flagship's plan.

    Attributes
    ----------
    settings : PrivBoostSettings
        What was chosen.
    init : GaussianRelease
        Where boosting begins, and the number of rows.
    question : GaussianRelease
        One answer about one feature.
    scores : GaussianRelease or None
        Rows by score and class.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("task", "settings", "contribution", "budget")

    settings: PrivBoostSettings
    init: GaussianRelease
    question: GaussianRelease
    scores: GaussianRelease | None

    @property
    def step(self) -> float:
        """What one step of a sum is worth, in clips of rows of the largest weight."""
        return grid_step(None if self.weight_bound is None else 1.0)

    def worth_of_steps(self, clip: float) -> tuple[float, float]:
        """Return what one step of an answer's gradients and Hessians is worth."""
        return clip * self.step, self.hessian_clip_for(clip) * self.step

    def noise_with(self, clip: float) -> Noise:
        """Return the noise of an answer where gradients are clipped to `clip`."""
        gradient, hessian = np.asarray(self.question.sigmas) * self.worth_of_steps(clip)
        return Noise(float(gradient), float(hessian), _SPREAD[self.task.target])

    def clip_for(self, rows: float) -> float:
        """Return what gradients are clipped to, given the released number of rows.

        For classes it grows slowly with the rows that a feature has, in deviations of the noise
        that all rounds together leave.
        """
        if self.settings.gradient_clip is not None:
            return self.settings.gradient_clip
        if self.task.target == "number":
            return _CLIP
        sigma = float(self.question.sigmas[0]) * self.step * len(self.encoder.domain.features)
        strength = rows * math.sqrt(self.settings.n_estimators) / max(sigma, 1e-300)
        grown = _CLIP * (strength / _STRENGTH) ** _GROWTH
        return float(min(max(grown, _NARROWEST), _WIDEST))

    def hessian_clip_for(self, clip: float) -> float:
        """Return what Hessians are clipped to: a third of the gradients' clip, for classes.

        Both sums then fall short alike. Gradients without and Hessians with a clip would make
        steps too long, and features that say the same would overshoot in turn.
        """
        if self.settings.hessian_clip is not None:
            return self.settings.hessian_clip
        return min(clip / 3, _MOST_BEND) if self.task.target == "classes" else 1.0

    def weight_of(self, rows: float, start: int, clip: float) -> float:
        """Return the sum of all Hessians, about, where scores begin."""
        if self.task.target == "number":
            return rows
        rate = 1 / (1 + math.exp(-start / SCORE_STEPS))
        return rows * min(rate * (1 - rate), self.hessian_clip_for(clip))

    def cells_for(self, weight: float, clip: float) -> int:
        """Return how many cells an answer has: so many that a typical effect stands out."""
        noise = self.noise_with(clip).gradient
        turns = self.settings.n_estimators / len(self.encoder.domain.features)
        typical = weight * _TYPICAL[self.task.target] * turns**0.25
        wanted = typical / max(_CLEAR * float(noise), 1e-300)
        return int(min(max(wanted, FEWEST_CELLS), MOST_CELLS))

    @property
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""
        return {"loss": self.task.loss, **listed(self.settings)}


def plan_privboost(
    encoder: Encoder,
    settings: PrivBoostSettings,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
) -> PrivBoostPlan:
    """Decide everything about a run, and calibrate its noise."""
    draft = Draft(encoder, weight_bound, budget, accountant)
    outputs, last, span = draft.task.n_outputs, settings.calibration_share, settings.span_share
    if last > 0 and draft.task.target == "number":
        raise ValueError("calibration_share must be 0 for a number: it has no probabilities")
    shares = (1 - settings.hessian_share, settings.hessian_share)
    init = initial_release(GaussianRelease, 1.0, draft.bound)
    question = GaussianRelease(
        "gradients and Hessians by cell of a feature", 1.0, cells=1, shares=shares, **draft.bound
    )
    scores = GaussianRelease("rows by score and class", 1.0, cells=1, shares=(1.0,), **draft.bound)
    made = draft.share(
        [
            ("span", plan_span(draft, span, GaussianRelease), span),
            ("init", Planned(init, outputs), settings.init_share),
            (
                "question",
                Planned(question, outputs * settings.n_estimators),
                1 - settings.init_share - last - span,
            ),
            ("scores", Planned(scores, outputs), last),
        ]
    )
    return PrivBoostPlan(
        **made.fields,
        settings=settings,
        init=made["init"],
        question=made["question"],
        scores=made.get("scores"),
    )
