"""The account of one data set: its limit, its runs, and what is left."""

from __future__ import annotations

import getpass
import math
import secrets
import socket
import sqlite3
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from privboost.accounts.database import reading, writing
from privboost.accounts.filters import Filter, GaussianFilter, Price, filter_of
from privboost.errors import BudgetError, StoreError
from privboost.forms import is_writable
from privboost.privacy.events.event import Planned, Relation
from privboost.reports.report import PrivacyReport, round_up

_LONGEST = 200
"""Characters of a name."""


@dataclass(frozen=True)
class Entry:
    """An entry of an account: something that spent, or was about to.

    Attributes
    ----------
    number : int
        Its place in the store.
    key : str
        Its own name, which reports carry.
    date : str
        When it was written, as the machine's clock said; nothing depends on it.
    who : str
        The user and the machine.
    name : str
        What the caller called it.
    what : str
        What was run.
    epsilon, delta : float
        What its own report states.
    price : Price
        What it takes of the account.
    """

    number: int
    key: str
    date: str
    who: str
    name: str
    what: str
    epsilon: float
    delta: float
    price: Price


@dataclass(frozen=True)
class Rules:
    """What an account is about; all but the limit is fixed when it is opened.

    Attributes
    ----------
    relation : Relation
        Which tables are neighbours.
    unit : str or None
        The column that tells protected units apart; None is one row.
    filter : Filter
        How runs add up.
    epsilon, delta : float
        The limit.
    opened : str
        When it was opened.
    closed : str or None
        When it was closed: nothing can be spent since.
    """

    relation: Relation
    unit: str | None
    filter: Filter
    epsilon: float
    delta: float
    opened: str
    closed: str | None


