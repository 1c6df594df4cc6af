"""Exact exponential mechanism: P(j) proportional to exp(rate · score_j).

One uniform is compared with the cumulative weights: in float64 where an error bound proves the
result, otherwise with rational brackets that are narrowed until they decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from privboost._core.compilation import compiled
from privboost.randomness.keystream import KeyStream
from privboost.randomness.noise import MARGIN, exp_brackets


def choose_each(
    scores: np.ndarray,
    allowed: np.ndarray | None,
    rate: Fraction,
    stream: KeyStream,
    margin: float = MARGIN,
) -> np.ndarray:
    """Draw independent selections, each with P(j) ∝ exp(rate · score_j) among its candidates.

    Scores and `allowed`, the mask of candidates, have the shape (selections, candidates); each
    selection has at least one candidate. With a larger margin, which tests use, more selections are
    drawn in exact arithmetic.
    """
    uniforms = [_Uniform(int(word), stream) for word in stream.words(len(scores))]
    if allowed is None:
        allowed = np.ones(scores.shape, dtype=np.bool_)
    gaps = np.zeros(scores.shape, dtype=np.int64)
    ends = np.empty(scores.shape)
    _add_up_weights(scores, allowed, float(rate), gaps, ends)
    targets = np.array([uniform.known / 2**64 for uniform in uniforms]) * ends[:, -1]
    found: np.ndarray = (ends <= targets[:, None]).sum(axis=1)
    # The relative error of each weight, and of their sum, is at most `margin`; summing K terms in
    # float64 adds K · 2^-53.
    unsure = 4 * ends[:, -1] * (margin + scores.shape[1] * 2.0**-52)
    for k, place in enumerate(found):
        low = ends[k, place - 1] if place else 0.0
        sure = place < scores.shape[1] and ends[k, place] - targets[k] > unsure[k]
        if not (sure and targets[k] - low > unsure[k]):
            own = np.flatnonzero(allowed[k])
            exponents = [int(gap) * rate for gap in gaps[k, own]]
            found[k] = own[_choose_exactly(exponents, uniforms[k])]
    return found


@compiled
def _add_up_weights(scores, allowed, rate, gaps, ends):  # type: ignore[no-untyped-def]
    """Write the distance of each candidate from the best, and the cumulative weights.

    The exponent's rounding is far below the margin.
    """
    for k in range(scores.shape[0]):
        best = np.int64(-(2**63))
        for j in range(scores.shape[1]):
            if allowed[k, j]:
                best = max(best, scores[k, j])
        total = 0.0
        for j in range(scores.shape[1]):
            if allowed[k, j]:
                gaps[k, j] = best - scores[k, j]
                total += math.exp(gaps[k, j] * -rate)
            ends[k, j] = total


class _Uniform:
    """A uniform number in [0, 1), known to a growing number of bits."""

    def __init__(self, known: int, stream: KeyStream) -> None:
        self._stream = stream
        self.bits = 64
        self.known = known

    def sharpen(self) -> None:
        """Draw 64 bits more."""
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
            # U·total is certainly in [before, after).
            if low_u * total_low >= before_high and high_u * total_high <= after_low:
                return j
            before_low, before_high = after_low, after_high
        uniform.sharpen()
