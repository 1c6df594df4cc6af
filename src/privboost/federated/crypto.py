"""Cryptography of a federation: the handshake's keys, sealed messages, Shamir's secret sharing.

Built from X25519, HKDF-SHA256, AES-256-GCM and the key stream (AES-256-CTR);
`docs/guarantees/federation.md` has the protocol and its proofs.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from privboost._core import codec
from privboost._core.errors import FederationError
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
    """An X25519 key pair: a long-lived identity, which others pin, or a session's ephemeral key.

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
    """What one end of a session advertises; the commitment is to its part of the randomness."""

    name: str
    identity: bytes  # the long-lived public key
    fresh: bytes  # the ephemeral public key
    nonce: bytes  # makes the session's name new to this end
    commitment: bytes = b""  # the coordinator has none


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
    """Return the key that `name` and another end share in a session, as in Noise's pattern KK.

    The four Diffie-Hellman products are hashed with the session's transcript. Those of each
    identity with the other end's ephemeral key prevent key-compromise impersonation, that of the
    ephemeral keys gives forward secrecy, and that of the identities keeps the key secret where
    ephemeral keys were guessed.
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
    """Return the key confirmation: it proves to the reader that the sender has their pair key."""
    return derive(key, "confirmation", sender, reader)


PRIME = 2**256 + 297
"""The field: the smallest prime above all secrets."""
SECRET_BYTES = 32
SHARE_BYTES = 33
_COEFFICIENT_WORDS = 6
"""Random words for a coefficient: 128 bits more than the prime has leave no bias."""


def split_secret(secret: bytes, threshold: int, parties: int, stream: KeyStream) -> list[bytes]:
    """Return one Shamir share for each party: the polynomial's value at k + 1 for party k.

    `threshold` shares determine the secret, fewer reveal nothing. `stream` gives the other
    coefficients: it must be secret, and used for nothing else.
    """
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= parties:
        raise ValueError("a secret of 32 bytes, and a threshold of at most all parties, are needed")
    words = stream.words(_COEFFICIENT_WORDS * (threshold - 1)).reshape(-1, _COEFFICIENT_WORDS)
    coefficients = [int.from_bytes(row.tobytes(), "little") % PRIME for row in words]
    constant = int.from_bytes(secret, "little")
    shares = []
    for point in range(1, parties + 1):
        value = 0
        for coefficient in coefficients:
            value = (value + coefficient) * point % PRIME
        shares.append(((value + constant) % PRIME).to_bytes(SHARE_BYTES, "little"))
    return shares


class Reconstruction:
    """Reconstructs secrets from the shares of a fixed set of parties, as many as the threshold."""

    def __init__(self, holders: Sequence[int]) -> None:
        self.holders = tuple(holders)
        self._weights = []  # of Lagrange's interpolation at 0
        for holder in self.holders:
            above = below = 1
            for other in self.holders:
                if other != holder:
                    above = above * (other + 1) % PRIME
                    below = below * (other - holder) % PRIME
            self._weights.append(above * pow(below, -1, PRIME) % PRIME)

    def secret(self, shares: Mapping[int, bytes]) -> bytes | None:
        """Return the secret; None where the shares determine none of 32 bytes."""
        values = [int.from_bytes(shares[holder], "little") for holder in self.holders]
        total = sum(w * v for w, v in zip(self._weights, values, strict=True)) % PRIME
        return total.to_bytes(SHARE_BYTES, "little")[:SECRET_BYTES] if total < 2**256 else None


_MAGIC = b"PVBFED02"
_SALT_BYTES = 32
_COUNTER_BYTES = 8


class Channel:
    """One end of the channel under the pair key of two ends of a session.

    Each direction has its own key, and messages are numbered: one that is replayed, or arrives
    after a later one, is not opened.
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


def open_reply(
    key: bytes, own: str, other: str, data: bytes, nonce: np.ndarray
) -> dict[str, Any] | None:
    """Return the body of a letter that replies to one with this nonce; None for any other."""
    body = open_letter(key, own, other, data)
    return body if body is not None and np.array_equal(body.get("to", 0), nonce) else None


def _decrypt(key: AESGCM, nonce: bytes, data: bytes) -> dict[str, Any] | None:
    try:
        body = codec.load(key.decrypt(nonce, data, None), _MAGIC)
    except (InvalidTag, ValueError):
        return None
    return body if isinstance(body, dict) else None


def commit_to(part: bytes) -> bytes:
    """Return the commitment to a part of the joint randomness."""
    return hashlib.sha256(b"privboost joint randomness" + part).digest()


def join_parts(
    parts: Mapping[str, bytes], commitments: Mapping[str, bytes], session: bytes
) -> bytes:
    """Return the joint randomness: 32 bytes that all revealed parts determine.

    It decides public choices, such as which trees are drawn. Each party commits to a part, and all
    parts are revealed at once, in the order of the commitments. A party that sees the parts of
    others first can still leave: it chooses between two outcomes, no more.
    """
    if not set(parts) <= set(commitments):
        raise FederationError("joint randomness: a part of a party that committed to none")
    digest = hashlib.sha256(session)
    for name, commitment in commitments.items():
        if name in parts:
            if commit_to(parts[name]) != commitment:
                raise FederationError(
                    f"joint randomness: {name!r} revealed another part than it committed to"
                )
            digest.update(len(name.encode()).to_bytes(4, "big") + name.encode() + parts[name])
    return digest.digest()
