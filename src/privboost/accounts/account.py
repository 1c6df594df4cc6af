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
from privboost.accounts.filters import (
    Filter,
    GaussianFilter,
    Price,
    are_near,
    far_factor,
    filter_of,
)
from privboost.errors import BudgetError, StoreError
from privboost.forms import is_writable
from privboost.privacy.events.event import Planned, Relation
from privboost.reports.report import PrivacyReport, round_up

_WORDS_SHARE = 0.1
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
    batches : int
        Of a stream: how many batches were charged to it; 0 of anything else.
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
    batches: int
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

    @property
    def noise_delta(self) -> float:
        """The part of δ that noise has; fixed, so that nobody can choose between the two."""
        return self.delta * (1 - _WORDS_SHARE)

    @property
    def words_delta(self) -> float:
        """The part of δ that thresholds of learned words have."""
        return self.delta * _WORDS_SHARE


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
        rules = self.rules
        if price.words_delta(rules.epsilon) > rules.words_delta * (1 + 1e-9):
            return math.inf
        return rules.filter.epsilon(price, rules.noise_delta)

    @property
    def left(self) -> float:
        """The ε that one more run of Gaussian noise could have, at the account's δ."""
        rules, spent = self.rules, self.spent
        room = rules.filter.room(rules.epsilon, rules.noise_delta) - spent.size
        if rules.closed is not None or self.epsilon > rules.epsilon or room <= 0:
            return 0.0
        return rules.filter.as_gaussian(room, rules.noise_delta)

    @property
    def words_delta_left(self) -> float:
        """What one more lesson may use of δ for thresholds: half of what is left for them."""
        rules = self.rules
        left = rules.words_delta - self.spent.words_delta(rules.epsilon)
        near = rules.relation == Relation.ADD_REMOVE
        return max(0.0, left / 2 / (1 if near else far_factor(rules.epsilon)))

    def share_of(self, price: Price) -> float:
        """The part of the account that a price takes."""
        room = self.rules.filter.room(self.rules.epsilon, self.rules.noise_delta)
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
        closed = "" if rules.closed is None else "CLOSED; "
        part = self.share_of(self.spent)
        left = f"epsilon {_rounded_down(self.left)} for one more run of Gaussian noise"
        lines = [
            f"{self.dataset}: {closed}epsilon {round_up(self.epsilon)} of {rules.epsilon:g} is "
            f"spent, at delta {rules.delta:g}: {part:.2%} of the account",
            f"  left        {left if self.left > 0 else 'nothing'}",
            f"  protects    {unit}; neighbours {rules.relation.value}",
            f"  adds up by  {rules.filter.name}{order}{_why(rules.filter)}",
            f"  opened      {rules.opened}"
            + (f"; closed {rules.closed}" if rules.closed is not None else ""),
        ]
        if self.epsilon > rules.epsilon:
            lines.append("  note        the limit was lowered below what is spent: no run fits")
        wide = max([9, *(len(entry.name) for entry in self.entries)])
        for entry in self.entries:
            cost = f"({round_up(entry.epsilon)}, {round_up(entry.delta)})"
            name = entry.name or "(no name)"
            lines.append(
                f"  {entry.date}  {name:<{wide}}  {entry.what:<20}  {cost:<18}  "
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
        self,
        price: Price,
        what: str,
        epsilon: float,
        delta: float,
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
            before = _read(connection, self)
            _need_open(before)
            found = [entry for entry in before.entries if stream and entry.key == stream]
            if stream and not (found and found[0].batches):
                raise BudgetError(
                    f"the stream began with another account than {self.dataset!r} of {self.path}"
                )
            goes_on = bool(found) and found[0].batches == batch - 1
            for entry in found:
                price = price.joined(entry.price)
            others = [e.price for e in before.entries if not (goes_on and e.key == stream)]
            _need_room(before, sum(others, price))
            key = stream if goes_on else secrets.token_hex(8)
            words = (key, self.dataset, now(), _user(), self.name, what)
            connection.execute(
                "INSERT INTO entries (key, dataset, date, who, name, what, epsilon, delta, batches,"
                " size, grid, near_delta, far_delta) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (key) DO UPDATE SET size = excluded.size, grid = excluded.grid,"
                " near_delta = excluded.near_delta, far_delta = excluded.far_delta,"
                " epsilon = max(epsilon, excluded.epsilon), delta = max(delta, excluded.delta),"
                " batches = excluded.batches",
                (*words, epsilon, delta, batch, *astuple(price)),
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
        price, own = self.price(plan), (self.stream, self.batch)
        return self.account.charge(price, self.what, epsilon, delta, *own)

    def check(self, *plans: Sequence[Planned]) -> None:
        """Refuse plans that could not be written down now; nothing is."""
        statement = self.account.statement()
        _need_open(statement)
        _need_room(statement, sum(map(self.price, plans), statement.spent))

    def price(self, plan: Sequence[Planned]) -> Price:
        """Return what a plan takes, with the domain it stands on."""
        statement = self.account.statement()
        rules = statement.rules
        if self.unit != rules.unit:
            raise BudgetError(
                f"the account {self.account.dataset!r} protects {_unit(rules.unit)}; this run "
                f"would protect {_unit(self.unit)}: they do not add up (an account is opened with "
                "the unit column that domains name: --unit)"
            )
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
        "SELECT number, key, date, who, name, what, epsilon, delta, batches,"
        " size, grid, near_delta, far_delta FROM entries"
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
    batches: int,
    *price: float,
) -> Entry:
    return Entry(number, key, date, who, name, what, epsilon, delta, batches, Price(*price))


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


def _why(kind: Filter) -> str:
    """Say what is odd about a filter's figures."""
    if isinstance(kind, GaussianFilter):
        return ""
    return (
        ": the first run costs an epsilon of its own, whatever it is; shares say how much is left"
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _rounded_down(value: float) -> str:
    return f"{math.floor(value * 1e4) / 1e4:.6g}"
