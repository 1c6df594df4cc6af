"""The only place where exact sums and noise meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtri

from privboost.engine.backend import Backend
from privboost.engine.queries import GramSums, LinearSums, Query, SumQuery, TreeSums
from privboost.grid import CLIP_STEPS, Contribution
from privboost.privacy.bookkeeping import Bookkeeper
from privboost.privacy.eigenvalues import eigenvalue_bound
from privboost.privacy.events.event import Event, Selection
from privboost.privacy.events.sums import (
    GaussianRelease,
    GramRelease,
    LaplaceRelease,
    NoisySums,
    ThresholdRelease,
    VectorRelease,
)
from privboost.privacy.leaf_means import exact_means, means_bound
from privboost.privacy.ledger import Ledger
from privboost.privacy.promises import need_promise, need_promise_of_sums
from privboost.privacy.utilities.splits import Utility, scores_these
from privboost.randomness.keystream import KeyStream
from privboost.randomness.noise import discrete_gaussian, discrete_laplace
from privboost.randomness.selection import choose_each


class Curator(Bookkeeper):
    """Stands between the rows and everybody else: it alone sees exact sums, and never tells them.

    Parameters
    ----------
    backend, ledger, stream, contribution
        As for `Bookkeeper`.
    part : float
        The part of Gaussian noise, of its standard deviation, that this curator draws. Below 1
        others draw theirs, and what it returns is released together with theirs alone.
    """

    def __init__(
        self,
        backend: Backend,
        ledger: Ledger,
        stream: KeyStream,
        contribution: Contribution,
        part: float = 1.0,
    ) -> None:
        super().__init__(backend, ledger, stream, contribution)
        self._part = part

    def gaussian(self, query: SumQuery, event: GaussianRelease) -> np.ndarray:
        """Release the sums of a query with discrete Gaussian noise.

        Parameters
        ----------
        query : Query
            What to add up; the last axis of its answer is the statistics.
        event : GaussianRelease
            The noise, as it was reserved.

        Returns
        -------
        int64 array
            The noisy sums, in grid steps.

        Privacy
        -------
        Spends `event`, which is recorded first. Neighbours differ in one protected unit, which
        moves each statistic by at most `event.steps` in each of the cells it touches. Once
        budgets are open, each row pays for its own contribution instead, and rows that cannot
        afford it sit out: the whole run costs the budgets, whatever the number of releases.
        """
        need_promise_of_sums(query, event, self._contribution)
        if self._group is not None:
            raise ValueError("a group of pure releases is under way")
        if self._payments:
            self._ledger.charge_within(event)
            self._payments.charge(query, event)
        else:
            self._ledger.charge(event)
        stream = self._next_stream()
        noise = self._gaussian_noise(_everywhere(event.sigmas, query), stream)
        return self._noisy(self._sampled(query, event.sampling_rate, stream), noise, event)

    def sums(self, query: SumQuery, event: NoisySums) -> np.ndarray:
        """Release the sums of a query with the noise that its event has, Gaussian or Laplace.

        Privacy
        -------
        Spends `event`, which is recorded first: see `gaussian` and `laplace`.
        """
        release: Any = self.laplace if isinstance(event, LaplaceRelease) else self.gaussian
        noisy: np.ndarray = release(query, event)
        return noisy

    def laplace(self, query: SumQuery, event: LaplaceRelease) -> np.ndarray:
        """Release the sums of a query with discrete Laplace noise.

        Parameters
        ----------
        query : Query
            What to add up.
        event : LaplaceRelease
            The noise, as it was reserved; its scales are rounded up to whole steps.

        Returns
        -------
        int64 array
            The noisy sums, in grid steps.

        Privacy
        -------
        Spends `event`, which is recorded first: pure DP.
        """
        need_promise_of_sums(query, event, self._contribution)
        stream = self._charge(event)
        query = self._sampled(query, event.sampling_rate, stream)
        scale = _everywhere(np.ceil(event.scales).astype(np.int64), query)
        return self._noisy(query, discrete_laplace(scale, stream), event)

    def laplace_means(self, query: TreeSums, added: int, event: LaplaceRelease) -> np.ndarray:
        """Release the mean gradient of each leaf, G/(n + λ), with discrete Laplace noise.

        Parameters
        ----------
        query : TreeSums
            The leaves; their sums are of gradients and counts.
        added : int
            λ, in steps of counts.
        event : LaplaceRelease
            The noise, as it was reserved.

        Returns
        -------
        int64 array of shape (trees, leaves)
            The noisy means, in `leaf_means.MEAN_STEPS`.

        Privacy
        -------
        Spends `event`, which is recorded first: pure DP. See `leaf_means.row_steps`.
        """
        need_promise(means_bound(query, added, self._contribution), event)
        stream = self._charge(event)
        sampled = self._sampled(query, event.sampling_rate, stream)
        means = exact_means(self._exact(sampled, event), added)
        scale = np.full(means.size, np.ceil(event.scales).astype(np.int64)[0])
        noisy: np.ndarray = means + discrete_laplace(scale, stream).reshape(means.shape)
        return noisy

    def select(self, query: SumQuery, utility: Utility, event: Selection) -> np.ndarray:
        """Choose candidates by the exponential mechanism on exact sums.

        Parameters
        ----------
        query : Query
            The sums that the utility scores; nobody else sees them.
        utility : Utility
            From sums to integer scores, with a proved range.
        event : Selection
            ε₀ = 1/noise, as it was reserved.

        Returns
        -------
        int array
            The chosen candidate of each choice that the utility scores (each node of a level).

        Privacy
        -------
        Spends `event` once, which is recorded first: a row counts for one of the choices only, so
        all of them together are ε₀-bounded-range.
        """
        if query.statistics not in utility.statistics:
            raise ValueError("the utility's range is not proved for the statistics of the query")
        if event.relation != utility.relation:
            raise ValueError("the utility's range is not proved for the event's neighbours")
        if not scores_these(utility, query):
            raise ValueError("the utility scores other features than the query asks for")
        stream = self._charge(event)
        query = self._sampled(query, event.sampling_rate, stream)
        scores = utility.scores(self._exact(query, event), self._contribution)
        # ε₀ rounded down to a multiple of 2⁻⁴⁰ of the range, so that exponents are short fractions.
        steps = math.floor(2**40 / event.noise)
        width = utility.range(self._contribution) * 2**40
        rate = Fraction(steps, width)
        return choose_each(scores, utility.allowed, rate, stream)

    def linear(self, query: LinearSums, event: VectorRelease) -> np.ndarray:
        """Release the sum of the rows' vectors, each times its gradient.

        Returns
        -------
        int64 array
            The noisy sums.

        Privacy
        -------
        Spends `event`, which is recorded first; see `LinearSums.bound`.
        """
        self._check_terms(query)
        need_promise(query.bound(self._contribution), event)
        stream = self._charge(event)
        scales = np.full(query.n_coordinates, event.sigmas[0])
        return self._noisy(query, self._gaussian_noise(scales, stream), event)

    def gram(self, query: GramSums, event: GramRelease) -> np.ndarray:
        """Release the sum of the outer products of the rows' vectors: a symmetric matrix.

        Privacy
        -------
        Spends `event`, which is recorded first; see `GramSums.bound`.
        """
        self._check_terms(query)
        need_promise(query.bound(self._contribution), event)
        if not isinstance(event, GramRelease):
            raise ValueError("a matrix needs the event of a matrix")
        stream = self._charge(event)
        rows, columns = np.triu_indices(query.n_coordinates)
        scales = np.where(rows == columns, 1.0, math.sqrt(0.5)) * event.sigmas[0]
        noise = np.empty(query.shape, dtype=np.int64)
        noise[rows, columns] = self._gaussian_noise(scales, stream)
        noise[columns, rows] = noise[rows, columns]
        return self._noisy(query, noise, event)

    def least_eigenvalue(self, query: GramSums, event: VectorRelease) -> int:
        """Release the smallest eigenvalue of the sum of outer products, in its steps.

        Privacy
        -------
        Spends `event`, which is recorded first; see `eigenvalue_bound`.
        """
        self._check_terms(query)
        need_promise(eigenvalue_bound(query, self._contribution), event)
        stream = self._charge(event)
        exact = np.linalg.eigvalsh(self._exact(query, event).astype(np.float64))[0]
        noise = discrete_gaussian(event.sigmas, stream)[0]
        return int(np.rint(exact)) + int(noise)

    def threshold(self, event: ThresholdRelease, stream: KeyStream) -> list[bytes]:
        """Release the texts that stand out (see `noisy_threshold`).

        Privacy
        -------
        Spends `event`, which is recorded first.
        """
        return noisy_threshold(self._backend.tally, event, self._ledger, stream)

    def _noisy(self, query: Query, noise: np.ndarray, event: Event) -> np.ndarray:
        """Add noise to exact sums."""
        noisy: np.ndarray = self._exact(query, event) + noise.reshape(query.shape)
        return noisy

    def _exact(self, query: Query, event: Event) -> np.ndarray:
        """Have a query answered, on account of an event that is recorded."""
        return self._backend.sum(query)

    def _gaussian_noise(self, scales: np.ndarray, stream: KeyStream) -> np.ndarray:
        """Draw this curator's part of the noise of these scales."""
        return discrete_gaussian(scales * self._part, stream)


