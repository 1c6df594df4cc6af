"""The plan of boosted linear models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from privboost.boosting.checks import (
    check_choice,
    check_count,
    check_grid,
    check_number,
    check_part,
)
from privboost.boosting.linear_terms import Design
from privboost.boosting.plan import Budget, Plan, Task, at_most_rows, contribution_of, listed
from privboost.encoding import Encoder
from privboost.grid import GRADIENT_UNITS, LINEAR_UNITS, Contribution
from privboost.privacy.accountants.choice import choose_accountant
from privboost.privacy.calibration import by_shares, calibrate
from privboost.privacy.events import Planned
from privboost.privacy.mechanisms import EIGENVALUE_ROWS, EIGENVALUE_UNITS
from privboost.privacy.sum_events import GaussianRelease, GramRelease, VectorRelease

COUNT_SHARE = 0.02
"""The share of the budget, on μ², that the counts of classes take where they are released."""
_LARGE = 1e6
"""Beyond this a step or a clip means nothing."""
CLASS_LOSSES = ("logistic", "hinge", "squared")


@dataclass(frozen=True)
class LinearSettings:
    """How a linear model is boosted.

    Parameters
    ----------
    loss : {"logistic", "hinge", "squared"}
        What is minimised.
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
    """

    loss: str
    n_estimators: int
    learning_rate: float
    ratio: tuple[float, float, float]
    gradient_clip: float
    clip_decay: float
    tail: float
    class_weight: str | tuple[float, float] | None

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, CLASS_LOSSES)
        object.__setattr__(self, "n_estimators", check_count("n_estimators", self.n_estimators, 1))
        for name in ("learning_rate", "gradient_clip"):
            number = check_number(name, getattr(self, name), above=0, below=_LARGE)
            object.__setattr__(self, name, number)
        decay = check_part("clip_decay", self.clip_decay, or_else=1)
        object.__setattr__(self, "clip_decay", decay)
        if decay ** (self.n_estimators - 1) < 2.0**-10:
            raise ValueError("clip_decay is too small for so many rounds: the clip would vanish")
        object.__setattr__(self, "tail", check_part("tail", self.tail, or_else=0))
        object.__setattr__(self, "ratio", _check_ratio(self.ratio))
        if self.class_weight is not None and not isinstance(self.class_weight, tuple):
            check_choice("class_weight", self.class_weight, ("balanced",), "a dict", "None")

    @property
    def balanced(self) -> bool:
        """Whether the counts of classes are released."""
        return self.class_weight == "balanced"

    def clip(self, round_: int) -> float:
        """Return what gradients are clipped to in a round."""
        return self.gradient_clip * self.clip_decay**round_


def _check_ratio(ratio: Any) -> tuple[float, float, float]:
    if not (isinstance(ratio, Sequence) and not isinstance(ratio, str) and len(ratio) == 3):
        raise ValueError(f"ratio must be three numbers a : b : c; {ratio!r} is not")
    matrix = check_number("the first of ratio", ratio[0], above=0)
    gradients = check_number("the second of ratio", ratio[1], above=0)
    least = 0.0 if ratio[2] == 0 else check_number("the last of ratio, if not 0,", ratio[2], 0)
    return matrix, gradients, least


@dataclass(frozen=True, eq=False)
class LinearPlan(Plan):
    """The plan of a boosted linear model.

    Attributes
    ----------
    settings : LinearSettings
        The rounds.
    design : Design
        From codes to columns.
    gram, gradients, least, counts : events
        The releases of the matrix, of a round, of the smallest eigenvalue and of class counts; the
        last two may be None.
    """

    _hashed: ClassVar[tuple[str, ...]] = (
        "task",
        "settings",
        "contribution",
        "budget",
        "parameters",
    )

    settings: LinearSettings
    design: Design
    gram: GramRelease
    gradients: VectorRelease
    least: VectorRelease | None
    counts: GaussianRelease | None

    @property
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""
        return listed(self.settings) | {
            "columns": self.design.terms.n_columns,
            **self.design.choices,
        }

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the released eigenvalue rests on."""
        return () if self.least is None else (at_most_rows(EIGENVALUE_ROWS),)


def plan_linear(
    encoder: Encoder,
    settings: LinearSettings,
    columns: Design,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
) -> LinearPlan:
    """Decide everything about a run of a boosted linear model, and calibrate its noise."""
    task = Task.of(encoder.domain.target)
    if settings.class_weight is not None and task.n_outputs > 1:
        raise ValueError("class_weight needs two classes: beyond them all classes share one matrix")
    contribution = contribution_of(encoder.domain, weight_bound)
    wanted = _wanted(task, settings, columns, contribution)
    shared = by_shares(list(wanted.values()))
    chosen = choose_accountant(accountant, [*budget.before, *shared], budget.delta)
    made = calibrate(shared, budget.epsilon, budget.delta, chosen, budget.before)
    events: dict[str, Any] = {
        name: planned.event for name, planned in zip(wanted, made, strict=True)
    }
    check_grid(events.values())
    return LinearPlan(
        encoder=encoder,
        task=task,
        settings=settings,
        design=columns,
        contribution=contribution,
        weight_bound=weight_bound,
        budget=budget,
        accountant=chosen,
        releases=made,
        gram=events["gram"],
        gradients=events["gradients"],
        least=events.get("least"),
        counts=events.get("counts"),
    )


def _wanted(
    task: Task, settings: LinearSettings, columns: Design, contribution: Contribution
) -> dict[str, tuple[Planned, float]]:
    """List the releases by name, each with its share of μ²."""
    rows, terms = contribution.rows, len(columns.terms.features)
    one: dict[str, Any] = {"cells": 1, "rows": rows, "shares": (1.0,)}
    matrix, rounds, least = (part**2 for part in settings.ratio)
    gram = GramRelease(
        "products of all pairs of columns",
        1.0,
        units=LINEAR_UNITS**2 * rows,
        coordinates=terms * (terms + 1) // 2,
        **one,
    )
    gradients = VectorRelease(
        "gradients times columns",
        1.0,
        units=GRADIENT_UNITS * LINEAR_UNITS * rows,
        coordinates=terms,
        **one,
    )
    wanted: dict[str, tuple[Planned, float]] = {
        "gram": (Planned(gram, 1), matrix),
        "gradients": (Planned(gradients, settings.n_estimators * task.n_outputs), rounds),
    }
    if least:
        units = (LINEAR_UNITS**2 + EIGENVALUE_UNITS * columns.terms.n_columns) * rows
        event = VectorRelease("the smallest eigenvalue", 1.0, units=units, coordinates=1, **one)
        wanted["least"] = (Planned(event, 1), least)
    if settings.balanced:
        total = sum(share for _, share in wanted.values())
        count = GaussianRelease(
            "rows of each class",
            1.0,
            units=contribution.row_units * rows,
            cells=1,
            rows=rows,
            shares=(0.5, 0.5),
        )
        wanted["counts"] = (Planned(count, 1), total * COUNT_SHARE / (1 - COUNT_SHARE))
    return wanted
