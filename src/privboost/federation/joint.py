"""Joint randomness decides public choices, such as which trees are drawn: each party commits to a
part, and all parts are revealed at once. A party that sees the parts of others first can still
leave: it chooses between two outcomes, no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from privboost.errors import FederationError


def commit_to(part: bytes) -> bytes:
    """Return the commitment to a part of the joint randomness."""
    return hashlib.sha256(b"privboost joint randomness" + part).digest()


def join_parts(parts: Mapping[str, bytes], commitments: Mapping[str, bytes], own: bytes) -> bytes:
    """Return 32 bytes that all parts determine.

    Parameters
    ----------
    parts : mapping from str to bytes
        Revealed parts by party.
    commitments : mapping from str to bytes
        Commitments of all parties, in their order; some may have left since.
    own : bytes
        The session's name.
    """
    if not set(parts) <= set(commitments):
        raise FederationError("joint randomness: a part of a party that committed to none")
    digest = hashlib.sha256(own)
    for name, commitment in commitments.items():
        if name in parts:
            if commit_to(parts[name]) != commitment:
                raise FederationError(
                    f"joint randomness: {name!r} revealed another part than it committed to"
                )
            digest.update(len(name.encode()).to_bytes(4, "big") + name.encode() + parts[name])
    return digest.digest()