@dataclass(frozen=True)
class Statement:
    """What an account says at one moment.

    Attributes
    ----------
    dataset : str
        The data set.
    rules : Rules
        What it is about.
    runs : tuple of Run
        What was spent, in order.
    """

    dataset: str
    rules: Rules
    entries: tuple[Entry, ...]

    @property
    def spent(self) -> Price:
        """All prices together."""
        return sum((entry.price for entry in self.entries), Price())

    @property
    def epsilon(self) -> float:
        """The ε of all runs together, at the account's δ."""
        return self.epsilon_of(self.spent)

    def epsilon_of(self, price: Price) -> float:
        """The ε that a price costs by itself, at the account's δ."""
        return self.rules.filter.epsilon(price, self.rules.delta, self.rules.epsilon)

    @property
    def left(self) -> float:
        """The ε that one more run of Gaussian noise could have, at the account's δ."""
        rules, spent = self.rules, self.spent
        left = spent.left_of(rules.delta, rules.epsilon)
        if rules.closed is not None or left <= 0 or self.epsilon > rules.epsilon:
            return 0.0
        room = rules.filter.room(rules.epsilon, left) - spent.size
        return rules.filter.as_gaussian(room, left) if room > 0 else 0.0

    def share_of(self, price: Price) -> float:
        """The part of the account that a price takes."""
        room = self.rules.filter.room(self.rules.epsilon, self.rules.delta)
        return price.size / room if room > 0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON, where an infinite number is null."""
        rules = self.rules
        own = {
            "dataset": self.dataset,
            "relation": rules.relation.value,
            "unit": rules.unit,
            "filter": rules.filter.name,
            "order": getattr(rules.filter, "order", None),
            "limit": {"epsilon": rules.epsilon, "delta": rules.delta},
            "spent": {"epsilon": _finite(self.epsilon), "delta": rules.delta},
            "left": {"epsilon": self.left, "delta": rules.delta},
            "opened": rules.opened,
            "closed": rules.closed,
        }
        runs = [
            {
                "entry": entry.key,
                "date": entry.date,
                "who": entry.who,
                "name": entry.name,
                "what": entry.what,
                "epsilon": entry.epsilon,
                "delta": entry.delta,
                "share": _finite(self.share_of(entry.price)),
            }
            for entry in self.entries
        ]
        return own | {"runs": runs}

    def __str__(self) -> str:
        rules = self.rules
        unit = "one row" if rules.unit is None else f"all rows of one {rules.unit}"
        order = f" of order {rules.filter.order}" if hasattr(rules.filter, "order") else ""
        lines = [
            f"{self.dataset}: epsilon {round_up(self.epsilon)} of {rules.epsilon:g} is spent, at "
            f"delta {rules.delta:g}",
            f"  left        epsilon {_rounded_down(self.left)} for one more run of Gaussian noise",
            f"  protects    {unit}; neighbours {rules.relation.value}",
            f"  adds up by  {rules.filter.name}{order}",
            f"  opened      {rules.opened}"
            + (f"; closed {rules.closed}" if rules.closed is not None else ""),
        ]
        if self.epsilon > rules.epsilon:
            lines.append("  note        the limit was lowered below what is spent: no run fits")
        wide = max([4, *(len(entry.name) for entry in self.entries)])
        for entry in self.entries:
            cost = f"({round_up(entry.epsilon)}, {round_up(entry.delta)})"
            lines.append(
                f"  {entry.date}  {entry.name:<{wide}}  {entry.what:<20}  {cost:<18}  "
                f"{self.share_of(entry.price):7.2%} of the account  {entry.who}  {entry.key}"
            )
        return "\n".join(lines)


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
        check_name("name", name)
        return replace(self, name=name)

    def statement(self) -> Statement:
        """Return what was spent, and what is left."""
        with reading(self.path) as connection:
            return _read(connection, self)

    def set_limit(self, epsilon: float, delta: float) -> None:
        """Change the limit; it may lie below what is spent: then nothing more can be.

        The guarantee of an account is that of its limit. One that is raised in view of what was
        released is to be counted as the highest that it could have become.
        """
        check_limit(epsilon, delta)
        with writing(self.path) as connection:
            _need_open(_read(connection, self))
            connection.execute(
                "UPDATE accounts SET epsilon = ?, delta = ? WHERE dataset = ?",
                (float(epsilon), float(delta), self.dataset),
            )

    def close(self) -> None:
        """Let nothing be spent any more, for good."""
        with writing(self.path) as connection:
            _need_open(_read(connection, self))
            connection.execute(
                "UPDATE accounts SET closed = ? WHERE dataset = ?", (now(), self.dataset)
            )

    def has(self, key: str) -> bool:
        """Say whether a report's entry is one of this account's."""
        return any(entry.key == key for entry in self.statement().entries)

    def charge(
        self, price: Price, what: str, epsilon: float, delta: float, stream: str = ""
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
        stream : str
            Of a stream, the entry of its earlier batches: no unit is in two of them, so it then
            costs what the dearest batch does.

        Returns
        -------
        str
            The entry's own name.
        """
        with writing(self.path) as connection:
            before = _read(connection, self)
            _need_open(before)
            earlier = [entry.price for entry in before.entries if entry.key == stream]
            if stream and not earlier:
                raise BudgetError(
                    f"the stream began with another account than {self.dataset!r} of {self.path}"
                )
            for dearest in earlier:
                price = price.joined(dearest)
            others = [entry.price for entry in before.entries if entry.key != stream]
            _need_room(before, sum(others, price))
            key = stream or secrets.token_hex(8)
            words = (key, self.dataset, now(), _user(), self.name, what)
            connection.execute(
                "INSERT INTO entries (key, dataset, date, who, name, what, epsilon, delta, size,"
                " grid, near_delta, far_delta) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (key) DO UPDATE SET size = excluded.size, grid = excluded.grid,"
                " near_delta = excluded.near_delta, far_delta = excluded.far_delta,"
                " epsilon = max(epsilon, excluded.epsilon), delta = max(delta, excluded.delta)",
                (*words, epsilon, delta, *astuple(price)),
            )
        return key


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
    """

    account: BudgetAccount
    what: str
    unit: str | None
    lesson: PrivacyReport | None = None
    stream: str = ""

    @property
    def rows(self) -> str:
        """What tells these rows from others, in reports."""
        return self.account.rows

    def post(self, plan: Sequence[Planned], epsilon: float, delta: float) -> str:
        """Write down what a plan takes, or refuse it; return the entry's name."""
        return self.account.charge(self.price(plan), self.what, epsilon, delta, self.stream)

    def check(self, *plans: Sequence[Planned]) -> None:
        """Refuse plans that could not be written down now; nothing is."""
        statement = self.account.statement()
        _need_open(statement)
        _need_room(statement, sum(map(self.price, plans), statement.spent))

    def check_exchange(self, plan: Sequence[Planned]) -> None:
        """Refuse what is to take the place of reserved releases, if it costs more here."""
        self.account.statement().rules.filter.check_exchange(plan)

    def price(self, plan: Sequence[Planned]) -> Price:
        """Return what a plan takes, with the domain it stands on."""
        statement = self.account.statement()
        rules = statement.rules
        if self.unit != rules.unit:
            raise BudgetError(
                f"the account {self.account.dataset!r} protects {_unit(rules.unit)}; this run "
                f"would protect {_unit(self.unit)}: they do not add up"
            )
        price, lesson = rules.filter.price(plan, rules.relation), self.lesson
        if lesson is None or any(entry.key == lesson.entry for entry in statement.entries):
            return price
        if lesson.curve is None:
            raise BudgetError(
                "domain: what it cost to learn does not add up here: learn it again with budget=, "
                'write it, or say domain_rows="other" if these rows were not among those it was '
                "learned from"
            )
        near = lesson.relation == rules.relation.value
        return price + rules.filter.price_of(lesson.curve, near)


