"""Poisson sampling of rows from a keyed stream and their public ids."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from privboost.randomness.keystream import KeyStream


@dataclass(frozen=True, eq=False)
class Sample:
    """A Poisson sample of rows: each is drawn by a keyed coin of its own (see `Rows.ids`).

    Attributes
    ----------
    key : uint8 array of length 32
        The secret key of the coins.
    rate : float
        The sampling probability of each row.
    """

    key: np.ndarray = field(repr=False)
    rate: float

    def mask(self, ids: np.ndarray | range) -> np.ndarray:
        """Return whether each row is in the sample (bool)."""
        return bernoulli_mask(KeyStream(self.key.tobytes()), ids, self.rate)

    def same_as(self, other: Sample) -> bool:
        """Whether two samples contain the same rows."""
        return self.rate == other.rate and np.array_equal(self.key, other.key)


def bernoulli_mask(stream: KeyStream, ids: np.ndarray | range, rate: float) -> np.ndarray:
    """Draw each row independently with probability `rate`, rounded down to a multiple of 2⁻³².

    Row i has the i-th half word of the stream.

    Parameters
    ----------
    stream : KeyStream
        The stream of one round; it is read by position.
    ids : uint64 array or range
        The public ids (or offsets) of the rows: the same id has the same coin in a round, wherever
        the row is stored.
    rate : float
        Above 0, at most 1.

    Returns
    -------
    bool array
    """
    if not 0 < rate <= 1:
        raise ValueError("rate must be above 0 and at most 1")
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
