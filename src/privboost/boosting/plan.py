"""What is decided before data are touched: frozen, public, with a hash."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numba import njit

from privboost.domain import ClassTarget, Domain
from privboost.encoding import Encoder
from privboost.grid import MAX_SCORE, MAX_SIGMA, SCORE_UNITS, UNIT, WEIGHT_UNITS, Contribution
from privboost.losses import LOSSES, LossTable
from privboost.privacy.accountants.base import Accountant
from privboost.privacy.accountants.choice import choose_accountant
from privboost.privacy.calibration import calibrate
from privboost.privacy.events import GaussianRelease, LaplaceRelease, Planned


@dataclass(frozen=True)
class Budget:
    """What may be spent, and what of it is spent already."""

    epsilon: float
    delta: float
    before: tuple[Planned, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_number("epsilon", self.epsilon, above=0))
        delta = 0.0 if self.delta == 0 else check_number("delta", self.delta, above=0, below=1)
        object.__setattr__(self, "delta", delta)


@dataclass(frozen=True)
class NewtonStep:
    """How released sums of gradients and Hessians become values: v = −G / max(H + λ, λ).

    Parameters
    ----------
    gradient_clip, hessian_clip : float
        What one row's gradient and Hessian are clipped to.
    hessian_share : float
        The share r₁ of the Hessian in a release; the gradient has the rest.
    reg_lambda : float
        λ.
    leaf_clip : float
        Values are clipped to ± this, before the learning rate.
    learning_rate : float
        What values are multiplied by.
    """

    gradient_clip: float
    hessian_clip: float
    hessian_share: float
    reg_lambda: float
    leaf_clip: float
    learning_rate: float

    def __post_init__(self) -> None:
        for name in ("gradient_clip", "hessian_clip", "reg_lambda", "leaf_clip", "learning_rate"):
            object.__setattr__(self, name, check_number(name, getattr(self, name), above=0))
        share = check_number("hessian_share", self.hessian_share, above=0, below=1)
        object.__setattr__(self, "hessian_share", share)

    @staticmethod
    def balanced_share(gradient_clip: float, hessian_clip: float, typical_value: float) -> float:
        """Return the Hessian's share that balances both errors of a value: r₁ = v̄h*/(g* + v̄h*).

        v̄ is the typical size of a value: an error of the Hessian matters as much as the value is
        large.
        """
        return typical_value * hessian_clip / (gradient_clip + typical_value * hessian_clip)

    @property
    def shares(self) -> tuple[float, float]:
        """The shares of gradient and Hessian in a release."""
        return (1 - self.hessian_share, self.hessian_share)

    def values(
        self, gradient: np.ndarray, hessian: np.ndarray, weight_bound: float | None
    ) -> np.ndarray:
        """Turn released sums, in grid units, into values on the score grid (int32)."""
        unit = grid_unit(weight_bound)
        out = np.empty(gradient.shape, dtype=np.int32)
        _newton_values(
            np.ascontiguousarray(gradient, dtype=np.float64).reshape(-1),
            np.ascontiguousarray(hessian, dtype=np.float64).reshape(-1),
            self.gradient_clip * unit,
            self.hessian_clip * unit,
            self.reg_lambda,
            self.leaf_clip,
            self.learning_rate * SCORE_UNITS,
            out.reshape(-1),
        )
        return out


@njit(cache=True)
def _newton_values(gradient, hessian, per_gradient, per_hessian, reg_lambda, clip, rate, out):
    for k in range(out.size):
        bend = max(hessian[k] * per_hessian, 0.0)
        step = -gradient[k] * per_gradient / (bend + reg_lambda)
        out[k] = np.rint(min(max(step, -clip), clip) * rate)


def grid_unit(weight_bound: float | None) -> float:
    """Return what one grid unit of a sum is worth, in clips and weights."""
    return 1 / UNIT if weight_bound is None else weight_bound / (UNIT * WEIGHT_UNITS)


@dataclass(frozen=True)
class Task:
    """What is learned: the loss and how many outputs it has."""

    loss: str
    n_outputs: int

    @classmethod
    def of(cls, target: Any) -> Task:
        """Return the task of a target: a class (one-vs-rest beyond two), or a number."""
        if isinstance(target, ClassTarget):
            return cls("logistic", 1 if len(target.classes) == 2 else len(target.classes))
        return cls("squared", 1)

    def table(self, step: NewtonStep) -> LossTable:
        """Tabulate the loss for a step's clips."""
        return LOSSES[self.loss](step.gradient_clip, step.hessian_clip)


