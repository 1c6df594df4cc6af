"""Reading accounts from the tables of a store, and writing entries."""

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
from privboost.accounts.statement import Balance, Entry, Rules
from privboost.errors import StoreError
from privboost.privacy.events.event import Relation

_LISTED = 20
"""Maximum number of names in an error message."""


def read_balance(connection: sqlite3.Connection, path: Path, store: str, dataset: str) -> Balance:
    """Read an account with its entries; refuse another store than the account's own."""
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
        return Balance(dataset, _read_rules(row), tuple(map(_read_entry, rows)))
    except ValueError:
        raise damaged(path, f"a line of the account of {dataset!r}") from None


def read_datasets(connection: sqlite3.Connection) -> list[str]:
    """Return the names of all accounts, in order of opening."""
    rows = connection.execute("SELECT dataset FROM accounts ORDER BY rowid").fetchall()
    return [name for (name,) in rows]


def find_dataset(connection: sqlite3.Connection, dataset: str) -> str | None:
    """Return the stored name of the account whose canonical name is the same, or None.

    An exact match comes first: earlier versions stored names unchanged.
    """
    known = read_datasets(connection)
    alike = (name for name in known if as_it_looks(name) == as_it_looks(dataset))
    return dataset if dataset in known else next(alike, None)


def no_account(path: Path, dataset: str, known: list[str]) -> StoreError:
    """Return the error that lists the accounts and suggests the nearest name."""
    near = get_close_matches(dataset, known, n=1)
    has = ", ".join(map(repr, known[:_LISTED])) + (", …" if len(known) > _LISTED else "")
    hint = f"did you mean {near[0]!r}? " if near else ""
    return StoreError(
        f"{path} has no account of {dataset!r} ({hint}it has {has or 'none'}): privboost budget "
        "open, or BudgetStore.open, opens one"
    )


def write_entry(connection: sqlite3.Connection, dataset: str, entry: Entry) -> None:
    """Insert an entry, or update the price and batches of an entry with the same key."""
    texts = (entry.key, dataset, entry.date, entry.who, entry.name, entry.what)
    connection.execute(
        "INSERT INTO entries (key, dataset, date, who, name, what, epsilon, delta, batches,"
        " size, grid, near_delta, far_delta) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET size = excluded.size, grid = excluded.grid,"
        " near_delta = excluded.near_delta, far_delta = excluded.far_delta,"
        " epsilon = max(epsilon, excluded.epsilon), delta = max(delta, excluded.delta),"
        " batches = excluded.batches",
        (*texts, entry.epsilon, entry.delta, entry.batches, *astuple(entry.price)),
    )


def _read_entry(row: tuple[Any, ...]) -> Entry:
    if not all(0 <= part < math.inf for part in row[9:]):
        raise ValueError("no component of a price is below 0 or infinite")
    number, key, date, who, name, what, epsilon, delta, batches, *price = row
    return Entry(number, key, date, who, name, what, epsilon, delta, batches, Price(*price))


def _read_rules(row: tuple[Any, ...]) -> Rules:
    relation, unit, name, order, epsilon, delta, opened, closed = row
    kind = filter_of(name, order)
    return Rules(Relation(relation), unit, kind, epsilon, delta, opened, closed)


def now() -> str:
    """Return the date and time of this machine's clock, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")


def user() -> str:
    """Return the user and the machine of this process."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a process without a user name
        return "unknown"
