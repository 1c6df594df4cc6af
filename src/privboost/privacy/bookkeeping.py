"""What is written down before anything is asked of rows, and what they are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from privboost.engine.backend import Backend
from privboost.engine.queries import GramSums, LinearSums, SumQuery
from privboost.engine.updates import SetTerms, Start, Update, UseLoss
from privboost.grid import Contribution
from privboost.privacy.budgets.life import LifeBudget
from privboost.privacy.budgets.payments import Payments
from privboost.privacy.events.event import Event, Planned, SampledGroup
from privboost.privacy.events.sums import GaussianRelease
from privboost.privacy.groups import Group, fresh_sample
from privboost.privacy.ledger import Ledger
from privboost.privacy.promises import need_noise
from privboost.randomness.keystream import KeyStream
from privboost.vectors.terms import Terms


class Bookkeeper:
    """Keeps the books of a run: what each release is charged to, and who takes part in it.

    It sees no sum and draws no noise; that is for the curator, who is one.

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

    def publish(self, update: Update) -> None:
        """Tell the rows what has been released, so that they follow the model."""
        update = update.frozen()  # what is checked stays
        if isinstance(update, Start | UseLoss):
            self._payments.use(update.loss)
        if isinstance(update, SetTerms):
            self._linear = update.terms
        if update.of_budgets:
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

    def _check_terms(self, query: LinearSums | GramSums) -> None:
        """Refuse a query about other vectors than those of the rows."""
        if self._linear is None:
            raise ValueError("a linear release needs SetTerms first")
        own = (self._linear.n_coordinates, len(self._linear.features))
        if (query.n_coordinates, query.n_terms) != own:
            raise ValueError("the query has other coordinates than the rows' vectors")

    def _sampled(self, query: SumQuery, rate: float, stream: KeyStream) -> SumQuery:
        """Have a query answered by the group's sample, a fresh one, or all rows."""
        if self._group is not None:
            return query.sampled(self._group.sample)
        if rate == 1:
            return query if query.sample is None else query.sampled(None)
        return query.sampled(fresh_sample(rate, stream, self._contribution))

    def _next_stream(self) -> KeyStream:
        self._releases += 1
        return self._stream.child(f"release {self._releases}")
