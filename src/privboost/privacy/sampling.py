"""Poisson sampling: which rows take part, from a keyed stream and the rows' public ids."""

from __future__ import annotations

import numpy as np

from privboost.privacy.keystream import KeyStream


def bernoulli_mask(stream: KeyStream, ids: np.ndarray | range, rate: float) -> np.ndarray:
    """Choose each row independently with a chance of `rate`, rounded down to a multiple of 2⁻⁶⁴.

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
    chosen: np.ndarray = stream.words_at(ids) < np.uint64(int(rate * 2**64))
    return chosen
