"""A party's curator: it keeps the party's own ledger, and draws its noise and samples."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from privboost.engine.backend import Backend
from privboost.engine.queries import (
    GRADIENT_COUNT,
    GramSums,
    LinearSums,
    NodeHistograms,
    Query,
    SumQuery,
    TreeSums,
    VoteCounts,
)
from privboost.errors import FederationError
from privboost.federation.distributed import check_scale
from privboost.grid import Contribution
from privboost.privacy.curator import Curator
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
from privboost.privacy.leaf_means import means_bound
from privboost.privacy.ledger import Ledger
from privboost.privacy.promises import need_promise, need_promise_of_sums
from privboost.randomness.keystream import KeyStream


class PartyCurator(Curator):
    """Answers queries by the events of the party's own copy of the plan.

    Parameters
    ----------
    backend, ledger, stream, contribution, part
        As for `Curator`.
    seeded : bool
        Whether samples follow the key that queries carry, which all ends know. Otherwise each
        release has a fresh sample of the party's own key, and the query's key is ignored.
    """

    def __init__(
        self,
        backend: Backend,
        ledger: Ledger,
        stream: KeyStream,
        contribution: Contribution,
        part: float,
        seeded: bool,
    ) -> None:
        super().__init__(backend, ledger, stream, contribution, part)
        self._seeded = seeded

    def answer(self, query: Query, event: Event) -> np.ndarray:
        """Charge an event, and return the sums to be added to those of other parties."""
        try:
            check_sensitivity(query, event, self._contribution)
        except ValueError as error:  # it names the query and the event alone
            raise FederationError(f"plan: {error}") from None
        return self._answer(query, event)

    @abstractmethod
    def _answer(self, query: Query, event: Event) -> np.ndarray:
        """Answer a query whose sensitivity its event covers."""

    def _sampled(self, query: SumQuery, rate: float, stream: KeyStream) -> SumQuery:
        """Return a query on a sample of the rate of its event, or of the group."""
        wanted = rate if self._group is None else self._group.sample.rate
        if (1.0 if query.sample is None else query.sample.rate) != wanted:
            raise FederationError("samples: the query has another rate than its event")
        return query if self._seeded else super()._sampled(query, rate, stream)


class ExactPartyCurator(PartyCurator):
    """Curator for a server that is trusted with exact totals, and adds the noise."""

    def _answer(self, query: Query, event: Event) -> np.ndarray:
        """Charge an event, and return the exact sums; they leave the party under masks only."""
        if isinstance(query, LinearSums | GramSums):
            self._check_terms(query)
        if self._payments:
            if type(event) is not GaussianRelease or not isinstance(query, SumQuery):
                raise FederationError("budgets: rows pay for Gaussian releases only")
            self._ledger.charge_within(event)
            self._payments.charge(query, event)
            stream = self._next_stream()
        else:
            stream = self._charge(event)
        if isinstance(query, SumQuery):
            query = self._sampled(query, event.rate, stream)
        return self._backend.sum(query)


class NoisyPartyCurator(PartyCurator):
    """Curator for a server that is not trusted: each party adds its part of the noise."""

    def _answer(self, query: Query, event: Event) -> np.ndarray:
        """Charge an event, and return sums with this party's part of its Gaussian noise."""
        check_scale(event, self._part)
        if isinstance(query, LinearSums) and type(event) is VectorRelease:
            return self.linear(query, event)
        if isinstance(query, GramSums) and type(event) is GramRelease:
            return self.gram(query, event)
        if isinstance(query, SumQuery) and type(event) is GaussianRelease:
            return self.sums(query, event)
        raise FederationError(f"noise: parties cannot add that of {event.what!r}")


def check_sensitivity(query: Query, event: Event, contribution: Contribution) -> None:
    """Refuse a query whose sensitivity its event does not cover, as far as a party can check.

    A trusted server alone decides how it uses the sums: λ of noisy means, and the utility of a
    selection.
    """
    if isinstance(event, Selection) and isinstance(query, NodeHistograms | VoteCounts):
        return
    if not isinstance(event, NoisySums) or isinstance(event, ThresholdRelease):
        raise FederationError("plan: this release answers no such query")
    if isinstance(query, GramSums):
        vector = type(event) is VectorRelease
        own = eigenvalue_bound(query, contribution) if vector else query.bound(contribution)
        need_promise(own, event)
    elif isinstance(query, LinearSums):
        need_promise(query.bound(contribution), event)
    elif _is_means(query, event):
        assert isinstance(query, TreeSums)
        need_promise(replace(means_bound(query, 1, contribution), steps=event.steps), event)
    else:
        assert isinstance(query, SumQuery)
        need_promise_of_sums(query, event, contribution)


def _is_means(query: Query, event: NoisySums) -> bool:
    """Return whether sums of two statistics are for a release of their means."""
    pair = isinstance(query, TreeSums) and query.statistics == GRADIENT_COUNT
    return pair and isinstance(event, LaplaceRelease) and len(event.shares) == 1
