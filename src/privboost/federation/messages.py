"""Parts of messages: keys, integers, bytes by party, and the numbered events of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privboost.errors import FederationError
from privboost.federation.keys import KEY_BYTES

_MAX_PRINTED = 1000
PRESENT = "present"
"""The stage of a connection's challenge, and of the reply to it."""


def byte_array(data: bytes) -> np.ndarray:
    """Return bytes as an array, which messages can hold."""
    return np.frombuffer(data, dtype=np.uint8)


def key_bytes(body: Mapping[str, Any], name: str) -> bytes:
    """Return a key of a message."""
    value = body.get(name)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or len(value) != KEY_BYTES:
        raise FederationError("messages: not one of this version")
    return value.tobytes()


def whole(body: Mapping[str, Any], name: str) -> int:
    """Return an integer of a message."""
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise FederationError(f"messages: {name} must be an integer")
    return value


def text(body: Mapping[str, Any], name: str) -> str:
    """Return a string of a message."""
    value = body.get(name)
    if not isinstance(value, str):
        raise FederationError(f"messages: {name} must be a string")
    return value


def pack(rows: Sequence[bytes]) -> np.ndarray:
    """Return byte strings of one length as the rows of an array."""
    size = len(rows[0]) if rows else 0
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), size)


def write_bytes(by_party: Mapping[int, bytes]) -> dict[str, Any]:
    """Return byte strings by party, all of one length, as a part of a message."""
    parties = np.array(list(by_party), dtype=np.int32)
    return {"of": parties, "bytes": pack(list(by_party.values()))}


def read_bytes(part: Any) -> dict[int, bytes]:
    """Return the byte strings by party that `write_bytes` wrote."""
    of, rows = (part.get("of"), part.get("bytes")) if isinstance(part, dict) else (None, None)
    if not (
        isinstance(of, np.ndarray)
        and isinstance(rows, np.ndarray)
        and (of.dtype, rows.dtype) == (np.int32, np.uint8)
        and rows.ndim == 2
        and of.shape == rows.shape[:1]
    ):
        raise FederationError("messages: not one of this version")
    return {party: row.tobytes() for party, row in zip(of.tolist(), rows, strict=True)}


def printable(message: str) -> str:
    """Return text of another end without control characters, cut to a printable length."""
    return "".join(c if c.isprintable() else "?" for c in message[:_MAX_PRINTED])
