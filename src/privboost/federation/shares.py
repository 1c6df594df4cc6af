"""Secrets are shared by Shamir's scheme, in exact integers: fewer than t shares reveal nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from privboost.randomness.keystream import KeyStream

PRIME = 2**256 + 297
"""The field: the smallest prime above all secrets."""
SECRET_BYTES = 32
SHARE_BYTES = 33
_COEFFICIENT_WORDS = 6
"""Random words for a coefficient: 128 bits more than the prime has leave no bias."""


def split_secret(secret: bytes, threshold: int, parties: int, stream: KeyStream) -> list[bytes]:
    """Return one share for each party; party k has the value at k + 1.

    Parameters
    ----------
    secret : bytes
        32 bytes.
    threshold : int
        Number of shares that determine the secret.
    parties : int
        Number of shares.
    stream : KeyStream
        Randomness of the other coefficients: secret, and used for nothing else.
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
    """Reconstructs secrets from the shares of a fixed set of parties.

    Parameters
    ----------
    holders : sequence of int
        The parties, as many as the threshold.
    """

    def __init__(self, holders: Sequence[int]) -> None:
        self.holders = tuple(holders)
        self._weights = [self._weight(holder) for holder in self.holders]

    def _weight(self, holder: int) -> int:
        """Return the Lagrange weight at 0 of one holder's point."""
        above = below = 1
        for other in self.holders:
            if other != holder:
                above = above * (other + 1) % PRIME
                below = below * (other - holder) % PRIME
        return above * pow(below, -1, PRIME) % PRIME

    def secret(self, shares: Mapping[int, bytes]) -> bytes | None:
        """Return the secret; None where the shares determine none of 32 bytes."""
        values = [int.from_bytes(shares[holder], "little") for holder in self.holders]
        total = sum(w * v for w, v in zip(self._weights, values, strict=True)) % PRIME
        return total.to_bytes(SHARE_BYTES, "little")[:SECRET_BYTES] if total < 2**256 else None
