"""Generators for public choices: random trees, bin edges.

They are independent of the rows, and of the noise, which has other keys.
"""

from __future__ import annotations

import numpy as np

from privboost.randomness.keystream import KeyStream


def public_generator(stream: KeyStream) -> np.random.Generator:
    """Return a generator keyed by a stream that is used for nothing else."""
    return np.random.Generator(np.random.Philox(key=stream.words(2)))


def fixed_generator() -> np.random.Generator:
    """Return a generator with a fixed key, for draws that hide nothing."""
    return np.random.Generator(np.random.Philox(key=0))
