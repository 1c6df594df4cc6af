"""Validation of a store's file, and one-line errors that say what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privboost.errors import StoreError

KIND = 0x50564253
"""SQLite application id of a store ("PVBS")."""
VERSION = 1
_TABLE_NAMES = ("store", "accounts", "entries")


def damaged(path: Path, what: str) -> StoreError:
    """Return the error that names the damaged part of a store."""
    return StoreError(
        f"{path} is damaged ({what}): nothing was spent now, and the file is as it was; go back to "
        "a copy, and add to it what was spent since (see the reports of models)"
    )


def is_held(error: sqlite3.OperationalError) -> bool:
    """Whether another process holds the lock."""
    return error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def check_store(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is no store, has another version, or is damaged."""
    kind = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if kind != KIND:
        raise StoreError(f"{path} is no store of privboost")
    if version != VERSION:
        raise StoreError(f"{path} has version {version}; {VERSION} is read here")
    if not _is_sound(connection, "1"):
        wrong = [table for table in _TABLE_NAMES if not _is_sound(connection, table)]
        raise damaged(path, f"the table of {' and of '.join(wrong)}" if wrong else "its pages")
    for table in _TABLE_NAMES:
        found = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        if connection.execute(found, (table,)).fetchone() is None:
            raise damaged(path, f"the table of {table} is missing")


def _is_sound(connection: sqlite3.Connection, of: str) -> bool:
    """Whether the pages of a table are consistent, or (1) those of the whole file."""
    try:
        return bool(connection.execute(f"PRAGMA quick_check({of})").fetchone()[0] == "ok")
    except sqlite3.OperationalError:  # an error of the disk, not of its content
        raise
    except sqlite3.DatabaseError:
        return False


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into one-line errors that say what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname == "SQLITE_ERROR":
            raise damaged(path, "its tables are not those of a store") from None
        raise StoreError(_message(error, path)) from None
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_NOTADB":
            raise StoreError(
                f"{path} is damaged, or no store: nothing was spent now, and the file is as it "
                "was; if it is a store, go back to a copy, and add to it what was spent since "
                "(see the reports of models)"
            ) from None
        raise damaged(path, "its pages") from None


def _message(error: sqlite3.OperationalError, path: Path) -> str:
    name = error.sqlite_errorname
    if is_held(error):
        return f"{path} is held by another process: nothing was spent; try again when it has ended"
    if name.startswith("SQLITE_FULL"):
        return f"{path}: the disk is full, and nothing was spent; make room and try again"
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return (
            f"{path} cannot be written: nothing was spent; a store and its folder must be "
            "writable for users who train"
        )
    return f"{path} cannot be used ({name}): nothing was spent"
