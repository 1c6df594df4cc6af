"""The file of a store: SQLite, with every write on the disk before it counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from privboost.accounts.places import check_disk
from privboost.errors import StoreError

_PATIENCE = 30.0
"""So many seconds another process may take to write its own charge."""
_KIND = 0x50564253
"""Says that a database is a store of ours ("PVBS")."""
_VERSION = 1
_TABLES = """
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
    """Make a store's file, whole or not at all; one that is there stays as it is."""
    check_disk(path)
    with _told(path), closing(_connect(path, "rwc")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute("PRAGMA schema_version").fetchone()[0]:
            connection.execute(f"PRAGMA application_id = {_KIND}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            for statement in filter(str.strip, _TABLES.split(";\n")):
                connection.execute(statement)
            connection.execute("INSERT INTO store VALUES (?)", (name,))
        connection.execute("COMMIT")


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store to look something up."""
    with _opened(path) as connection:
        yield connection


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store to write: all that happens inside is one write, on the disk when it ends.

    Nobody else writes meanwhile; an error leaves everything as it was.
    """
    with _opened(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            if connection.in_transaction:  # some errors end it by themselves
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise StoreError(f"{path}: there is no such store; privboost budget open makes one")
    check_disk(path)
    with _told(path), closing(_connect(path, "rw")) as connection:
        _check(connection, path)
        yield connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path.resolve()))}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
    # A journal that is deleted, and EXTRA: a charge is on the disk, and so is the end of its
    # journal, before a run goes on. (A journal of another kind needs shared memory.)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _check(connection: sqlite3.Connection, path: Path) -> None:
    kind = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if kind != _KIND:
        raise StoreError(f"{path} is no store of privboost")
    if version != _VERSION:
        raise StoreError(f"{path} has version {version}; {_VERSION} is read here")
    if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise sqlite3.DatabaseError("damaged")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say in a line what is wrong with a file, and what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(_words(error, path)) from None
    except sqlite3.DatabaseError:
        raise StoreError(
            f"{path} is damaged, or no store: nothing was spent now; go back to a copy, and add to "
            "it what was spent since (reports of models tell)"
        ) from None


def _words(error: sqlite3.OperationalError, path: Path) -> str:
    name = error.sqlite_errorname
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{path} is held by another process: nothing was spent; try again"
    if name.startswith("SQLITE_FULL"):
        return f"{path}: the disk is full, and nothing was spent; make room and try again"
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return (
            f"{path} cannot be written: nothing was spent; a store and its folder must be "
            "writable for whoever trains"
        )
    return f"{path} cannot be used ({name}): nothing was spent"
