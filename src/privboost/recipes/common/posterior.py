"""Priors of effects: covariances of a feature's bins, and of a pair's cells.

Step damping: the fraction of a step that values take where several queries are made at once.

Effects that are measured together are not corrected for each other: correlated features would each
take the whole step, and overshoot together.

Gaussian posterior of an effect, of a feature or a pair, from all its measurements.

An effect has a value for each bin. Measurements are sums over cells of bins, with exactly known
noise, so each is a linear observation; old ones are discounted a little, because the other effects
move. The size of effects is estimated as well: several prior variances are weighed by their
evidence, pooled over all features. Everything here follows from released values.

Posterior of a tree's leaves from one measurement: hierarchical shrinkage along the tree.

A leaf's value is the sum of one part for each node on its path, all independent a priori: leaves
that share a node share its part, so that a leaf with few rows borrows from its neighbours. The
variance of parts is weighed by evidence, as for effects. Everything follows from released values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from privboost._core.compilation import compiled
from privboost._core.grid import MAX_SCORE
from privboost.recipes.common import posterior_kernels
from privboost.recipes.common.posterior_kernels import soften

RIDGE, ROUGH = 0.1, 5.0
"""Precisions of differences of neighbouring bins (`ROUGH`), and of each bin (`RIDGE`)."""

_RIDGE, _ROUGH, _OWN = 0.1, 0.375, 0.2
"""A pair's prior: a product of random walks, and independent variance of each cell."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior of an effect's values, up to its variance.

    Attributes
    ----------
    precision : float array of shape (bins, bins)
        Lower half of the precision matrix, for a variance of 1.
    least : float array
        Pivots of its factor: measurements only increase them.
    first : int array
        First bin that each bin is coupled with.
    learned : bool array
        Bins that have an effect.
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
    """Return the prior of a feature.

    Parameters
    ----------
    ordered : int
        Number of ordered bins, those of a number, which come first.
    learned : bool array
        Bins that have an effect.
    """
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
    covariance = _grid_covariance(posterior_kernels.walk_basis(side, _RIDGE, _ROUGH))
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
    covariance: np.ndarray = np.kron(line / size, line / size) + _OWN * np.eye(walk.size)
    return covariance


SINGLE, JOINT = 0.2, 1.0
"""Damping for each further query of a round: of features, and of pairs or trees."""


