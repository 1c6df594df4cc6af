"""Files with a checksum, written atomically.

A file is: seven bytes that name its kind, one byte for the version, SHA-256 of all other bytes, and
the content. The checksum detects damage; it does not authenticate, so readers validate everything.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from privboost._core.errors import ModelFileError

_MOST_TIMES = 64
"""Largest ratio of the decompressed size to the compressed size."""

_LATER = "a later privboost wrote it (pip install --upgrade privboost)"
_EARLIER = "an earlier privboost wrote it, which can still read it"

UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    zlib.error,
)
"""Exceptions that parsing of malformed content can raise."""


@dataclass(frozen=True)
class FileKind:
    """A kind of file: seven bytes that name it, the version that is written and read, a noun."""

    name: bytes
    version: int
    what: str

    def seal(self, content: bytes) -> bytes:
        """Return a file's bytes."""
        magic = self.name + bytes([self.version])
        return magic + _digest(magic, content) + content

    def unseal(self, data: bytes | memoryview, path: str) -> memoryview:
        """Return a file's content; raises `ModelFileError`, which names the path."""
        view = memoryview(data)
        magic, digest, content = view[:8], view[8:40], view[40:]
        if magic[:7] == self.name and len(magic) == 8 and magic[7] != self.version:
            raise ModelFileError(
                f"{path} has version {magic[7]}; {self.version} is read here: "
                + (_LATER if magic[7] > self.version else _EARLIER)
            )
        if magic[:7] != self.name:
            raise ModelFileError(f"{path} is not {self.what}, or it is damaged")
        if digest != _digest(magic, content):
            raise ModelFileError(f"{path} is damaged, or not whole: copy it again")
        return content


def _digest(magic: bytes | memoryview, content: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(magic)
    digest.update(content)
    return digest.digest()


def compress(content: bytes) -> bytes:
    """Compress content, at most as far as `decompress` accepts."""
    packed = zlib.compress(content, 1)
    return packed if len(content) <= _MOST_TIMES * len(packed) else zlib.compress(content, 0)


def decompress(packed: bytes | memoryview) -> bytes:
    """Return decompressed content; raises ValueError where it is implausibly large."""
    reader = zlib.decompressobj()
    content = reader.decompress(packed, _MOST_TIMES * len(packed) + 1)
    if not reader.eof or reader.unused_data:
        raise ValueError("the content is cut short, or larger than its file allows")
    return content


def write_file(path: str | Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file atomically; the umask restricts the permissions `mode`."""
    with new_file(path, mode) as file:
        file.write(content)


@contextmanager
def new_file(path: str | Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Open a file to write, which gets its name at the end of the block if nothing failed.

    Until then it lies in the same folder, under a random name.
    """
    check_place(Path(path))
    path = Path(path).resolve()  # a link to a file stays one
    part = path.with_name(f".privboost-{secrets.token_hex(8)}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:  # do not name the temporary file
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(part)):
            error.filename = str(path)  # a full disk names none
        raise


def check_link(path: Path) -> None:
    """Refuse a dangling symbolic link: its author would choose where a new file goes."""
    if path.is_symlink() and not path.exists():
        raise FileNotFoundError(f"{path} is a symbolic link to nothing: remove it, or name a file")


def check_place(path: Path) -> None:
    """Refuse a path that is a folder, a device or a pipe, or whose folder does not exist.

    A symbolic link to a file stands for that file; a dangling one is refused (`check_link`).
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {path.parent}; make it, or name another")
    check_link(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file")
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{path} is a device or a pipe, no file that could be replaced")
