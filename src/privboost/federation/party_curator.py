"""Who stands between a party's rows and the federation: the curator's checks, at each party.

Both kinds keep the party's own ledger, have its rows pay from their own budgets, and draw samples
with the party's own key.
"""

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
    """Answers queries that the party's own copy of the plan has an event for.

    Parameters
    ----------
    backend, ledger, stream, contribution, part
        As for `Curator`.
    seeded : bool
        Whether samples are those that queries name, by a key that all ends know. Else each release
        has a fresh one, of the party's own key: what a query names decides nothing.
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
        """Charge an event, and return what is added up with the answers of others."""
        try:
            need_known_promise(query, event, self._contribution)
        except ValueError as error:  # it speaks of query and event alone
            raise FederationError(f"plan: {error}") from None
        return self._answer(query, event)

    @abstractmethod
    def _answer(self, query: Query, event: Event) -> np.ndarray:
        """Answer a query that reveals no more than its event promises."""

    def _sampled(self, query: SumQuery, rate: float, stream: KeyStream) -> SumQuery:
        """Have a query answered by a sample of the rate that its event, or the group's, has."""
        wanted = rate if self._group is None else self._group.sample.rate
        if (1.0 if query.sample is None else query.sample.rate) != wanted:
            raise FederationError("samples: the query has another rate than its event")
        return query if self._seeded else super()._sampled(query, rate, stream)


class ExactAnswers(PartyCurator):
    """For a server that is trusted with exact totals: it adds the noise that was reserved."""

    def _answer(self, query: Query, event: Event) -> np.ndarray:
        """Charge an event, and return the exact sums; they leave the party under masks alone."""
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


class NoisyAnswers(PartyCurator):
    """For a server that is trusted with nothing: each party adds its part of the noise."""

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


def need_known_promise(query: Query, event: Event, contribution: Contribution) -> None:
    """Refuse a query that reveals more than its event promises, as far as a party can tell.

    What a trusted server makes of the sums it alone decides: λ of noisy means, and the utility of a
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
    """Whether sums of two statistics are for a release of one: their means."""
    pair = isinstance(query, TreeSums) and query.statistics == GRADIENT_COUNT
    return pair and isinstance(event, LaplaceRelease) and len(event.shares) == 1
