"""Messages that nobody else can read, change, send again, or take from another session."""

from __future__ import annotations

from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from privboost import codec
from privboost.federation.keys import derive, random_bytes

_MAGIC = b"PVBFED02"
_SALT = 32
_NUMBER = 8


class Channel:
    """One of the two ends of a conversation within a session.

    Each direction has a key of its own, and messages are numbered: one that comes again, or after a
    later one, is not read.

    Parameters
    ----------
    key : bytes
        What both ends share in this session alone.
    own, other : str
        The names of the ends.
    """

    def __init__(self, key: bytes, own: str, other: str) -> None:
        self._out = AESGCM(derive(key, "channel", own, other))
        self._in = AESGCM(derive(key, "channel", other, own))
        self._sent = self._seen = 0

    def close(self, body: dict[str, Any]) -> bytes:
        """Seal a message."""
        self._sent += 1
        number = self._sent.to_bytes(_NUMBER, "big")
        return number + self._out.encrypt(bytes(4) + number, codec.dump(body, _MAGIC), None)

    def open(self, data: bytes) -> dict[str, Any] | None:
        """Return what a sealed message says; None where it is not the other end's, or not new."""
        number = int.from_bytes(data[:_NUMBER], "big")
        if len(data) < _NUMBER or number <= self._seen:
            return None
        body = _opened(self._in, bytes(4) + data[:_NUMBER], data[_NUMBER:])
        if body is not None:
            self._seen = number
        return body


def seal_letter(key: bytes, own: str, other: str, body: dict[str, Any]) -> bytes:
    """Seal a message before there is a session, under a key that is used once."""
    salt = random_bytes()
    once = AESGCM(derive(key, "letter", own, other, salt.hex()))
    return salt + once.encrypt(bytes(12), codec.dump(body, _MAGIC), None)


def open_letter(key: bytes, own: str, other: str, data: bytes) -> dict[str, Any] | None:
    """Return what a letter from the other end says; None where it is not from there."""
    once = AESGCM(derive(key, "letter", other, own, data[:_SALT].hex()))
    return _opened(once, bytes(12), data[_SALT:])


def _opened(key: AESGCM, nonce: bytes, data: bytes) -> dict[str, Any] | None:
    try:
        body = codec.load(key.decrypt(nonce, data, None), _MAGIC)
    except (InvalidTag, ValueError):
        return None
    return body if isinstance(body, dict) else None
