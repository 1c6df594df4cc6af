"""The account of one data set in a store, as runs are charged to it."""

from __future__ import annotations

import math
import secrets
import sqlite3
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from privboost.accounts.checks import (
    check_limit,
    check_name,
    need_open,
    need_room,
    need_unit,
    need_unspent,
    normal_name,
)
from privboost.accounts.database import reading, writing
from privboost.accounts.filters import GaussianFilter, Price
from privboost.accounts.records import now, read_statement, user, write_entry
from privboost.accounts.statement import Entry, Statement
from privboost.errors import BudgetError


@dataclass(frozen=True)
class BudgetAccount:
    """The account of one data set in a store: what `budget=` takes.

    It holds no connection, so that it can be copied, pickled and kept as a parameter.

    Attributes
    ----------
    path : Path
        The store's file.
    store : str
        The store's own name.
    dataset : str
        The data set.
    name : str
        What the next runs are to be called.
    """

    path: Path
    store: str
    dataset: str
    name: str = ""

    @property
    def rows(self) -> str:
        """What tells these rows from others, in reports."""
        return f"{self.dataset} ({self.store})"

    @property
    def takes_gaussian_only(self) -> bool:
        """Whether nothing but Gaussian noise adds up here."""
        return self.statement().rules.filter.name == GaussianFilter.name

    def named(self, name: str) -> BudgetAccount:
        """Return the same account, whose next runs bear a name."""
        return replace(self, name=normal_name("name", name))

    def statement(self) -> Statement:
        """Return what was spent, and what is left."""
        with reading(self.path) as connection:
            return self._read(connection)

    def set_limit(self, epsilon: float, delta: float) -> None:
        """Change the limit; it may lie below what is spent: then nothing more can be.

        The guarantee of an account is that of its limit. One that is raised in view of what was
        released is to be counted as the highest that it could have become.
        """
        check_limit(epsilon, delta)
        with writing(self.path) as connection:
            need_open(self._read(connection))
            connection.execute(
                "UPDATE accounts SET epsilon = ?, delta = ? WHERE dataset = ?",
                (float(epsilon), float(delta), self.dataset),
            )

    def set_unit(self, unit: str | None) -> None:
        """Change the column that tells protected units apart, while nothing is spent.

        Parameters
        ----------
        unit : str or None
            The column, as domains name it; None is one row.

        Raises
        ------
        BudgetError
            If the account has an entry: what was spent protects whom it did.
        """
        if unit is not None:
            check_name("unit", unit)
        with writing(self.path) as connection:
            before = self._read(connection)
            need_open(before)
            need_unspent(before)
            connection.execute(
                "UPDATE accounts SET unit = ? WHERE dataset = ?", (unit, self.dataset)
            )

    def close(self) -> None:
        """Let nothing be spent any more, for good."""
        with writing(self.path) as connection:
            need_open(self._read(connection))
            connection.execute(
                "UPDATE accounts SET closed = ? WHERE dataset = ?", (now(), self.dataset)
            )

    def has(self, key: str) -> bool:
        """Say whether a report's entry is one of this account's."""
        return any(entry.key == key for entry in self.statement().entries)

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
        """Write a price down, on the disk when this returns, or refuse it and leave all as it was.

        Parameters
        ----------
        price : Price
            The price.
        what : str
            What is to be run.
        epsilon, delta : float
            What its own report will state.
        unit : str or None
            The column that tells apart whom it protects; None is one row. It is compared once
            more, for it may have been changed since the price was worked out.
        stream : str
            Of a stream that goes on, the entry of its earlier batches. No unit is in two of them,
            so the entry then costs what the dearest batch does. But a state that was gone on from
            before (a batch that failed and is tried again, a copy) has its rows pay again: that is
            an entry of its own, with the price of the whole stream.
        batch : int
            Which batch it is, from 1 on; 0 for anything that is no stream.

        Returns
        -------
        str
            The entry's own name.
        """
        if not all(0 <= part < math.inf for part in astuple(price)):
            raise ValueError("a price is finite, and no part of it is below 0")
        with writing(self.path) as connection:
            before = self._read(connection)
            need_open(before)
            need_unit(before, unit)
            found = [entry for entry in before.entries if stream and entry.key == stream]
            if stream and not (found and found[0].batches):
                raise BudgetError(
                    f"the stream began with another account than {self.dataset!r} of {self.path}"
                )
            goes_on = bool(found) and found[0].batches == batch - 1
            for entry in found:
                price = price.joined(entry.price)
            others = [e.price for e in before.entries if not (goes_on and e.key == stream)]
            need_room(before, sum(others, price))
            key = stream if goes_on else secrets.token_hex(8)
            words = (now(), user(), self.name, what)
            entry = Entry(0, key, *words, epsilon, delta, batch, price)
            write_entry(connection, self.dataset, entry)
        return key

    def _read(self, connection: sqlite3.Connection) -> Statement:
        return read_statement(connection, self.path, self.store, self.dataset)
