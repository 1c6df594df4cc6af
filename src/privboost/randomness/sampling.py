"""Secret random choices that a guarantee rests on: samples of rows, the number of hidden runs.

Poisson samples are drawn by the rows' public ids, runs of a search from the logarithmic
distribution; coins are exact, in integer arithmetic.
"""

from __future__ import annotations

import math
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

    Row i has the i-th half word of the stream of one round: the same public id (or offset) has the
    same coin in a round, wherever the row is stored.
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


def stop_chance(expected_runs: float) -> int:
    """Return γ in 2⁻⁶⁴ for a mean number of runs, which is (1/γ − 1)/ln(1/γ)."""
    low, high = 1e-12, 1 - 1e-12
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if mean_runs(middle) > expected_runs else (low, middle)
    return int(high * 2**64)


def mean_runs(gamma: float) -> float:
    """Return the mean of P(k) ∝ (1 − γ)^k / k."""
    return (1 / gamma - 1) / math.log(1 / gamma)


def draw_run_count(stop: int, stream: KeyStream) -> int:
    """Draw k ≥ 1 with probability proportional to (1 − γ)^k / k, with γ = stop/2⁶⁴.

    A geometric number is accepted with probability 1/k; all coins are exact.
    """
    while True:
        k = 1
        while int(stream.words(1)[0]) >= stop:
            k += 1
        if draw_below(k, stream) == 0:
            return k


def draw_below(bound: int, stream: KeyStream) -> int:
    """Draw an integer uniformly from 0 to before a bound."""
    most = 2**64 - 2**64 % bound
    while (word := int(stream.words(1)[0])) >= most:
        pass
    return word % bound
