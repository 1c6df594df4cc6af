"""Masks of one round: random words that are added modulo 2⁶⁴, and cancel or are taken off.

Seeds are derived for one round, out of keys of one session; what is opened tells nothing of
another round.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from privboost.federation.keys import derive
from privboost.randomness.keystream import KeyStream


def pair_seed(key: bytes, round_: int) -> bytes:
    """Return the seed of the mask that two parties share in a round: one adds it, one takes it."""
    return derive(key, "pair", round_)


def own_seed(secret: bytes, round_: int) -> bytes:
    """Return the seed of the mask that a party alone adds; survivors' are opened."""
    return derive(secret, "own", round_)


def lid_key(secret: bytes, round_: int) -> bytes:
    """Return the key under which a party leaves its pair seeds; that of who is lost is opened."""
    return derive(secret, "lid", round_)


def add_masks(sums: np.ndarray, seeds: Iterable[tuple[bytes, bool]]) -> None:
    """Add the mask of each seed to unsigned words in place; take it off where it says so."""
    for seed, add in seeds:
        words = KeyStream(seed).words(len(sums))
        if add:
            np.add(sums, words, out=sums)
        else:
            np.subtract(sums, words, out=sums)


def under_lid(key: bytes, seeds: bytes) -> bytes:
    """Encrypt pair seeds under a key that is used once, or decrypt them."""
    words = KeyStream(key).words(len(seeds) // 8)
    changed: np.ndarray = np.frombuffer(seeds, dtype="<u8") ^ words
    return changed.tobytes()
