"""Files that commands read and write: refusals before anything is done, and none lost after."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import Any

from privboost.files import check_place, write_file


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


def save_paid(save: Callable[[Path], Any], path: Path) -> None:
    """Write what a budget was spent on; if its place fails now, elsewhere: it cannot be had again.

    Raises
    ------
    OSError
        If its place failed; it says where the file is instead, which nobody else can read there.
    """
    try:
        save(path)
    except OSError as error:
        why = error.strerror or str(error)
        try:
            spare = Path(mkdtemp(prefix="privboost-")) / path.name
            save(spare)
        except OSError:
            raise OSError(
                f"{path}: {why}; nor could it be written elsewhere: what it cost is spent"
            ) from None
        raise OSError(f"{path}: {why}; what was paid for is in {spare}: move it") from None


def print_paid(text: str, name: str) -> None:
    """Print what a budget was spent on; if nobody can read it, keep it elsewhere.

    Parameters
    ----------
    text : str
        What is printed.
    name : str
        What the file is called that it goes to otherwise.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        leave_output()
        spare = Path(mkdtemp(prefix="privboost-")) / name
        write_file(spare, f"{text}\n".encode())
        why = error.strerror or str(error)
        raise OSError(f"standard output: {why}; what was paid for is in {spare}: move it") from None


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
