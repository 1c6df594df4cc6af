"""The curator: the only place where exact sums and noise meet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
from scipy.special import ndtri

from privboost._core.errors import BudgetError
from privboost._core.grid import CLIP_STEPS, FULL_RANGE, Contribution
from privboost.accounting.events import Event, Planned, SampledGroup, Selection
from privboost.accounting.individual_budgets import IndividualBudget
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import (
    GaussianRelease,
    GramRelease,
    LaplaceRelease,
    NoisySums,
    Parallel,
    ThresholdRelease,
    VectorRelease,
)
from privboost.data.design_matrix import Terms
from privboost.data.rows import RelativeResiduals
from privboost.engine.backend import Backend
from privboost.engine.queries import GramSums, LinearSums, Query, SumQuery, TreeSums
from privboost.engine.updates import SetClippingRange, SetTerms, Update, UsePart
from privboost.mechanisms.individual_filter import Payments, need_own_states
from privboost.mechanisms.sensitivity import (
    check_noisy,
    check_sensitivity,
    check_sum_sensitivity,
    eigenvalue_bound,
    exact_means,
    means_bound,
    texts_bound,
)
from privboost.mechanisms.utilities import Utility, scores_query_cells
from privboost.randomness.keystream import KeyStream
from privboost.randomness.noise import SAMPLERS
from privboost.randomness.sampling import Sample
from privboost.randomness.selection import choose_each


class Curator:
    """Mediates between the rows and everybody else: it alone sees exact sums.

    Every release is charged to the ledger before a query reaches the rows. Unless a method says
    otherwise, neighbours differ by adding or removing one protected unit (`event.relation`).

    Parameters
    ----------
    backend : Backend
        Holder of the rows.
    ledger : Ledger
        Records each event before its value is released.
    stream : KeyStream
        Randomness; each release has a child stream of its own (but for `threshold`, whose
        caller passes one).
    contribution : Contribution
        Bound of one protected unit's contribution; the rows were bounded accordingly.
    part : float
        Part of the standard deviation of Gaussian noise that this curator draws. Below 1 other
        curators draw theirs, and results are released as one sum with theirs.
    """

    def __init__(
        self,
        backend: Backend,
        ledger: Ledger,
        stream: KeyStream,
        contribution: Contribution,
        part: float = 1.0,
    ) -> None:
        self._backend = backend
        self._ledger = ledger
        self._stream = stream
        self._contribution = contribution
        self._noise_part = part
        self._releases = 0
        self._payments = Payments(backend, contribution)
        self._group: _Group | None = None
        self._terms: Terms | None = None
        self._put_aside: Sample | None = None
        self._counts_aside = self._unsure = False
        self._parallel: frozenset[Parallel] = frozenset()
        self._range = FULL_RANGE

    @property
    def target_range(self) -> tuple[int, int]:
        """The clipping range of a numeric target that was published last; by default its bounds."""
        return self._range

    def publish(self, update: Update) -> None:
        """Send released values to the rows, so that their state follows the model."""
        update = update.frozen()  # it cannot change once checked
        self._payments.note_loss(update)
        if isinstance(update, SetTerms):
            self._terms = update.terms
        if isinstance(update, SetClippingRange):
            self._range = update.low, update.high
        if update.of_budgets:
            raise ValueError(
                "budgets are opened by open_budget, closed by close_budgets, and charged with a "
                "release only"
            )
        if isinstance(update, UsePart):
            raise ValueError("units are put aside by put_aside and use_aside only")
        self._backend.apply(update)

    def sums(self, query: SumQuery, event: NoisySums) -> np.ndarray:
        """Release the sums of a query with the noise of its event (int64, in grid steps).

        The last axis is the statistics.

        Privacy
        -------
        Spends `event`, which is recorded first. Neighbours: the event's relation; replace-one is
        allowed for counts only. Sensitivity: `SumQuery.bound`, at most `event.steps` of each
        statistic in each of the cells that a unit touches. Mechanism: discrete Gaussian or Laplace
        noise. Event: `GaussianRelease` or `LaplaceRelease`. Once individual budgets are open, each
        row pays for its own contribution to a Gaussian release instead, and rows that cannot
        afford it are left out: the whole run costs the budgets, whatever the number of releases.
        """
        check_sum_sensitivity(query, event, self._contribution)
        if self._payments.are_open and isinstance(event, GaussianRelease):
            self._check_no_group()
            need_own_states(query)
            self._ledger.charge_within(event)
            self._payments.charge_rows(query, event)
            stream = self._next_stream()
        else:
            if event.pure is None or not query.may_be_sampled:
                self._check_no_group()
            stream = self._charge_event(event)
        scales = np.empty(query.shape, dtype=event.sampler_scales.dtype)
        scales[...] = event.sampler_scales
        # Drawn first: noise that the sampler refuses is refused before the rows are asked.
        noise = self._draw(event, scales.reshape(-1), stream)
        return self._noisy(self._sampled(query, event.sampling_rate, stream), noise, event)

    def laplace_means(self, query: TreeSums, added: int, event: LaplaceRelease) -> np.ndarray:
        """Release the mean gradient of each leaf, G/(n + λ), in steps of `MEAN_STEPS`.

        `added` is λ, in steps of counts. The result is an int64 array of shape (trees, leaves).

        Privacy
        -------
        Spends `event`, which is recorded first. Sensitivity: `means_bound`, by `mean_steps_of_row`
        for each row. Mechanism: discrete Laplace noise, pure DP. Event: `LaplaceRelease`.
        """
        check_sensitivity(means_bound(query, added, self._contribution), event)
        stream = self._charge_event(event)
        shape = query.shape[:-1]
        noise = self._draw(event, np.full(math.prod(shape), event.sampler_scales[0]), stream)
        sampled = self._sampled(query, event.sampling_rate, stream)
        noisy: np.ndarray = exact_means(self._exact(sampled, event), added) + noise.reshape(shape)
        return noisy

    def select(self, query: SumQuery, utility: Utility, event: Selection) -> np.ndarray:
        """Select candidates by the exponential mechanism on exact sums, which are not released.

        Returns the selected candidate of each selection that the utility scores (each node of a
        level); ε₀ is 1/noise of the event.

        Privacy
        -------
        Spends `event` once, which is recorded first: a row counts for one of the selections only,
        so all of them together are ε₀-bounded-range. Neighbours: `utility.relation`. Sensitivity:
        the utility's proved range. Mechanism: the exact exponential mechanism. Event: `Selection`.
        """
        if query.statistics not in utility.statistics:
            raise ValueError("the utility's range is not proved for the statistics of the query")
        if event.relation != utility.relation:
            raise ValueError("the utility's range is not proved for the event's neighbours")
        if not scores_query_cells(utility, query):
            raise ValueError("the utility scores other features than those of the query")
        stream = self._charge_event(event)
        query = self._sampled(query, event.sampling_rate, stream)
        scores = utility.scores(self._exact(query, event), self._contribution)
        # ε₀ rounded down to a multiple of 2⁻⁴⁰ of the range, so that exponents are short fractions.
        steps = math.floor(2**40 / event.noise)
        width = utility.range(self._contribution) * 2**40
        return choose_each(scores, utility.allowed, Fraction(steps, width), stream)

    def linear(self, query: LinearSums, event: VectorRelease) -> np.ndarray:
        """Release the sum of the rows' vectors, each times its gradient (int64).

        Privacy
        -------
        Spends `event`, which is recorded first. Sensitivity: `LinearSums.bound` (L2). Mechanism:
        discrete Gaussian noise. Event: `VectorRelease`.
        """
        self._check_terms(query)
        check_sensitivity(query.bound(self._contribution), event)
        stream = self._charge_event(event)
        scales = np.full(query.n_coordinates, event.scales[0])
        return self._noisy(query, self._draw(event, scales, stream), event)

    def gram(self, query: GramSums, event: GramRelease) -> np.ndarray:
        """Release the sum of the outer products of the rows' vectors: a symmetric matrix.

        Privacy
        -------
        Spends `event`, which is recorded first. Sensitivity: `GramSums.bound` (L2, of the triangle
        with its off-diagonal times √2). Mechanism: discrete Gaussian noise. Event: `GramRelease`.
        """
        self._check_terms(query)
        check_sensitivity(query.bound(self._contribution), event)
        if not isinstance(event, GramRelease):
            raise ValueError("a matrix needs the event of a matrix")
        stream = self._charge_event(event)
        rows, columns = np.triu_indices(query.n_coordinates)
        scales = np.where(rows == columns, 1.0, math.sqrt(0.5)) * event.scales[0]
        noise = np.empty(query.shape, dtype=np.int64)
        noise[rows, columns] = self._draw(event, scales, stream)
        noise[columns, rows] = noise[rows, columns]
        return self._noisy(query, noise, event)

    def least_eigenvalue(self, query: GramSums, event: VectorRelease) -> int:
        """Release the smallest eigenvalue of the sum of outer products, in its steps.

        Privacy
        -------
        Spends `event`, which is recorded first. Sensitivity: `eigenvalue_bound`. Mechanism:
        discrete Gaussian noise. Event: `VectorRelease`.
        """
        self._check_terms(query)
        check_sensitivity(eigenvalue_bound(query, self._contribution), event)
        stream = self._charge_event(event)
        noise = self._draw(event, event.scales, stream)[0]
        exact = np.linalg.eigvalsh(self._exact(query, event).astype(np.float64))[0]
        return int(np.rint(exact)) + int(noise)

    def threshold(self, columns: int, event: ThresholdRelease, stream: KeyStream) -> list[bytes]:
        """Release the texts of some columns whose noisy counts exceed a threshold.

        `stream` keys the noise of each text: see `noisy_threshold`. Texts of other columns than the
        first `columns` are left out, whatever the backend counts.

        Privacy
        -------
        Spends `event`, which is recorded first. Sensitivity: `texts_bound`, by one text of a row in
        each column. Mechanism: discrete Gaussian noise and a threshold. Event: `ThresholdRelease`.
        """
        check_sensitivity(texts_bound(columns, self._contribution), event)
        self._check_no_group()
        if self._payments.are_open:
            raise ValueError("rows have budgets: only Gaussian releases charge them")
        if self._put_aside is not None:
            raise ValueError("texts of units put aside would count")
        own = {b"%d" % column for column in range(columns)}

        def tally() -> Mapping[bytes, int]:
            counts = self._backend.tally()
            return {key: count for key, count in counts.items() if key.partition(b" ")[0] in own}

        return noisy_threshold(tally, event, self._ledger, stream)

    def open_budget(self, budget: IndividualBudget) -> None:
        """Open an individual budget for each row of the newest cohort; rows pay from now on.

        Privacy
        -------
        Spends `budget`, which is recorded first, and covers all Gaussian releases that follow.
        """
        self._payments.need_open()
        if self._put_aside is not None:
            raise ValueError("rows cannot pay for themselves once units are put aside")
        self._ledger.charge(budget)
        self._payments.open(budget)

    def close_budgets(self) -> None:
        """Close all individual budgets, so that every row takes part again.

        Privacy
        -------
        Spends nothing. Later releases were reserved separately and are charged like any release;
        no budget can be opened again.
        """
        self._payments.close()

    def resume(
        self, updates: Iterable[Update], budgets: Sequence[tuple[IndividualBudget, int]]
    ) -> None:
        """Replay the update log of earlier batches of a stream, and continue their budgets.

        Updates are all that a backend has received so far: released values, prices and charges.
        Replaying them releases nothing. Budgets are those of each cohort, with the number of
        releases made within them.
        """
        self._payments.replay(updates, [budget for budget, _ in budgets])
        for budget, used in budgets:
            self._ledger.adopt(budget, used)

    def exchange(self, reserved: NoisySums, releases: Sequence[Planned]) -> None:
        """Swap a reserved Gaussian release, not yet made, for other Gaussian releases.

        The new ones may depend on all earlier releases.

        Privacy
        -------
        Spends nothing. The total μ² of the releases is at most that of the reserved one, so that
        the cost of the whole run is that of its plan.
        """
        for event in (reserved, *(planned.event for planned in releases)):
            if type(event) is not GaussianRelease or event.sampling_rate != 1:
                raise ValueError("only Gaussian releases of all rows can be exchanged")
        self._ledger.exchange(Planned(reserved, 1), releases, self._ledger.accountant)

    def put_aside(self, fraction: float, event: Parallel) -> None:
        """Put units aside, by a secret coin each: until `use_aside`, only the others count.

        Privacy
        -------
        Spends nothing. Coins do not depend on the rows, and nobody learns them. The releases that
        cover `event`, and all other parallel releases of the plan, must not be made yet: then no
        unit put aside takes part in them, or in what replaces them.
        """
        parallel = self._check_covered(fraction, event)
        if self._contribution.rows > 1:
            raise ValueError("units of several rows may be put aside in part: use max_rows=1")
        if self._put_aside is not None or self._payments.are_open or self._group is not None:
            raise ValueError("units are put aside once, before rows pay and samples are drawn")
        self._put_aside, self._parallel = self._coins(fraction), parallel
        self._use_part(self._put_aside, False)

    def use_aside(self, relative: RelativeResiduals | None = None) -> None:
        """Have only the units put aside count, with nonconformity as states.

        That of a number is its absolute residual, or its relative one.

        Privacy
        -------
        Spends nothing. From now on only parallel releases are made.
        """
        if self._put_aside is None or self._counts_aside:
            raise ValueError("no units are put aside, or they count already")
        self._counts_aside = True
        self._use_part(self._put_aside, True, relative)

    def _check_covered(self, fraction: float, event: Parallel) -> frozenset[Parallel]:
        """Return all parallel releases; refuse to put units aside unless all may be covered."""
        if event.fraction != fraction:
            raise ValueError("another fraction of the units is put aside than the event says")
        parallel = self._ledger.check_parallel(fraction)
        if event not in parallel:
            raise BudgetError(f"not reserved: {event.what}")
        return parallel

    def _use_part(
        self, coins: Sample, aside: bool, relative: RelativeResiduals | None = None
    ) -> None:
        """Have a part of the units count; where that fails, nothing more is released."""
        self._unsure = True
        self._backend.apply(UsePart(coins, aside, relative))
        self._unsure = False

    def _coins(self, fraction: float) -> Sample:
        """Return the units to put aside, by a fresh key."""
        words = self._stream.child("put aside").words(4)
        return Sample(np.frombuffer(words.tobytes(), dtype=np.uint8), fraction)

    @contextmanager
    def sampling(self, event: SampledGroup) -> Iterator[None]:
        """Make a group's releases on one sample of the rows.

        Privacy
        -------
        Spends `event`, which is recorded first, and covers just the releases that it lists.
        """
        self._check_no_group()
        stream = self._charge_event(event)
        self._group = _Group(event, self._fresh_sample(event.sampling_rate, stream))
        try:
            yield
        finally:
            self._group = None

    def _charge_event(self, event: Event) -> KeyStream:
        """Record an event, and return the randomness of its release."""
        check_noisy(event)
        sums = isinstance(event, GaussianRelease | LaplaceRelease)
        if self._put_aside is not None and not sums:
            raise ValueError("once units are put aside, only noisy sums leave them out")
        if self._unsure:
            raise ValueError("it is not known which units count: nothing more is released")
        if isinstance(event, Parallel) != self._counts_aside:
            raise ValueError(f"this release is not of the units that count now: {event.what}")
        if isinstance(event, Parallel) and event not in self._parallel:
            raise ValueError(f"not reserved before units were put aside: {event.what}")
        if self._payments.are_open:
            raise ValueError("rows have budgets: only Gaussian releases charge them")
        if self._group is not None:
            self._group.take(event)
            self._ledger.note_within(event)
        else:
            self._ledger.charge(event)
        return self._next_stream()

    def _check_no_group(self) -> None:
        if self._group is not None:
            raise ValueError("a group of pure releases is under way")

    def _check_terms(self, query: LinearSums | GramSums) -> None:
        """Refuse a query about other vectors than those of the rows."""
        if self._terms is None:
            raise ValueError("a linear release needs SetTerms first")
        own = (self._terms.n_coordinates, len(self._terms.features))
        if (query.n_coordinates, query.n_terms) != own:
            raise ValueError("the query has other coordinates than the rows' vectors")

    def _sampled(self, query: SumQuery, rate: float, stream: KeyStream) -> SumQuery:
        """Return a query about the group's sample, a fresh sample, or all rows."""
        if self._group is not None:
            return query.sampled(self._group.sample)
        if rate == 1:
            return query if query.sample is None else query.sampled(None)
        return query.sampled(self._fresh_sample(rate, stream))

    def _fresh_sample(self, rate: float, stream: KeyStream) -> Sample:
        """Return a sample whose key is derived from a release's own randomness."""
        if self._contribution.rows > 1:
            raise ValueError(
                "units of several rows may be sampled in part: nothing is proved for that"
            )
        key = np.frombuffer(stream.child("sample").words(4).tobytes(), dtype=np.uint8)
        return Sample(key, rate)

    def _next_stream(self) -> KeyStream:
        self._releases += 1
        return self._stream.child(f"release {self._releases}")

    def _noisy(self, query: Query, noise: np.ndarray, event: Event) -> np.ndarray:
        """Return exact sums plus noise."""
        noisy: np.ndarray = self._exact(query, event) + noise.reshape(query.shape)
        return noisy

    def _exact(self, query: Query, event: Event) -> np.ndarray:
        """Ask the rows. The caller must have charged `event`, which subclasses use."""
        return self._backend.sum(query)

    def _draw(self, event: NoisySums, scales: np.ndarray, stream: KeyStream) -> np.ndarray:
        """Draw this curator's part of an event's noise."""
        if self._noise_part != 1:
            if not isinstance(event, GaussianRelease):
                raise ValueError("only Gaussian noise is drawn in parts")
            scales = scales * self._noise_part
        return SAMPLERS[event.sampler](scales, stream)