def check_name(parameter: str, value: Any) -> str:
    """Refuse what is no name."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST or not value.isprintable():
        raise ValueError(f"{parameter} must be a text of 1 to {_LONGEST} printable characters")
    if not is_writable(value):
        raise ValueError(f"{parameter} must be a text that can be written")
    return value


def check_limit(epsilon: Any, delta: Any) -> None:
    """Refuse what is no limit."""
    for name, value, most in (("epsilon", epsilon, math.inf), ("delta", delta, 1.0)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 < value < most):
            raise ValueError(f"the limit's {name} must be a number above 0, below {most:g}")


def now() -> str:
    """Return the date and time, as this machine's clock says."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")


def read_rules(row: sqlite3.Row | tuple[Any, ...]) -> Rules:
    """Read the line of an account."""
    relation, unit, name, order, epsilon, delta, opened, closed = row
    kind = filter_of(name, order)
    return Rules(Relation(relation), unit, kind, epsilon, delta, opened, closed)


def _read(connection: sqlite3.Connection, account: BudgetAccount) -> Statement:
    found = connection.execute("SELECT id FROM store").fetchone()
    if found is None or found[0] != account.store:
        raise StoreError(f"{account.path} is another store than the one that was opened")
    row = connection.execute(
        'SELECT relation, unit, filter, "order", epsilon, delta, opened, closed FROM accounts'
        " WHERE dataset = ?",
        (account.dataset,),
    ).fetchone()
    if row is None:
        raise StoreError(f"{account.path} has no account of {account.dataset!r}")
    rows = connection.execute(
        "SELECT number, key, date, who, name, what, epsilon, delta, size, grid,"
        " near_delta, far_delta FROM entries"
        " WHERE dataset = ? ORDER BY number",
        (account.dataset,),
    ).fetchall()
    made = tuple(_read_entry(*row) for row in rows)
    return Statement(account.dataset, read_rules(row), made)


def _read_entry(
    number: int,
    key: str,
    date: str,
    who: str,
    name: str,
    what: str,
    epsilon: float,
    delta: float,
    *price: float,
) -> Entry:
    return Entry(number, key, date, who, name, what, epsilon, delta, Price(*price))


def _need_open(statement: Statement) -> None:
    if statement.rules.closed is not None:
        raise BudgetError(f"the account of {statement.dataset!r} is closed: nothing can be spent")


def _need_room(statement: Statement, spent: Price) -> None:
    rules = statement.rules
    cost = statement.epsilon_of(spent)
    if cost <= rules.epsilon:
        return
    total = f"would cost epsilon {cost:.6g}" if cost < math.inf else "would leave nothing of delta"
    raise BudgetError(
        f"the account of {statement.dataset!r} does not cover this: with what was spent before it "
        f"{total} of {rules.epsilon:g} at delta {rules.delta:g}; epsilon "
        f"{_rounded_down(statement.left)} is left for one more run of Gaussian noise"
    )


def _user() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a process without a name
        return "unknown"


def _unit(column: str | None) -> str:
    return "one row" if column is None else f"all rows of one {column}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _rounded_down(value: float) -> str:
    return f"{math.floor(value * 1e4) / 1e4:.6g}"
