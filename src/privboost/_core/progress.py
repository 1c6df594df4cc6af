"""Progress of long work: rounds and bytes, never rows or time.

The duration of a round depends on the rows, so no bar has a rate or a time. Bytes read are shown on
a terminal only, to a user who can see the file anyway. Messages about waiting go to a listener.
Reservations are counted, so that a run that fails knows whether something was charged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)
_charges: ContextVar[tuple[Charges, ...]] = ContextVar("charges", default=())

Track = Callable[[range], Iterable[int]]
"""Wrapper of a recipe's rounds that shows progress."""


def rounds_bar(verbose: bool) -> Track:
    """Return a wrapper of rounds; if `verbose`, it draws a bar on the standard error stream."""
    if not verbose:
        return iter

    def track(rounds: range) -> Iterator[int]:
        columns = ("rounds", BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            yield from bar.track(rounds)

    return track


@contextmanager
def waiting(verbose: bool, what: str) -> Iterator[None]:
    """Show a label on the terminal while the block runs."""
    console = _terminal(verbose)
    if console is None:
        yield
        return
    with console.status(f"{what} …"):
        yield


@contextmanager
def reading(verbose: bool, table: Any) -> Iterator[None]:
    """Show on the terminal how many bytes of a table's files were read.

    A table of files has `n_bytes`, and calls its `watch` with the bytes read; a second pass over
    the files adds nothing. Other tables show no amount.
    """
    console = _terminal(verbose)
    total = getattr(table, "n_bytes", None)
    if console is None or total is None:
        with waiting(verbose, "reading the rows"):
            yield
        return
    columns = ("reading", BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        table.watch = lambda more: bar.advance(task, more)
        try:
            yield
        finally:
            table.watch = None


def _terminal(verbose: bool) -> Any:
    """Return the console of the standard error stream, if it is a terminal and `verbose`."""
    if not verbose:
        return None
    console = Console(stderr=True)
    # rich takes any file for a terminal where FORCE_COLOR is set.
    return console if sys.stderr.isatty() else None


def send_message(line: str) -> None:
    """Send a line without private values to the listener; there is none by default."""
    listener = _listener.get()
    if listener is not None:
        listener(line)


@contextmanager
def message_listener(listener: Callable[[str], None]) -> Iterator[None]:
    """Set the listener in this block."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


class Charges:
    """Number of reservations that were made, or may have been, in a block."""

    count = 0


def before_charge() -> None:
    """Count a plan that is about to be reserved: from here on it may have been charged."""
    for charges in _charges.get():
        charges.count += 1


def charge_refused() -> None:
    """Undo the last `before_charge`: nothing was reserved."""
    for charges in _charges.get():
        charges.count -= 1


@contextmanager
def counting_charges() -> Iterator[Charges]:
    """Count the reservations in this block; outer blocks count them too."""
    charges = Charges()
    before = _charges.set((*_charges.get(), charges))
    try:
        yield charges
    finally:
        _charges.reset(before)


@contextmanager
def messages_printed(verbose: bool) -> Iterator[None]:
    """Print lines on the standard error stream if `verbose`; else keep the listener."""
    if not verbose:
        yield
        return
    with message_listener(lambda line: print(line, file=sys.stderr, flush=True)):
        yield
