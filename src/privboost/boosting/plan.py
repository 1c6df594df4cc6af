"""What is decided before data are touched: frozen, public, with a hash."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from privboost.boosting.checks import check_number
from privboost.compiling import compiled
from privboost.domain import ClassTarget, Domain
from privboost.encoding import Encoder
from privboost.grid import SCORE_UNITS, UNIT, WEIGHT_UNITS, Contribution
from privboost.losses import LOSSES, LossTable
from privboost.privacy.accountants.base import Accountant
from privboost.privacy.calibration import LEAST_DELTA
from privboost.privacy.events import Planned
from privboost.privacy.sum_events import GaussianRelease, LaplaceRelease


@dataclass(frozen=True)
class Budget:
    """What may be spent, and what of it is spent already."""

    epsilon: float
    delta: float
    before: tuple[Planned, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_number("epsilon", self.epsilon, above=0))
        delta = self.delta
        delta = 0.0 if delta == 0 else check_number("delta, if not 0,", delta, LEAST_DELTA, 1)
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

    def noise(self, hessian: np.ndarray, sigma: float, weight_bound: float | None) -> np.ndarray:
        """Return the standard deviation that noise alone gives to values, in score units.

        Parameters
        ----------
        hessian : array
            The released sums of Hessians, in grid units.
        sigma : float
            The standard deviation of the noise in a sum of gradients, in grid units.
        """
        unit = grid_unit(weight_bound)
        bend = np.maximum(hessian * (self.hessian_clip * unit), 0.0)
        alone = sigma * (self.gradient_clip * unit) / (bend + self.reg_lambda)
        return np.minimum(alone, self.leaf_clip) * (self.learning_rate * SCORE_UNITS)


def released_mass(sums: np.ndarray, weight_bound: float | None) -> np.ndarray:
    """Return what released Hessians or counts say of how many rows there are, in whole rows.

    A row counts for its Hessian in units of the clip, times its weight in units of its bound.
    Noise may leave less than 0, which is kept: so the mass of several leaves together is right.
    """
    row = UNIT if weight_bound is None else UNIT * WEIGHT_UNITS
    most = 2**31 - 1
    return np.clip(np.rint(sums / row), -most, most).astype(np.int32)


@compiled
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


@dataclass(frozen=True, eq=False)
class Plan(ABC):
    """Everything about a run that is decided before data are touched.

    Attributes
    ----------
    encoder : Encoder
        The domain and how it is coded.
    task : Task
        What is learned.
    contribution : Contribution
        What one protected unit may add.
    weight_bound : float or None
        The public bound of sample weights, if there are weights.
    budget : Budget
        What may be spent.
    accountant : Accountant
        Who computed the cost.
    releases : tuple of Planned
        What is reserved.
    """

    _hashed: ClassVar[tuple[str, ...]]
    """What is in the digest beside the domain and the releases."""

    encoder: Encoder
    task: Task
    contribution: Contribution
    weight_bound: float | None
    budget: Budget
    accountant: Accountant
    releases: tuple[Planned, ...]

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken to be public beside the domain."""
        return ()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that is in the plan."""
        return plan_digest(self, self._hashed)


@dataclass(frozen=True, eq=False)
class NewtonPlan(Plan):
    """The plan of a run with trees.

    Attributes
    ----------
    step : NewtonStep
        From sums to values.
    settings : dataclass
        The trees.
    init : GaussianRelease, LaplaceRelease or None
        The release of the initial score.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("task", "step", "settings", "contribution", "budget")

    step: NewtonStep
    settings: Any
    init: GaussianRelease | LaplaceRelease | None

    @property
    def loss(self) -> LossTable:
        """The loss, tabulated."""
        return self.task.table(self.step)

    @property
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""
        return {"loss": self.task.loss, **listed(self.settings), **asdict(self.step)}


def listed(settings: Any) -> dict[str, Any]:
    """Return settings as they stand in JSON."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }


def at_most_rows(limit: int) -> str:
    """Say up to which size of a table, a power of two, a guarantee is proved."""
    return f"the table has fewer than 2^{limit.bit_length() - 1} rows"


def contribution_of(domain: Domain, weight_bound: float | None) -> Contribution:
    """Return what one protected unit may add to a sum."""
    rows = 1 if domain.unit is None else domain.unit.max_rows
    return Contribution(weighted=weight_bound is not None, rows=rows)
