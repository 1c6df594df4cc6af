"""The only place where exact sums and noise meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtri

from privboost.engine.backend import Backend
from privboost.engine.queries import (
    GramSums,
    LinearSums,
    Query,
    SumQuery,
    TreeSums,
)
from privboost.engine.updates import (
    Charge,
    CloseBudgets,
    OpenBudgets,
    Price,
    SetTerms,
    Start,
    Update,
    UseLoss,
)
from privboost.grid import CLIP_STEPS, Contribution
from privboost.losses import within_steps
from privboost.privacy.budgets.life import LifeBudget
from privboost.privacy.budgets.payments import Payments
from privboost.privacy.eigenvalues import eigenvalue_bound
from privboost.privacy.events.event import Event, Planned, SampledGroup, Selection
from privboost.privacy.events.sums import (
    GaussianRelease,
    GramRelease,
    LaplaceRelease,
    NoisySums,
    ThresholdRelease,
    VectorRelease,
)
from privboost.privacy.groups import Group, fresh_sample
from privboost.privacy.leaf_means import exact_means, means_bound
from privboost.privacy.ledger import Ledger
from privboost.privacy.promises import need_noise, need_promise, need_promise_of_sums
from privboost.privacy.utilities.splits import Utility, scores_these
from privboost.randomness.keystream import KeyStream
from privboost.randomness.noise import discrete_gaussian, discrete_laplace
from privboost.randomness.selection import choose_each
from privboost.vectors.terms import Terms


class Curator:
    """Stands between the rows and everybody else: it alone sees exact sums, and never tells them.

    Parameters
    ----------
    backend : Backend
        Who holds the rows.
    ledger : Ledger
        Where each event is recorded before its value is released.
    stream : KeyStream
        The randomness; each release has a child stream of its own.
    contribution : Contribution
        How much one protected unit may add; the rows were bounded accordingly.
    """

    def __init__(
        self, backend: Backend, ledger: Ledger, stream: KeyStream, contribution: Contribution
    ) -> None:
        self._backend = backend
        self._ledger = ledger
        self._stream = stream
        self._contribution = contribution
        self._releases = 0
        self._payments = Payments(backend, contribution.weighted)
        self._group: Group | None = None
        self._linear: Terms | None = None

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
        noise = discrete_gaussian(_everywhere(event.sigmas, query), stream)
        return self._noisy(self._sampled(query, event.sampling_rate, stream), noise)

    def exchange(self, reserved: GaussianRelease, releases: Sequence[Planned]) -> None:
        """Put Gaussian releases in the place of one that was reserved and not made.

        Parameters
        ----------
        reserved : GaussianRelease
            What stands for them in the plan, once.
        releases : sequence of Planned
            What will be made instead; it may follow from all that was released before.

        Privacy
        -------
        Spends nothing. μ² of the releases together is at most that of what is given up, whatever
        they are, so that the cost of the whole run is that of its plan.
        """
        for event in (reserved, *(planned.event for planned in releases)):
            if type(event) is not GaussianRelease or event.sampling_rate != 1:
                raise ValueError("only Gaussian releases of all rows can be exchanged")
        self._ledger.exchange(Planned(reserved, 1), releases, self._ledger.accountant)

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
        return self._noisy(query, discrete_laplace(scale, stream))

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
        means = exact_means(self._backend.sum(sampled), added)
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
        scores = utility.scores(self._backend.sum(query), self._contribution)
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
        return self._noisy(query, discrete_gaussian(scales, stream))

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
        noise[rows, columns] = discrete_gaussian(scales, stream)
        noise[columns, rows] = noise[rows, columns]
        return self._noisy(query, noise)

    def least_eigenvalue(self, query: GramSums, event: VectorRelease) -> int:
        """Release the smallest eigenvalue of the sum of outer products, in its steps.

        Privacy
        -------
        Spends `event`, which is recorded first; see `eigenvalue_bound`.
        """
        self._check_terms(query)
        need_promise(eigenvalue_bound(query, self._contribution), event)
        stream = self._charge(event)
        exact = np.linalg.eigvalsh(self._backend.sum(query).astype(np.float64))[0]
        noise = discrete_gaussian(event.sigmas, stream)[0]
        return int(np.rint(exact)) + int(noise)

    def threshold(self, event: ThresholdRelease, stream: KeyStream) -> list[bytes]:
        """Release the texts that stand out (see `noisy_threshold`).

        Privacy
        -------
        Spends `event`, which is recorded first.
        """
        return noisy_threshold(self._backend.tally, event, self._ledger, stream)

    def _check_terms(self, query: LinearSums | GramSums) -> None:
        """Refuse a query about other vectors than those of the rows."""
        if self._linear is None:
            raise ValueError("a linear release needs SetTerms first")
        own = (self._linear.n_coordinates, len(self._linear.features))
        if (query.n_coordinates, query.n_terms) != own:
            raise ValueError("the query has other coordinates than the rows' vectors")

    def publish(self, update: Update) -> None:
        """Tell the rows what has been released, so that they follow the model."""
        if isinstance(update, Start | UseLoss):
            if update.loss is not None:
                update = replace(update, loss=update.loss.frozen())  # what is checked stays
                if not within_steps(update.loss):  # type: ignore[arg-type]
                    raise ValueError("a loss table exceeds its clip: it would be undercharged")
            self._payments.use(update.loss)
        if isinstance(update, SetTerms):
            update = SetTerms(update.terms.frozen())
            update.terms.check()
            self._linear = update.terms
        if isinstance(update, OpenBudgets | CloseBudgets | Price | Charge):
            raise ValueError(
                "budgets are opened by open_budget, closed by close_budgets, and charged with a "
                "release only"
            )
        self._backend.apply(update)

    def open_budget(self, budget: LifeBudget) -> None:
        """Give the rows of the newest cohort a budget for life; from now on rows pay themselves.

        Privacy
        -------
        Spends `budget`, which is recorded first, and covers all Gaussian releases that follow.
        """
        self._payments.need_open()
        self._ledger.charge(budget)
        self._payments.open(budget)

    def close_budgets(self) -> None:
        """Let all rows count again, if they had budgets; from now on none is charged to them.

        Privacy
        -------
        Spends nothing. What follows was reserved beside the budgets, and is charged like any
        release; no budget can be opened again.
        """
        self._payments.close()

    def resume(self, updates: Iterable[Update], budgets: Sequence[tuple[LifeBudget, int]]) -> None:
        """Replay what earlier batches of a stream were told, and go on with their budgets.

        Parameters
        ----------
        updates : iterable of Update
            Everything a backend was told so far: released values, prices and charges. Replaying
            it releases nothing.
        budgets : sequence of (LifeBudget, int)
            The budget of each cohort, and how many releases were made within it.
        """
        self._payments.replay(updates, [budget for budget, _ in budgets])
        for budget, used in budgets:
            self._ledger.adopt(budget, used)

    def _noisy(self, query: Query, noise: np.ndarray) -> np.ndarray:
        """Add noise to exact sums."""
        noisy: np.ndarray = self._backend.sum(query) + noise.reshape(query.shape)
        return noisy

    def _charge(self, event: Event) -> KeyStream:
        """Record an event, and return the randomness of its release."""
        need_noise(event)
        if self._payments:
            raise ValueError("rows have budgets: only Gaussian releases charge them")
        if self._group is not None:
            self._group.take(event)
            self._ledger.note_within(event)
        else:
            self._ledger.charge(event)
        return self._next_stream()

    @contextmanager
    def sampling(self, event: SampledGroup) -> Iterator[None]:
        """Make a group's releases on one sample of the rows.

        Privacy
        -------
        Spends `event`, which is recorded first, and covers just the releases that it lists.
        """
        if self._group is not None:
            raise ValueError("a group of pure releases is under way")
        stream = self._charge(event)
        self._group = Group(event, fresh_sample(event.sampling_rate, stream, self._contribution))
        try:
            yield
        finally:
            self._group = None

    def _sampled(self, query: SumQuery, rate: float, stream: KeyStream) -> SumQuery:
        """Have a query answered by the group's sample, a fresh one, or all rows."""
        if self._group is not None:
            return replace(query, sample=self._group.sample)
        if rate == 1:
            return query if query.sample is None else replace(query, sample=None)
        return replace(query, sample=fresh_sample(rate, stream, self._contribution))

    def _next_stream(self) -> KeyStream:
        self._releases += 1
        return self._stream.child(f"release {self._releases}")


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
