"""The SQLite file of a store: names, transactions and tables, and errors that say what to do.

Every write is on disk when it returns.
"""

from __future__ import annotations

import getpass
import math
import re
import socket
import sqlite3
import unicodedata
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote

from privboost._core.checks import is_writable
from privboost._core.errors import StoreError
from privboost._core.files import check_link
from privboost._core.progress import send_message
from privboost.accounting.events import Relation
from privboost.accounts.balance import Balance, Entry, Rules
from privboost.accounts.filters import Price, filter_of

_NETWORKS = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs"),
    *("nfs", "nfs4", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs"),
    "vmhgfs",
}
_LOCAL_FUSE = ("fuse.ext2", "fuse.ext4", "fuse.ntfs", "fuseblk", "fuse.fuse-overlayfs")
_MOUNTS = Path("/proc/mounts")


def _check_place(path: Path) -> None:
    """Refuse a network file system, where it can be recognised (on Linux), and a second hard link.

    Locks and flushes of many network file systems are unreliable: two processes could spend the
    same budget. And SQLite looks for the journal of an interrupted write next to the path that it
    opens. A process that opens the store by its other name would miss that journal, and a charge
    could be lost.
    """
    kind = _kind_of_mount(path.resolve().parent)
    if kind in _NETWORKS or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE):
        raise StoreError(
            f"{path} is on a network file system ({kind}), which may lose a charge: keep the store "
            "on a disk of the machine that trains"
        )
    if path.exists() and path.stat().st_nlink > 1:
        raise StoreError(
            f"{path} has more than one name (hard links), and a charge could be lost: SQLite finds "
            "the journal of an interrupted write by the store's path; keep one name, the one that "
            "a -journal file belongs to if there is any, and remove the others"
        )


def _kind_of_mount(folder: Path) -> str:
    """Return the type of a folder's file system, or "" where it is unknown."""
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    found, kind = -1, ""
    for line in lines:
        _, place, own, *_ = line.split(" ")
        mount = Path(place.replace("\\040", " "))
        if (folder == mount or mount in folder.parents) and len(mount.parts) >= found:
            found, kind = len(mount.parts), own
    return kind


_MAX_LENGTH = 200
"""Maximum length of a name."""
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]"
)
"""Printable characters that screens do not show: Unicode's Default_Ignorable_Code_Point, and the
empty Braille pattern."""


def check_name(parameter: str, value: Any) -> str:
    """Return a valid name, or raise ValueError."""
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_LENGTH or not value.isprintable():
        raise ValueError(f"{parameter} must be a text of 1 to {_MAX_LENGTH} printable characters")
    if not is_writable(value):
        raise ValueError(f"{parameter} must be a text that UTF-8 can encode")
    return value


def valid_canonical_name(parameter: str, value: Any) -> str:
    """Return a name as the store keeps it (`canonical_name`); refuse invisible characters."""
    name = check_name(parameter, canonical_name(value) if isinstance(value, str) else value)
    if _INVISIBLE.search(name):
        raise ValueError(f"{parameter} must be a text without invisible characters")
    return name


def canonical_name(name: str) -> str:
    """Return the canonical form of a name: NFKC, single blanks, none at the ends.

    Letters of different alphabets that look alike stay distinct.
    """
    return re.sub(" +", " ", unicodedata.normalize("NFKC", name)).strip()


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
    _check_place(path)
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
    _check_place(path)
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
            send_message(f"waiting for {path}: another process is writing")
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
        relation, unit, name, order, *terms = row
        rules = Rules(Relation(relation), unit, filter_of(name, order), *terms)
        return Balance(dataset, rules, tuple(map(_read_entry, rows)))
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
    alike = (name for name in known if canonical_name(name) == canonical_name(dataset))
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
    _, *own, price = astuple(entry)
    connection.execute(
        "INSERT INTO entries (dataset, key, date, who, name, what, epsilon, delta, batches,"
        " size, grid, near_delta, far_delta) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET size = excluded.size, grid = excluded.grid,"
        " near_delta = excluded.near_delta, far_delta = excluded.far_delta,"
        " epsilon = max(epsilon, excluded.epsilon), delta = max(delta, excluded.delta),"
        " batches = excluded.batches",
        (dataset, *own, *price),
    )


def _read_entry(row: tuple[Any, ...]) -> Entry:
    if not all(0 <= part < math.inf for part in row[9:]):
        raise ValueError("no component of a price is below 0 or infinite")
    return Entry(*(*row[:9], Price(*row[9:])))


def now() -> str:
    """Return the date and time of this machine's clock, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")


def user() -> str:
    """Return the user and the machine of this process."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a process without a user name
        return "unknown"
