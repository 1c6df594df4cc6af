"""Accounts as they are written in a store's file: its lines read, an entry added."""

from __future__ import annotations

import getpass
import math
import socket
import sqlite3
from dataclasses import astuple
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from privboost.accounts.checks import as_it_looks
from privboost.accounts.damage import damaged
from privboost.accounts.filters import Price, filter_of
from privboost.accounts.statement import Entry, Rules, Statement
from privboost.errors import StoreError
from privboost.privacy.events.event import Relation

_LISTED = 20
"""How many names an error lists."""


def read_statement(
    connection: sqlite3.Connection, path: Path, store: str, dataset: str
) -> Statement:
    """Read an account with its entries, from the store that it was opened in and no other."""
    found = connection.execute("SELECT id FROM store").fetchone()
    if found is None or found[0] != store:
        raise StoreError(f"{path} is another store than the one that was opened")
    row = connection.execute(
        'SELECT relation, unit, filter, "order", epsilon, delta, opened, closed FROM accounts'
        " WHERE dataset = ?",
        (dataset,),
    ).fetchone()
    if row is None:
        raise no_account(path, dataset, read_datasets(connection))
    rows = connection.execute(
        "SELECT number, key, date, who, name, what, epsilon, delta, batches,"
        " size, grid, near_delta, far_delta FROM entries"
        " WHERE dataset = ? ORDER BY number",
        (dataset,),
    ).fetchall()
    try:
        return Statement(dataset, _read_rules(row), tuple(_read_entry(*row) for row in rows))
    except ValueError:
        raise damaged(path, f"a line of the account of {dataset!r}") from None


def read_datasets(connection: sqlite3.Connection) -> list[str]:
    """Read the names of all accounts, in the order in which they were opened."""
    rows = connection.execute("SELECT dataset FROM accounts ORDER BY rowid").fetchall()
    return [name for (name,) in rows]


def find_dataset(connection: sqlite3.Connection, dataset: str) -> str | None:
    """Return the name, as it is written, of the account of a name that looks so, or None.

    One that is written exactly so comes first: earlier versions kept names as they were given.
    """
    known = read_datasets(connection)
    alike = (name for name in known if as_it_looks(name) == as_it_looks(dataset))
    return dataset if dataset in known else next(alike, None)


def no_account(path: Path, dataset: str, known: list[str]) -> StoreError:
    """Return the error that says which accounts there are, and which was meant perhaps."""
    near = get_close_matches(dataset, known, n=1)
    has = ", ".join(map(repr, known[:_LISTED])) + (", …" if len(known) > _LISTED else "")
    hint = f"did you mean {near[0]!r}? " if near else ""
    return StoreError(
        f"{path} has no account of {dataset!r} ({hint}it has {has or 'none'}): privboost budget "
        "open, or BudgetStore.open, opens one"
    )


def write_entry(connection: sqlite3.Connection, dataset: str, entry: Entry) -> None:
    """Add an entry, with a number of its own; one of the same key takes its price and batches."""
    words = (entry.key, dataset, entry.date, entry.who, entry.name, entry.what)
    connection.execute(
        "INSERT INTO entries (key, dataset, date, who, name, what, epsilon, delta, batches,"
        " size, grid, near_delta, far_delta) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET size = excluded.size, grid = excluded.grid,"
        " near_delta = excluded.near_delta, far_delta = excluded.far_delta,"
        " epsilon = max(epsilon, excluded.epsilon), delta = max(delta, excluded.delta),"
        " batches = excluded.batches",
        (*words, entry.epsilon, entry.delta, entry.batches, *astuple(entry.price)),
    )


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
    if not all(0 <= part < math.inf for part in price):
        raise ValueError("no part of a price is below 0 or infinite")
    return Entry(number, key, date, who, name, what, epsilon, delta, batches, Price(*price))


def _read_rules(row: tuple[Any, ...]) -> Rules:
    relation, unit, name, order, epsilon, delta, opened, closed = row
    kind = filter_of(name, order)
    return Rules(Relation(relation), unit, kind, epsilon, delta, opened, closed)


def now() -> str:
    """Return the date and time, as this machine's clock says."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")


def user() -> str:
    """Return who runs this process, and on which machine."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a process without a name
        return "unknown"
