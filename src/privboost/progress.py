"""Signs of life of long work. They count rounds and bytes, never rows, and say nothing of time.

How long a round takes tells about the number of rows and their values, so no bar has a rate, a
time passed or a time left. Bytes that were read, of a Parquet file by its rows, are shown at a
terminal alone, to who can see the file anyway.
What is waited for is told in words, to whoever listens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Listener = Callable[[str], None]
"""Is told a line without private values."""
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_charges: ContextVar[tuple[Charges, ...]] = ContextVar("charges", default=())

Track = Callable[[range], Iterable[int]]
"""What wraps the rounds of a recipe, to show progress."""


def rounds_bar(verbose: bool) -> Track:
    """Return a wrapper of rounds that draws a bar on the standard error stream if asked to."""
    if not verbose:
        return iter

    def track(rounds: range) -> Iterator[int]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress

        columns = ("rounds", BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            yield from bar.track(rounds)

    return track


@contextmanager
def waiting(verbose: bool, what: str) -> Iterator[None]:
    """Show at a terminal that something goes on whose end nobody can tell."""
    console = _terminal(verbose)
    if console is None:
        yield
        return
    with console.status(f"{what} …"):
        yield


@contextmanager
def reading(verbose: bool, table: Any) -> Iterator[None]:
    """Show at a terminal how much of a table's files has been read; other tables show no amount.

    Parameters
    ----------
    verbose : bool
        Whether to show anything.
    table : table
        Of files, one has `n_bytes`, and tells its `watch` how many more were read. A second pass
        over them adds nothing.
    """
    console = _terminal(verbose)
    total = getattr(table, "n_bytes", None)
    if console is None or total is None:
        with waiting(verbose, "reading the rows"):
            yield
        return
    from rich.progress import BarColumn, DownloadColumn, Progress

    columns = ("reading", BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        table.watch = lambda more: bar.advance(task, more)
        try:
            yield
        finally:
            table.watch = None


def _terminal(verbose: bool) -> Any:
    """Return where somebody looks, if somebody does and wants to."""
    if not verbose:
        return None
    from rich.console import Console

    console = Console(stderr=True)
    # Not rich's own opinion: it takes any file for a terminal where FORCE_COLOR is set.
    return console if sys.stderr.isatty() else None


def tell(words: str) -> None:
    """Say something to whoever listens; to nobody by default."""
    listener = _listener.get()
    if listener is not None:
        listener(words)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a function told, while the work inside lasts, what is waited for."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


class Charges:
    """Counts the reservations that were made, or may have been, while some work lasted."""

    count = 0


def before_charge() -> None:
    """Count a plan that is about to be reserved: from here on it may have been paid."""
    for charges in _charges.get():
        charges.count += 1


def charge_refused() -> None:
    """Take back the last `before_charge`: nothing was reserved."""
    for charges in _charges.get():
        charges.count -= 1


@contextmanager
def counting_charges() -> Iterator[Charges]:
    """Count the reservations of the work inside; whoever counts outside counts them too."""
    charges = Charges()
    before = _charges.set((*_charges.get(), charges))
    try:
        yield charges
    finally:
        _charges.reset(before)


@contextmanager
def waits_told(verbose: bool) -> Iterator[None]:
    """Write what is told to the standard error stream if asked to; else who listened still does."""
    if not verbose:
        yield
        return
    with listening(lambda words: print(words, file=sys.stderr, flush=True)):
        yield
