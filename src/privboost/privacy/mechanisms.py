"""The only place where exact sums and noise meet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from scipy.special import ndtri

from privboost.engine.backend import Backend
from privboost.engine.commands import STATISTICS, Charge, OpenBudgets, Query, Start, Update
from privboost.grid import UNIT, Contribution
from privboost.losses import LossTable, within_units
from privboost.privacy.events import (
    Event,
    GaussianRelease,
    LaplaceRelease,
    Selection,
    ThresholdRelease,
)
from privboost.privacy.filters import RowFilter
from privboost.privacy.keystream import KeyStream
from privboost.privacy.ledger import Ledger
from privboost.privacy.noise import discrete_gaussian, discrete_laplace
from privboost.privacy.selection import choose
from privboost.privacy.utilities import Utility


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
        self._loss: LossTable | None = None
        self._budgets = False
        self._paid = False

    def gaussian(self, query: Query, event: GaussianRelease) -> np.ndarray:
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
            The noisy sums, in grid units.

        Privacy
        -------
        Spends `event`, which is recorded first. Neighbours differ in one protected unit, which
        moves each statistic by at most `event.units` in each of the cells it touches.
        """
        self._check(query, event)
        stream = self._charge(event)
        sigma = np.broadcast_to(event.sigmas, query.shape)
        return self._noisy(query, discrete_gaussian(sigma.reshape(-1), stream))

    def laplace(self, query: Query, event: LaplaceRelease) -> np.ndarray:
        """Release the sums of a query with discrete Laplace noise.

        Parameters
        ----------
        query : Query
            What to add up.
        event : LaplaceRelease
            The noise, as it was reserved; its scales are rounded up to whole units.

        Returns
        -------
        int64 array
            The noisy sums, in grid units.

        Privacy
        -------
        Spends `event`, which is recorded first: pure DP.
        """
        self._check(query, event)
        stream = self._charge(event)
        scale = np.broadcast_to(np.ceil(event.scales).astype(np.int64), query.shape)
        return self._noisy(query, discrete_laplace(scale.reshape(-1), stream))

    def select(self, query: Query, utility: Utility, event: Selection) -> int:
        """Choose a candidate by the exponential mechanism on exact sums.

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
        int
            The chosen candidate.

        Privacy
        -------
        Spends `event`, which is recorded first: the choice is ε₀-bounded-range.
        """
        if query.statistics not in utility.statistics:
            raise ValueError("the utility's range is not proved for the statistics of the query")
        stream = self._charge(event)
        scores = utility.scores(self._backend.sum(query), self._contribution)
        # ε₀ rounded down to a multiple of 2⁻⁴⁰ of the range, so that exponents are short fractions.
        steps = math.floor(2**40 / event.noise)
        width = utility.range(self._contribution) * 2**40
        best = max(scores)
        return choose([Fraction((best - score) * steps, width) for score in scores], stream)

    def publish(self, update: Update) -> None:
        """Tell the rows what has been released, so that they follow the model."""
        if isinstance(update, Start):
            if not within_units(update.loss):
                raise ValueError("a loss table exceeds the grid's unit: it would be undercharged")
            self._loss = update.loss
        if isinstance(update, Charge) or (isinstance(update, OpenBudgets) and self._budgets):
            raise ValueError("budgets are for life, and charged with a release only")
        self._budgets |= isinstance(update, OpenBudgets)
        self._backend.apply(update)

    def filtered_gaussian(
        self, query: Query, event: GaussianRelease, filter_: RowFilter
    ) -> np.ndarray:
        """Release sums of the rows that can afford it, as `gaussian` does.

        Each row is charged for its own contribution to just this release (see `filters`); budgets
        must have been opened.
        """
        if self._loss is None or not self._budgets:
            raise ValueError("a filtered release needs a Start and OpenBudgets first")
        charge = filter_.charge(self._loss, event, query.output, query.statistics)
        self._backend.apply(charge)
        self._paid = True
        try:
            return self.gaussian(query, event)
        finally:
            self._paid = False

    def _noisy(self, query: Query, noise: np.ndarray) -> np.ndarray:
        """The one place where exact sums and noise are added."""
        noisy: np.ndarray = self._backend.sum(query) + noise.reshape(query.shape)
        return noisy

    def _charge(self, event: Event) -> KeyStream:
        """Record an event, and return the randomness of its release."""
        if getattr(event, "sampling_rate", 1.0) != 1:
            raise ValueError("the rows are not sampled: an event with a sampling rate is too cheap")
        if self._budgets and not self._paid:
            raise ValueError("rows have budgets: only filtered releases charge them")
        self._ledger.charge(event)
        self._releases += 1
        return self._stream.child(f"release {self._releases}")

    def _check(self, query: Query, event: GaussianRelease | LaplaceRelease) -> None:
        """Refuse an event that promises less than what the query can reveal of a unit."""
        bound = self._contribution
        honest = (
            event.units >= bound.row_units * bound.rows
            and event.rows >= bound.rows
            and event.cells >= query.cells_per_row
            and len(event.shares) == query.shape[-1]
            and query.statistics in STATISTICS
        )
        if not honest:
            raise ValueError(f"the event understates what the query reveals: {event.what}")


def noisy_threshold(
    counts: Mapping[bytes, int], event: ThresholdRelease, ledger: Ledger, stream: KeyStream
) -> list[bytes]:
    """Release the values whose noisy counts exceed a threshold, in no order that tells anything.

    Parameters
    ----------
    counts : mapping from value to int
        How many rows have each value that occurs.
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
    which there are cells · rows at most: the threshold is units + σ · Φ⁻¹(1 − δ_t/(cells · rows)).
    """
    ledger.charge(event)
    sigma = float(event.sigmas[0])
    chance = event.delta_of_threshold / (event.cells * event.rows) * (1 - 1e-6)
    # Rounded up and one unit more: the discrete tail is then below the continuous one.
    threshold = event.units + math.ceil(-sigma * float(ndtri(chance))) + 1
    kept = []
    for value, count in counts.items():
        noise = discrete_gaussian(np.array([sigma]), stream.child(value.hex()))
        if count * UNIT + int(noise[0]) > threshold:
            kept.append(value)
    return sorted(kept)
