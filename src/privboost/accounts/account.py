"""The account of one data set: charges to it, and changes of its terms."""

from __future__ import annotations

import math
import secrets
import sqlite3
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from privboost.accounts.checks import check_limit, check_name, normal_name
from privboost.accounts.database import reading, writing
from privboost.accounts.filters import GaussianFilter, Price
from privboost.accounts.records import now, read_balance, user, write_entry
from privboost.accounts.statement import Balance, Entry
from privboost.errors import BudgetError


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
        return replace(self, name=normal_name("name", name))

    def balance(self) -> Balance:
        """Return the charges so far, and what is left."""
        with reading(self.path) as connection:
            return self._read(connection)

    def set_limit(self, epsilon: float, delta: float) -> None:
        """Change the limit; below what is spent, nothing more can be spent.

        The guarantee of an account is that of its limit. A limit that is raised in view of
        releases counts as the highest that it could have become.
        """
        check_limit(epsilon, delta)
        with writing(self.path) as connection:
            self._read(connection).check_open()
            connection.execute(
                "UPDATE accounts SET epsilon = ?, delta = ? WHERE dataset = ?",
                (float(epsilon), float(delta), self.dataset),
            )

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
        with writing(self.path) as connection:
            before = self._read(connection)
            before.check_open()
            before.check_unspent()
            connection.execute(
                "UPDATE accounts SET unit = ? WHERE dataset = ?", (unit, self.dataset)
            )

    def close(self) -> None:
        """Close the account permanently."""
        with writing(self.path) as connection:
            self._read(connection).check_open()
            connection.execute(
                "UPDATE accounts SET closed = ? WHERE dataset = ?", (now(), self.dataset)
            )

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
        with writing(self.path) as connection:
            before = self._read(connection)
            before.check_open()
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

    def _read(self, connection: sqlite3.Connection) -> Balance:
        return read_balance(connection, self.path, self.store, self.dataset)
