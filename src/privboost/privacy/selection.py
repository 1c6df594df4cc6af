"""Exact choice among candidates: P(j) proportional to exp(rate · score_j).

One uniform is compared with the cumulative weights. In float64 where an error bound proves which
candidate is meant; otherwise with brackets of rational numbers that are narrowed until they tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from privboost.privacy.keystream import KeyStream
from privboost.privacy.noise import MARGIN, exp_brackets


def choose(scores: np.ndarray, rate: Fraction, stream: KeyStream, margin: float = MARGIN) -> int:
    """Draw an index with P(j) ∝ exp(rate · scores[j]), exactly.

    Parameters
    ----------
    scores : int64 array
        The scores.
    rate : Fraction
        Above 0.
    stream : KeyStream
        Where the uniform comes from, as many bits as are needed.
    margin : float
        For tests: a larger margin sends more choices to exact arithmetic.
    """
    uniform = _Uniform(stream)
    gaps = scores.max() - scores
    weights = np.exp(gaps * -float(rate))  # the exponent's rounding is far below the margin
    ends = np.cumsum(weights)
    total = float(ends[-1])
    target = uniform.known / 2**64 * total
    found = int(np.searchsorted(ends, target, side="right"))
    # Each weight errs by `margin` at most, relatively, and so does their sum; the sum of K terms
    # in float64 errs by K · 2^-53 more.
    unsure = 4 * total * (margin + len(weights) * 2.0**-52)
    low = ends[found - 1] if found else 0.0
    if found < len(ends) and target - low > unsure and ends[found] - target > unsure:
        return found
    return _choose_exactly([int(gap) * rate for gap in gaps], uniform)


class _Uniform:
    """A uniform number in [0, 1), known to as many bits as were asked for."""

    def __init__(self, stream: KeyStream) -> None:
        self._stream = stream
        self.bits = 64
        self.known = int(stream.words(1)[0])

    def sharpen(self) -> None:
        """Learn 64 bits more."""
        self.known = (self.known << 64) | int(self._stream.words(1)[0])
        self.bits += 64


def _choose_exactly(exponents: Sequence[Fraction], uniform: _Uniform) -> int:
    brackets = [exp_brackets(x) for x in exponents]
    while True:
        ends = [next(bracket) for bracket in brackets]
        low_u, high_u = Fraction(uniform.known, 2**uniform.bits), Fraction(1, 2**uniform.bits)
        high_u += low_u
        total_low, total_high = sum(low for low, _ in ends), sum(high for _, high in ends)
        before_low = before_high = Fraction(0)
        for j, (low, high) in enumerate(ends):
            after_low, after_high = before_low + low, before_high + high
            # U·total lies surely in [before, after).
            if low_u * total_low >= before_high and high_u * total_high <= after_low:
                return j
            before_low, before_high = after_low, after_high
        uniform.sharpen()
