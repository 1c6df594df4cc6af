"""Poisson sampling: which rows take part, from a keyed stream and the rows' public ids."""

from __future__ import annotations

import numpy as np

from privboost.randomness.keystream import KeyStream


def bernoulli_mask(stream: KeyStream, ids: np.ndarray | range, rate: float) -> np.ndarray:
    """Choose each row independently with a chance of `rate`, rounded down to a multiple of 2⁻³².

    Row i has the i-th half word of the stream.

    Parameters
    ----------
    stream : KeyStream
        One for each round; it is used by position.
    ids : uint64 array or range
        The public ids (or offsets) of the rows: the same id has the same fate in a round, wherever
        the row lies.
    rate : float
        Above 0, at most 1.

    Returns
    -------
    bool array
    """
    if not 0 < rate <= 1:
        raise ValueError("rate must lie above 0, and be at most 1")
    if rate == 1:
        return np.ones(len(ids), dtype=np.bool_)
    if isinstance(ids, range):
        words = stream.words_at(range(ids.start // 2, (ids.stop + 1) // 2))
        halves = words.view("<u4")[ids.start % 2 :][: len(ids)]
    else:
        at = np.asarray(ids, dtype=np.uint64)
        halves = (stream.words_at(at // 2) >> (at % 2 * 32)).astype(np.uint32)
    chosen: np.ndarray = halves < np.uint32(int(rate * 2**32))
    return chosen