def _everywhere(scales: np.ndarray, query: SumQuery) -> np.ndarray:
    """Return the scale of each coordinate of an answer, given that of each statistic."""
    out = np.empty(query.shape, dtype=scales.dtype)
    out[...] = scales
    return out.reshape(-1)


def noisy_threshold(
    tally: Callable[[], Mapping[bytes, int]],
    event: ThresholdRelease,
    ledger: Ledger,
    stream: KeyStream,
) -> list[bytes]:
    """Release the values whose noisy counts exceed a threshold, in no order that tells anything.

    Parameters
    ----------
    tally : callable
        Counts how many rows have each value that occurs; asked once the event is recorded.
    event : ThresholdRelease
        The noise and the chance δ_t, as they were reserved. `event.cells` is the number of
        values that one unit can have.
    ledger : Ledger
        Where the event is recorded first.
    stream : KeyStream
        The randomness. A value's noise is keyed by the value itself, so that it does not depend
        on which other values occur.

    Privacy
    -------
    Spends `event`. Noisy counts of values that both tables have are Gaussian releases. A value
    that only one unit has is told with a chance of at most δ_t over all that unit's values, of
    which there are cells · rows at most: the threshold is steps + σ · Φ⁻¹(1 − δ_t/(cells · rows)).
    """
    ledger.charge(event)
    sigma = float(event.sigmas[0])
    chance = event.delta_of_threshold / (event.cells * event.rows) * (1 - 1e-6)
    # Rounded up and one unit more: the discrete tail is then below the continuous one.
    threshold = event.steps + math.ceil(-sigma * float(ndtri(chance))) + 1
    kept = []
    for value, count in tally().items():
        noise = discrete_gaussian(np.array([sigma]), stream.child(value.hex()))
        if count * CLIP_STEPS + int(noise[0]) > threshold:
            kept.append(value)
    return sorted(kept)
