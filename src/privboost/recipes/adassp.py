"""BoostedAdaSSP: a linear model boosted from noisy sufficient statistics.

XᵀX is released once, and gives the shape of every step; each round releases Xᵀg for the gradients
g at the rows' scores so far, and takes a ridge step. Where the noise is larger than the signal, the
ridge follows it: the smallest eigenvalue becomes that of pure noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from privboost._core.checks import LEAST_SHARE, check_choice, check_size, is_number, shown
from privboost._core.grid import FACTOR_STEPS, MAX_SCORE, SCORE_STEPS, VECTOR_STEPS
from privboost._core.progress import Track
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import GaussianRelease, GramRelease, VectorRelease
from privboost.data.encoding import Encoder
from privboost.engine.queries import GRADIENT_COUNT, GramSums, LinearSums, TreeSums
from privboost.engine.updates import SetLinearScores, SetTerms, Start, UseLoss
from privboost.losses.base import Loss, class_indicator, loss_of, losses_of
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.sensitivity import EIGENVALUE_ROWS, eigenvalue_bound
from privboost.models.linear import LinearScores
from privboost.models.scores import pool_counts
from privboost.recipes.common.candidates import check_bins
from privboost.recipes.common.coordinates import Design, design
from privboost.recipes.common.corrections import (
    UNKNOWN_CLIP,
    fit_correction,
    last_release,
    release_residuals,
)
from privboost.recipes.common.parameters import (
    BY_TASK,
    FLAG,
    SPAN_SHARE,
    Constraint,
    Parameters,
    count,
    options,
    parameter,
    part,
    share,
    size,
)
from privboost.recipes.common.plan import Budget, Plan, PlanBasis, ReleaseShare, Task
from privboost.recipes.common.probability_calibration import (
    ScoreCells,
    check_calibration,
    release_line,
)
from privboost.recipes.common.target_range import plan_target_range
from privboost.reports.report import PUBLIC_CLASS_WEIGHTS, at_most_rows
from privboost.trees.tree import stump

COUNT_SHARE = 0.02
"""Share of the budget, on μ², of the counts of classes, where they are released."""
TWO_CLASSES = (
    "class_weight needs two classes: beyond them all classes share one matrix; public weights can "
    "be given row by row, as sample_weight"
)
_LARGE = 1e6
"""Bound of steps and clips."""
_MOST_STAGES = 2**25
"""Most coefficients of all stages together: 128 MiB."""
_FAILURE = 0.05
"""Probability that AdaSSP's rule gives too small a ridge."""


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


def _check_class_weight(name: str, weight: Any) -> str | tuple[float, float]:
    """Return "balanced", or the weights of two classes in the model's order, or raise."""
    if not isinstance(weight, tuple):
        return check_choice(name, weight, ("balanced",), "a dict", "None")
    first, second = (check_size(f"each of {name}", part) for part in weight)
    if min(first, second) * FACTOR_STEPS < max(first, second):
        raise ValueError(
            f"{name}: beside the other, one class would weigh nothing; its weight must be at least "
            f"1/{FACTOR_STEPS} of the other's"
        )
    return first, second


def _check_ridge(name: str, ridge: Any) -> str | float:
    """Return λ, or the name of a rule, or raise."""
    if not is_number(ridge):
        return check_choice(name, ridge, ("adassp",), "a number", "None")
    return 0.0 if ridge == 0 else check_size(name, ridge)


def _check_norm_bound(name: str, bound: Any) -> float | str:
    if isinstance(bound, str):
        return check_choice(name, bound, ("longest",), "a number", "None")
    return check_size(name, bound)


