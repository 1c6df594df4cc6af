"""The plan of boosted linear models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from privboost.boosting.adassp_terms import Design
from privboost.boosting.calibrated import check_calibration, counts_release
from privboost.boosting.checks import (
    LEAST_SHARE,
    check_choice,
    check_count,
    check_flag,
    check_part,
    check_share,
    check_size,
    is_number,
    keep_checked,
    shown,
)
from privboost.boosting.draft import Draft, Shared
from privboost.boosting.plan import PUBLIC_CLASS_WEIGHTS, Budget, Plan, at_most_rows, listed
from privboost.boosting.target_span import plan_span
from privboost.engine.queries import Bound, GramSums, LinearSums
from privboost.grid import FACTOR_STEPS, VECTOR_STEPS
from privboost.losses import Loss, loss_of, losses_of
from privboost.privacy.eigenvalues import EIGENVALUE_ROWS, eigenvalue_bound
from privboost.privacy.events.event import Planned
from privboost.privacy.events.sums import GaussianRelease, GramRelease, VectorRelease
from privboost.tables.encoding import Encoder

COUNT_SHARE = 0.02
"""The share of the budget, on μ², that the counts of classes take where they are released."""
TWO_CLASSES = (
    "class_weight needs two classes: beyond them all classes share one matrix; public weights can "
    "be given row by row, as sample_weight"
)
_LARGE = 1e6
"""Beyond this a step or a clip means nothing."""
_MOST_STAGES = 2**25
"""Coefficients of all stages together: 128 MiB."""


@dataclass(frozen=True)
class AdaSSPSettings:
    """How a linear model is boosted.

    Parameters
    ----------
    loss : str
        What is minimised: the name of a loss of the target.
    n_estimators : int
        Rounds.
    learning_rate : float
        What each round's step is multiplied by.
    ratio : three numbers
        a : b : c, how μ is divided between the matrix, the gradients of all rounds, and the
        smallest eigenvalue; c may be 0.
    gradient_clip : float
        What a row's gradient is clipped to in the first round.
    clip_decay : float
        What the clip is multiplied by after each round.
    tail : float
        The last part of the rounds whose coefficients are averaged; 0 for the last round alone.
    class_weight : "balanced", pair of float, or None
        Whether classes are weighted by their released counts, or by public weights.
    ridge : "adassp", float, or None
        λ: by AdaSSP's own rule, set by hand (in rows), or as the noise wants it.
    keep_stages : bool
        Whether the model keeps its coefficients after each round.
    calibration_share : float
        What the counts of rows by score and class have of μ².
    span_share : float
        What finding a number's span has of μ².
    """

    loss: str
    n_estimators: int
    learning_rate: float
    ratio: tuple[float, float, float]
    gradient_clip: float
    clip_decay: float
    tail: float
    class_weight: str | tuple[float, float] | None
    ridge: str | float | None = None
    keep_stages: bool = False
    calibration_share: float = 0.0
    span_share: float = 0.0

    def __post_init__(self) -> None:
        keep_checked(
            self,
            loss=partial(check_choice, choices=losses_of("classes")),
            n_estimators=check_count,
            learning_rate=partial(check_size, below=_LARGE),
            ratio=_check_ratio,
            gradient_clip=partial(check_size, below=_LARGE),
            clip_decay=partial(check_part, or_else=1),
            tail=partial(check_part, or_else=0),
            class_weight=_check_class_weight,
            ridge=_check_ridge,
            keep_stages=check_flag,
            calibration_share=partial(check_share, or_else=0),
            span_share=partial(check_share, or_else=0),
        )
        _check_eigenvalue(self.ridge, self.ratio[2])
        if self.clip_decay ** (self.n_estimators - 1) < 2.0**-10:
            raise ValueError("clip_decay is too small for so many rounds: the clip would vanish")

    @property
    def balanced(self) -> bool:
        """Whether the counts of classes are released."""
        return self.class_weight == "balanced"

    def clip(self, round_: int) -> float:
        """Return what gradients are clipped to in a round."""
        return self.gradient_clip * self.clip_decay**round_


def _check_ratio(name: str, ratio: Any) -> tuple[float, float, float]:
    if not (isinstance(ratio, Sequence) and not isinstance(ratio, str) and len(ratio) == 3):
        raise ValueError(f"{name} must be three numbers a : b : c; {shown(ratio)} is not")
    matrix = check_size(f"the first of {name}", ratio[0])
    gradients = check_size(f"the second of {name}", ratio[1])
    none = is_number(ratio[2]) and ratio[2] == 0
    least = 0.0 if none else check_size(f"the last of {name}, if not 0,", ratio[2])
    parts = (matrix, gradients, least)
    if min(part for part in parts if part) ** 2 < LEAST_SHARE * sum(part**2 for part in parts):
        raise ValueError(f"{name}: its numbers are too far apart; one has next to no budget")
    return parts


def _check_class_weight(name: str, weight: Any) -> str | tuple[float, float] | None:
    """Return "balanced", none, or the weights of two classes, or raise."""
    if weight is None:
        return None
    if not isinstance(weight, tuple):
        return check_choice(name, weight, ("balanced",), "a dict", "None")
    first, second = (check_size(f"each of {name}", part) for part in weight)
    if min(first, second) * FACTOR_STEPS < max(first, second):
        raise ValueError(
            f"{name}: beside the other, one class would weigh nothing; its weight must be at least "
            f"1/{FACTOR_STEPS} of the other's"
        )
    return first, second


def _check_ridge(name: str, ridge: Any) -> str | float | None:
    """Return λ, or the word for a rule, or none, or raise."""
    if ridge is None:
        return None
    if not is_number(ridge):
        return check_choice(name, ridge, ("adassp",), "a number", "None")
    return 0.0 if ridge == 0 else check_size(name, ridge)


def _check_eigenvalue(ridge: str | float | None, least_share: float) -> None:
    """Refuse a rule without what it looks at, and to pay for what nothing looks at."""
    if ridge == "adassp" and not least_share:
        raise ValueError(
            "ridge: AdaSSP's rule looks at the smallest eigenvalue, which is released only where "
            "the last of ratio is above 0"
        )
    if isinstance(ridge, float) and least_share:
        raise ValueError(
            "ratio: its last number must be 0 where ridge is set by hand: nothing would look at "
            "the smallest eigenvalue"
        )


@dataclass(frozen=True, eq=False)
class AdaSSPPlan(Plan):
    """The plan of a boosted linear model.

    Attributes
    ----------
    settings : AdaSSPSettings
        The rounds.
    design : Design
        From codes to coordinates.
    gram, gradients, least, counts, scores : events
        The releases of the matrix, of a round, of the smallest eigenvalue, of class counts and of
        rows by score and class; the last three may be None.
    """

    _hashed: ClassVar[tuple[str, ...]] = (
        "task",
        "settings",
        "contribution",
        "budget",
        "parameters",
    )

    settings: AdaSSPSettings
    design: Design
    gram: GramRelease
    gradients: VectorRelease
    least: VectorRelease | None
    counts: GaussianRelease | None
    scores: GaussianRelease | None

    @property
    def loss(self) -> Loss:
        """What is minimised."""
        return loss_of(self.task.target, self.settings.loss)

    @property
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""
        return listed(self.settings) | {
            "coordinates": self.design.terms.n_coordinates,
            **self.design.choices,
        }

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the released eigenvalue rests on, and weights that were given."""
        rows = () if self.least is None else (at_most_rows(EIGENVALUE_ROWS),)
        given = isinstance(self.settings.class_weight, tuple)
        return (*rows, PUBLIC_CLASS_WEIGHTS) if given else rows


