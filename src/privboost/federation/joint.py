"""Randomness that no end can choose: each commits to a part, and all are told at once.

It decides public things, which trees are drawn say. Whoever sees the parts of others first can
leave without telling its own: it chooses between two outcomes, and no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from privboost.errors import FederationError


def commit_to(part: bytes) -> bytes:
    """Return the hash by which a part is known again."""
    return hashlib.sha256(b"privboost joint randomness" + part).digest()


def join_parts(parts: Mapping[str, bytes], commitments: Mapping[str, bytes], own: bytes) -> bytes:
    """Return 32 bytes that follow from all parts.

    Parameters
    ----------
    parts : mapping from str to bytes
        What each party told, by name.
    commitments : mapping from str to bytes
        What all parties had committed to, in their order; some may have left since.
    own : bytes
        What tells this session from others.
    """
    if not set(parts) <= set(commitments):
        raise FederationError("joint randomness: a part of somebody who committed to none")
    text = hashlib.sha256(own)
    for name, commitment in commitments.items():
        if name in parts:
            if commit_to(parts[name]) != commitment:
                raise FederationError(f"joint randomness: {name!r} told another part than it chose")
            text.update(len(name.encode()).to_bytes(4, "big") + name.encode() + parts[name])
    return text.digest()