class StepDamping:
    """Fraction of a step, which shrinks after an overshoot.

    Parameters
    ----------
    queries : int
        Queries of a round.
    strength : float
        `SINGLE` or `JOINT`.
    """

    def __init__(self, queries: int, strength: float) -> None:
        self.part = 1 / (1 + strength * (queries - 1))
        self._several = queries > 1

    def damp(self, moves: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
        """Shrink the fraction after an overshoot.

        A fraction p of steps along which everything else moves, too, leaves 1 − p·λ of the
        distance; with p = 1/λ nothing is left.

        Parameters
        ----------
        moves : iterable of (weight, before, now), read where a round has several queries
            Noisy counts of each effect's bins, and their full steps in the last round and now.
        """
        if not self._several:
            return
        length = along = 0.0
        for weight, before, now in moves:
            length += float((weight * before**2).sum())
            along += float((weight * before * now).sum())
        if along < 0:
            self.part /= 1 - along / length


VARIANCES = 10.0 ** np.linspace(-4.5, 0.7, 11)
"""Prior variances of an effect, weighed by their evidence."""

FADE = 0.95
"""Discount of older measurements of a feature with each new one."""

MOST_VALUE = 3.0
"""Bound of effects and leaves, in log-odds or half widths of a number's bounds."""


FOCUS = 0.7
"""Part of queries that follows the size of effects; the rest is divided evenly."""


def largest_value(features: int) -> float:
    """Return the bound of effects with which no row's score can leave the grid."""
    return min(MOST_VALUE, (MAX_SCORE / 2 - 32) / features)


@dataclass(frozen=True)
class Noise:
    """Errors of a measurement.

    Attributes
    ----------
    gradient, hessian : float, or an array by cell
        Standard deviation of the noise in a cell's sums.
    spread : float
        Variance of gradients for a sum of Hessians of 1, without noise.
    """

    gradient: float | np.ndarray
    hessian: float | np.ndarray
    spread: float

    def times(self, factor: np.ndarray) -> Noise:
        """Return the noise of cells, scaled by a factor each."""
        return Noise(self.gradient * factor, self.hessian * factor, self.spread)


@dataclass(frozen=True, eq=False)
class Observation:
    """Measurement of an effect as a linear observation.

    Attributes
    ----------
    cell_of, within : arrays
        Cell of each bin, and the bin's estimated part of its cell's rows.
    weight, precision : float arrays
        Hessian and 1/variance of the gradient of each cell.
    noise : Noise
        Errors of the measurement.
    variance : float
        Weighted mean of the prior variances.
    """

    cell_of: np.ndarray
    within: np.ndarray
    weight: np.ndarray
    precision: np.ndarray
    noise: Noise
    variance: float


@dataclass(frozen=True, eq=False)
class Step:
    """Update of an effect's values after a measurement.

    Attributes
    ----------
    observed : Observation
        Measurement.
    part : float
        Fraction of the step that values took.
    values : float array
        Values afterwards.
    """

    observed: Observation
    part: float
    values: np.ndarray


@dataclass(eq=False)
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
    """

    prior: Prior
    most: float = MOST_VALUE
    fade: float = FADE
    ordered: int = 0
    slope: int = 0
    n_observed: int = field(default=0, init=False)
    first: np.ndarray = field(init=False)
    info: np.ndarray = field(init=False)
    pull: np.ndarray = field(init=False)
    values: np.ndarray = field(init=False)
    goal: np.ndarray = field(init=False)
    move: np.ndarray = field(init=False)
    evidence: np.ndarray = field(init=False)
    weights: np.ndarray = field(init=False)
    mass: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        size, self.first = len(self.prior.first), self.prior.first.copy()
        self.info, self.pull = np.zeros((size, size)), np.zeros((size, 1))
        self.values, self.mass = np.zeros(size), np.zeros(size)
        self.goal, self.move = np.zeros(size), np.zeros(size)
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
        gradient: np.ndarray,
        hessian: np.ndarray,
        noise: Noise,
        belief: np.ndarray,
    ) -> Observation:
        """Update the posterior with sums of −gradients and of Hessians by cell.

        Parameters
        ----------
        cell_of : int array
            Cell of each bin.
        belief : float array
            Prior probability of each of `VARIANCES`.
        """
        within = np.empty(len(self.mass))
        posterior_kernels.read_measurement(cell_of, hessian, self.mass, within)
        self.n_observed += 1
        weight = np.maximum(hessian, 0.5 * noise.hessian + 1.0)
        precision = 1 / (noise.gradient**2 + noise.spread * weight)
        current = posterior_kernels.by_cell(cell_of, within, self.values[:, None], len(weight))
        measured = gradient[:, None] + weight[:, None] * current
        prior, how = self.prior, (cell_of, within, weight, precision, measured, self.fade)
        posterior_kernels.add_measurement(prior.learned, *how, self.first, self.info, self.pull)
        known = (self.info, self.pull, prior.precision, prior.least, self.first)
        mean = posterior_kernels.weigh_variances(
            *known, VARIANCES, belief, self.evidence, self.weights
        )
        self.goal = np.clip(mean, -self.most, self.most)
        return Observation(cell_of, within, weight, precision, noise, mean_variance(self.weights))

    @property
    def moves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights, last step and next step, for `StepDamping.damp`."""
        return self.profile, self.move, self.goal - self.values

    def step(self, observed: Observation, part: float) -> Step:
        """Move the values a fraction of the way to the posterior mean."""
        self.move = self.goal - self.values
        self.values = self.goal.copy() if part == 1 else self.values + part * self.move
        if self.slope:
            self._make_monotone()
        return Step(observed, part, self.values)

    def _make_monotone(self) -> None:
        """Project the values onto monotone ones, weighted by noisy counts."""
        upward = self.slope * self.values[: self.ordered]
        posterior_kernels.rise(upward, self.profile[: self.ordered])
        self.values[: self.ordered] = self.slope * upward

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


def mean_variance(weights: np.ndarray) -> float:
    """Return the weighted mean of the prior variances."""
    return float((weights * VARIANCES).sum())


def shared_belief(evidence: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the probability of each prior variance, pooled over all features.

    A feature departs from it on strong evidence of its own.

    Parameters
    ----------
    evidence, weights : float arrays of shape (features, variances)
        Log evidence and weight of each variance, by feature.
    """
    together = np.empty(evidence.shape[1])
    posterior_kernels.soften(evidence.sum(axis=0), np.ones(evidence.shape[1]), together)
    mean, even = weights.sum(axis=0) / len(weights), 0.05 / evidence.shape[1]
    belief: np.ndarray = 0.85 * together + 0.1 * mean + even
    return belief


def shares_of(sizes: np.ndarray) -> np.ndarray:
    """Return each feature's share of queries, given the sizes of effects."""
    total = float(sizes.sum())
    focus = FOCUS if total > 0 else 0.0
    shares: np.ndarray = focus * sizes / max(total, 1e-300) + (1 - focus) / len(sizes)
    return shares


def leaf_values(
    gradient: np.ndarray, hessian: np.ndarray, noise: Noise, belief: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior means of leaves, and the weights of prior variances.

    Parameters
    ----------
    gradient, hessian : float arrays
        Noisy sums of −gradients and of Hessians by leaf of a complete tree.
    noise : Noise
        Noise of the sums.
    belief : float array
        Prior probability of each of `VARIANCES`.
    """
    weight, precision = weight_and_precision(hessian, noise)
    values, weights = np.zeros(len(weight)), np.zeros_like(belief)
    _weigh(gradient / weight, precision, VARIANCES, belief, values, weights)
    return values, weights


def weight_and_precision(hessian: np.ndarray, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Return each leaf's denominator and precision."""
    weight: np.ndarray = np.maximum(hessian, 0.5 * noise.hessian + 1.0)
    precision: np.ndarray = weight**2 / (noise.gradient**2 + noise.spread * weight)
    return weight, precision


@compiled
def _weigh(found, precision, variances, belief, values, weights):  # type: ignore[no-untyped-def]
    """Pass up the tree for the evidence of each variance, then down for posterior means.

    Parameters
    ----------
    found, precision : float arrays
        Estimate of each leaf alone, and its 1/variance.
    values, weights : float arrays, written
        See `leaf_values`.
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
