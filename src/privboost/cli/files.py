"""Files that commands read and write: refusals before anything is done, and none lost after."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import Any

from privboost.cli.exits import Status, fail
from privboost.files import check_link, check_place, write_file


def check_files(
    read: Iterable[Path | None], written: Sequence[Path], replace: Iterable[Path] = ()
) -> None:
    """Refuse to write over what is read, two files into one, or over a file unasked.

    A folder that is read is all that lies in it.

    Parameters
    ----------
    read : paths
        What a command reads, or adds to; None is none.
    written : sequence of paths
        What it will write.
    replace : paths
        Those of them that may be there already.
    """
    for path in written:
        check_link(path)
    sources = [path.resolve() for path in read if path is not None]
    files = [*sources, *(path.resolve() for path in written)]
    if len(set(files)) < len(files):
        raise ValueError("the files that are read and those that are written must be different")
    folders = {path for path in sources if path.is_dir()}
    for path in files:
        if not folders.isdisjoint(path.parents):
            raise ValueError(f"{path.name} lies in a folder that is read as a table: move it out")
    for path in written:
        _check_writable(path)
        if path.is_file() and path not in replace:
            raise FileExistsError(f"{path} exists already: --force replaces it")


def _check_writable(path: Path) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {path.parent}")
    check_place(path)
    with TemporaryFile(dir=path.resolve().parent):
        pass


def check_output() -> None:
    """Refuse to write to a standard output that is closed."""
    if sys.stdout is None:
        raise OSError("the standard output is closed: give --out, or open it")


@contextmanager
def held_back() -> Iterator[None]:
    """Hold Ctrl-C, and who tells the process to end, back until what was paid for is written.

    Then the command ends as interrupted, and says so. Within another one it holds nothing itself.
    """
    here = threading.current_thread() is threading.main_thread()  # no other one has signals
    own = [each for each in _SIGNALS if here and signal.getsignal(each) in _ENDING]
    if own:
        _noted.clear()
    before = {each: signal.signal(each, _note) for each in own}
    try:
        yield
    finally:
        for each, act in before.items():
            signal.signal(each, act)
    if before and _noted:
        fail("interrupted; what was paid for is written all the same", Status.interrupted)


_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
_ENDING = (signal.default_int_handler, signal.SIG_DFL)
"""What handles signals that end a command; one that is ignored, or held back, stays so."""
_noted: list[int] = []


def _note(number: int, _: Any) -> None:
    _noted.append(number)


def save_paid(save: Callable[[Path], Any], path: Path) -> None:
    """Write what a budget was spent on; if its place fails now, elsewhere: it cannot be had again.

    Who interrupts it meanwhile waits.

    Raises
    ------
    OSError
        If its place failed; it says where the file is instead, which nobody else can read there.
    """
    with held_back():
        try:
            save(path)
        except OSError as error:
            why = error.strerror or str(error)
            spare = _keep(save, path, why)
            raise OSError(f"{path}: {why}; what was paid for is in {spare}: move it") from None


@contextmanager
def saving_too(save: Callable[[Path], Any], path: Path) -> Iterator[None]:
    """Write something that was paid for also where what is written inside fails; tell both."""
    try:
        yield
    except BaseException as error:
        try:
            save_paid(save, path)
        except OSError as other:
            if isinstance(error, OSError):
                raise OSError(f"{error}; {other}") from None
            raise error from other
        raise


def _keep(save: Callable[[Path], Any], path: Path, why: str) -> Path:
    try:
        spare = Path(mkdtemp(prefix="privboost-")) / path.name
        save(spare)
    except OSError:
        raise OSError(
            f"{path}: {why}; nor could it be written elsewhere: what it cost is spent"
        ) from None
    return spare


def print_paid(text: str, name: str) -> None:
    """Print what a budget was spent on; if nobody can or will read it, keep it elsewhere.

    Parameters
    ----------
    text : str
        What is printed.
    name : str
        What the file is called that it goes to otherwise.
    """
    try:
        print(text, flush=True)
    except (OSError, KeyboardInterrupt) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "interrupted"
        with held_back():
            leave_output()
            spare = _keep(lambda path: write_file(path, f"{text}\n".encode()), Path(name), why)
            said = f"standard output: {why}; what was paid for is in {spare}: move it"
            if isinstance(error, KeyboardInterrupt):
                fail(said, Status.interrupted)
            raise OSError(said) from None


def leave_output() -> None:
    """Let go of a standard output that failed: nothing more goes there, not even at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered goes nowhere


def open_rows(
    data: Path, missing: list[str] | None, separator: str | None, every_line: bool = False
) -> Any:
    """Open the table that options name."""
    from privboost.tables.file_sources import open_file

    return open_file(data, missing or [], every_line, _read_separator(separator))


def _read_separator(text: str | None) -> str | None:
    """Read what stands between cells; a tab may be written as two characters."""
    separator = "\t" if text == r"\t" else text
    if separator is not None and len(separator) != 1:
        raise ValueError(r"--separator must be one character; \t is a tab")
    return separator