def plan_adassp(
    encoder: Encoder,
    settings: AdaSSPSettings,
    coordinates: Design,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
) -> AdaSSPPlan:
    """Decide everything about a run of a boosted linear model, and calibrate its noise."""
    draft = Draft(encoder, weight_bound, budget, accountant)
    if settings.class_weight is not None and draft.task.n_outputs > 1:
        raise ValueError(TWO_CLASSES)
    _check_calibration(settings, draft, coordinates)
    stages = settings.n_estimators * draft.task.n_outputs * coordinates.terms.n_coordinates
    if settings.keep_stages and stages > _MOST_STAGES:
        raise ValueError("keep_stages: the stages would be too large; lower n_estimators")
    made = draft.share(_wanted(draft, settings, coordinates))
    return AdaSSPPlan(
        **made.fields,
        settings=settings,
        design=coordinates,
        gram=made["gram"],
        gradients=made["gradients"],
        least=made.get("least"),
        counts=made.get("counts"),
        scores=made.get("scores"),
    )


def _check_calibration(settings: AdaSSPSettings, draft: Draft, coordinates: Design) -> None:
    """Refuse counts by score where no line could follow from them."""
    check_calibration(settings.calibration_share, draft.task.target, settings.loss)
    if settings.calibration_share == 0:
        return
    if settings.class_weight is not None:
        raise ValueError(
            "calibration_share must be 0 with class_weight, which moves scores on purpose"
        )
    if not coordinates.has_intercept:
        raise ValueError("calibration_share needs an intercept: a shift has no other place")


def _wanted(draft: Draft, settings: AdaSSPSettings, coordinates: Design) -> list[Shared]:
    """List the releases, each with its share of μ²."""
    products = GramSums.of(coordinates.terms, np.full(2, VECTOR_STEPS))
    moved = products.bound(draft.contribution)
    gram = GramRelease("products of all pairs of coordinates", 1.0, **_as_vector(moved))
    moved = LinearSums.of(coordinates.terms).bound(draft.contribution)
    gradients = VectorRelease("gradients times coordinates", 1.0, **_as_vector(moved))
    moved = eigenvalue_bound(products, draft.contribution)
    least = VectorRelease("the smallest eigenvalue", 1.0, **_as_vector(moved))
    counts = GaussianRelease("rows of each class", 1.0, cells=1, shares=(0.5, 0.5), **draft.bound)
    matrix_share, rounds_share, least_share = (part**2 for part in settings.ratio)
    rounds = settings.n_estimators * draft.task.n_outputs
    total = matrix_share + rounds_share + least_share
    count_share = total * COUNT_SHARE / (1 - COUNT_SHARE) if settings.balanced else 0.0
    last = settings.calibration_share
    scores = Planned(counts_release(GaussianRelease, draft.bound), draft.task.n_outputs)
    span = settings.span_share
    return [
        ("span", plan_span(draft, span, GaussianRelease), total * span / (1 - span)),
        ("gram", Planned(gram, 1), matrix_share),
        ("gradients", Planned(gradients, rounds), rounds_share),
        ("least", Planned(least, 1), least_share),
        ("counts", Planned(counts, 1), count_share),
        ("scores", scores, (total + count_share) * last / (1 - last)),
    ]


def _as_vector(moved: Bound) -> dict[str, Any]:
    """Return what the event of a vector says about how far one protected unit moves it."""
    return {
        "steps": moved.steps,
        "cells": moved.cells,
        "rows": moved.rows,
        "shares": (1.0,),
        "coordinates": moved.coordinates,
    }
