"""Budget accounts of data sets: charges to them, their terms, and the store that keeps them."""

from __future__ import annotations

import math
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from privboost._core.errors import BudgetError
from privboost.accounting.events import Planned, Relation
from privboost.accounts.balance import Balance, Entry
from privboost.accounts.database import (
    canonical_name,
    check_name,
    create_database,
    damaged,
    find_dataset,
    no_account,
    now,
    read_balance,
    read_datasets,
    reading,
    user,
    valid_canonical_name,
    write_entry,
    writing,
)
from privboost.accounts.filters import FILTERS, GaussianFilter, Price, RenyiFilter, are_near
from privboost.reports.report import PrivacyReport


@dataclass(frozen=True)
class BudgetAccount:
    """The account of one data set in a store; the value of `budget=`.

    It holds no connection, so that it can be copied, pickled and kept as a parameter.

    Attributes
    ----------
    path : Path
        File of the store.
    store : str
        Identifier of the store.
    dataset : str
        The data set.
    name : str
        Name of the next runs.
    """

    path: Path
    store: str
    dataset: str
    name: str = ""

    @property
    def rows(self) -> str:
        """Identifier of these rows in reports."""
        return f"{self.dataset} ({self.store})"

    @property
    def takes_gaussian_only(self) -> bool:
        """Whether the account covers Gaussian noise only."""
        return self.balance().rules.filter.name == GaussianFilter.name

    def named(self, name: str) -> BudgetAccount:
        """Return the same account with a name for its next runs."""
        return replace(self, name=valid_canonical_name("name", name))

    def balance(self) -> Balance:
        """Return the charges so far, and what is left."""
        with reading(self.path) as connection:
            return self._read(connection)

    def set_limit(self, epsilon: float, delta: float) -> None:
        """Change the limit; below what is spent, nothing more can be spent.

        The guarantee of an account is that of its limit. A limit that is raised in view of
        releases counts as the highest that it could have become.
        """
        _check_limit(epsilon, delta)
        with self._changing() as (connection, _):
            change = "UPDATE accounts SET epsilon = ?, delta = ? WHERE dataset = ?"
            connection.execute(change, (float(epsilon), float(delta), self.dataset))

    def set_unit(self, unit: str | None) -> None:
        """Change the unit column, while nothing is spent.

        Parameters
        ----------
        unit : str or None
            The column, as domains name it; None is one row.

        Raises
        ------
        BudgetError
            If the account has an entry, whose noise protects the present unit.
        """
        if unit is not None:
            check_name("unit", unit)
        with self._changing() as (connection, before):
            before.check_unspent()
            change = "UPDATE accounts SET unit = ? WHERE dataset = ?"
            connection.execute(change, (unit, self.dataset))

    def close(self) -> None:
        """Close the account permanently."""
        with self._changing() as (connection, _):
            change = "UPDATE accounts SET closed = ? WHERE dataset = ?"
            connection.execute(change, (now(), self.dataset))

    def has(self, key: str) -> bool:
        """Whether a report's entry is one of this account's."""
        return any(entry.key == key for entry in self.balance().entries)

    def charge(
        self,
        price: Price,
        what: str,
        epsilon: float,
        delta: float,
        unit: str | None = None,
        stream: str = "",
        batch: int = 0,
    ) -> str:
        """Record a charge, on disk when this returns, or refuse it and change nothing.

        Parameters
        ----------
        price : Price
            The price.
        what : str
            What is about to run.
        epsilon, delta : float
            Guarantee of the run's own report.
        unit : str or None
            The run's unit column; None is one row. It is compared once more, since it may have
            changed after the price was computed.
        stream : str
            Key of the entry of a stream's earlier batches. No unit is in two batches, so the entry
            costs the maximum over them. But a state that was continued before (a batch that failed
            and is tried again, a copy) makes its rows pay again: that is a separate entry, with
            the price of the whole stream.
        batch : int
            Number of the batch, from 1 on; 0 without a stream.

        Returns
        -------
        str
            Key of the entry.
        """
        if not all(0 <= part < math.inf for part in astuple(price)):
            raise ValueError("a price must be finite, and no component of it below 0")
        with self._changing() as (connection, before):
            before.check_unit(unit)
            found = [entry for entry in before.entries if stream and entry.key == stream]
            if stream and not (found and found[0].batches):
                raise BudgetError(
                    f"the stream began with another account than {self.dataset!r} of {self.path}"
                )
            continues = bool(found) and found[0].batches == batch - 1
            for entry in found:
                price = price.joined(entry.price)
            others = [e.price for e in before.entries if not (continues and e.key == stream)]
            before.check_room(sum(others, price))
            key = stream if continues else secrets.token_hex(8)
            entry = Entry(0, key, now(), user(), self.name, what, epsilon, delta, batch, price)
            write_entry(connection, self.dataset, entry)
        return key

    @contextmanager
    def _changing(self) -> Iterator[tuple[sqlite3.Connection, Balance]]:
        """Open the store for a change of the account, with its balance; refuse a closed one."""
        with writing(self.path) as connection:
            before = self._read(connection)
            before.check_open()
            yield connection, before

    def _read(self, connection: sqlite3.Connection) -> Balance:
        return read_balance(connection, self.path, self.store, self.dataset)


