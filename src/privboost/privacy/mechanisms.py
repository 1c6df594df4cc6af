"""The only place where exact sums and noise meet."""

from __future__ import annotations

import numpy as np

from privboost.engine.backend import Backend
from privboost.engine.commands import STATISTICS, Query, Start, Update
from privboost.grid import Contribution
from privboost.losses import within_units
from privboost.privacy.events import GaussianRelease
from privboost.privacy.keystream import KeyStream
from privboost.privacy.ledger import Ledger
from privboost.privacy.noise import discrete_gaussian


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
        self._ledger.charge(event)
        stream = self._stream.child(f"release {self._releases}")
        self._releases += 1
        sigma = np.broadcast_to(event.sigmas, query.shape)
        noise = discrete_gaussian(sigma.reshape(-1), stream)
        released: np.ndarray = self._backend.sum(query) + noise.reshape(query.shape)
        return released

    def publish(self, update: Update) -> None:
        """Tell the rows what has been released, so that they follow the model."""
        if isinstance(update, Start) and not within_units(update.loss):
            raise ValueError(
                "a loss table exceeds the grid's unit: sensitivity would be understated"
            )
        self._backend.apply(update)

    def _check(self, query: Query, event: GaussianRelease) -> None:
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
