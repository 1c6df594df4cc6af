"""Sealed messages cannot be read, changed or replayed by others, or moved to another session."""

from __future__ import annotations

from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from privboost import codec
from privboost.federation.keys import derive, random_bytes

_MAGIC = b"PVBFED02"
_SALT_BYTES = 32
_COUNTER_BYTES = 8


class Channel:
    """One end of the channel between two ends of a session.

    Each direction has its own key, and messages are numbered: one that is replayed, or arrives
    after a later one, is not opened.

    Parameters
    ----------
    key : bytes
        The pair key of the session.
    own, other : str
        Names of the ends.
    """

    def __init__(self, key: bytes, own: str, other: str) -> None:
        self._out = AESGCM(derive(key, "channel", own, other))
        self._in = AESGCM(derive(key, "channel", other, own))
        self._sent = self._seen = 0

    def close(self, body: dict[str, Any]) -> bytes:
        """Return a sealed message."""
        self._sent += 1
        number = self._sent.to_bytes(_COUNTER_BYTES, "big")
        return number + self._out.encrypt(bytes(4) + number, codec.dump(body, _MAGIC), None)

    def open(self, data: bytes) -> dict[str, Any] | None:
        """Return the body of a sealed message; None if it is not the other end's, or not new."""
        number = int.from_bytes(data[:_COUNTER_BYTES], "big")
        if len(data) < _COUNTER_BYTES or number <= self._seen:
            return None
        body = _decrypt(self._in, bytes(4) + data[:_COUNTER_BYTES], data[_COUNTER_BYTES:])
        if body is not None:
            self._seen = number
        return body


def seal_letter(key: bytes, own: str, other: str, body: dict[str, Any]) -> bytes:
    """Return a letter: a message outside of a session, sealed under a key that is used once."""
    salt = random_bytes()
    once = AESGCM(derive(key, "letter", own, other, salt.hex()))
    return salt + once.encrypt(bytes(12), codec.dump(body, _MAGIC), None)


def open_letter(key: bytes, own: str, other: str, data: bytes) -> dict[str, Any] | None:
    """Return the body of a letter; None if it is not the other end's."""
    once = AESGCM(derive(key, "letter", other, own, data[:_SALT_BYTES].hex()))
    return _decrypt(once, bytes(12), data[_SALT_BYTES:])


def _decrypt(key: AESGCM, nonce: bytes, data: bytes) -> dict[str, Any] | None:
    try:
        body = codec.load(key.decrypt(nonce, data, None), _MAGIC)
    except (InvalidTag, ValueError):
        return None
    return body if isinstance(body, dict) else None
