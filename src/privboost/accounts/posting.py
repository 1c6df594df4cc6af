"""What is about to be run, and the account that pays for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from privboost.accounts.account import BudgetAccount
from privboost.accounts.checks import need_open, need_room, need_unit
from privboost.accounts.filters import Price, are_near
from privboost.accounts.records import now, user
from privboost.accounts.statement import Entry, Statement
from privboost.errors import BudgetError
from privboost.privacy.events.event import Planned, Relation
from privboost.reports.report import PrivacyReport


@dataclass(frozen=True)
class Posting:
    """An account, and what is about to be run: what a ledger writes its reservation to.

    Attributes
    ----------
    account : BudgetAccount
        The account.
    what : str
        What is run, in a word.
    unit : str or None
        The column that tells protected units apart.
    lesson : PrivacyReport or None
        What learning the domain cost these rows; it is charged unless it was.
    stream : str
        The entry of a stream's earlier batches.
    batch : int
        Which batch of a stream it is, from 1 on; 0 for anything else.
    """

    account: BudgetAccount
    what: str
    unit: str | None
    lesson: PrivacyReport | None = None
    stream: str = ""
    batch: int = 0

    @property
    def rows(self) -> str:
        """What tells these rows from others, in reports."""
        return self.account.rows

    def post(self, plan: Sequence[Planned], epsilon: float, delta: float) -> str:
        """Write down what a plan takes, or refuse it; return the entry's name."""
        price, own = self.price(plan), (self.unit, self.stream, self.batch)
        return self.account.charge(price, self.what, epsilon, delta, *own)

    def check(self, *plans: Sequence[Planned]) -> None:
        """Refuse plans that could not be written down now; nothing is."""
        statement = self.account.statement()
        need_open(statement)
        need_room(statement, sum(map(self.price, plans), statement.spent))

    def after(self, plan: Sequence[Planned], epsilon: float, delta: float) -> Statement:
        """Return what the account would say once a plan is written down; now nothing is.

        A plan that it has no room for is refused.
        """
        self.check(plan)
        statement = self.account.statement()
        words = (now(), user(), self.account.name, self.what)
        entry = Entry(0, "", *words, epsilon, delta, self.batch, self.price(plan))
        return replace(statement, entries=(*statement.entries, entry))

    def price(self, plan: Sequence[Planned]) -> Price:
        """Return what a plan takes, with the domain it stands on."""
        statement = self.account.statement()
        rules = statement.rules
        need_unit(statement, self.unit)
        price, lesson = rules.filter.price(plan, rules.relation), self.lesson
        if lesson is None:
            return price
        charged = [entry.price for entry in statement.entries if entry.key == lesson.entry]
        if lesson.curve is None:
            raise BudgetError(
                "domain: what it cost to learn does not add up here: learn it again with budget=, "
                'write it, or say domain_rows="other" if these rows were not among those it was '
                "learned from"
            )
        near = are_near({Relation(lesson.relation)}, rules.relation)
        cost = rules.filter.price_of(lesson.curve, near)
        # An entry that does not cover the lesson is not the lesson's.
        return price if any(own.covers(cost) for own in charged) else price + cost
