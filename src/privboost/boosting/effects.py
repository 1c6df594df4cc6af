"""What is known of an effect, of a feature or a pair: all answers pooled in a Gaussian posterior.

An effect has a value for each bin. Answers are sums over cells of bins, with exactly known noise,
so each is a linear observation; old ones fade a little, because the other effects move. How large
effects are is learned as well: several prior variances are weighed by their evidence, and all
features together say what is likely. Everything here follows from released values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from privboost.boosting import posterior_kernels as kernels
from privboost.boosting.priors import Prior, prior_of
from privboost.boosting.questions import Bins
from privboost.grid import MAX_SCORE

VARIANCES = 10.0 ** np.linspace(-4.5, 0.7, 11)
"""Prior variances of an effect, of which the evidence decides."""

FADE = 0.95
"""What an old answer about a feature counts for when the next one comes."""

MOST_VALUE = 3.0
"""No effect, and no leaf, is larger than this, in log-odds or halves of a number's bounds."""


def largest_value(features: int) -> float:
    """Return what effects are clipped to, so that no row's score can leave the grid."""
    return min(MOST_VALUE, (MAX_SCORE / 2 - 32) / features)


@dataclass(frozen=True)
class Noise:
    """What is known of an answer's errors.

    Attributes
    ----------
    gradient, hessian : float, or an array by cell
        The standard deviation of the noise in a cell's sums.
    spread : float
        The variance of gradients for a sum of Hessians of 1, noise aside.
    """

    gradient: float | np.ndarray
    hessian: float | np.ndarray
    spread: float

    def times(self, factor: np.ndarray) -> Noise:
        """Return the noise of other cells, of which these are the factors."""
        return Noise(self.gradient * factor, self.hessian * factor, self.spread)


@dataclass(frozen=True, eq=False)
class Heard:
    """What was made of an answer about an effect.

    Attributes
    ----------
    cell_of, within : arrays
        The cell of each bin, and which part of its cell's rows it was thought to have.
    weight, precision : float arrays
        Of each cell its Hessians, and 1/variance of its gradients.
    noise : Noise
        What is known of the answer's errors.
    variance : float
        The prior variance, on average over those that were weighed.
    """

    cell_of: np.ndarray
    within: np.ndarray
    weight: np.ndarray
    precision: np.ndarray
    noise: Noise
    variance: float


@dataclass(frozen=True, eq=False)
class Step:
    """What an answer did to an effect.

    Attributes
    ----------
    heard : Heard
        What was made of the answer.
    part : float
        Which part of the way values went.
    values : float array
        What they were then.
    """

    heard: Heard
    part: float
    values: np.ndarray


@dataclass(eq=False)
class Effect:
    """The posterior of one effect on one output.

    Parameters
    ----------
    prior : Prior
        What its values are thought to be before any answer, but for their variance.
    most : float
        What its values are clipped to.
    fade : float
        What an old answer counts for when the next one comes.
    ordered : int
        How many bins are in order, those of a number, which come first.
    slope : int
        1 if values in order never fall, −1 if they never rise, 0 if they may do both.
    """

    prior: Prior
    most: float = MOST_VALUE
    fade: float = FADE
    ordered: int = 0
    slope: int = 0
    asked: int = field(default=0, init=False)
    first: np.ndarray = field(init=False)
    info: np.ndarray = field(init=False)
    pull: np.ndarray = field(init=False)
    values: np.ndarray = field(init=False)
    goal: np.ndarray = field(init=False)
    way: np.ndarray = field(init=False)
    evidence: np.ndarray = field(init=False)
    weights: np.ndarray = field(init=False)
    mass: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        size, self.first = len(self.prior.first), self.prior.first.copy()
        self.info, self.pull = np.zeros((size, size)), np.zeros((size, 1))
        self.values, self.mass = np.zeros(size), np.zeros(size)
        self.goal, self.way = np.zeros(size), np.zeros(size)
        self.evidence = np.zeros(len(VARIANCES))
        self.weights = np.full(len(VARIANCES), 1 / len(VARIANCES))

    @classmethod
    def of(cls, bins: Bins, features: int, slope: int = 0) -> Effect:
        """Return the effect of one of so many features, of which nothing is known."""
        prior, most = prior_of(bins.ordered, bins.learned), largest_value(features)
        return cls(prior, most, FADE, bins.ordered, slope)

    @property
    def rows(self) -> np.ndarray:
        """The Hessians of each bin, on average over all answers."""
        return self.mass / max(self.asked, 1)

    @property
    def profile(self) -> np.ndarray:
        """Which share of the rows each bin is thought to have, from what was released."""
        known = np.maximum(self.mass, 1e-9 * max(float(self.mass.max()), 1.0))
        profile: np.ndarray = known / known.sum()
        return profile

    def hear(
        self,
        cell_of: np.ndarray,
        gradient: np.ndarray,
        hessian: np.ndarray,
        noise: Noise,
        belief: np.ndarray,
    ) -> Heard:
        """Take in the sums of −gradients and of Hessians by cell, and find how far to go.

        Parameters
        ----------
        cell_of : int array
            The cell of each bin.
        belief : float array
            How likely each of `VARIANCES` is thought to be before this.
        """
        within = np.empty(len(self.mass))
        kernels.read_answer(cell_of, hessian, self.mass, within)
        self.asked += 1
        weight = np.maximum(hessian, 0.5 * noise.hessian + 1.0)
        precision = 1 / (noise.gradient**2 + noise.spread * weight)
        today = kernels.by_cell(cell_of, within, self.values[:, None], len(weight))
        answer = gradient[:, None] + weight[:, None] * today
        prior, how = self.prior, (cell_of, within, weight, precision, answer, self.fade)
        kernels.add_answer(prior.learned, *how, self.first, self.info, self.pull)
        known = (self.info, self.pull, prior.precision, prior.least, self.first)
        mean = kernels.weigh_variances(*known, VARIANCES, belief, self.evidence, self.weights)
        self.goal = np.clip(mean, -self.most, self.most)
        return Heard(cell_of, within, weight, precision, noise, mean_variance(self.weights))

    @property
    def turn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What `Pace.heed` asks for."""
        return self.profile, self.way, self.goal - self.values

    def go(self, heard: Heard, part: float) -> Step:
        """Change the values after an answer: go a part of the way to where it points."""
        self.way = self.goal - self.values
        self.values = self.goal.copy() if part == 1 else self.values + part * self.way
        if self.slope:
            self._go_one_way()
        return Step(heard, part, self.values)

    def _go_one_way(self) -> None:
        """Take the nearest values, by released mass, that go one way only."""
        upward = self.slope * self.values[: self.ordered]
        kernels.rise(upward, self.profile[: self.ordered])
        self.values[: self.ordered] = self.slope * upward

    @property
    def size(self) -> float:
        """How large the effect and its doubt are: the root of their mean square over rows."""
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
    """Return the prior variance, on average over those that are weighed."""
    return float((weights * VARIANCES).sum())


def shared_belief(evidence: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return how likely each variance is, as all features together say.

    One feature departs from it on strong evidence of its own.

    Parameters
    ----------
    evidence, weights : float arrays of shape (features, variances)
        Of each feature.
    """
    together = np.empty(evidence.shape[1])
    kernels.soften(evidence.sum(axis=0), np.ones(evidence.shape[1]), together)
    mean, even = weights.sum(axis=0) / len(weights), 0.05 / evidence.shape[1]
    belief: np.ndarray = 0.85 * together + 0.1 * mean + even
    return belief
