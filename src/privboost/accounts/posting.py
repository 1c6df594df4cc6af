"""A pending charge: an account, and the run that is about to be charged to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from privboost.accounts.account import BudgetAccount
from privboost.accounts.filters import Price, are_near
from privboost.accounts.records import now, user
from privboost.accounts.statement import Balance, Entry
from privboost.errors import BudgetError
from privboost.privacy.events.event import Planned, Relation
from privboost.reports.report import PrivacyReport


@dataclass(frozen=True)
class Posting:
    """An account and a run; a ledger charges its reservation to it.

    Attributes
    ----------
    account : BudgetAccount
        The account.
    what : str
        What is about to run.
    unit : str or None
        The run's unit column.
    inference : PrivacyReport or None
        Report of private domain inference on these rows; it is charged unless it was before.
    stream : str
        Key of the entry of a stream's earlier batches.
    batch : int
        Number of the batch, from 1 on; 0 without a stream.
    """

    account: BudgetAccount
    what: str
    unit: str | None
    inference: PrivacyReport | None = None
    stream: str = ""
    batch: int = 0

    @property
    def rows(self) -> str:
        """Identifier of these rows in reports."""
        return self.account.rows

    def charge(self, plan: Sequence[Planned], epsilon: float, delta: float) -> str:
        """Charge a plan to the account, or refuse it; return the entry's key."""
        price, own = self.price(plan), (self.unit, self.stream, self.batch)
        return self.account.charge(price, self.what, epsilon, delta, *own)

    def check(self, *plans: Sequence[Planned]) -> None:
        """Refuse plans that the account does not cover; nothing is charged."""
        balance = self.account.balance()
        balance.check_open()
        balance.check_room(sum(map(self.price, plans), balance.spent))

    def after(self, plan: Sequence[Planned], epsilon: float, delta: float) -> Balance:
        """Return the balance after a charge, without charging; refuse what it does not cover."""
        self.check(plan)
        balance, own = self.account.balance(), (self.account.name, self.what)
        entry = Entry(0, "", now(), user(), *own, epsilon, delta, self.batch, self.price(plan))
        return replace(balance, entries=(*balance.entries, entry))

    def price(self, plan: Sequence[Planned]) -> Price:
        """Return the price of a plan and, unless it was charged, of its domain inference."""
        balance = self.account.balance()
        rules = balance.rules
        balance.check_unit(self.unit)
        price, inference = rules.filter.price(plan, rules.relation), self.inference
        if inference is None:
            return price
        charged = [entry.price for entry in balance.entries if entry.key == inference.entry]
        if inference.curve is None:
            raise BudgetError(
                "domain: what it cost to learn does not add up here: learn it again with budget=, "
                'write it, or say domain_rows="other" if these rows were not among those it was '
                "learned from"
            )
        near = are_near({Relation(inference.relation)}, rules.relation)
        cost = rules.filter.price_of(inference.curve, near)
        # An entry that does not cover the inference is another one's.
        return price if any(own.covers(cost) for own in charged) else price + cost
