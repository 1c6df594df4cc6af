"""Curators of the coordinator send the parties each query with its event, which they check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from privboost.engine.queries import GramSums, Query
from privboost.errors import FederationError
from privboost.federation.backend import FederatedBackend
from privboost.federation.distributed import GAUSSIAN
from privboost.grid import Contribution
from privboost.privacy.curator import Curator
from privboost.privacy.events.event import Event, Planned, SampledGroup
from privboost.privacy.events.sums import GaussianRelease, GramRelease, NoisySums
from privboost.privacy.ledger import Ledger
from privboost.randomness.keystream import KeyStream


class FederatedCurator(Curator):
    """Curator of a trusted server: it adds noise to the parties' exact totals.

    Parameters
    ----------
    backend : FederatedBackend
        The parties.
    ledger, stream, contribution
        As for `Curator`.
    """

    def __init__(
        self,
        backend: FederatedBackend,
        ledger: Ledger,
        stream: KeyStream,
        contribution: Contribution,
    ) -> None:
        super().__init__(backend, ledger, stream, contribution)
        self._parties = backend

    def exchange(self, reserved: GaussianRelease, releases: Sequence[Planned]) -> None:
        """Replace a reserved release by Gaussian ones, here and at each party."""
        super().exchange(reserved, releases)
        self._parties.exchange(reserved, releases)

    @contextmanager
    def sampling(self, event: SampledGroup) -> Iterator[None]:
        """Release a group on one sample of the rows, here and at each party."""
        with super().sampling(event):
            self._parties.begin_group(event)
            yield
            self._parties.end_group()

    def _exact(self, query: Query, event: Event) -> np.ndarray:
        return self._parties.sum(query, event)


class RelayCurator(FederatedCurator):
    """Curator of a server that is not trusted: totals come with the parties' noise.

    It makes Gaussian releases only: parties draw no other noise.
    """

    def _draw(self, event: NoisySums, scales: np.ndarray, stream: KeyStream) -> np.ndarray:
        """Return zeros: each party has added its part."""
        return np.zeros(len(scales), dtype=np.int64)

    def _exact(self, query: Query, event: Event) -> np.ndarray:
        if type(event) not in GAUSSIAN or (
            isinstance(query, GramSums) and not isinstance(event, GramRelease)
        ):
            raise FederationError("trust: this release needs a server that is trusted")
        return super()._exact(query, event)
