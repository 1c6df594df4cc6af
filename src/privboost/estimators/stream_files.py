"""Stream files: written, read, and renamed while a batch continues from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from privboost._core.errors import ModelFileError
from privboost._core.files import write_file
from privboost.estimators.stream_format import read_stream, stream_bytes
from privboost.estimators.stream_state import HERE, RowStream
from privboost.models.model import Model

_TAKEN = ".taken"
"""Suffix of a file that a batch continues from."""
_BUSY = "another batch continues from this state: wait until it ends, and try again"


def save_stream(stream: RowStream, model: Model, path: str | Path) -> None:
    """Write the private state of a stream, and its model, to a file only its owner may read."""
    if stream.place not in (None, HERE):
        raise ValueError(
            f"the rows of this stream, or the names of their units, lie {stream.place}, and no "
            "file here can hold them: such a stream ends with its process"
        )
    place = Path(path).resolve()
    taken = _aside(place).exists()  # a link to a renamed file would dangle
    write_file(place if taken else path, stream_bytes(stream, model), mode=0o600)


@contextmanager
def take_stream(path: str | Path, intact: Callable[[], bool]) -> Iterator[Path]:
    """Rename the file of a stream while a batch continues from it, so that no other one does.

    Yields the new path; the block is to write the file again. A process that dies leaves it there:
    its charge is not refunded. If the new state was written before it died, the next batch removes
    the old one. After an error, `intact` returns whether the state is unchanged; then the file gets
    its name back.
    """
    path = Path(path).resolve()  # the file itself, not a link to it
    if path.suffix == _TAKEN:
        raise ModelFileError(f"{path.name} was taken by a batch: its charge is unknown")
    aside = _aside(path)
    _tidy_up(path, aside)
    _check_there(path)
    if path.stat().st_nlink > 1:
        raise ModelFileError(f"{path.name} has another name: the state would stay under that one")
    try:
        os.link(path, aside)  # unlike a move, it replaces nothing
    except FileNotFoundError:
        _check_there(path)
        raise
    except FileExistsError:
        raise ModelFileError(
            f"{aside} exists: {_BUSY}; if there is none, one died midway, and its charge is unknown"
        ) from None
    own = None
    try:
        own = aside.stat()
        if not _is(path, own):
            raise ModelFileError(f"{path}: {_BUSY}")
        path.unlink()
        yield aside
    except BaseException:
        if intact():
            _put_back(path, aside, own)
        raise
    _remove(aside, own)


def check_begin(path: str | Path) -> None:
    """Refuse to begin a stream under the name of one that was taken."""
    aside = _aside(Path(path).resolve())
    if aside.exists():
        raise ModelFileError(
            f"{aside} exists: a batch continues from a state of this name, or died midway: begin "
            "the stream under another name"
        )


def load_stream(path: str | Path) -> tuple[RowStream, Model]:
    """Read the private state of a stream, and its model; see `read_stream`."""
    path = Path(path).resolve()
    _check_there(path)
    return read_stream(path.read_bytes(), str(path))


def _aside(path: Path) -> Path:
    return path.with_name(path.name + _TAKEN)


def _check_there(path: Path) -> None:
    """Raise if a state is missing because a batch has taken it."""
    if not path.exists() and _aside(path).exists():
        raise ModelFileError(
            f"{path}: {_BUSY}; if there is none, one died midway: its charge is not refunded, the "
            f"stream has ended, and its last model is in {_aside(path).name}"
        )


def _tidy_up(path: Path, aside: Path) -> None:
    """Remove the old state of a process that died after it wrote the new one."""
    with suppress(FileNotFoundError):
        old = aside.stat()
        if path.samefile(aside):
            raise ModelFileError(
                f"{aside} exists: {_BUSY}; if there is none, one died before it began, and nothing "
                f"was spent: remove {aside.name}"
            )
        if _goes_on_from(path, aside):
            _remove(aside, old)


def _goes_on_from(path: Path, aside: Path) -> bool:
    """Whether a state has more batches than the one that was taken."""
    return load_stream(path)[0].n_batches > load_stream(aside)[0].n_batches


def _put_back(path: Path, aside: Path, own: os.stat_result | None) -> None:
    if path.exists() and path.samefile(aside):  # it was not renamed yet
        aside.unlink()
    elif _is(aside, own):
        with suppress(FileExistsError):  # a state written meanwhile is newer: this one has ended
            os.link(aside, path)
            aside.unlink()


def _remove(aside: Path, own: os.stat_result | None) -> None:
    """Remove a renamed file, unless it is another process's by now."""
    if _is(aside, own):
        aside.unlink(missing_ok=True)


def _is(path: Path, known: os.stat_result | None) -> bool:
    with suppress(FileNotFoundError):
        return known is not None and os.path.samestat(path.stat(), known)
    return False
