"""Transactions on a store's SQLite file; every write is on disk when it returns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic
from urllib.parse import quote

from privboost.accounts.damage import KIND, VERSION, check_store, explained, is_held
from privboost.accounts.places import check_disk, check_one_name
from privboost.errors import StoreError
from privboost.files import check_link
from privboost.progress import tell

_SOON = 1.0
"""Seconds to wait for another process without a message, or a check for signals."""
_PATIENCE = 30.0
"""Maximum number of seconds to wait."""
_SCHEMA = """
CREATE TABLE accounts (
    dataset TEXT PRIMARY KEY,
    relation TEXT NOT NULL,
    unit TEXT,
    filter TEXT NOT NULL,
    "order" INTEGER,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    opened TEXT NOT NULL,
    closed TEXT
) STRICT;
CREATE TABLE entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    dataset TEXT NOT NULL REFERENCES accounts (dataset),
    date TEXT NOT NULL,
    who TEXT NOT NULL,
    name TEXT NOT NULL,
    what TEXT NOT NULL,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    batches INTEGER NOT NULL,
    size REAL NOT NULL,
    grid REAL NOT NULL,
    near_delta REAL NOT NULL,
    far_delta REAL NOT NULL
) STRICT;
CREATE TABLE store (id TEXT NOT NULL) STRICT;
"""


def create_database(path: Path, name: str) -> None:
    """Create a store's file atomically; an existing one stays unchanged."""
    check_link(path)
    check_disk(path)
    check_one_name(path)
    with explained(path), closing(_begun(path, "rwc", "BEGIN IMMEDIATE")) as connection:
        if not connection.execute("PRAGMA schema_version").fetchone()[0]:
            connection.execute(f"PRAGMA application_id = {KIND}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            for command in filter(str.strip, _SCHEMA.split(";\n")):
                connection.execute(command)
            connection.execute("INSERT INTO store VALUES (?)", (name,))
        connection.execute("COMMIT")


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store for reading, with a consistent snapshot."""
    with _opened(path, "BEGIN") as connection:
        yield connection


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store for writing: one transaction, on disk when it ends.

    It excludes other writers; an error rolls it back.
    """
    with _opened(path, "BEGIN IMMEDIATE") as connection:
        try:
            yield connection
        except BaseException:
            if connection.in_transaction:  # some errors roll back by themselves
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


@contextmanager
def _opened(path: Path, begin: str) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise StoreError(f"{path}: there is no such store; privboost budget open makes one")
    check_disk(path)
    check_one_name(path)
    with explained(path), closing(_begun(path, "rw", begin)) as connection:
        check_store(connection, path)
        yield connection


def _begun(path: Path, mode: str, begin: str) -> sqlite3.Connection:
    """Open a file and begin a transaction; wait for another writer, with one message."""
    end, announced = monotonic() + _PATIENCE, False
    while True:
        try:
            return _begun_within(_SOON, path, mode, begin)
        except sqlite3.OperationalError as error:
            if not is_held(error) or monotonic() >= end:
                raise
        if not announced:
            tell(f"waiting for {path}: another process is writing")
        announced = True


def _begun_within(timeout: float, path: Path, mode: str, begin: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path.resolve()))}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None)
    try:
        # A deleted journal and EXTRA: a charge and the end of its journal are on disk before a run
        # continues. (Write-ahead logs need shared memory.)
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(begin)
        connection.execute("PRAGMA schema_version")  # a read transaction begins with its first read
        connection.execute(f"PRAGMA busy_timeout = {_PATIENCE * 1000:.0f}")  # readers are short
    except BaseException:
        connection.close()
        raise
    return connection
