"""The file of a stream: written, read, and set aside while a batch goes on from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from privboost.errors import ModelFileError
from privboost.estimators.row_stream import HERE, RowStream
from privboost.estimators.stream_bytes import read_stream, stream_bytes
from privboost.files import write_file
from privboost.models.model import Model

_TAKEN = ".taken"
"""What the name of a file that was set aside ends with."""
_BUSY = "another batch goes on from this state: wait until it ends, and try again"


def save_stream(stream: RowStream, model: Model, path: str | Path) -> None:
    """Write the private state of a stream, and its model, to a file only its owner may read."""
    if stream.place not in (None, HERE):
        raise ValueError(
            f"the rows of this stream, or the names of their units, lie {stream.place}, and no "
            "file here can hold them: such a stream lives as long as its process"
        )
    place = Path(path).resolve()
    taken = _aside(place).exists()  # a link to a state that a batch goes on from leads to nothing
    write_file(place if taken else path, stream_bytes(stream, model), mode=0o600)


@contextmanager
def take_stream(path: str | Path, intact: Callable[[], bool]) -> Iterator[Path]:
    """Set the file of a stream aside while a batch goes on from it, so that no other one does.

    Yields where it is meanwhile. A process that dies leaves it there: what its rows paid is not
    given back. Where the new state was written before it died, the old one goes.

    Parameters
    ----------
    path : path
        The file; by the end of the work inside it is to be there anew.
    intact : callable
        Says after an error whether the state is as it was; then the file goes back to its place.
    """
    path = Path(path).resolve()  # behind a link the state itself would stay
    if path.suffix == _TAKEN:
        raise ModelFileError(f"{path.name} was taken by a batch: what its rows paid is not known")
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
            f"{aside} is there: {_BUSY}; if none does, one died on the way, and what its rows paid "
            "is not known"
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
    """Refuse to begin a stream in the place of one that was taken."""
    aside = _aside(Path(path).resolve())
    if aside.exists():
        raise ModelFileError(
            f"{aside} is there: a batch goes on from a state of this name, or died on the way: "
            "begin the stream under another name"
        )


def load_stream(path: str | Path) -> tuple[RowStream, Model]:
    """Read the private state of a stream, and its model; see `read_stream`."""
    path = Path(path).resolve()
    _check_there(path)
    return read_stream(path.read_bytes(), str(path))


def _aside(path: Path) -> Path:
    return path.with_name(path.name + _TAKEN)


def _check_there(path: Path) -> None:
    """Say why a state is not in its place, where that is known."""
    if not path.exists() and _aside(path).exists():
        raise ModelFileError(
            f"{path}: {_BUSY}; if none does, one did not come to its end: what its rows paid is "
            f"not given back, the stream is over, and its last model is in {_aside(path).name}"
        )


def _tidy_up(path: Path, aside: Path) -> None:
    """Remove what a process left that died after the new state was written."""
    with suppress(FileNotFoundError):
        old = aside.stat()
        if path.samefile(aside):
            raise ModelFileError(
                f"{aside} is there: {_BUSY}; if none does, one died before it began, and nothing "
                f"was spent: remove {aside.name}"
            )
        if _goes_on_from(path, aside):
            _remove(aside, old)


def _goes_on_from(path: Path, aside: Path) -> bool:
    """Whether a state has more batches than the one that was taken."""
    states = [load_stream(each)[0] for each in (path, aside)]
    return states[0].n_batches > states[1].n_batches


def _put_back(path: Path, aside: Path, own: os.stat_result | None) -> None:
    if path.exists() and path.samefile(aside):  # it had not left its place
        aside.unlink()
    elif _is(aside, own):
        with suppress(FileExistsError):  # a state that came meanwhile is newer: this one is over
            os.link(aside, path)
            aside.unlink()


def _remove(aside: Path, own: os.stat_result | None) -> None:
    """Remove a file that was set aside, unless it is another process's by now."""
    if _is(aside, own):
        aside.unlink(missing_ok=True)


def _is(path: Path, known: os.stat_result | None) -> bool:
    with suppress(FileNotFoundError):
        return known is not None and os.path.samestat(path.stat(), known)
    return False
