"""Whether whoever says a party's name has its key: asked of every connection before it counts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from privboost.federation.agreement import COORDINATOR
from privboost.federation.channels import open_letter, seal_letter
from privboost.federation.keys import KeyPair, random_bytes
from privboost.federation.messages import write_key

PRESENT = "present"


class Challenge:
    """A question that only one party can read, about one connection.

    Attributes
    ----------
    letter : bytes
        What is sent over the connection.
    """

    def __init__(self, key: bytes, name: str) -> None:
        self._key, self._name, self._nonce = key, name, write_key(random_bytes())
        body = {"stage": PRESENT, "nonce": self._nonce}
        self.letter = seal_letter(key, COORDINATOR, name, body)

    def is_met_by(self, answer: bytes) -> bool:
        """Say whether an answer is the party's, to this very question."""
        body = open_letter(self._key, COORDINATOR, self._name, answer) or {}
        return body.get("stage") == PRESENT and np.array_equal(body.get("to", 0), self._nonce)


class Presence:
    """Makes challenges for the parties whose keys the coordinator has pinned.

    Parameters
    ----------
    identity : KeyPair
        The coordinator's long-lived key.
    parties : mapping from str to bytes
        The public key of each party.
    """

    def __init__(self, identity: KeyPair, parties: Mapping[str, bytes]) -> None:
        self._keys = {name: identity.shared(key) for name, key in parties.items()}

    @property
    def n_parties(self) -> int:
        """How many parties are pinned."""
        return len(self._keys)

    def challenge(self, name: str) -> Challenge | None:
        """Return a fresh challenge for a party; None where nobody of that name is pinned."""
        return Challenge(self._keys[name], name) if name in self._keys else None
