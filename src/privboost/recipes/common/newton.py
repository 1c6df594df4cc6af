"""Newton steps: from released sums of gradients and Hessians to leaf values.

Initial score of boosting: the released mean label, or zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from privboost._core.checks import (
    LEAST_SHARE,
    LEAST_SIZE,
    MOST_SIZE,
    check_number,
    check_share,
    check_size,
    is_number,
    keep_checked,
)
from privboost._core.compilation import compiled
from privboost._core.grid import CLIP_STEPS, SCORE_STEPS, WEIGHT_STEPS
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.engine.queries import GRADIENT_COUNT, TreeSums
from privboost.engine.updates import AddTreeValues, Start
from privboost.losses.base import LossTable, loss_of
from privboost.mechanisms.curator import Curator
from privboost.models.scores import pool_counts
from privboost.models.trees import MarginScores, TreeScores
from privboost.recipes.common.parameters import Constraint
from privboost.recipes.common.plan import Plan
from privboost.trees.tree import stump

SPANS = "Hessians by candidate span of every number"
"""Description of the release that split candidates follow."""


def _check_derived(name: str, value: Any) -> float:
    """Return a size that may be a product of three others: a λ from noise, a decayed clip."""
    if is_number(value) and value <= 0:
        return check_number(name, value, above=0)
    return check_number(name, value, above=LEAST_SIZE**3, below=MOST_SIZE**3)


STEP_SIZE = Constraint(_check_derived, "float")
"""Allowed values of λ and of the clip of a leaf."""


@dataclass(frozen=True)
class NewtonStep:
    """Leaf value v = −G / max(H + λ, λ) of released sums of gradients and Hessians.

    Parameters
    ----------
    gradient_clip, hessian_clip : float
        Bounds of one row's gradient and Hessian.
    hessian_share : float
        Share r₁ of the Hessian in a release; the gradient has the rest.
    reg_lambda : float
        λ.
    leaf_clip : float
        Bound of values (±), before the learning rate.
    learning_rate : float
        Factor of values.
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

    @classmethod
    def of(cls, settings: Any, hessian_clip: float, typical_value: float) -> NewtonStep:
        """Return the step of a recipe's parameters.

        Parameters
        ----------
        settings : Parameters
            Parameters of these names; without a Hessian's share it balances both errors, without
            λ it is 1 until `with_noise_lambda`.
        hessian_clip : float
            Bound of a row's Hessian, which may be a count.
        typical_value : float
            Typical size of a leaf's value: see `balanced_share`.
        """
        share = settings.hessian_share
        if share is None:
            share = cls.balanced_share(settings.gradient_clip, hessian_clip, typical_value)
        return cls(
            gradient_clip=settings.gradient_clip,
            hessian_clip=hessian_clip,
            hessian_share=share,
            reg_lambda=1.0 if settings.reg_lambda is None else settings.reg_lambda,
            leaf_clip=settings.leaf_clip,
            learning_rate=settings.learning_rate,
        )

    @staticmethod
    def balanced_share(gradient_clip: float, hessian_clip: float, typical_value: float) -> float:
        """Return the Hessian's share that balances both errors of a value: r₁ = v̄h*/(g* + v̄h*).

        v̄ is the typical size of a value: an error of the Hessian matters in proportion to it.

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
        """Shares of gradient and Hessian in a release."""
        return (1 - self.hessian_share, self.hessian_share)

    def with_noise_lambda(
        self, deviations: float | None, sigma: float, weight_bound: float | None
    ) -> NewtonStep:
        """Return the step whose λ follows the noise; the same step where λ is set, or none is.

        Parameters
        ----------
        deviations : float or None
            λ in standard deviations of the noise in a sum of Hessians; None keeps λ.
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
        """Return values on the score grid (int32) from released sums in grid steps."""
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
        """Return the standard deviation of values due to noise alone, in score steps.

        Parameters
        ----------
        hessian : array
            Released sums of Hessians, in grid steps.
        sigma : float
            Standard deviation of the noise in a sum of gradients, in grid steps.
        """
        size = grid_step(weight_bound)
        curvature = np.maximum(hessian * (self.hessian_clip * size), 0.0)
        noise = sigma * (self.gradient_clip * size) / (curvature + self.reg_lambda)
        return np.minimum(noise, self.leaf_clip) * (self.learning_rate * SCORE_STEPS)


NEWTON_STEP = tuple(each.name for each in fields(NewtonStep))
"""Parameters that a plan's Newton step holds."""


def noisy_mass(sums: np.ndarray, weight_bound: float | None) -> np.ndarray:
    """Return the noisy count of rows that released Hessians or counts imply, in whole rows.

    A row counts for its Hessian as a fraction of the clip, times its weight as a fraction of its
    bound. Noise may leave less than 0, which is kept: so sums over several leaves are unbiased.
    """
    row = CLIP_STEPS if weight_bound is None else CLIP_STEPS * WEIGHT_STEPS
    most = 2**31 - 1
    return np.clip(np.rint(sums / row), -most, most).astype(np.int32)


