"""Secure aggregation (Bonawitz et al. 2017): sums under masks that cancel in the total.

Masks are random words, added modulo 2⁶⁴. Seeds are derived for one round from keys of one
session: those that are opened reveal nothing of another round.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from privboost.federation.keys import derive
from privboost.randomness.keystream import KeyStream


def pair_seed(key: bytes, round_: int) -> bytes:
    """Return the seed of a mask that one of two parties adds and the other subtracts."""
    return derive(key, "pair", round_)


def own_seed(secret: bytes, round_: int) -> bytes:
    """Return the seed of the mask that a party alone adds; those of survivors are opened."""
    return derive(secret, "own", round_)


def envelope_key(secret: bytes, round_: int) -> bytes:
    """Return the key that encrypts a party's pair seeds; those of lost parties are opened."""
    return derive(secret, "lid", round_)


def add_masks(sums: np.ndarray, seeds: Iterable[tuple[bytes, bool]]) -> None:
    """Add (True) or subtract (False) the mask of each seed, in place."""
    for seed, add in seeds:
        words = KeyStream(seed).words(len(sums))
        if add:
            np.add(sums, words, out=sums)
        else:
            np.subtract(sums, words, out=sums)


def crypt_seeds(key: bytes, seeds: bytes) -> bytes:
    """Encrypt or decrypt pair seeds under a key that is used once."""
    words = KeyStream(key).words(len(seeds) // 8)
    changed: np.ndarray = np.frombuffer(seeds, dtype="<u8") ^ words
    return changed.tobytes()
