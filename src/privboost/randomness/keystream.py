"""Keyed streams of random words: AES-256 in counter mode, with named child streams.

The key comes from the operating system, or from a seed for reproducible runs without a guarantee.
The key of a child is a keyed hash of its name, so streams of different names are independent. Each
name can be used once, because a stream used twice would repeat its noise. Generators for public
choices (random trees, bin edges) are keyed by streams of their own.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_MOST_SEED = 2**128


class KeyStream:
    """Random 64-bit words under one key.

    Parameters
    ----------
    key : bytes
        32 bytes; see `KeyStream.secure` and `KeyStream.seeded`.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError("a key must have 32 bytes")
        self._key = key
        self._used: set[str] = set()
        self._sequential: bool | None = None
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    @classmethod
    def secure(cls) -> KeyStream:
        """Return a stream whose key comes from the operating system's generator."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def seeded(cls, seed: int) -> KeyStream:
        """Return a reproducible stream. The seed determines the noise: no privacy."""
        return cls(hashlib.sha256(f"privboost seed {seed}".encode()).digest())

    @classmethod
    def of(cls, random_state: Any) -> KeyStream:
        """Return the stream of a `random_state`: secure for None, else seeded."""
        if random_state is None:
            return cls.secure()
        if not isinstance(random_state, int | np.integer) or isinstance(random_state, bool):
            raise TypeError("random_state must be None (secure noise) or an integer (a seed)")
        if not 0 <= random_state < _MOST_SEED:
            raise ValueError("random_state must lie between 0 and 2^128")
        return cls.seeded(int(random_state))

    def child(self, name: str) -> KeyStream:
        """Return the child stream of a name, which can be used once."""
        if name in self._used:
            raise ValueError(f"the stream {name!r} was used already")
        self._used.add(name)
        return KeyStream(hmac.digest(self._key, name.encode(), "sha256"))

    def words(self, count: int) -> np.ndarray:
        """Return the next words (uint64); no word is ever returned twice."""
        if self._sequential is False:
            raise ValueError("this stream was read by position already")
        self._sequential = True
        return np.frombuffer(self._cipher.update(bytes(8 * count)), dtype="<u8")

    def words_at(self, positions: np.ndarray | range) -> np.ndarray:
        """Return the words at any positions (uint64), in any order and repeatedly.

        A stream is read in sequence or by position, not both: they would share words. A range of
        positions is read at the speed of the cipher.
        """
        if self._sequential:
            raise ValueError("this stream was read in sequence already")
        self._sequential = False
        if isinstance(positions, range) and positions.step == 1:
            first = positions.start // 2
            counter = modes.CTR(first.to_bytes(16, "big"))
            wanted = bytes(8 * (len(positions) + 2))
            stream = Cipher(algorithms.AES(self._key), counter).encryptor().update(wanted)
            skip = positions.start % 2
            return np.frombuffer(stream, dtype="<u8")[skip : skip + len(positions)]
        at = np.asarray(positions, dtype=np.uint64)
        blocks = np.zeros((len(at), 2), dtype=">u8")
        blocks[:, 1] = at // 2
        cipher = Cipher(algorithms.AES(self._key), modes.ECB()).encryptor()
        pairs = np.frombuffer(cipher.update(blocks.tobytes()), dtype="<u8").reshape(-1, 2)
        return np.where(at % 2 == 0, pairs[:, 0], pairs[:, 1])

    def __repr__(self) -> str:
        return "KeyStream(…)"

    def __reduce__(self) -> str:
        raise TypeError("a key stream cannot be pickled: its key must not leave the process")


def public_generator(stream: KeyStream) -> np.random.Generator:
    """Return a generator keyed by a stream that is used for nothing else."""
    return np.random.Generator(np.random.Philox(key=stream.words(2)))


def fixed_generator() -> np.random.Generator:
    """Return a generator with a fixed key, for draws that hide nothing."""
    return np.random.Generator(np.random.Philox(key=0))
