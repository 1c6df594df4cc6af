"""The file of a stream: written, read, and set aside while a batch goes on from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from privboost.errors import ModelFileError
from privboost.estimators.row_stream import HERE, RowStream
from privboost.estimators.stream_bytes import read_stream, stream_bytes
from privboost.files import write_file
from privboost.models.model import Model

_TAKEN = ".taken"
"""What the name of a file that was set aside ends with."""


def save_stream(stream: RowStream, model: Model, path: str | Path) -> None:
    """Write the private state of a stream, and its model, to a file only its owner may read."""
    if stream.place not in (None, HERE):
        raise ValueError(
            f"the rows of this stream, or the names of their units, lie {stream.place}, and no "
            "file here can hold them: such a stream lives as long as its process"
        )
    write_file(path, stream_bytes(stream, model), mode=0o600)


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
    if aside.exists() and path.exists() and _goes_on_from(path, aside):
        aside.unlink(missing_ok=True)
    if path.stat().st_nlink > 1:
        raise ModelFileError(f"{path.name} has another name: the state would stay under that one")
    try:
        os.link(path, aside)  # unlike a move, it replaces nothing
    except FileExistsError:
        raise ModelFileError(
            f"{aside} is there: another batch goes on from this state, or died on the way"
        ) from None
    path.unlink()
    try:
        yield aside
    except BaseException:
        if intact():
            aside.replace(path)
        raise
    aside.unlink(missing_ok=True)


def load_stream(path: str | Path) -> tuple[RowStream, Model]:
    """Read the private state of a stream, and its model; see `read_stream`."""
    path = Path(path).resolve()
    if not path.exists() and _aside(path).exists():
        raise ModelFileError(
            f"{path}: a batch that went on from this state did not come to its end, and what its "
            "rows paid is not given back. The stream is over; its last model is in "
            f"{_aside(path).name}"
        )
    return read_stream(path.read_bytes(), str(path))


def _aside(path: Path) -> Path:
    return path.with_name(path.name + _TAKEN)


def _goes_on_from(path: Path, aside: Path) -> bool:
    """Whether a state has more batches than the one that was taken."""
    states = [load_stream(each)[0] for each in (path, aside)]
    return states[0].n_batches > states[1].n_batches
