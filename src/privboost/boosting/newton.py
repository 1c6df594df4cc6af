"""The Newton step: from released sums of gradients and Hessians to values, and its plans."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from privboost.boosting.checks import (
    LEAST_SHARE,
    LEAST_SIZE,
    MOST_SIZE,
    check_number,
    check_share,
    check_size,
    is_number,
    keep_checked,
)
from privboost.boosting.plan import Plan, listed
from privboost.compiling import compiled
from privboost.grid import CLIP_STEPS, SCORE_STEPS, WEIGHT_STEPS
from privboost.losses import LossTable
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease

SPANS = "Hessians by candidate span of every number"
"""What is released for split candidates to follow, in words."""


def _check_derived(name: str, value: Any) -> float:
    """Return a size that may be a product of three others: λ of noise, a shrunken clip."""
    if is_number(value) and value <= 0:
        return check_number(name, value, above=0)
    return check_number(name, value, above=LEAST_SIZE**3, below=MOST_SIZE**3)


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
        keep_checked(
            self,
            gradient_clip=check_size,
            hessian_clip=check_size,
            hessian_share=check_share,
            reg_lambda=_check_derived,
            leaf_clip=_check_derived,
            learning_rate=check_size,
        )

    @staticmethod
    def balanced_share(gradient_clip: float, hessian_clip: float, typical_value: float) -> float:
        """Return the Hessian's share that balances both errors of a value: r₁ = v̄h*/(g* + v̄h*).

        v̄ is the typical size of a value: an error of the Hessian matters as much as the value is
        large.

        Raises
        ------
        ValueError
            If the clips are so far apart that one of them has next to no share.
        """
        share = typical_value * hessian_clip / (gradient_clip + typical_value * hessian_clip)
        if not LEAST_SHARE <= share <= 1 - LEAST_SHARE:
            raise ValueError(
                "gradient_clip and hessian_clip are too far apart for one noise: bring them "
                "nearer to each other, or give hessian_share"
            )
        return share

    @property
    def shares(self) -> tuple[float, float]:
        """The shares of gradient and Hessian in a release."""
        return (1 - self.hessian_share, self.hessian_share)

    def with_noise_lambda(
        self, deviations: float | None, sigma: float, weight_bound: float | None
    ) -> NewtonStep:
        """Return the step whose λ follows the noise; the same where it is given, or none is.

        Parameters
        ----------
        deviations : float or None
            λ in standard deviations of the noise in a sum of Hessians; None leaves λ as it is.
        sigma : float
            That standard deviation, in grid steps.
        """
        if deviations is None or sigma == 0:
            return self
        noise = sigma * self.hessian_clip * grid_step(weight_bound)
        return replace(self, reg_lambda=deviations * noise)

    def values(
        self, gradient: np.ndarray, hessian: np.ndarray, weight_bound: float | None
    ) -> np.ndarray:
        """Turn released sums, in grid steps, into values on the score grid (int32)."""
        size = grid_step(weight_bound)
        out = np.empty(gradient.shape, dtype=np.int32)
        _newton_values(
            np.ascontiguousarray(gradient, dtype=np.float64).reshape(-1),
            np.ascontiguousarray(hessian, dtype=np.float64).reshape(-1),
            self.gradient_clip * size,
            self.hessian_clip * size,
            self.reg_lambda,
            self.leaf_clip,
            self.learning_rate * SCORE_STEPS,
            out.reshape(-1),
        )
        return out

    def noise(self, hessian: np.ndarray, sigma: float, weight_bound: float | None) -> np.ndarray:
        """Return the standard deviation that noise alone gives to values, in score steps.

        Parameters
        ----------
        hessian : array
            The released sums of Hessians, in grid steps.
        sigma : float
            The standard deviation of the noise in a sum of gradients, in grid steps.
        """
        size = grid_step(weight_bound)
        bend = np.maximum(hessian * (self.hessian_clip * size), 0.0)
        alone = sigma * (self.gradient_clip * size) / (bend + self.reg_lambda)
        return np.minimum(alone, self.leaf_clip) * (self.learning_rate * SCORE_STEPS)


def released_mass(sums: np.ndarray, weight_bound: float | None) -> np.ndarray:
    """Return what released Hessians or counts say of how many rows there are, in whole rows.

    A row counts for its Hessian in parts of the clip, times its weight in parts of its bound.
    Noise may leave less than 0, which is kept: so the mass of several leaves together is right.
    """
    row = CLIP_STEPS if weight_bound is None else CLIP_STEPS * WEIGHT_STEPS
    most = 2**31 - 1
    return np.clip(np.rint(sums / row), -most, most).astype(np.int32)


@compiled
def _newton_values(  # type: ignore[no-untyped-def]
    gradient, hessian, per_gradient, per_hessian, reg_lambda, clip, rate, out
):
    for k in range(out.size):
        bend = max(hessian[k] * per_hessian, 0.0)
        step = -gradient[k] * per_gradient / (bend + reg_lambda)
        out[k] = np.rint(min(max(step, -clip), clip) * rate)


def grid_step(weight_bound: float | None) -> float:
    """Return what one step of a sum is worth, in clips and weights."""
    return 1 / CLIP_STEPS if weight_bound is None else weight_bound / (CLIP_STEPS * WEIGHT_STEPS)


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
    scores : GaussianRelease, LaplaceRelease or None
        The release of rows by score and class, at the end.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("task", "step", "settings", "contribution", "budget")

    step: NewtonStep
    settings: Any
    init: GaussianRelease | LaplaceRelease | None
    scores: GaussianRelease | LaplaceRelease | None

    @property
    def loss(self) -> LossTable:
        """The loss, tabulated."""
        return self.task.table(self.step.gradient_clip, self.step.hessian_clip)

    @property
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""
        return {"loss": self.task.loss, **listed(self.settings), **asdict(self.step)}
