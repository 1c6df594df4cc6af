"""What recipes of trees share: parameters, Newton steps from released sums to leaf values, plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from privboost._core.checks import (
    LEAST_SHARE,
    LEAST_SIZE,
    MOST_SIZE,
    as_float,
    check_choice,
    check_number,
    check_share,
    check_size,
    is_number,
    keep_checked,
    shown,
)
from privboost._core.compilation import compiled
from privboost._core.grid import CLIP_STEPS, MAX_SCORE, SCORE_STEPS, WEIGHT_STEPS, Contribution
from privboost.accounting.calibration import LEAST_RATE
from privboost.accounting.noisy_sums import NoisySums
from privboost.losses.base import (
    Loss,
    LossTable,
    Pinball,
    loss_of,
    newton_losses,
    scaled_losses,
)
from privboost.mechanisms.curator import Curator
from privboost.models.trees import MarginScores, TreeScores
from privboost.recipes.common.corrections import calibrate
from privboost.recipes.common.initial_score import (
    noisy_row_count,
    publish_initial_scores,
    release_initial_scores,
)
from privboost.recipes.common.label_shares import shares_at_bounds
from privboost.recipes.common.own_scales import scale_kind
from privboost.recipes.common.parameters import Constraint, count, size
from privboost.recipes.common.plan import grid_step
from privboost.recipes.common.scale import Scale, ScaledPlan
from privboost.recipes.common.target_range import TargetRange
from privboost.trees.tree import MAX_DEPTH

SPANS = "Hessians by candidate span of every number"
"""Description of the release that split candidates follow."""

_MOST_OF_ROUNDS = MAX_SCORE - 8
"""Largest score without the initial one, which takes up to 8."""


def _check_derived(name: str, value: Any) -> float:
    """Return a size that may be a product of three others: a λ from noise, a decayed clip."""
    if is_number(value) and value <= 0:
        return check_number(name, value, above=0)
    return check_number(name, value, above=LEAST_SIZE**3, below=MOST_SIZE**3)


def _check_rate(name: str, value: Any) -> float:
    number = as_float(value)
    if not LEAST_RATE <= number <= 1:
        raise ValueError(
            f"{name} must lie between 0 and 1 (from {LEAST_RATE:g} on), or be 1; "
            f"{shown(value)} does not"
        )
    return number


def _check_shares(name: str, value: Any) -> tuple[float, ...]:
    """Return three shares of a budget that add up to 1, or raise; only the first may be 0."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 3:
        raise ValueError(
            f"{name} must be 3 numbers (for the sketch of candidates, the choice of splits, "
            f"and leaves); {shown(value)} is not"
        )
    first = check_share(f"the first of {name}", value[0], or_else=0)
    rest = (check_share(f"each of {name} but the first", part) for part in value[1:])
    parts = (first, *rest)
    if not math.isclose(sum(parts), 1.0, rel_tol=0, abs_tol=1e-9):
        raise ValueError(f"{name} must add up to 1; {shown(value)} add up to {sum(parts):g}")
    return parts


def _check_split_lambda(name: str, value: Any) -> float:
    """Return λ of the score of splits, or raise unless it is more than one grid step."""
    return check_number(name, value, above=1 / CLIP_STEPS, below=MOST_SIZE)


# Declarations: constraint and documentation of parameters that several recipes have.
STEP_SIZE = Constraint(_check_derived, "float")
"""λ, and the clip of a leaf."""
RATE = Constraint(_check_rate, "float")
"""Sampling rate of rows."""
SHARES = Constraint(_check_shares, "three floats that add up to 1")
TREES = (count(), "Trees (for each class beyond two classes).")
DEPTH = (count(most=MAX_DEPTH), f"Depth of the trees, at most {MAX_DEPTH}; they are complete.")
LEARNING_RATE = (size(), "Factor of each tree's values.")
GRADIENT_CLIP = (size(), "Bound of a row's gradient; a smaller clip means less noise.")
HESSIAN_CLIP = (size(), "Bound of a row's Hessian.")
SCALED_CLIP = (
    size(),
    f"{GRADIENT_CLIP[1]} Default {{}}; with a log link it is in parts of the mean label, and "
    "follows released counts by label; that of a quantile's loss is its largest gradient.",
)
LOSS_OF_NUMBERS = (
    'Of a number "squared", the default; "poisson", "gamma" and "tweedie" with a log link; '
    '"quantile" and "absolute": as in PrivBoost, with clips and counts by label of their own.'
)
LEAF_CLIP = (STEP_SIZE, "Bound of a tree's values (±), before the learning rate.")
CANDIDATES = (
    count(),
    "Split candidates of a number: at most 191, or as many as its given edges.",
)
SKETCH_BINS = (
    count(least=2),
    "Even intervals of a number in the sketch's histogram. By default the intervals between its "
    "candidates.",
)
SPLIT_LAMBDA = (
    Constraint(_check_split_lambda, "float"),
    "λ of the score by which splits are chosen, in rows.",
)