@compiled
def _newton_values(  # type: ignore[no-untyped-def]
    gradient, hessian, per_gradient, per_hessian, reg_lambda, clip, rate, out
):
    for k in range(out.size):
        curvature = max(hessian[k] * per_hessian, 0.0)
        step = -gradient[k] * per_gradient / (curvature + reg_lambda)
        out[k] = np.rint(min(max(step, -clip), clip) * rate)


def grid_step(weight_bound: float | None) -> float:
    """Return the value of one grid step of a sum, in clips and weights."""
    return 1 / CLIP_STEPS if weight_bound is None else weight_bound / (CLIP_STEPS * WEIGHT_STEPS)


@dataclass(frozen=True, eq=False)
class NewtonPlan(Plan):
    """Plan of a run with trees.

    Attributes
    ----------
    step : NewtonStep
        Newton step from sums to values.
    settings : Parameters
        Parameters of the recipe.
    init : GaussianRelease, LaplaceRelease or None
        Release of the initial score.
    scores : GaussianRelease, LaplaceRelease or None
        Release of counts by score and class, at the end.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("task", "step", "settings", "contribution", "budget")

    step: NewtonStep
    settings: Any
    init: GaussianRelease | LaplaceRelease | None
    scores: GaussianRelease | LaplaceRelease | None

    @property
    def loss(self) -> LossTable:
        """Tabulated loss."""
        return self.task.table(self.step.gradient_clip, self.step.hessian_clip)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters for reports."""
        return {"loss": self.task.loss, **self.settings.chosen(), **asdict(self.step)}


INIT_SHARES = (0.75, 0.25)
"""Shares of the sum of labels and of the count in the release of the initial score."""

_WHAT = "labels and their count, for the initial score"


def initial_release(
    kind: type[GaussianRelease] | type[LaplaceRelease],
    noise: float,
    bound: Mapping[str, Any],
    shares: tuple[float, float] = INIT_SHARES,
) -> GaussianRelease | LaplaceRelease:
    """Return the release of one output's initial score; `bound` is `Draft.bound`."""
    return kind(_WHAT, noise, cells=1, shares=shares, **bound)


def start_boosting(curator: Curator, plan: NewtonPlan, clip: float | None = None) -> TreeScores:
    """Release the initial score of each output and publish it; return a model of it alone.

    Privacy
    -------
    Spends `plan.init` once for each output; see `release_start` for the clip.
    """
    loss = loss_of(plan.task.target, plan.task.loss)
    start, rows = np.zeros(plan.task.n_outputs, dtype=np.int32), None
    if plan.init is not None:
        start, counts = release_start(curator, plan, plan.init, clip)
        rows = count_rows(plan, plan.init, counts)
    publish_start(curator, plan.loss, start)
    kind = MarginScores if loss.target == "classes" and not loss.log_odds else TreeScores
    return kind.of(start, plan.encoder.layout.n_codes, rows)


def release_start(
    curator: Curator,
    plan: Plan,
    init: GaussianRelease | LaplaceRelease,
    clip: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Release the mean label and the number of rows of each output.

    Parameters
    ----------
    init : GaussianRelease or LaplaceRelease
        Reserved release.
    clip : float, optional
        Bound of labels; by default the largest label. The sum is released in parts of it, so that
        one row adds at most one clip.

    Returns
    -------
    int32 array
        Initial scores, on the score grid.
    int64 array
        Noisy counts, in grid steps.

    Privacy
    -------
    Spends `init` once for each output.
    """
    outputs, loss = range(plan.task.n_outputs), loss_of(plan.task.target, plan.task.loss)
    clip = loss.start_clip if clip is None else clip
    curator.publish(Start(loss.table(clip, 1.0), len(outputs)))
    start = np.zeros(len(outputs), dtype=np.int32)
    counts = np.zeros(len(outputs), dtype=np.int64)
    for output in outputs:
        query = TreeSums((stump(),), output, GRADIENT_COUNT)
        total, counts[output] = curator.sums(query, init)[0, 0]
        mean = total / max(counts[output], plan.contribution.row_steps)
        score = loss.start(mean * (clip / loss.start_clip))
        start[output] = int(np.rint(score * SCORE_STEPS))
    return start, counts


def count_rows(
    plan: Plan, init: GaussianRelease | LaplaceRelease, counts: np.ndarray
) -> np.ndarray:
    """Return the noisy count of rows, and its deviation, in rows of the largest weight."""
    step = grid_step(None if plan.weight_bound is None else 1.0)
    return pool_counts(counts * step, float(init.deviations[1]) * step)


def publish_start(curator: Curator, loss: LossTable, start: np.ndarray) -> None:
    """Publish the loss of training and the initial scores."""
    curator.publish(Start(loss, len(start)))
    for output, score in enumerate(start):
        curator.publish(AddTreeValues((stump(),), score.reshape(1, 1), output))
