"""Open individual budgets, and the prices that rows pay from them."""

from __future__ import annotations

from collections.abc import Iterable

from privboost.engine.backend import Backend
from privboost.engine.queries import SumQuery
from privboost.engine.updates import Charge, CloseBudgets, OpenBudgets, Price, Start, Update
from privboost.losses import LossTable
from privboost.privacy.budgets.charges import charge_table
from privboost.privacy.budgets.life import LifeBudget
from privboost.privacy.events.sums import GaussianRelease


class Payments:
    """Individual budgets of the rows, from the curator's side.

    It spends nothing: the curator charges the ledger before it opens a budget or charges rows.

    Parameters
    ----------
    backend : Backend
        Holder of the rows.
    weighted : bool
        Whether rows have weights.
    """

    def __init__(self, backend: Backend, weighted: bool) -> None:
        self._backend, self._weighted = backend, weighted
        self._budgets: list[LifeBudget] = []
        self._closed = False
        self._loss: LossTable | None = None
        self._prices: dict[tuple[GaussianRelease, tuple[str, ...]], int] = {}
        self._next_price = 0

    def __bool__(self) -> bool:
        """Whether individual budgets are open."""
        return bool(self._budgets)

    def use(self, loss: LossTable | None) -> None:
        """Set the loss whose gradients are charged for."""
        self._loss = loss
        self._prices.clear()

    def need_open(self) -> None:
        """Refuse to open a budget after all were closed."""
        if self._closed:
            raise ValueError("individual budgets were closed: none can be opened again")

    def open(self, budget: LifeBudget) -> None:
        """Open a budget for each row of the newest cohort."""
        self.need_open()
        if not self._budgets:
            self._backend.apply(OpenBudgets())
        self._budgets.append(budget)
        self._prices.clear()  # they lack the new cohort's budget

    def close(self) -> None:
        """Close all budgets, so that every row takes part again."""
        if self._budgets:
            self._backend.apply(CloseBudgets())
            self._budgets.clear()
            self._closed = True

    def replay(self, updates: Iterable[Update], budgets: Iterable[LifeBudget]) -> None:
        """Replay the update log of earlier batches of a stream."""
        for update in updates:
            if isinstance(update, Start):
                self._loss = update.loss
            self._next_price += isinstance(update, Price)
            self._backend.apply(update)
        self._budgets.extend(budgets)

    def charge(self, query: SumQuery, event: GaussianRelease) -> None:
        """Charge each row that can afford it for its own contribution to one release."""
        if self._loss is None:
            raise ValueError("a filtered release needs a Start first")
        kind = (event, query.statistics)
        if kind not in self._prices:
            tables = [
                charge_table(budget, event, self._loss, query.statistics, self._weighted)
                for budget in self._budgets
            ]
            self._backend.apply(Price(self._next_price, tuple(tables)))
            self._prices[kind] = self._next_price
            self._next_price += 1
        self._backend.apply(Charge(self._prices[kind], query.output))
