"""Gaussian posteriors of effects and of trees' leaves, from released sums with known noise.

An effect, of a feature or a pair, has a value for each bin. Measurements are sums over cells of
bins, so each is a linear observation; old ones are discounted a little, because the other effects
move. A leaf's value is the sum of one part for each node on its path, all independent a priori, so
that a leaf with few rows borrows from its neighbours (hierarchical shrinkage). The size of both is
estimated as well: several prior variances are weighed by their evidence. Everything here follows
from released values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from privboost._core.compilation import compiled
from privboost._core.grid import MAX_SCORE, SCORE_STEPS
from privboost.recipes.common import posterior_kernels
from privboost.recipes.common.monotone import CellOrder, rise
from privboost.recipes.common.posterior_kernels import soften

RIDGE = 0.1
"""Prior precision of each bin of a feature."""

ROUGH = 5.0
"""Prior precision of the difference of neighbouring bins of a feature."""

_PAIR_RIDGE, _PAIR_ROUGH = 0.1, 0.375
"""The same for both sides of a pair, whose prior is a product of two random walks."""

_PAIR_OWN = 0.2
"""Independent prior variance of each cell of a pair, beside the walks' mean of 1."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior of an effect's values.

    Attributes
    ----------
    precision : array
        Precision for a variance of 1; its lower half is used.
    least : array
        Pivots of its factor, which measurements only increase.
    first : array
        First bin that each bin is coupled with.
    learned : bool array
        Whether a bin has an effect.
    """

    precision: np.ndarray
    least: np.ndarray
    first: np.ndarray
    learned: np.ndarray

    @classmethod
    def of(cls, precision: np.ndarray, first: np.ndarray, learned: np.ndarray) -> Prior:
        """Return the prior of a precision, which nobody can change any more."""
        inverse = _root_of_precision(precision, first)[-1]
        parts = precision, 1 / inverse, first, learned
        for part in parts:
            part.flags.writeable = False
        return cls(*parts)


def _root_of_precision(precision: np.ndarray, first: np.ndarray) -> tuple[Any, ...]:
    """Return the factor of a precision alone, whose array is made read-only.

    All precisions are: kernels would be compiled once more for others.
    """
    least = np.zeros(len(precision))
    precision.flags.writeable = least.flags.writeable = False
    root: tuple[Any, ...] = posterior_kernels.root_of(
        np.zeros_like(precision), precision, least, first, 1.0
    )
    return root


def prior_of(ordered: int, learned: np.ndarray) -> Prior:
    """Return the prior of a feature, whose ordered bins (those of a number) come first."""
    return _walk_prior(ordered, learned.tobytes())


@lru_cache(maxsize=256)
def _walk_prior(ordered: int, learned: bytes) -> Prior:
    """Return the prior that features of one shape share."""
    known = np.frombuffer(learned, dtype=np.bool_)
    precision, first = np.eye(len(known)), np.arange(len(known))
    steps = np.diff(np.eye(ordered), axis=0)
    precision[:ordered, :ordered] = RIDGE * np.eye(ordered) + ROUGH * (steps.T @ steps)
    first[1:ordered] -= 1
    return Prior.of(precision, first, known)


@lru_cache(maxsize=16)
def grid_prior(side: int) -> Prior:
    """Return the prior of a pair's cells: neighbours along both sides are correlated."""
    covariance = _grid_covariance(posterior_kernels.walk_basis(side, _PAIR_RIDGE, _PAIR_ROUGH))
    cells = len(covariance)
    first, precision = np.zeros(cells, dtype=np.int64), np.eye(cells)
    posterior_kernels.solve(*_root_of_precision(covariance, first), precision)
    return Prior.of(precision, first, np.ones(cells, dtype=np.bool_))


def _grid_covariance(walk: np.ndarray) -> np.ndarray:
    """Return the covariance of all cells of two sides; sums in one order, not that of a library."""
    line, size = np.zeros_like(walk), 0.0
    for own in walk.T:
        line += own[:, None] * own
    for own in np.diagonal(line):
        size += own / len(line)
    covariance: np.ndarray = np.kron(line / size, line / size) + _PAIR_OWN * np.eye(walk.size)
    return covariance


