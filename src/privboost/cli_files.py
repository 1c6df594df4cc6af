"""Files that commands read and write: refusals before anything is done, and tables as text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from privboost.files import check_place, new_file


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


def read_separator(text: str | None) -> str | None:
    """Read what stands between cells; a tab may be written as two characters."""
    separator = "\t" if text == r"\t" else text
    if separator is not None and len(separator) != 1:
        raise ValueError(r"--separator must be one character; \t is a tab")
    return separator


def print_csv(table: Any) -> None:
    """Write a table to the standard output; who reads it may stop at any line."""
    import pyarrow as pa
    import pyarrow.csv

    check_output()
    text = pa.BufferOutputStream()  # arrow's own writer aborts where nobody reads
    pa.csv.write_csv(table, text)
    sys.stdout.buffer.write(text.getvalue())
    sys.stdout.flush()


def write_table(table: Any, path: Path) -> None:
    """Write a table to a .csv or .parquet file, whole or not at all."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    with new_file(path) as file:
        if path.suffix.lower() == ".parquet":
            pa.parquet.write_table(table, file)
        else:
            pa.csv.write_csv(table, file)


def check_output() -> None:
    """Refuse to write to a standard output that is closed."""
    if sys.stdout is None:
        raise OSError("the standard output is closed: give --out, or open it")