@dataclass(frozen=True, kw_only=True)
class AdaSSPParameters(Parameters):
    """Parameters of BoostedAdaSSP."""

    _apart: ClassVar[tuple[str, ...]] = ("bins", "products", "intercept", "norm_bound")

    loss: str = parameter(
        BY_TASK,
        options(*losses_of("classes")),
        "Loss. Only the logistic loss gives probabilities.",
        by_task=("logistic", "squared"),
        tasks=("classes",),
    )
    n_estimators: int = parameter(BY_TASK, count(), "Rounds; 1 is AdaSSP itself.", by_task=(25, 4))
    learning_rate: float = parameter(
        None,
        size(below=_LARGE),
        "Factor of each round's step. Default 4 for the logistic loss, whose curvature is below "
        "that of the matrix, and 1 for others.",
    )
    ratio: tuple[float, float, float] = parameter(
        (1.0, 3.0, 0.0),
        Constraint(_check_ratio, "three floats"),
        "a : b : c, division of μ between the matrix of products, the gradients of all rounds, and "
        "the smallest eigenvalue. With c = 0 the ridge follows the released matrix, which is free.",
    )
    gradient_clip: float = parameter(
        1.0, size(below=_LARGE), "Bound of a row's gradient, in the first round."
    )
    clip_decay: float = parameter(
        1.0,
        part(or_else=1),
        "Factor of the clip after each round: gradients shrink, and so may the noise.",
    )
    tail: float = parameter(
        0.5,
        part(or_else=0),
        "Last part of the rounds whose coefficients are averaged; 0 for the last round alone.",
    )
    class_weight: Any = parameter(
        None,
        Constraint(_check_class_weight, 'mapping or "balanced"'),
        'Public weights of the two classes; or "balanced", and the rarer one weighs as much as the '
        "other, by released counts.",
        tasks=("classes",),
    )
    ridge: float | str | None = parameter(
        None,
        Constraint(_check_ridge, 'float or "adassp"'),
        "λ, added to the diagonal of the matrix: in rows (an entry of 1 adds 1 for each row); or "
        "by the rule of AdaSSP, for which c must be above 0. By default the least with which no "
        "direction is mere noise. Whatever it is, no direction counts for less than its noise.",
    )
    keep_stages: bool = parameter(
        False,
        FLAG,
        "Whether the model keeps its coefficients after each round, for staged predictions and "
        "`loss_curve`.",
    )
    calibration_share: float = parameter(
        None,
        share(or_else=0),
        "Share of the budget (on μ²) of the last release, which calibrates the model: counts of "
        "rows by score and class for probabilities, the sum of residuals for the mean of a number; "
        "0 leaves it out. Default 0.04 with an intercept, and for classes with the logistic loss "
        "and no class_weight; without one of them there is none.",
        by_task=(0.04, 0.04),
    )
    span_share: float = parameter(BY_TASK, *SPAN_SHARE, by_task=(0.0, 0.05), tasks=("number",))
    bins: int | None = parameter(
        None,
        "int",
        "Cut numbers into so many bins (at most 192, or as many as given edges make) with an "
        "indicator each: an additive model. By default a number is one coordinate, scaled to "
        "[−1, 1] by its bounds.",
    )
    products: bool | Sequence[tuple[str, str]] = parameter(
        False,
        "bool or sequence of pairs of feature names",
        "Products of two features that are added: none, all, or these.",
    )
    intercept: bool = parameter(True, FLAG, "Whether there is a constant coordinate.")
    norm_bound: float | str | None = parameter(
        None,
        Constraint(_check_norm_bound, 'float or "longest"'),
        "Length of a row's vector beyond which it is shortened: smaller means less noise. The "
        "longest that bounds and categories allow shortens none. By default that of a row whose "
        "numbers are of the size of evenly spread ones.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ridge == "adassp" and not self.ratio[2]:
            raise ValueError(
                "ridge: AdaSSP's rule needs the smallest eigenvalue, which is released only where "
                "the last of ratio is above 0"
            )
        if isinstance(self.ridge, float) and self.ratio[2]:
            raise ValueError(
                "ratio: its last number must be 0 where ridge is a number, which does not use the "
                "smallest eigenvalue"
            )
        if self.clip_decay ** (self.n_estimators - 1) < 2.0**-10:
            raise ValueError("clip_decay is too small for so many rounds: the clip would vanish")

    def clip(self, round_: int) -> float:
        """Return the clip of gradients in a round."""
        return self.gradient_clip * self.clip_decay**round_

    def first_of_tail(self, rounds: int) -> int:
        """Return the first of so many rounds whose coefficients are averaged."""
        return rounds - max(1, round(self.tail * rounds))


@dataclass(frozen=True, eq=False)
class AdaSSPPlan(Plan):
    """Plan of a boosted linear model: its map from codes to coordinates, and its releases.

    They are those of the matrix, of a round, of the smallest eigenvalue, of class counts and of
    counts by score and class; the last three may be None.
    """

    _hashed: ClassVar[tuple[str, ...]] = (
        "task",
        "settings",
        "contribution",
        "budget",
        "parameters",
    )

    settings: AdaSSPParameters
    design: Design
    gram: GramRelease
    gradients: VectorRelease
    least: VectorRelease | None
    counts: GaussianRelease | None
    calibration_release: GaussianRelease | None

    @property
    def loss(self) -> Loss:
        """Loss of the training."""
        return loss_of(self.task.target, self.settings.loss)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters for reports."""
        return self.settings.chosen() | {
            "coordinates": self.design.terms.n_coordinates,
            **self.design.choices,
        }

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the released eigenvalue, and of public class weights."""
        rows = () if self.least is None else (at_most_rows(EIGENVALUE_ROWS),)
        public = isinstance(self.settings.class_weight, tuple)
        return (*rows, PUBLIC_CLASS_WEIGHTS) if public else rows


def plan_adassp(
    given: Mapping[str, Any], encoder: Encoder, weight_bound: float | None, budget: Budget
) -> AdaSSPPlan:
    """Return the plan of a run of a boosted linear model.

    It has shares of μ² for the target clipping range, the matrix, the gradients of all rounds, the
    smallest eigenvalue, the counts of classes and the calibration, with noise that costs the
    budget. `given` has the estimator's parameters; `given["class_weight"]` is in the model's order.
    """
    # The loss decides the learning rate, and whether scores are counted.
    loss = check_choice("loss", given.get("loss", "squared"), losses_of("classes"))
    intercept = FLAG.check("intercept", given["intercept"])
    defaults: dict[str, Any] = {"learning_rate": 4.0 if loss == "logistic" else 1.0}
    target = Task.of(encoder.domain.target).target
    calibrated = loss == "logistic" and given.get("class_weight") is None
    if not (intercept and (calibrated or target == "number")):
        defaults["calibration_share"] = 0
    settings = AdaSSPParameters.read(given, target, **defaults)
    bins = settings.bins
    coordinates = design(
        encoder,
        bins if bins is None else check_bins("bins", bins, encoder),
        settings.products,
        settings.intercept,
        settings.norm_bound,
    )
    basis = PlanBasis(encoder, weight_bound, budget, given["accountant"])
    if settings.class_weight is not None and basis.task.n_outputs > 1:
        raise ValueError(TWO_CLASSES)
    check_calibration(settings.calibration_share, target, settings.loss)
    if settings.calibration_share > 0 and settings.class_weight is not None:
        raise ValueError(
            "calibration_share must be 0 with class_weight, which moves scores on purpose"
        )
    if settings.calibration_share > 0 and not coordinates.has_intercept:
        raise ValueError("calibration_share needs an intercept, which takes the shift")
    stages = settings.n_estimators * basis.task.n_outputs * coordinates.terms.n_coordinates
    if settings.keep_stages and stages > _MOST_STAGES:
        raise ValueError("keep_stages: the stages would be too large; lower n_estimators")
    made = basis.calibrate_by_shares(_wanted(basis, settings, coordinates))
    fields = made.fields_with("gram", "gradients", "least", "counts", "calibration_release")
    return AdaSSPPlan(**fields, settings=settings, design=coordinates)


def _wanted(
    basis: PlanBasis, settings: AdaSSPParameters, coordinates: Design
) -> list[ReleaseShare]:
    """List the releases, each with its share of μ²."""
    products = GramSums.of(coordinates.terms, np.full(2, VECTOR_STEPS))
    bounds = {
        "gram": products.bound(basis.contribution),
        "gradients": LinearSums.of(coordinates.terms).bound(basis.contribution),
        "least": eigenvalue_bound(products, basis.contribution),
    }
    moved = {name: asdict(bound) | {"shares": (1.0,)} for name, bound in bounds.items()}
    for fields in moved.values():
        del fields["statistics"]
    gram = GramRelease("products of all pairs of coordinates", 1.0, **moved["gram"])
    gradients = VectorRelease("gradients times coordinates", 1.0, **moved["gradients"])
    least = VectorRelease("the smallest eigenvalue", 1.0, **moved["least"])
    counts = GaussianRelease("rows of each class", 1.0, cells=1, shares=(0.5, 0.5), **basis.bound)
    matrix_share, rounds_share, least_share = (part**2 for part in settings.ratio)
    rounds = settings.n_estimators * basis.task.n_outputs
    total = matrix_share + rounds_share + least_share
    count_share = (
        total * COUNT_SHARE / (1 - COUNT_SHARE) if settings.class_weight == "balanced" else 0.0
    )
    last = settings.calibration_share
    scores = Planned(last_release(GaussianRelease, basis.task, basis.bound), basis.task.n_outputs)
    range_share = settings.span_share
    return [
        (
            "range_release",
            plan_target_range(basis, range_share, GaussianRelease),
            total * range_share / (1 - range_share),
        ),
        ("gram", Planned(gram, 1), matrix_share),
        ("gradients", Planned(gradients, rounds), rounds_share),
        ("least", Planned(least, 1), least_share),
        ("counts", Planned(counts, 1), count_share),
        ("calibration_release", scores, (total + count_share) * last / (1 - last)),
    ]


def boost_adassp(curator: Curator, plan: AdaSSPPlan, track: Track = iter) -> LinearScores:
    """Return a linear model trained on the rows; `track` follows the rounds.

    Privacy
    -------
    Spends exactly `plan.releases`, whatever the rows: the matrix once, the smallest eigenvalue and
    class counts if they are planned, for each round and output one vector, and at last the
    calibration of each output.
    """
    settings, terms = plan.settings, plan.design.terms
    outputs, coordinates = plan.task.n_outputs, terms.n_coordinates
    curator.publish(SetTerms(terms))
    weights = _class_weights(curator, plan)
    curator.publish(Start(plan.loss.gradient_table(settings.clip(0), weights), outputs))
    shape = _released_shape(curator, plan, weights)

    theta = np.zeros((outputs, coordinates))
    tail, first_of_tail = np.zeros_like(theta), settings.first_of_tail(settings.n_estimators)
    history: list[np.ndarray] = []
    for round_ in track(range(settings.n_estimators)):
        if round_ and settings.clip_decay < 1:
            curator.publish(UseLoss(plan.loss.gradient_table(settings.clip(round_), weights)))
        for output in range(outputs):
            sums = curator.linear(LinearSums.of(terms, output), plan.gradients)
            gradient = sums * (settings.clip(round_) / (FACTOR_STEPS * VECTOR_STEPS))
            theta[output] -= settings.learning_rate * (shape.inverse @ gradient)
            theta[output] = _within_scores(theta[output], plan)
            curator.publish(SetLinearScores(_on_the_grid(theta[output]), output))
        if round_ >= first_of_tail:
            tail += theta
        if settings.keep_stages:
            history.append(theta.copy())
    tail = _centred(tail / (settings.n_estimators - first_of_tail), plan)
    lines, errors, mean = _released_lines(curator, plan, tail)
    final, stages = _on_lines(tail, lines, plan), None
    if settings.keep_stages:
        stages = np.concatenate([_stages(np.array(history[:-1]), lines, plan), final[None]])
    # A slope's error stretches all coefficients alike: it is the largest for strong ones.
    stretched = errors[:, None] * tail * SCORE_STEPS
    noise = lines[:, :1] * np.hypot(_coefficient_noise(plan, shape), stretched)
    moments, rows = _moments(plan, shape.gram)
    return LinearScores(
        terms,
        plan.design.coordinates,
        final,
        plan.loss.log_odds,
        1 / plan.design.norm_bound,
        moments,
        noise,
        stages,
        rows,
        mean,
    )


def _released_lines(
    curator: Curator, plan: AdaSSPPlan, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the slope and shift of each output's scores, and the relative error of each slope.

    They are 1, 0 and 0 where nothing is released. Of a number, what is known of the mean is third.
    Rows' scores are first set to those of the model,
    whose coefficients are a mean over rounds.
    """
    lines = np.tile([1.0, 0.0], (plan.task.n_outputs, 1))
    errors = np.zeros(plan.task.n_outputs)
    if plan.calibration_release is None:
        return lines, errors, None
    if plan.task.target == "number":
        curator.publish(SetLinearScores(_on_the_grid(theta[0]), 0))
        typical = np.empty(0, dtype=np.int32)  # one cell: a linear model has no steps
        residuals = release_residuals(curator, plan, plan.calibration_release, typical, 0.0)
        found = fit_correction(residuals, typical, UNKNOWN_CLIP.bias)
        lines[0] = found.line
        return lines, errors, found.facts(None)
    curator.publish(UseLoss(plan.task.table(1.0, 1.0)))
    cells = ScoreCells.around(np.zeros(0))
    for output, own in enumerate(theta):
        curator.publish(SetLinearScores(_on_the_grid(own), output))
        lines[output], errors[output] = release_line(
            curator, plan, plan.calibration_release, output, cells
        )
    return lines, errors, None


def _on_lines(theta: np.ndarray, lines: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    """Apply each output's slope and shift; return coefficients on the grid."""
    if plan.calibration_release is None:
        return _on_the_grid(theta)
    moved = theta * lines[:, :1]
    moved[:, 0] += lines[:, 1] / plan.design.constant
    return np.stack([_on_the_grid(_within_scores(own, plan)) for own in moved])


def _stages(history: np.ndarray, lines: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    """Return the model that would have ended after each of these rounds, on the grid."""
    shape = plan.task.n_outputs, plan.design.terms.n_coordinates
    so_far = np.cumsum([np.zeros(shape), *history], axis=0)
    stages = np.empty((len(history), *shape), dtype=np.int32)
    for rounds in range(1, len(history) + 1):
        first = plan.settings.first_of_tail(rounds)
        mean = (so_far[rounds] - so_far[first]) / (rounds - first)
        stages[rounds - 1] = _on_lines(_centred(mean, plan), lines, plan)
    return stages


@dataclass(frozen=True, eq=False)
class _Shape:
    """Released XᵀX and its spectrum, in parts of the norm bound.

    `edge` is the edge of the spectrum of the noise alone, and `lifted` the eigenvalues of XᵀX + λI.
    """

    gram: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    edge: float
    lifted: np.ndarray

    @cached_property
    def inverse(self) -> np.ndarray:
        """(XᵀX + λI)⁻¹."""
        inverse: np.ndarray = (self.vectors / self.lifted) @ self.vectors.T
        return inverse


def _released_shape(curator: Curator, plan: AdaSSPPlan, weights: tuple[float, float]) -> _Shape:
    """Release XᵀX, and λ_min where it is planned; lift eigenvalues to the noise's edge."""
    factor = np.floor(np.sqrt(weights) * VECTOR_STEPS).astype(np.int32)
    query = GramSums.of(plan.design.terms, factor)
    size = 1 / VECTOR_STEPS**2
    gram = curator.gram(query, plan.gram) * size
    values, vectors = np.linalg.eigh(gram)
    edge = plan.gram.scales[0] * size * np.sqrt(2 * len(values))
    least = None
    if plan.least is not None:
        least = curator.least_eigenvalue(query, plan.least) * size
    lifted = np.maximum(values + _ridge(plan, values[0], edge, least), edge)
    if edge == 0:  # directions that only rounding to the grid gives are left out
        lifted[lifted <= np.trace(gram) * size] = np.inf
    return _Shape(gram, values, vectors, edge, lifted)


def _ridge(plan: AdaSSPPlan, smallest: float, edge: float, least: float | None) -> float:
    """Return λ, in parts of the norm bound's square.

    By default it lifts the smallest eigenvalue to the edge of the noise's own spectrum, σ√(2d).
    AdaSSP's rule takes a lower confidence bound of the released eigenvalue, and lifts that to a
    bound that the noise of a matrix exceeds with probability at most `_FAILURE`.

    `smallest` is the smallest eigenvalue of the released matrix, `edge` σ√(2d), and `least` the
    released eigenvalue.
    """
    given = plan.settings.ridge
    if isinstance(given, float):
        return given / plan.design.norm_bound**2
    if edge == 0:  # there is no noise
        return 0.0
    if given == "adassp":
        assert plan.least is not None
        assert least is not None
        size, dimension = 1 / VECTOR_STEPS**2, plan.design.terms.n_coordinates
        width = math.sqrt(math.log(6 / plan.budget.delta)) * plan.least.scales[0] * size
        reach = math.sqrt(dimension * math.log(2 * dimension**2 / _FAILURE))
        return float(max(reach * plan.gram.scales[0] * size - max(least - width, 0.0), 0.0))
    if least is None:
        least = smallest
    # The released eigenvalue is that of the exact matrix, whose spectrum noise widens.
    return max(edge - min(least, smallest + edge), 0.0)


def _moments(plan: AdaSSPPlan, gram: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return mean and mean square of each coordinate's entries, and the noisy count of rows.

    The count is the constant coordinate's square; without a constant both are None.
    """
    if not plan.design.has_intercept:
        return None, None
    one = plan.design.constant
    noise = float(plan.gram.scales[0]) / VECTOR_STEPS**2
    rows = pool_counts([gram[0, 0] / one**2], noise / one**2)
    return np.stack([gram[0] / one, np.diag(gram)]) / max(rows[0], 1.0), rows


def _coefficient_noise(plan: AdaSSPPlan, shape: _Shape) -> np.ndarray:
    """Return the standard deviation of each coefficient due to noise alone, on the grid.

    In each direction of the matrix, the next round corrects an error in proportion to the loss'
    curvature; coefficients are means over the last rounds.
    """
    settings = plan.settings
    first = settings.first_of_tail(settings.n_estimators)
    curvature = plan.loss.curvature * min(settings.clip(settings.n_estimators), 1.0)
    signal = np.maximum(shape.values - shape.edge, 0.0) / shape.lifted
    left = np.maximum(1 - settings.learning_rate * curvature * signal, 0.0)
    last, with_sum, sum_ = np.zeros((3, len(left)))
    for round_ in range(settings.n_estimators):
        sigma = plan.gradients.scales[0] * settings.clip(round_) / (FACTOR_STEPS * VECTOR_STEPS)
        last = left**2 * last + (settings.learning_rate * sigma / shape.lifted) ** 2
        with_sum = left * with_sum
        if round_ >= first:
            sum_ = sum_ + 2 * with_sum + last
            with_sum = with_sum + last
    mean = sum_ / (settings.n_estimators - first) ** 2
    directions = _without_levels(shape.vectors.T, plan)
    noise: np.ndarray = np.sqrt(mean @ directions**2) * SCORE_STEPS
    return noise


def _class_weights(curator: Curator, plan: AdaSSPPlan) -> tuple[float, float]:
    """Return the weights of the two classes, of which the larger is 1.

    Those of "balanced" classes follow their released counts.
    """
    public = plan.settings.class_weight
    if isinstance(public, tuple):
        return public[0] / max(public), public[1] / max(public)
    if plan.counts is None:
        return 1.0, 1.0
    curator.publish(Start(class_indicator(), plan.task.n_outputs))
    own, all_rows = curator.sums(TreeSums((stump(),), 0, GRADIENT_COUNT), plan.counts)[0, 0]
    counts = np.maximum([all_rows - own, own], plan.contribution.row_steps)
    other, same = counts.min() / counts
    return float(other), float(same)


def _centred(theta: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    """Move the mean of each feature's indicators into the intercept.

    Only their differences are identified, as every row has one of them: the common level is noise.
    A value without an indicator then has the mean of those that have one.
    """
    if not plan.design.has_intercept:
        return theta
    return np.stack([_within_scores(own, plan) for own in _without_levels(theta, plan)])


def _without_levels(theta: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    """Move the mean of each feature's indicators into the intercept, if there is one."""
    terms = plan.design.terms
    if not plan.design.has_intercept:
        return theta
    centred = theta.copy()
    for (_, second), coordinate, value in zip(
        terms.features, terms.coordinate, terms.value, strict=True
    ):
        own = np.unique(coordinate)
        entries = {int(entry) for entry in np.unique(value)} - {0}
        if second < 0 and len(own) > 1 and len(entries) == 1 and own[0] > 0:
            mean = theta[:, own].mean(axis=1)
            centred[:, own] -= mean[:, None]
            centred[:, 0] += mean * (entries.pop() / terms.value[0][0])
    return centred


def _within_scores(theta: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    """Shrink coefficients with which a row's score could leave the grid."""
    longest = math.sqrt(plan.design.terms.most_square) / VECTOR_STEPS
    most = MAX_SCORE / 2 / max(longest, 1.0)
    short: np.ndarray = theta * min(1.0, most / max(float(np.linalg.norm(theta)), 1e-300))
    return short


def _on_the_grid(theta: np.ndarray) -> np.ndarray:
    steps: np.ndarray = np.rint(theta * SCORE_STEPS).astype(np.int32)
    return steps


_PUBLISHED: dict[str, Any] = {
    "learning_rate": 1.0,
    "ratio": (1.0, 1.0, 1.0),  # of which the paper has no numbers; AdaSSP divides evenly
    "ridge": "adassp",
    "gradient_clip": 1.0,
    "clip_decay": 1.0,
    "tail": 0.0,
    "intercept": False,  # X has no constant column
    "norm_bound": "longest",
    "calibration_share": 0.0,
}
PRESETS = {"Algorithm2": _PUBLISHED, "AdaSSP": {"n_estimators": 1} | _PUBLISHED}
"""Published algorithm, with any number of rounds, and AdaSSP, which it boosts."""
CLASS_PRESETS = {
    name: {"loss": "squared", "class_weight": None} | preset for name, preset in PRESETS.items()
}
NUMBER_PRESETS = {name: {"span_share": 0.0} | preset for name, preset in PRESETS.items()}
"""The same for each task."""
