"""Tables of AES-256, with which a device draws the random words of `randomness.keystream`."""

from __future__ import annotations

import numpy as np

_WORDS, _KEY_WORDS = 60, 8


def _doubled(value: int) -> int:
    return value << 1 ^ (0x11B if value & 0x80 else 0)


def _box() -> list[int]:
    """Return the substitution box: inverses in the field of 256 elements, then an affine map."""
    box, power, inverse = [0x63] * 256, 1, 1
    while True:
        power ^= _doubled(power)  # times 3
        inverse ^= inverse << 1
        inverse ^= inverse << 2
        inverse ^= inverse << 4
        inverse &= 0xFF
        if inverse & 0x80:
            inverse ^= 0x09  # divided by 3
        shifted = inverse
        for bits in range(1, 5):
            shifted ^= (inverse << bits | inverse >> (8 - bits)) & 0xFF
        box[power] = shifted ^ 0x63
        if power == 1:
            return box


_BOX = _box()
ROUND_TABLE = np.array(
    [_doubled(s) << 24 | s << 16 | s << 8 | (_doubled(s) ^ s) for s in _BOX], dtype=np.uint32
)
"""The column of four bytes that a byte becomes in a round."""


def round_keys(key: bytes) -> np.ndarray:
    """Return the round keys of a 32-byte key (uint32)."""
    words = [int.from_bytes(key[4 * k : 4 * k + 4], "big") for k in range(_KEY_WORDS)]
    extra = 1
    for k in range(_KEY_WORDS, _WORDS):
        last = words[-1]
        if k % _KEY_WORDS == 0:
            last = _substituted((last << 8 | last >> 24) & 0xFFFFFFFF) ^ extra << 24
            extra = _doubled(extra)
        elif k % _KEY_WORDS == 4:
            last = _substituted(last)
        words.append(words[-_KEY_WORDS] ^ last)
    return np.array(words, dtype=np.uint32)


def _substituted(word: int) -> int:
    return int.from_bytes(bytes(_BOX[byte] for byte in word.to_bytes(4, "big")), "big")