@dataclass(frozen=True, eq=False)
class HistogramPlan:
    """The plan of cyclical histogram boosting.

    Attributes
    ----------
    encoder : Encoder
        The domain and how it is coded.
    task : Task
        The loss.
    step : NewtonStep
        From sums to values.
    n_estimators : int
        Rounds for each output.
    max_bins : int
        Bins of a numeric feature.
    contribution : Contribution
        What one protected unit may add.
    weight_bound : float or None
        The public bound of sample weights, if there are weights.
    budget : Budget
        What may be spent.
    releases : tuple of Planned
        For each feature the release of its histogram, calibrated.
    accountant : Accountant
        Who computed their cost.
    """

    encoder: Encoder
    task: Task
    step: NewtonStep
    n_estimators: int
    max_bins: int
    contribution: Contribution
    weight_bound: float | None
    budget: Budget
    releases: tuple[Planned, ...]
    accountant: Accountant

    def release(self, feature: int) -> GaussianRelease:
        """Return the release of a feature's histogram."""
        event = self.releases[feature].event
        assert isinstance(event, GaussianRelease)
        return event

    @property
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""
        chosen = {"loss": self.task.loss, "n_estimators": self.n_estimators}
        return chosen | {"max_bins": self.max_bins, **asdict(self.step)}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that is in the plan."""
        return plan_digest(
            self, ("task", "step", "contribution", "budget", "n_estimators", "max_bins")
        )


def plan_histograms(
    encoder: Encoder,
    step: NewtonStep,
    n_estimators: int,
    max_bins: int,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
) -> HistogramPlan:
    """Decide everything about a run of cyclical histogram boosting, and calibrate its noise."""
    n_estimators = check_count("n_estimators", n_estimators, least=1)
    max_bins = check_count("max_bins", max_bins, least=2)
    check_scores(n_estimators * step.leaf_clip * step.learning_rate)
    domain = encoder.domain
    task = Task.of(domain.target)
    contribution = contribution_of(domain, weight_bound)
    features = len(domain.features)
    wanted = [
        Planned(
            GaussianRelease(
                what=f"gradients and Hessians by bin of feature {name!r}",
                noise=1.0,
                units=contribution.row_units * contribution.rows,
                cells=1,
                rows=contribution.rows,
                shares=step.shares,
            ),
            count=task.n_outputs * len(range(k, n_estimators, features)),
        )
        for k, name in enumerate(domain.feature_names)
    ]
    made = [planned for planned in wanted if planned.count]
    chosen = choose_accountant(accountant, [*budget.before, *made], budget.delta)
    plan = HistogramPlan(
        encoder,
        task,
        step,
        n_estimators,
        max_bins,
        contribution,
        weight_bound,
        budget,
        calibrate(made, budget.epsilon, budget.delta, chosen, budget.before),
        chosen,
    )
    check_grid(plan.release(k) for k in range(len(made)))
    return plan


INIT_SHARES = (0.75, 0.25)
"""How the initial score's release is shared between the sum of labels and the count."""


def plan_digest(plan: Any, parts: Sequence[str]) -> str:
    """Return SHA-256 of a plan: its domain, edges and releases, and the named parts."""
    form: dict[str, Any] = {
        "domain": plan.encoder.domain.to_dict(),
        "edges": [edges.tolist() for edges in plan.encoder.edges],
        "releases": [asdict(planned) for planned in plan.releases],
        "weight_bound": plan.weight_bound,
    }
    for part in parts:
        value = getattr(plan, part)
        form[part] = asdict(value) if is_dataclass(value) else value  # type: ignore[arg-type]
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()


