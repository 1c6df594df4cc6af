"""A party's curators: they charge its own ledger, and draw its samples and its part of the noise.

Parties add the noise together: each draws a part, and the sum replaces one draw.

Of k parties d may be lost and c may reveal their noise to the server. So every sum has the noise
of k − c − d honest parties, and each draws discrete Gaussian noise of 1/(k − c − d) of the
variance. The sum of m discrete Gaussians of scale s is, at every integer, within e^{±τ} of one
discrete Gaussian of scale s√m, with τ ≤ 10 · Σ_{j<m} exp(−2π²s²·j/(j+1)):
docs/guarantees/federation.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace

import numpy as np

from privboost._core.errors import FederationError
from privboost._core.grid import Contribution
from privboost.accounting.events import Event, Selection
from privboost.accounting.individual_budgets import IndividualBudget
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import (
    GaussianRelease,
    GramRelease,
    LaplaceRelease,
    NoisySums,
    Parallel,
    ParallelRelease,
    ThresholdRelease,
    VectorRelease,
)
from privboost.engine.backend import Backend
from privboost.engine.queries import (
    GRADIENT_COUNT,
    GramSums,
    LinearSums,
    NodeHistograms,
    Query,
    ScoreCounts,
    SumQuery,
    TreeSums,
    VoteCounts,
)
from privboost.engine.updates import UsePart
from privboost.federated.aggregation import Quorum
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.individual_filter import need_own_states
from privboost.mechanisms.sensitivity import (
    check_sensitivity,
    check_sum_sensitivity,
    eigenvalue_bound,
    means_bound,
)
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import Sample
from privboost.recipes.adassp import AdaSSPPlan
from privboost.recipes.common.plan import Plan

GAUSSIAN = (GaussianRelease, VectorRelease, GramRelease, ParallelRelease)
"""Events whose noise parties can add: these classes, not their subclasses."""
LEAST_SCALE = 2.0**8
"""The least scale of one party's noise, in grid steps."""
SLACK = 1e-300
"""Bound of the ε that a run loses because noise is a sum: from `LEAST_SCALE` on, τ of one number
is below 10 · 2¹² · exp(−6 · 10⁵)."""


def noise_part(quorum: Quorum) -> float:
    """Return a party's part of the noise's standard deviation, rounded up."""
    return math.nextafter(1 / math.sqrt(quorum.honest), math.inf)


def sum_slack(scale: float, parties: int) -> float:
    """Return the bound τ of one number: the log-ratio of a sum of discrete Gaussians to one."""
    ratios = (j / (j + 1) for j in range(1, parties))
    return math.fsum(10 * math.exp(-2 * math.pi**2 * scale**2 * ratio) for ratio in ratios)


def check_distributed(plan: Plan, quorum: Quorum) -> None:
    """Refuse a plan whose noise parties cannot add."""
    if isinstance(plan, AdaSSPPlan) and plan.least is not None:
        raise FederationError(
            'trust: the smallest eigenvalue needs a server that is trusted, trust="server"'
        )
    for planned in plan.releases:
        event = planned.event
        if not isinstance(event, IndividualBudget) and type(event) not in GAUSSIAN:
            raise FederationError(
                f'trust: {event.what!r} needs a server that is trusted, trust="server" '
                f"({event.mechanism})"
            )
        check_scale(event, noise_part(quorum))


def check_scale(event: Event, part: float) -> None:
    """Refuse noise of which a party's part would be below `LEAST_SCALE`."""
    # Individual budgets have no scale of their own: their releases are checked one by one.
    scale = event.gaussian_grid[1] if event.gaussian_grid else min(event.scales, default=math.inf)
    if not scale * part >= LEAST_SCALE:
        raise FederationError(
            f"trust: the noise of {event.what!r} is too little to be divided among parties"
        )


class PartyCurator(Curator):
    """Answers queries by the events of the party's own copy of the plan.

    In a seeded run samples follow the key that queries carry, which all ends know. Otherwise each
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
        self._given: Sample | None = None

    def follow_part(self, update: UsePart, event: Parallel) -> None:
        """Put this party's units aside, or have them count, when the coordinator does.

        In a seeded run coins follow the key of the message; otherwise the key is the party's own.
        """
        if not update.aside:
            self._given = update.put_aside
            self.put_aside(update.put_aside.rate, event)
        else:
            self.use_aside(update.relative)

    def _coins(self, fraction: float) -> Sample:
        if self._seeded and self._given is not None:
            return self._given
        return super()._coins(fraction)

    def answer(self, query: Query, event: Event) -> np.ndarray:
        """Charge an event, and return the sums to be added to those of other parties."""
        try:
            check_query_sensitivity(query, event, self._contribution)
            if self._payments.are_open and isinstance(query, SumQuery):
                need_own_states(query)
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
        if self._payments.are_open:
            if type(event) is not GaussianRelease or not isinstance(query, SumQuery):
                raise FederationError("budgets: rows pay for Gaussian releases only")
            self._ledger.charge_within(event)
            self._payments.charge_rows(query, event)
            stream = self._next_stream()
        else:
            stream = self._charge_event(event)
        if isinstance(query, SumQuery):
            query = self._sampled(query, event.sampling_rate, stream)
        return self._backend.sum(query)


class NoisyPartyCurator(PartyCurator):
    """Curator for a server that is not trusted: each party adds its part of the noise."""

    def _answer(self, query: Query, event: Event) -> np.ndarray:
        """Charge an event, and return sums with this party's part of its Gaussian noise."""
        check_scale(event, self._noise_part)
        if isinstance(query, LinearSums) and type(event) is VectorRelease:
            return self.linear(query, event)
        if isinstance(query, GramSums) and type(event) is GramRelease:
            return self.gram(query, event)
        if isinstance(query, SumQuery) and type(event) is GaussianRelease:
            return self.sums(query, event)
        if isinstance(query, ScoreCounts) and type(event) is ParallelRelease:
            return self.sums(query, event)
        raise FederationError(f"noise: parties cannot add that of {event.what!r}")


def check_query_sensitivity(query: Query, event: Event, contribution: Contribution) -> None:
    """Refuse a query whose sensitivity its event does not cover, as far as a party can check.

    A trusted server alone decides how it uses the sums: λ of noisy means, and the utility of a
    selection.
    """
    if isinstance(event, Selection) and isinstance(query, NodeHistograms | VoteCounts):
        return
    if not isinstance(event, NoisySums) or isinstance(event, ThresholdRelease):
        raise FederationError("plan: this release answers no such query")
    if isinstance(query, GramSums) and type(event) is VectorRelease:
        check_sensitivity(eigenvalue_bound(query, contribution), event)
    elif isinstance(query, GramSums | LinearSums):
        check_sensitivity(query.bound(contribution), event)
    elif (
        isinstance(query, TreeSums)
        and query.statistics == GRADIENT_COUNT
        and isinstance(event, LaplaceRelease)
        and len(event.shares) == 1
    ):  # sums of two statistics, for a release of their means
        check_sensitivity(replace(means_bound(query, 1, contribution), steps=event.steps), event)
    else:
        assert isinstance(query, SumQuery)
        check_sum_sensitivity(query, event, contribution)
