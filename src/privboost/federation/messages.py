"""Parts of messages as they travel: keys, whole numbers, bytes by party."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privboost.errors import FederationError
from privboost.federation.keys import KEY_BYTES
from privboost.federation.shares import pack

_MOST_WORDS = 1000
PRESENT = "present"
"""The stage of a challenge, and of the reply to it."""


def write_key(key: bytes) -> np.ndarray:
    """Return a key as it travels."""
    return np.frombuffer(key, dtype=np.uint8)


def key_bytes(body: Mapping[str, Any], name: str) -> bytes:
    """Return a key of a message."""
    value = body.get(name)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or len(value) != KEY_BYTES:
        raise FederationError("messages: not one of this version")
    return value.tobytes()


def whole(body: Mapping[str, Any], name: str) -> int:
    """Return a whole number of a message."""
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise FederationError(f"messages: {name} must be a whole number")
    return value


def text(body: Mapping[str, Any], name: str) -> str:
    """Return a text of a message."""
    value = body.get(name)
    if not isinstance(value, str):
        raise FederationError(f"messages: {name} must be a text")
    return value


def read_part(part: Any) -> bytes:
    """Return a part of the joint randomness."""
    if not isinstance(part, np.ndarray) or part.dtype != np.uint8:
        raise FederationError("joint randomness: not a part of it")
    return part.tobytes()


def write_bytes(texts: Mapping[int, bytes]) -> dict[str, Any]:
    """Return bytes by party, all of one length, as they travel."""
    return {"of": np.array(list(texts), dtype=np.int32), "bytes": pack(list(texts.values()))}


def read_bytes(form: Any) -> dict[int, bytes]:
    """Read what `write_bytes` wrote."""
    of, rows = (form.get("of"), form.get("bytes")) if isinstance(form, dict) else (None, None)
    if not (
        isinstance(of, np.ndarray)
        and isinstance(rows, np.ndarray)
        and (of.dtype, rows.dtype) == (np.int32, np.uint8)
        and rows.ndim == 2
        and of.shape == rows.shape[:1]
    ):
        raise FederationError("messages: not one of this version")
    return {party: row.tobytes() for party, row in zip(of.tolist(), rows, strict=True)}


def printable(words: str) -> str:
    """Return words of another end as a screen may show them."""
    return "".join(c if c.isprintable() else "?" for c in words[:_MOST_WORDS])
