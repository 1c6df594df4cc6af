"""Gaussian posterior of an effect, of a feature or a pair, from all its measurements.

An effect has a value for each bin. Measurements are sums over cells of bins, with exactly known
noise, so each is a linear observation; old ones are discounted a little, because the other effects
move. The size of effects is estimated as well: several prior variances are weighed by their
evidence, pooled over all features. Everything here follows from released values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from privboost.boosting import posterior_kernels as kernels
from privboost.boosting.priors import Prior, prior_of
from privboost.grid import MAX_SCORE

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
        kernels.read_answer(cell_of, hessian, self.mass, within)
        self.n_observed += 1
        weight = np.maximum(hessian, 0.5 * noise.hessian + 1.0)
        precision = 1 / (noise.gradient**2 + noise.spread * weight)
        current = kernels.by_cell(cell_of, within, self.values[:, None], len(weight))
        measured = gradient[:, None] + weight[:, None] * current
        prior, how = self.prior, (cell_of, within, weight, precision, measured, self.fade)
        kernels.add_answer(prior.learned, *how, self.first, self.info, self.pull)
        known = (self.info, self.pull, prior.precision, prior.least, self.first)
        mean = kernels.weigh_variances(*known, VARIANCES, belief, self.evidence, self.weights)
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
        kernels.rise(upward, self.profile[: self.ordered])
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
        found: np.ndarray = kernels.variances_of_bins(
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
    kernels.soften(evidence.sum(axis=0), np.ones(evidence.shape[1]), together)
    mean, even = weights.sum(axis=0) / len(weights), 0.05 / evidence.shape[1]
    belief: np.ndarray = 0.85 * together + 0.1 * mean + even
    return belief


def shares_of(sizes: np.ndarray) -> np.ndarray:
    """Return each feature's share of queries, given the sizes of effects."""
    total = float(sizes.sum())
    focus = FOCUS if total > 0 else 0.0
    shares: np.ndarray = focus * sizes / max(total, 1e-300) + (1 - focus) / len(sizes)
    return shares
