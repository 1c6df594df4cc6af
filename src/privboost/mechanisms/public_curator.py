"""The curator of rows that were declared public: exact results of the same methods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privboost._core.grid import Contribution
from privboost.accounting.accountants import Accountant
from privboost.accounting.events import Event, Exact, Planned
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import Parallel
from privboost.engine.backend import Backend
from privboost.engine.queries import GramSums, LinearSums, SumQuery, TreeSums
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.sensitivity import exact_means
from privboost.mechanisms.utilities import Utility
from privboost.randomness.keystream import KeyStream


def empty_ledger(accountant: Accountant) -> Ledger:
    """Return a ledger without a budget: no private release can be charged to it."""
    return Ledger(0.0, 0.0, accountant)


class PublicCurator(Curator):
    """Returns exact sums, and the best candidate of each selection. It protects nobody.

    It takes `Exact` events only, which no plan but one for public rows has. Its ledger is empty: a
    method that it does not override finds nothing reserved. Samples are those of a private run with
    the same seed.
    """

    def __init__(
        self,
        backend: Backend,
        accountant: Accountant,
        stream: KeyStream,
        contribution: Contribution,
    ) -> None:
        super().__init__(backend, empty_ledger(accountant), stream, contribution)

    def sums(self, query: SumQuery, event: Event) -> np.ndarray:
        return self._backend.sum(
            self._sampled(query, event.sampling_rate, self._charge_event(event))
        )

    def exchange(self, reserved: Event, releases: Sequence[Planned]) -> None:
        """Accept exact releases as a replacement: nothing is reserved, since nothing is paid."""
        for planned in releases:
            _check_exact(planned.event)

    def laplace_means(self, query: TreeSums, added: int, event: Event) -> np.ndarray:
        return exact_means(self.sums(query, event), added)

    def select(self, query: SumQuery, utility: Utility, event: Event) -> np.ndarray:
        """Return the best candidate of each selection; the first one of ties."""
        scores = utility.scores(self.sums(query, event), self._contribution)
        if utility.allowed is not None:
            scores = np.where(utility.allowed, scores, np.iinfo(np.int64).min)
        best: np.ndarray = scores.argmax(axis=1)
        return best

    def linear(self, query: LinearSums, event: Event) -> np.ndarray:
        return self._linear_sum(query, event)

    def gram(self, query: GramSums, event: Event) -> np.ndarray:
        return self._linear_sum(query, event)

    def least_eigenvalue(self, query: GramSums, event: Event) -> int:
        gram = self._linear_sum(query, event)
        return int(np.rint(np.linalg.eigvalsh(gram.astype(np.float64))[0]))

    def _check_covered(self, fraction: float, event: Event) -> frozenset[Parallel]:
        """Accept an exact event: nothing is paid."""
        _check_exact(event)
        return frozenset()

    def _linear_sum(self, query: LinearSums | GramSums, event: Event) -> np.ndarray:
        self._check_terms(query)
        self._charge_event(event)
        return self._backend.sum(query)

    def _charge_event(self, event: Event) -> KeyStream:
        """Accept an exact event, which costs nothing; refuse a private one."""
        _check_exact(event)
        if self._group is not None:
            self._group.take(event)
        return self._next_stream()


def _check_exact(event: Event) -> None:
    if not isinstance(event, Exact):
        raise ValueError(f"public rows are released exactly, without noise: {event.what}")