def check_account(name: str, value: Any, random_state: Any) -> BudgetAccount | None:
    """Return the account to charge, or None; refuse other types, and a seed with an account."""
    if value is None:
        return None
    if not isinstance(value, BudgetAccount):
        raise TypeError(
            f"{name} must be the account of a data set, as in "
            "BudgetStore('store.db').account('patients')"
        )
    if random_state is not None:
        raise BudgetError(
            f"{name}: a seeded run has no guarantee to charge; leave random_state (--seed) out"
        )
    return value


@dataclass(frozen=True)
class PendingCharge:
    """An account and a run (see `BudgetAccount.charge`); a ledger charges its reservation to it.

    `inference` is the report of private domain inference on these rows: it is charged unless it
    was before.
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


def _check_limit(epsilon: Any, delta: Any) -> None:
    """Refuse an invalid limit."""
    for name, value, most in (("epsilon", epsilon, math.inf), ("delta", delta, 1.0)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 < value < most):
            raise ValueError(f"the limit's {name} must be a number above 0, below {most:g}")


RELATIONS = {"add-remove": Relation.ADD_REMOVE, "replace-one": Relation.REPLACE_ONE}
"""Neighbouring relations by the names of the `relation` parameter."""


class BudgetStore:
    """Privacy budgets of data sets, across runs and processes, in one SQLite file.

    Every charge is on disk before a row is read, and two processes never spend the same budget.
    Users who can write the file can change it: it belongs to the owner of the data. Keep it on a
    local disk; a restored copy forgets what was spent since.

    Parameters
    ----------
    path : path
        The file; it is created when the first account is opened.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = BudgetStore(folder.name + "/store.db")
    >>> patients = store.open("patients", epsilon=3.0, delta=1e-5)
    >>> patients.balance().left > 2.99
    True
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, str | Path):
            raise TypeError("path must be the path of a file")
        self.path = Path(path)

    def open(
        self,
        dataset: str,
        epsilon: float,
        delta: float,
        *,
        unit: str | None = None,
        relation: str = "add-remove",
        filter: str = "gaussian",
        order: int | None = None,
    ) -> BudgetAccount:
        """Open an account for a data set.

        Parameters
        ----------
        dataset : str
            Its name, stored in NFKC, with single blanks and none at the ends. Invisible characters
            are refused.
        epsilon, delta : float
            The limit of all charges.
        unit : str, optional
            Unit column, as in domains; None is one row.
        relation : {"add-remove", "replace-one"}
            Neighbouring relation. Add/remove runs are converted in a replace-one account, never
            the other way round.
        filter : {"gaussian", "renyi"}
            Composition of runs: exact, for Gaussian noise on all rows; or by Rényi divergences of
            one order, for all recipes.
        order : int, optional
            The Rényi order; by default the one with most room for Gaussian noise at the limit.

        Raises
        ------
        BudgetError
            If there is an account of that name: use `account`.
        """
        dataset = valid_canonical_name("dataset", dataset)
        _check_limit(epsilon, delta)
        if unit is not None:
            check_name("unit", unit)
        if relation not in RELATIONS:
            raise ValueError(f"relation must be one of {', '.join(map(repr, RELATIONS))}")
        if filter not in FILTERS:
            raise ValueError(f"filter must be one of {', '.join(map(repr, FILTERS))}")
        if filter == GaussianFilter.name and order is not None:
            raise ValueError("order is for the filter 'renyi'")
        if filter == RenyiFilter.name:
            chosen = RenyiFilter.of_limit(epsilon, delta) if order is None else RenyiFilter(order)
            order = chosen.order
        create_database(self.path, secrets.token_hex(8))
        with writing(self.path) as connection:
            line = (dataset, RELATIONS[relation].value, unit, filter, order)
            if find_dataset(connection, dataset) is not None:
                raise BudgetError(
                    f"{self.path} has an account of {dataset!r} already: "
                    f"BudgetStore.account({dataset!r}) returns it, privboost budget show prints it"
                )
            connection.execute(
                "INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (*line, float(epsilon), float(delta), now()),
            )
        return self.account(dataset)

    def account(self, dataset: str) -> BudgetAccount:
        """Return an existing account."""
        check_name("dataset", canonical_name(dataset) if isinstance(dataset, str) else dataset)
        with reading(self.path) as connection:
            known, own = read_datasets(connection), find_dataset(connection, dataset)
            found = connection.execute("SELECT id FROM store").fetchone()
        if found is None:
            raise damaged(self.path, "its own name is missing")
        if own is None:
            raise no_account(self.path, dataset, known)
        return BudgetAccount(self.path.resolve(), found[0], own)

    def datasets(self) -> list[str]:
        """Return the names of data sets with accounts."""
        with reading(self.path) as connection:
            return read_datasets(connection)

    def balances(self) -> list[Balance]:
        """Return the balance of each account."""
        return [self.account(dataset).balance() for dataset in self.datasets()]

    def __repr__(self) -> str:
        return f"BudgetStore({str(self.path)!r})"
