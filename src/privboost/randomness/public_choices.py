"""Choices that may be known to anybody: which trees are drawn, where cells begin.

They are independent of the rows, and of the noise, which has other keys.
"""

from __future__ import annotations

import numpy as np

from privboost.randomness.keystream import KeyStream


def public_generator(stream: KeyStream) -> np.random.Generator:
    """Return a generator for public choices, keyed by a stream that is used for nothing else."""
    return np.random.Generator(np.random.Philox(key=stream.words(2)))


def fixed_generator() -> np.random.Generator:
    """Return a generator whose draws are the same each time: part of a measure, hiding nothing."""
    return np.random.Generator(np.random.Philox(key=0))