class PlanWithStart(Protocol):
    """What a recipe of trees needs of a plan to begin boosting."""

    @property
    def encoder(self) -> Encoder: ...  # noqa: D102
    @property
    def task(self) -> Task: ...  # noqa: D102
    @property
    def loss(self) -> LossTable: ...  # noqa: D102
    @property
    def contribution(self) -> Contribution: ...  # noqa: D102
    @property
    def init(self) -> GaussianRelease | LaplaceRelease | None: ...  # noqa: D102


def contribution_of(domain: Domain, weight_bound: float | None) -> Contribution:
    """Return what one protected unit may add to a sum."""
    rows = 1 if domain.unit is None else domain.unit.max_rows
    return Contribution(weighted=weight_bound is not None, rows=rows)


def check_scores(most: float) -> None:
    """Refuse a model whose scores could leave the grid."""
    if most > MAX_SCORE - 8:  # an initial score takes up to 8
        raise ValueError(
            "n_estimators * leaf_clip * learning_rate is too large: a row's score (the sum of its "
            f"rounds' values) could pass {MAX_SCORE}; lower one of them"
        )


def check_shares(name: str, value: Any, count: int) -> tuple[float, ...]:
    """Return parts of a budget that add up to 1, of which only the first may be 0, or raise."""
    fine = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == count
    if not fine:
        raise ValueError(
            f"{name} must be {count} numbers (for the sketch of candidates, the choice of splits, "
            f"and leaves); {value!r} is not"
        )
    first = (
        0.0 if value[0] == 0 else check_number(f"the first of {name}, if not 0,", value[0], above=0)
    )
    rest = (check_number(f"each of {name} but the first", part, above=0) for part in value[1:])
    parts = (first, *rest)
    if not math.isclose(sum(parts), 1.0, rel_tol=0, abs_tol=1e-9):
        raise ValueError(f"{name} must add up to 1; {value!r} add up to {sum(parts):g}")
    return parts


def check_grid(events: Iterable[Any]) -> None:
    """Refuse noise that does not fit the integer grid."""
    for event in events:
        scales = event.scales if isinstance(event, LaplaceRelease) else event.sigmas
        if not (scales.min() >= 1 and scales.max() <= MAX_SIGMA):
            raise ValueError(
                "epsilon, or a share of it, is too small or too large: the noise of "
                f"{event.what!r} would not fit the integer grid"
            )


def check_choice(name: str, value: Any, choices: tuple[str, ...], *others: str) -> str:
    """Return a parameter that is one of a few words, or raise; `others` may be given instead."""
    if value not in choices:
        listed = " or ".join([*(f'"{choice}"' for choice in choices), *others])
        raise ValueError(f"{name} must be {listed}; {value!r} is not")
    return str(value)


def check_part(name: str, value: Any, or_else: int) -> float:
    """Return a parameter that lies strictly between 0 and 1, or is the one of them allowed."""
    fine = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not fine or not (0 < value < 1 or value == or_else):
        raise ValueError(f"{name} must lie between 0 and 1, or be {or_else}; {value!r} does not")
    return float(value)


def check_number(name: str, value: Any, above: float = -math.inf, below: float = math.inf) -> float:
    """Return a parameter as a float, or raise unless it is a number strictly between two others."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not above < value < below:
        limits = [f"above {above:g}"] if above > -math.inf else []
        limits += [f"below {below:g}"] if below < math.inf else []
        raise ValueError(f"{name} must be a finite number {' and '.join(limits)}; {value!r} is not")
    return float(value)


def check_count(name: str, value: Any, least: int) -> int:
    """Return a parameter as an int, or raise unless it is a whole number of at least `least`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; {value!r} is not")
    return int(value)
