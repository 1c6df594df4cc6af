"""Individual accounting: the cost of each row's own contribution to a release.

A release is charged to a row by the row's own share of the sensitivity,
s = share_g·(g/g*)² + share_h·(h/h*)², instead of the worst case 1. A row takes part in a round
only if its charges so far and the one about to be made stay within its budget; then the whole run
satisfies the budget for every row, however many rounds there are. Every active row is charged in
each round, whether or not it was sampled. Charges are tables on the row's state like gradients,
rounded up; shards evaluate them, and the set of active rows never leaves a shard.

Neighbours: add or remove one row. Sensitivity: the row's own share of it, at most 1. Mechanism:
Gaussian noise and the filter. Event: `GaussianBudget` or `RenyiBudget`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from privboost._core.grid import BUDGET_STEPS, CLIP_STEPS, WEIGHT_CLASSES, Contribution
from privboost.accounting.individual_budgets import IndividualBudget
from privboost.accounting.noisy_sums import GaussianRelease
from privboost.engine.backend import Backend
from privboost.engine.queries import SumQuery
from privboost.engine.updates import (
    Charge,
    CloseBudgets,
    OpenBudgets,
    Price,
    Start,
    Update,
    UseLoss,
)
from privboost.losses.base import LossTable


def charge_table(
    budget: IndividualBudget,
    event: GaussianRelease,
    loss: LossTable,
    statistics: tuple[str, ...],
    contribution: Contribution,
) -> np.ndarray:
    """Return the cost of a release for each kind of row, in steps of `BUDGET_STEPS` a budget.

    An int32 array of shape (weight classes + 1, or 1; 3; size), rounded up. Rows that share the
    weight of a unit are charged as if each had all of it: a unit's charge is then at most the mean
    of its rows' charges.
    """
    if not budget.admits(event):
        raise ValueError(f"{event.what}: not a release that this budget covers")
    return _in_steps(budget.part(event, _shares(loss, event, statistics, contribution)))


def _shares(
    loss: LossTable,
    event: GaussianRelease,
    statistics: tuple[str, ...],
    contribution: Contribution,
) -> np.ndarray:
    """Return the share of the squared sensitivity by weight class, kind of row and state."""
    parts = zip(event.shares, statistics, strict=True)
    share = sum(part * (loss.statistic(name) / CLIP_STEPS) ** 2 for part, name in parts)
    weight = np.ones(1)
    if contribution.weighted:
        weight = np.arange(WEIGHT_CLASSES + 1) / WEIGHT_CLASSES
    if contribution.shares_weight:
        weight = np.ones(WEIGHT_CLASSES + 1)
    return np.minimum(weight[:, None, None] ** 2 * share * (1 + 1e-12), 1.0)


def _in_steps(part: np.ndarray) -> np.ndarray:
    """Round fractions of a budget up to steps; those above 1 are never affordable."""
    steps = np.ceil(np.minimum(part, 1.5) * BUDGET_STEPS * (1 + 1e-12))
    return np.where(part > 0, np.maximum(steps, 1), 0).astype(np.int32)


def need_own_states(query: SumQuery) -> None:
    """Refuse a query that reads statistics at other states than those at which rows are charged."""
    if not query.at_own_states:
        raise ValueError("rows with budgets pay for what is read at their own states only")


class Payments:
    """Individual budgets of the rows, from the curator's side, and the prices that rows pay.

    It spends nothing: the curator charges the ledger before it opens a budget or charges rows.
    """

    def __init__(self, backend: Backend, contribution: Contribution) -> None:
        self._backend, self._contribution = backend, contribution
        self._budgets: list[IndividualBudget] = []
        self._closed = False
        self._loss: LossTable | None = None
        self._prices: dict[tuple[GaussianRelease, tuple[str, ...]], int] = {}
        self._next_price = 0

    @property
    def are_open(self) -> bool:
        """Whether individual budgets are open."""
        return bool(self._budgets)

    def note_loss(self, update: Update) -> None:
        """Charge for the gradients of an update's loss from now on, if it sets one."""
        if isinstance(update, Start | UseLoss):
            self._loss = update.loss
            self._prices.clear()

    def need_open(self) -> None:
        """Refuse to open a budget after all were closed."""
        if self._closed:
            raise ValueError("individual budgets were closed: none can be opened again")

    def open(self, budget: IndividualBudget) -> None:
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

    def replay(self, updates: Iterable[Update], budgets: Iterable[IndividualBudget]) -> None:
        """Replay the update log of earlier batches of a stream."""
        for update in updates:
            self.note_loss(update)
            self._next_price += isinstance(update, Price)
            self._backend.apply(update)
        self._budgets.extend(budgets)

    def charge_rows(self, query: SumQuery, event: GaussianRelease) -> None:
        """Charge each row that can afford it for its own contribution to one release."""
        if self._loss is None:
            raise ValueError("a filtered release needs a Start first")
        kind = (event, query.statistics)
        if kind not in self._prices:
            tables = [
                charge_table(budget, event, self._loss, query.statistics, self._contribution)
                for budget in self._budgets
            ]
            self._backend.apply(Price(self._next_price, tuple(tables)))
            self._prices[kind] = self._next_price
            self._next_price += 1
        self._backend.apply(Charge(self._prices[kind], query.output))
