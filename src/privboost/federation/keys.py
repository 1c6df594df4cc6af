"""Who is who: long-lived identities, keys of one session, and what is derived from them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from privboost.errors import FederationError
from privboost.randomness.keystream import KeyStream

KEY_BYTES = 32


def random_bytes() -> bytes:
    """Return 32 bytes of the operating system's generator."""
    return KeyStream.secure().words(4).tobytes()


def derive(key: bytes, *words: str | int) -> bytes:
    """Return the key of a purpose: HKDF-Expand with SHA-256, of one block (RFC 5869)."""
    info = repr(words).encode()  # no two lists of texts and numbers are written alike
    return hmac.digest(key, info + b"\x01", "sha256")


def extract(salt: bytes, secret: bytes) -> bytes:
    """Return a key out of a secret that is no even distribution: HKDF-Extract with SHA-256."""
    return hmac.digest(salt, secret, "sha256")


class KeyPair:
    """An X25519 key: an identity, which others pin, or the key of one session.

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
        """Return the secret that the owner of a public key can tell as well, and nobody else."""
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise FederationError("keys: this is no public key") from None

    def private_bytes(self) -> bytes:
        """Return the private key, to be kept in a file that only its owner can read."""
        return self._key.private_bytes_raw()

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.hex()})"

    def __reduce__(self) -> str:
        raise TypeError("a private key cannot be pickled: it must not leave the process")


@dataclass(frozen=True)
class Advertised:
    """What one end says of itself when a session begins.

    Attributes
    ----------
    name : str
        Who it is.
    identity : bytes
        Its long-lived public key.
    fresh : bytes
        A public key of this session.
    nonce : bytes
        Random bytes: with those of all others they make the session's name new to everybody.
    commitment : bytes
        The hash of its part of the joint randomness; the coordinator has none.
    """

    name: str
    identity: bytes
    fresh: bytes
    nonce: bytes
    commitment: bytes = b""


def session_name(agreed: str, ends: Sequence[Advertised]) -> bytes:
    """Return what tells a session from all others: what was agreed, by whom, with which keys."""
    text = hashlib.sha256(b"privboost federation 2")
    for part in (agreed.encode(), *(x for end in ends for x in _parts(end))):
        text.update(len(part).to_bytes(8, "big") + part)
    return text.digest()


def _parts(end: Advertised) -> tuple[bytes, ...]:
    return end.name.encode(), end.identity, end.fresh, end.nonce, end.commitment


def pair_key(
    name: str, identity: KeyPair, fresh: KeyPair, other: Advertised, session: bytes
) -> bytes:
    """Return the key that two ends share in a session: the four products of Noise's pattern KK.

    Each identity is multiplied with the other end's fresh key, so that neither stolen identity lets
    anybody play the other end to its owner; the product of the fresh keys makes the key useless
    afterwards, and that of the identities keeps it safe where fresh keys were guessed.
    `docs/guarantees/federation.md` says what follows from which product.

    Parameters
    ----------
    name : str
        Who computes it.
    identity, fresh : KeyPair
        Its long-lived key, and that of this session.
    other : Advertised
        The other end: its pinned identity, and what it advertised.
    session : bytes
        The session's name, which holds the names and keys of all ends.
    """
    if name == other.name:
        raise FederationError("keys: an end shares none with itself")
    crossed = [identity.shared(other.fresh), fresh.shared(other.identity)]
    if name > other.name:  # both ends write them in the same order
        crossed.reverse()
    products = [*crossed, fresh.shared(other.fresh), identity.shared(other.identity)]
    ends = sorted((name, other.name))
    return derive(extract(session, b"".join(products)), "pair key", *ends)


def confirmation(key: bytes, sender: str, reader: str) -> bytes:
    """Return what shows the reader that the sender has their pair key of this session."""
    return derive(key, "confirmation", sender, reader)