class _Group:
    """A group of releases on one sample: the sample, and the releases still to be made."""

    def __init__(self, event: SampledGroup, sample: Sample) -> None:
        self.sample = sample
        self._left: Counter[Event] = Counter()
        for planned in event.inner:
            self._left[planned.event] += planned.count

    def take(self, event: Event) -> None:
        """Use up one of the releases."""
        if self._left[event] < 1:
            raise BudgetError(f"not in the group, or made already: {event.what}")
        self._left[event] -= 1


def noisy_threshold(
    tally: Callable[[], Mapping[bytes, int]],
    event: ThresholdRelease,
    ledger: Ledger,
    stream: KeyStream,
) -> list[bytes]:
    """Release the values whose noisy counts exceed a threshold, sorted.

    `tally` counts the rows of each value that occurs; it is called once the event is recorded. A
    value's noise is keyed by the value itself, so that it does not depend on which others occur.

    Privacy
    -------
    Spends `event`. Noisy counts of values that both tables have are Gaussian releases. A value
    that only one unit has is released with probability at most δ_t over all that unit's values,
    of which there are cells · rows at most: the threshold is
    steps + σ · Φ⁻¹(1 − δ_t/(cells · rows)).
    """
    ledger.charge(event)
    sigma = float(event.scales[0])
    probability = event.delta_of_threshold / (event.cells * event.rows) * (1 - 1e-6)
    # Rounded up and one step more: the discrete tail is then below the continuous one.
    threshold = event.steps + math.ceil(-sigma * float(ndtri(probability))) + 1
    kept = []
    for value, count in tally().items():
        noise = SAMPLERS[event.sampler](np.array([sigma]), stream.child(value.hex()))
        if count * CLIP_STEPS + int(noise[0]) > threshold:
            kept.append(value)
    return sorted(kept)
