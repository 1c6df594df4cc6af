"""Cryptography of a federation: identities, keys of one session, sealed messages, shared secrets.

Everything is built from X25519, HKDF-SHA256, AES-256-GCM and the key stream (AES-256-CTR);
`docs/guarantees/federation.md` has the protocol and its proofs.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from privboost.errors import FederationError
from privboost.randomness.keystream import KeyStream

KEY_BYTES = 32
COORDINATOR = "coordinator"
"""The coordinator's name; no party may have it."""


def random_bytes() -> bytes:
    """Return 32 bytes of the operating system's generator."""
    return KeyStream.secure().words(4).tobytes()


def derive(key: bytes, *purpose: str | int) -> bytes:
    """Return the key for a purpose: HKDF-Expand with SHA-256, one block (RFC 5869)."""
    info = repr(purpose).encode()  # injective: no two tuples of strings and integers are equal
    return hmac.digest(key, info + b"\x01", "sha256")


def extract(salt: bytes, secret: bytes) -> bytes:
    """Return a uniform key from a secret that is not uniform: HKDF-Extract with SHA-256."""
    return hmac.digest(salt, secret, "sha256")


class KeyPair:
    """An X25519 key pair: an identity, which others pin, or the key of one session.

    Parameters
    ----------
    private : bytes, optional
        32 bytes; fresh ones by default.
    """

    def __init__(self, private: bytes | None = None) -> None:
        if private is not None and len(private) != KEY_BYTES:
            raise ValueError("a private key of 32 bytes is needed")
        self._key = X25519PrivateKey.from_private_bytes(private or random_bytes())
        self.public = self._key.public_key().public_bytes_raw()

    def shared(self, public: bytes) -> bytes:
        """Return the Diffie-Hellman secret that is shared with the owner of a public key."""
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise FederationError("keys: this is no public key") from None

    def private_bytes(self) -> bytes:
        """Return the private key, for a file that only its owner can read."""
        return self._key.private_bytes_raw()

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.hex()})"

    def __reduce__(self) -> str:
        raise TypeError("a private key cannot be pickled: it must not leave the process")


@dataclass(frozen=True)
class Advertised:
    """The public part of one end of a session.

    Attributes
    ----------
    name : str
        Name of the party, or of the coordinator.
    identity : bytes
        Long-lived public key.
    fresh : bytes
        Public key of this session.
    nonce : bytes
        Random bytes, which make the session's name new to this end.
    commitment : bytes
        Hash of the party's part of the joint randomness; empty for the coordinator.
    """

    name: str
    identity: bytes
    fresh: bytes
    nonce: bytes
    commitment: bytes = b""


def session_name(agreed: str, ends: Sequence[Advertised]) -> bytes:
    """Return the hash of a session's transcript: the agreement, and names and keys of all ends."""
    digest = hashlib.sha256(b"privboost federation 2")
    parts = [agreed.encode()]
    for end in ends:
        parts += [end.name.encode(), end.identity, end.fresh, end.nonce, end.commitment]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def pair_key(
    name: str, identity: KeyPair, fresh: KeyPair, other: Advertised, session: bytes
) -> bytes:
    """Return the key that two ends share in a session: the four products of Noise's pattern KK.

    The products of each identity with the other end's fresh key prevent key-compromise
    impersonation, that of the fresh keys gives forward secrecy, and that of the identities keeps
    the key secret where fresh keys were guessed.

    Parameters
    ----------
    name : str
        The end that computes the key.
    identity, fresh : KeyPair
        Its long-lived key, and its key of this session.
    other : Advertised
        The other end: its pinned identity, and what it advertised.
    session : bytes
        The session's name, which holds the names and keys of all ends.
    """
    if name == other.name:
        raise FederationError("keys: an end shares none with itself")
    crossed = [identity.shared(other.fresh), fresh.shared(other.identity)]
    if name > other.name:  # the same order at both ends
        crossed.reverse()
    products = [*crossed, fresh.shared(other.fresh), identity.shared(other.identity)]
    ends = sorted((name, other.name))
    return derive(extract(session, b"".join(products)), "pair key", *ends)


def confirmation(key: bytes, sender: str, reader: str) -> bytes:
    """Return the proof to the reader that the sender has their pair key of this session."""
    return derive(key, "confirmation", sender, reader)