def loss_from(given: Mapping[str, Any], target: str, own_scale: bool = False) -> str:
    """Return the checked parameter `loss`; by default the logistic loss of classes.

    With `own_scale` also losses of a number that begin on a scale of their own are allowed.
    """
    default = "logistic" if target == "classes" else "squared"
    loss = default if given["loss"] is None else given["loss"]
    if isinstance(loss, str) and loss in scaled_losses(target) and not own_scale:
        raise ValueError(f'loss="{loss}" is for PrivBoost, S-BDT and DP-XGB, not for this recipe')
    known = newton_losses(target) + (scaled_losses(target) if own_scale else ())
    return check_choice("loss", loss, tuple(sorted(known)))


def scaled_clips(loss: Loss) -> tuple[float, float]:
    """Return clips of gradients and Hessians as a loss with a scale of its own may have them.

    The plan divides noise between both by them, before labels are released.
    """
    return (loss.largest_gradient, _SHARP) if isinstance(loss, Pinball) else _UNITS


def check_init_share(settings: Any, loss: Loss) -> None:
    """Refuse a loss whose scale needs an initial score to go without one."""
    if loss.own_scale and settings.init_share == 0:
        raise ValueError(f'init_share must be above 0 with loss="{loss.name}"')


OWN_CLIPS: dict[str, Any] = {"gradient_clip": None, "hessian_clip": None}
"""Defaults of clips where a loss has a scale of its own: they follow released labels."""

_UNITS = (4.0, 2.0)
"""Likely clips with a log link, in units of the mean label."""
_SHARP = 2.5
"""Likely largest Hessian of a quantile."""


def check_scores(most: float) -> None:
    """Refuse a model whose scores could leave the grid."""
    if most > _MOST_OF_ROUNDS:
        raise ValueError(
            "n_estimators * leaf_clip * learning_rate is too large: a row's score (the sum of its "
            f"rounds' values) could pass {MAX_SCORE}; lower one of them"
        )


def widest_clip(n_estimators: int, learning_rate: float) -> float:
    """Return the largest clip of a tree's values with which no score can leave the grid."""
    return _MOST_OF_ROUNDS * (1 - 1e-9) / (n_estimators * learning_rate)