VARIANCES = 10.0 ** np.linspace(-4.5, 0.7, 11)
"""Prior variances of an effect, weighed by their evidence."""

FADE = 0.95
"""Discount of older measurements of a feature with each new one."""

COMMON = 0.5
"""Part of the sampling error that all measurements of an effect have in common.

Their rows are the same, so pooling does not reduce it; but cells have other edges each time, and
other effects have moved."""

MOST_VALUE = 3.0
"""Bound of effects and leaves, in log-odds or half widths of a number's clipping range."""

FOCUS = 0.9
"""Part of queries that follows the size of effects; the rest is divided evenly."""

SINGLE = 0.2
"""Damping for each further query about a feature in a round."""

JOINT = 1.0
"""Damping for each further query about a pair or a tree in a round."""


_POWER_STEPS = 8
"""Steps of the power iteration for the direction in which classes differ most."""


def largest_value(features: int) -> float:
    """Return the bound of effects with which no row's score can leave the grid."""
    return min(MOST_VALUE, (MAX_SCORE / 2 - 32) / features)


@dataclass(frozen=True)
class Noise:
    """Errors of a measurement: standard deviations of the noise in a cell's sums.

    `gradient_variance` is the variance of gradients for a sum of Hessians of 1, without noise, and
    `most_step` a bound of the step that one measurement asks for.
    """

    gradient: float | np.ndarray
    hessian: float | np.ndarray
    gradient_variance: float
    most_step: float = math.inf

    def times(self, factor: np.ndarray) -> Noise:
        """Return the noise of cells, scaled by a factor each."""
        scaled = self.gradient * factor, self.hessian * factor
        return Noise(*scaled, self.gradient_variance, self.most_step)

    def bounded(self, descent: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return descents (minus gradients) whose steps are within the bound."""
        if math.isinf(self.most_step):
            return descent
        most = self.most_step * weight
        kept: np.ndarray = np.clip(descent, -most, most)
        return kept


@dataclass(frozen=True, eq=False)
class Observation:
    """Measurement of an effect as a linear observation.

    Attributes
    ----------
    cell_of, within : arrays
        Cell of each bin, and its estimated part of the cell's rows.
    weight, precision : arrays
        Hessian of each cell, and 1/variance of its gradient.
    fade : float
        Discount of older measurements.
    noise : Noise
        Errors of the measurement.
    variance : float
        Weighted mean of the prior variances.
    """

    cell_of: np.ndarray
    within: np.ndarray
    weight: np.ndarray
    precision: np.ndarray
    fade: float
    noise: Noise
    variance: float


@dataclass(frozen=True, eq=False)
class Step:
    """Update of an effect: the measurement, the fraction of the step, and values afterwards."""

    observed: Observation
    part: float
    values: np.ndarray


class Effect:
    """Posterior of one effect on one output.

    Parameters
    ----------
    prior : Prior
        Prior of its values, up to their variance.
    most : float
        Bound of its values.
    fade : float
        Discount of older measurements with each new one.
    ordered : int
        Number of ordered bins, those of a number, which come first.
    slope : int
        1 if ordered values never fall, −1 if they never rise, 0 if they may do both.
    order : CellOrder, optional
        Order that the values of a pair's cells keep to.

    Attributes
    ----------
    info, pull : arrays
        Measurements so far in information form: precision BᵀRB and BᵀR·(measured sums), discounted.
    first : array
        First bin that each bin is coupled with in `info` and in the prior.
    goal, values : arrays
        Posterior mean, within the bound; and the values now, which move towards it.
    move : array
        Last step before its fraction was taken, for `StepDamping`.
    published : int32 array
        Values in score steps when they were last published.
    mass, n_observed : array and int
        Sum over measurements of each bin's Hessians, and their number.
    pooled : float
        Number of measurements, discounted by `fade`.
    evidence, weights : arrays
        Log evidence of each of `VARIANCES`, and their posterior probabilities.
    """

    def __init__(
        self,
        prior: Prior,
        most: float = MOST_VALUE,
        fade: float = FADE,
        ordered: int = 0,
        slope: int = 0,
        order: CellOrder | None = None,
    ) -> None:
        self.prior, self.most, self.fade = prior, most, fade
        self.ordered, self.slope, self.order = ordered, slope, order
        self.n_observed, self.pooled = 0, 0.0
        size, self.first = len(prior.first), prior.first.copy()
        self.info, self.pull = np.zeros((size, size)), np.zeros((size, 1))
        self.values, self.mass, self.goal, self.move = np.zeros((4, size))
        self.published = np.zeros(size, dtype=np.int32)
        self.evidence = np.zeros(len(VARIANCES))
        self.weights = np.full(len(VARIANCES), 1 / len(VARIANCES))

    @classmethod
    def of(cls, ordered: int, learned: np.ndarray, features: int, slope: int = 0) -> Effect:
        """Return the effect of one of so many features, before any measurement."""
        prior, most = prior_of(ordered, learned), largest_value(features)
        return cls(prior, most, FADE, ordered, slope)

    @property
    def rows(self) -> np.ndarray:
        """Mean Hessian sum of each bin over all measurements."""
        return self.mass / max(self.n_observed, 1)

    @property
    def profile(self) -> np.ndarray:
        """Estimated share of the rows of each bin, from released values."""
        known = np.maximum(self.mass, 1e-9 * max(float(self.mass.max()), 1.0))
        profile: np.ndarray = known / known.sum()
        return profile

    def observe(
        self,
        cell_of: np.ndarray,
        descent: np.ndarray,
        hessian: np.ndarray,
        noise: Noise,
        belief: np.ndarray,
    ) -> Observation:
        """Update the posterior with sums of descents (minus gradients) and of Hessians by cell.

        `belief` is the prior probability of each of `VARIANCES`.
        """
        within = np.empty(len(self.mass))
        posterior_kernels.read_measurement(cell_of, hessian, self.mass, within)
        self.n_observed += 1
        weight = np.maximum(hessian, 0.5 * noise.hessian + 1.0)
        fade, precision = self._pool(noise, weight)
        current = posterior_kernels.by_cell(cell_of, within, self.values[:, None], len(weight))
        measured = noise.bounded(descent, weight)[:, None] + weight[:, None] * current
        prior, how = self.prior, (cell_of, within, weight, precision, measured, fade)
        posterior_kernels.add_measurement(prior.learned, *how, self.first, self.info, self.pull)
        known = (self.info, self.pull, prior.precision, prior.least, self.first)
        mean = posterior_kernels.weigh_variances(
            *known, VARIANCES, belief, self.evidence, self.weights
        )
        self.goal = np.clip(mean, -self.most, self.most)
        variance = mean_variance(self.weights)
        return Observation(cell_of, within, weight, precision, fade, noise, variance)

    def _pool(self, noise: Noise, weight: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the discount of older measurements, and 1/variance of each cell of a new one.

        k measurements have k independent errors of the noise and one common error of sampling (in
        part: see `COMMON`), as if each had k times its variance. So older ones, which were weighted
        as some of fewer, lose weight.
        """
        before, self.pooled = self.pooled, 1 + self.fade * self.pooled
        sampling, own = noise.gradient_variance * weight, noise.gradient**2
        variance = own + (1 + COMMON * (self.pooled - 1)) * sampling
        if not before:
            return self.fade, 1 / variance
        was = own + (1 + COMMON * (before - 1)) * sampling
        return self.fade * float(was.mean() / variance.mean()), 1 / variance

    @property
    def moves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights, last step and next step, for `StepDamping.damp`."""
        return self.profile, self.move, self.goal - self.values

    def step(self, observed: Observation, part: float) -> Step:
        """Move the values a fraction of the way to the posterior mean."""
        self.move = self.goal - self.values
        self.values = self.goal.copy() if part == 1 else self.values + part * self.move
        if self.slope:  # the nearest monotone values, weighted by noisy counts
            upward = self.slope * self.values[: self.ordered]
            rise(upward, self.profile[: self.ordered])
            self.values[: self.ordered] = self.slope * upward
        if self.order is not None:
            self.values = self.order.nearest(self.values, self.profile)
        return Step(observed, part, self.values)

    def publish(self) -> np.ndarray:
        """Return the change of values, in score steps, since they were last published."""
        published = np.rint(self.values * SCORE_STEPS).astype(np.int32)
        change: np.ndarray = published - self.published
        self.published = published
        return change

    @property
    def size(self) -> float:
        """Root mean square of the effect and its posterior deviation over rows."""
        profile = self.profile
        values = self.values - (profile * self.values).sum()
        return float(np.sqrt((profile * (values**2 + self.variances())).sum()))

    def variances(self) -> np.ndarray:
        """Return the posterior variance of each bin."""
        prior = self.prior
        known = (self.info, prior.precision, prior.least, self.first)
        found: np.ndarray = posterior_kernels.variances_of_bins(
            prior.learned, *known, mean_variance(self.weights)
        )
        return found


class StepDamping:
    """Fraction of a step that values take where several effects are measured at once.

    They are not corrected for each other: correlated features would each take the whole step, and
    overshoot together. So the fraction falls with the queries of a round (by `SINGLE` or `JOINT`),
    and after an overshoot.
    """

    def __init__(self, queries: int, strength: float) -> None:
        self.part = 1 / (1 + strength * (queries - 1))
        self._several = queries > 1

    def damp(self, moves: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
        """Shrink the fraction after an overshoot.

        A fraction p of steps along which everything else moves, too, leaves 1 − p·λ of the
        distance; with p = 1/λ nothing is left.
        `moves` has noisy counts of each effect's bins, and their full steps in the last round and
        now; it is read where a round has several queries.
        """
        if not self._several:
            return
        length = along = 0.0
        for weight, before, now in moves:
            length += float((weight * before**2).sum())
            along += float((weight * before * now).sum())
        if along < 0:
            self.part /= 1 - along / length

    def steps(self, effects: Sequence[Effect], observed: Sequence[Observation]) -> list[Step]:
        """Move all effects of a round by the same fraction."""
        self.damp(effect.moves for effect in effects)
        return [effect.step(own, self.part) for effect, own in zip(effects, observed, strict=True)]


def read_sums(sums: np.ndarray, scale: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return descents (minus gradients) and Hessians of sums, given the values of a grid step."""
    return -sums[:, 0] * scale[0], sums[:, 1] * scale[1]


def pooled_profile(effects: Sequence[Effect]) -> np.ndarray:
    """Return the estimated share of the rows of each bin, from effects on several classes."""
    mass = np.sum([effect.mass for effect in effects], axis=0)
    known = np.maximum(mass, 1e-9 * max(float(mass.max()), 1.0))
    profile: np.ndarray = known / known.sum()
    return profile


def main_direction(profile: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sum of effects, of unit weights, that differs most between the bins.

    `values` has shape (classes, bins). Its size is about that of all effects together.
    """
    apart = values - (profile * values).sum(axis=1)[:, None]
    weights = np.sqrt((profile * apart**2).sum(axis=1))
    for _ in range(_POWER_STEPS):
        length = math.sqrt(float((weights**2).sum()))
        if length == 0:
            break
        combined = ((weights / length)[:, None] * apart).sum(axis=0)
        weights = (profile * combined * apart).sum(axis=1)
    combined = (weights[:, None] * apart).sum(axis=0)
    size = math.sqrt(float((profile * combined**2).sum()))
    whole = math.sqrt(float((profile * apart**2).sum()))
    direction: np.ndarray = combined * (whole / size if size > 0 else 0.0)
    return direction


def mean_variance(weights: np.ndarray) -> float:
    """Return the weighted mean of the prior variances."""
    return float((weights * VARIANCES).sum())


def shared_belief(evidence: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the probability of each prior variance, pooled over all features.

    A feature departs from it on strong evidence of its own. Log evidence and weights are arrays of
    shape (features, variances).
    """
    together = np.empty(evidence.shape[1])
    posterior_kernels.soften(evidence.sum(axis=0), np.ones(evidence.shape[1]), together)
    mean, even = weights.sum(axis=0) / len(weights), 0.05 / evidence.shape[1]
    belief: np.ndarray = 0.85 * together + 0.1 * mean + even
    return belief


def shares_of(sizes: np.ndarray, focus: float = FOCUS) -> np.ndarray:
    """Return each feature's share of queries: a part follows sizes, and the rest is even."""
    total = float(sizes.sum())
    part = focus if total > 0 else 0.0
    shares: np.ndarray = part * sizes / max(total, 1e-300) + (1 - part) / len(sizes)
    return shares


def leaf_values(
    descent: np.ndarray, hessian: np.ndarray, noise: Noise, belief: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior means of a tree's leaves, and the weights of prior variances.

    Both sums, of descents (minus gradients) and of Hessians, are by leaf of a complete tree;
    `belief` is the prior probability of each of `VARIANCES`.
    """
    weight, precision = weight_and_precision(hessian, noise)
    values, weights = np.zeros(len(weight)), np.zeros_like(belief)
    _weigh(noise.bounded(descent, weight) / weight, precision, VARIANCES, belief, values, weights)
    return values, weights


def weight_and_precision(hessian: np.ndarray, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Return each leaf's denominator and precision."""
    weight: np.ndarray = np.maximum(hessian, 0.5 * noise.hessian + 1.0)
    precision: np.ndarray = weight**2 / (noise.gradient**2 + noise.gradient_variance * weight)
    return weight, precision


@compiled
def _weigh(found, precision, variances, belief, values, weights):  # type: ignore[no-untyped-def]
    """Pass up the tree for the evidence of each variance, then down for posterior means.

    `found` and `precision` are the estimate of each leaf alone, and its 1/variance; `values` and
    `weights` are written.
    """
    leaves, count = found.size, variances.size
    depth = max(round(math.log2(leaves)), 1)
    sure, mean = np.empty((count, 2 * leaves - 1)), np.empty((count, 2 * leaves - 1))
    evidence = np.zeros(count)
    for t in range(count):
        own_sure, own_mean, part = sure[t], mean[t], variances[t] / depth
        for leaf in range(leaves):
            own_sure[leaves - 1 + leaf], own_mean[leaves - 1 + leaf] = precision[leaf], found[leaf]
        for node in range(leaves - 2, -1, -1):
            left, right = 2 * node + 1, 2 * node + 2
            first = own_sure[left] / (1 + own_sure[left] * part)
            second = own_sure[right] / (1 + own_sure[right] * part)
            both = first + second
            apart = own_mean[left] - own_mean[right]
            own_sure[node] = both
            own_mean[node] = (first * own_mean[left] + second * own_mean[right]) / both
            evidence[t] += 0.5 * (
                math.log(first * second / both) - first * second / both * (apart * apart)
            )
        evidence[t] += 0.5 * (math.log(own_sure[0]) - own_sure[0] * own_mean[0] ** 2)
    soften(evidence, belief, weights)
    down = np.empty(2 * leaves - 1)
    for t in range(count):
        own_sure, own_mean, part = sure[t], mean[t], variances[t] / depth
        down[0] = 0.0
        for node in range(1, 2 * leaves - 1):
            above = (node - 1) // 2
            keep = 1 / (1 + own_sure[node] * part)
            down[node] = keep * (own_sure[node] * own_mean[node] * part + down[above])
        for leaf in range(leaves):
            values[leaf] += weights[t] * down[leaves - 1 + leaf]