def check_sampled_units(subsample: float, contribution: Contribution) -> None:
    """Refuse to sample the rows of units that have several."""
    if subsample < 1 and contribution.rows > 1:
        raise ValueError(
            "subsample below 1 needs a domain in which a unit has one row: a unit of several rows "
            "may be sampled in part, and no amplification is proved for that"
        )


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
    def of(
        cls,
        settings: Any,
        hessian_clip: float | None,
        typical_value: float,
        likely: tuple[float, float] = (1.0, 1.0),
    ) -> NewtonStep:
        """Return the step of a recipe's parameters, with a Hessian's clip that may be a count's.

        Without a Hessian's share it balances both errors of a value of the typical size; without
        λ it is 1 until `with_noise_lambda`. Clips that follow released labels are the `likely` ones
        until `NewtonPlan.on_scale`.
        """
        gradient_clip = settings.gradient_clip or likely[0]
        hessian_clip = hessian_clip or likely[1]
        share = settings.hessian_share
        if share is None:
            share = cls.balanced_share(gradient_clip, hessian_clip, typical_value)
        return cls(
            gradient_clip=gradient_clip,
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
        """Return the step whose λ is so many standard deviations of the noise; None keeps λ.

        `sigma` is the noise in a sum of Hessians, in grid steps; without noise λ stays as well.
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

    def curvature(self, hessian: np.ndarray, weight_bound: float | None) -> np.ndarray:
        """Return the denominators of values from released sums of Hessians in grid steps."""
        known = np.maximum(hessian * (self.hessian_clip * grid_step(weight_bound)), 0.0)
        found: np.ndarray = known + self.reg_lambda
        return found

    def noise(self, hessian: np.ndarray, sigma: float, weight_bound: float | None) -> np.ndarray:
        """Return the standard deviation of values due to noise alone, in score steps.

        `hessian` is released, and `sigma` the noise in a sum of gradients, both in grid steps.
        """
        size = grid_step(weight_bound)
        curvature = np.maximum(hessian * (self.hessian_clip * size), 0.0)
        noise = sigma * (self.gradient_clip * size) / (curvature + self.reg_lambda)
        return np.minimum(noise, self.leaf_clip) * (self.learning_rate * SCORE_STEPS)


NEWTON_STEP = tuple(each.name for each in fields(NewtonStep))
"""Parameters that a plan's Newton step holds."""

_SCALED = ("gradient_clip", "hessian_clip", "reg_lambda")
"""Those that follow released labels, where a loss has a scale of its own."""


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


@dataclass(frozen=True, eq=False)
class NewtonPlan(ScaledPlan):
    """Plan of a run with trees: Newton step, and the release of a tree's leaves."""

    _hashed: ClassVar[tuple[str, ...]] = ("task", "step", "settings", "contribution", "budget")

    step: NewtonStep
    leaf: NoisySums

    @property
    def loss(self) -> LossTable:
        """Tabulated loss."""
        return self.task.table(self.step.gradient_clip, self.step.hessian_clip)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters for reports."""
        step = asdict(self.step)
        if self.task.loss_instance.own_scale:  # where they follow released labels
            step |= {name: getattr(self.settings, name) for name in _SCALED}
        return {**self.task.loss_parameters, **self.settings.chosen(), **step}

    @property
    def n_measured(self) -> int:
        """Number of features."""
        return len(self.encoder.domain.features)

    @property
    def pooled_noise(self) -> float:
        """See `ScaledPlan.pooled_noise`: all trees together measure all rows."""
        noise = float(self.leaf.deviations[0]) * self.count_step
        return noise / math.sqrt(self.settings.n_estimators)

    def on_scale(self, scale: Scale) -> Self:
        """Return the plan with the clips of a scale, and the λ that follows their noise."""
        own = self.step.hessian_clip
        hessian_clip = scale.hessian_clip if self.sums_hessians else own
        step = replace(self.step, gradient_clip=scale.clip, hessian_clip=hessian_clip)
        if self.settings.reg_lambda is None:
            step = replace(step, reg_lambda=step.reg_lambda * hessian_clip / own)
        return replace(self, step=step)

    @property
    def sums_hessians(self) -> bool:
        """Whether leaves divide by sums of Hessians, not by counts of rows."""
        return True


AnyPlan = TypeVar("AnyPlan", bound=NewtonPlan)


def boost(
    curator: Curator,
    plan: AnyPlan,
    target_range: TargetRange,
    add: Callable[[AnyPlan, TreeScores], TreeScores],
    clip: float | None = None,
) -> TreeScores:
    """Return a model of trees: release where scores begin, `add` the trees, and correct them.

    A loss with a scale of its own has its clips from it; `clip` is that of a number's labels in the
    initial score of other losses.

    Privacy
    -------
    Spends the plan's releases of labels, of the initial score and of the correction, beside what
    `add` spends.
    """
    loss = plan.task.loss_instance
    if not loss.own_scale:
        model = add(plan, start_boosting(curator, plan, clip))
        model = calibrate(curator, plan, plan.calibration_release, model)
        shares = shares_at_bounds(target_range.labels, plan.encoder.domain.target)
        return model.with_label_shares(shares)
    scale = scale_kind(loss).begin(curator, plan, target_range)
    start = scale.start + np.int32(scale.zero)
    before = TreeScores.of(start, plan.encoder.layout.n_codes, scale.counted)
    model = scale.correct(curator, plan, add(plan.on_scale(scale), before))
    return model.with_label_shares(scale.label_shares)


def start_boosting(curator: Curator, plan: NewtonPlan, clip: float | None = None) -> TreeScores:
    """Release the initial score of each output and publish it; return a model of it alone.

    Privacy
    -------
    Spends `plan.init_release` once for each output; see `release_initial_scores` for the clip.
    """
    loss = loss_of(plan.task.target, plan.task.loss)
    start, rows = np.zeros(plan.task.n_outputs, dtype=np.int32), None
    if plan.init_release is not None:
        start, counts = release_initial_scores(curator, plan, plan.init_release, clip)
        rows = noisy_row_count(plan, plan.init_release, counts)
    publish_initial_scores(curator, plan.loss, start)
    kind = MarginScores if loss.target == "classes" and not loss.log_odds else TreeScores
    return kind.of(start, plan.encoder.layout.n_codes, rows)
