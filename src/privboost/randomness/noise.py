"""Exact discrete Gaussian and Laplace noise.

P(k) is proportional to exp(−k²/2σ²), or to exp(−|k|/t), on the integers. The algorithm is that of
Canonne, Kamath and Steinke: a discrete Laplace sample, and Gaussian acceptance. Every decision
"U < exp(−x)" is made in float64 only where an error bound proves it. Otherwise the whole sample is
drawn again, from the same random words, in exact arithmetic. So the distribution is exact, both
ways give the same samples, and no draw is dropped: a sample that runs out of words is drawn again
from its first word with more words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property

import numpy as np

from privboost._core.compilation import compiled
from privboost._core.grid import MAX_SIGMA
from privboost.randomness.keystream import KeyStream

MARGIN = 2.0**-32
"""The relative error of a float64 exp(−x) within which a decision is not trusted.

x is at most 750 (else the value is below every 53-bit comparison), and each of the ten roundings
on the way errs by 2⁻⁵² at most, relative to terms below 10⁶: the true error is below 2⁻³⁵. The
exponential function of the C library errs by far less than that.
"""

_EXP_MINUS_1 = 6786177901268885274  # floor(2^64 / e)
_DONE, _OUT_OF_WORDS, _UNDECIDED = range(3)
_WORDS_PER_SAMPLE = 8


def discrete_gaussian(sigma: np.ndarray, stream: KeyStream, margin: float = MARGIN) -> np.ndarray:
    """Draw one exact discrete Gaussian (int64) for each scale.

    Scales lie from 1 to 2⁴⁴ grid steps, and are read as exact dyadic rationals. The number of words
    used depends on the draws. With a larger margin more samples are drawn in exact arithmetic,
    which tests use.
    """
    sigma = np.ascontiguousarray(sigma, dtype=np.float64)
    if sigma.size and not (sigma.min() >= 1 and sigma.max() <= MAX_SIGMA):
        raise ValueError("noise scales must lie between 1 and 2^44 grid steps")
    return _draw_all(sigma, True, stream, margin)


def discrete_laplace(scale: np.ndarray, stream: KeyStream, margin: float = MARGIN) -> np.ndarray:
    """Draw one exact discrete Laplace (int64) for each scale; see `discrete_gaussian`.

    Scales are whole numbers from 1 to 2⁴⁴ grid steps.
    """
    scale = np.asarray(scale)
    if scale.dtype.kind not in "iu":
        raise ValueError("scales of discrete Laplace noise must be integers")
    if scale.size and not (scale.min() >= 1 and scale.max() <= MAX_SIGMA):
        raise ValueError("noise scales must lie between 1 and 2^44 grid steps")
    return _draw_all(np.ascontiguousarray(scale, dtype=np.float64), False, stream, margin)


SAMPLERS = {"discrete_gaussian": discrete_gaussian, "discrete_laplace": discrete_laplace}
"""Samplers by the names that events of noisy sums refer to."""


def _draw_all(scale: np.ndarray, gaussian: bool, stream: KeyStream, margin: float) -> np.ndarray:
    out = np.empty(scale.size, dtype=np.int64)
    words = stream.words(_WORDS_PER_SAMPLE * scale.size + 64)
    further = FurtherBits(stream)
    done, at, passed = 0, 0, 0
    while done < scale.size:
        status, done, at = _draw(scale, gaussian, words, margin, out, done, at)
        if status == _OUT_OF_WORDS:
            more = stream.words(_WORDS_PER_SAMPLE * (scale.size - done) + 64)
            words, at, passed = _joined(words[at:], more), 0, passed + at
        elif status == _UNDECIDED:
            try:
                further.after(passed)
                out[done], at = _draw_exactly(scale[done], gaussian, words, at, further)
                done += 1
            except IndexError:
                more = stream.words(256)
                words, at, passed = _joined(words[at:], more), 0, passed + at
    return out


def _joined(words: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Join random words, as a read-only array: kernels are compiled for those alone."""
    joined = np.concatenate([words, more])
    joined.flags.writeable = False
    return joined


@compiled
def _draw(scale, gaussian, words, margin, out, done, at):  # type: ignore[no-untyped-def]
    """Fill `out` from `done` on; stop at the first sample that lacks words or certainty.

    Returns the status, how many samples are complete, and the first word of the next one.
    """
    for k in range(done, scale.size):
        s = scale[k]
        t = np.uint64(math.floor(s)) + np.uint64(1 if gaussian else 0)
        mask = np.uint64(1)
        while mask < t:
            mask <<= np.uint64(1)
        mask -= np.uint64(1)
        start = at
        while True:
            # Discrete Laplace of scale t: a remainder below t, kept with probability exp(−u/t), …
            if at + 2 > words.size:
                return _OUT_OF_WORDS, k, start
            u = words[at] & mask
            sign = words[at] >> np.uint64(63)
            at += 1
            if u >= t:
                continue
            verdict = _decide(words[at], np.float64(u) / np.float64(t), margin)
            at += 1
            if verdict < 0:
                return _UNDECIDED, k, start
            if verdict == 0:
                continue
            # … and a geometric number of whole steps of t.
            steps = np.int64(0)
            while True:
                if at + 1 > words.size:
                    return _OUT_OF_WORDS, k, start
                word = words[at]
                at += 1
                if word == np.uint64(_EXP_MINUS_1):
                    return _UNDECIDED, k, start
                if word > np.uint64(_EXP_MINUS_1):
                    break
                steps += 1
            size = np.int64(u) + np.int64(t) * steps
            if sign and size == 0:
                continue
            if not gaussian:
                out[k] = -size if sign else size
                break
            # Gaussian acceptance.
            if at + 1 > words.size:
                return _OUT_OF_WORDS, k, start
            away = (np.float64(size) - s * s / np.float64(t)) / s
            verdict = _decide(words[at], 0.5 * away * away, margin)
            at += 1
            if verdict < 0:
                return _UNDECIDED, k, start
            if verdict:
                out[k] = -size if sign else size
                break
    return _DONE, scale.size, at


@compiled
def _decide(word, x, margin):  # type: ignore[no-untyped-def]
    """Decide U < exp(−x), U the uniform that begins with this word: 1 yes, 0 no, −1 uncertain."""
    probability = math.exp(-x)
    low = np.float64(word >> np.uint64(11)) * 2.0**-53
    if low + 2.0**-53 <= probability * (1 - margin):
        return 1
    if low >= probability * (1 + margin) and low > 0.0:
        return 0
    return -1


class FurtherBits:
    """Extra random bits of a uniform, for comparisons that 64 bits do not decide.

    They belong to the position of the uniform's first word in the stream: a sample that is drawn
    again gets the same ones.
    """

    def __init__(self, stream: KeyStream) -> None:
        self._parent = stream
        self._bits: dict[int, list[int]] = {}
        self._passed = 0

    def after(self, passed: int) -> None:
        """Set the position of the first word."""
        self._passed = passed

    def word(self, position: int, index: int) -> int:
        """Return the index-th extra word of the uniform at a position."""
        bits = self._bits.setdefault(self._passed + position, [])
        while len(bits) <= index:
            bits.append(int(self._stream.words(1)[0]))
        return bits[index]

    @cached_property
    def _stream(self) -> KeyStream:
        return self._parent.child("further bits")  # rarely needed


def _draw_exactly(
    scale: float, gaussian: bool, words: np.ndarray, at: int, further: FurtherBits
) -> tuple[int, int]:
    """Draw one sample in exact arithmetic, from the same words as `_draw`.

    Returns the sample and the position after its last word; raises IndexError when words run out.
    """
    variance = Fraction(float(scale)) ** 2
    t = math.floor(scale) + (1 if gaussian else 0)
    mask = (1 << (t - 1).bit_length()) - 1
    one = Fraction(1)
    while True:
        first = int(words[at])
        u, sign = first & mask, first >> 63
        at += 1
        if u >= t:
            continue
        accepted = below_exp(words, at, Fraction(u, t), further)
        at += 1
        if not accepted:
            continue
        steps = 0
        while True:
            more = below_exp(words, at, one, further)
            at += 1
            if not more:
                break
            steps += 1
        size = u + t * steps
        if sign and size == 0:
            continue
        if not gaussian:
            return (-size if sign else size), at
        away = size - variance / t
        accepted = below_exp(words, at, away * away / (2 * variance), further)
        at += 1
        if accepted:
            return (-size if sign else size), at


def below_exp(words: np.ndarray, at: int, x: Fraction, further: FurtherBits) -> bool:
    """Decide U < exp(−x) exactly; U begins with a word, and continues in `further` if needed."""
    bits, known = 64, int(words[at])
    for low, high in exp_brackets(x):
        # U lies in [known, known + 1) / 2^bits.
        while (known + 1) > low * 2**bits and known < high * 2**bits:
            if high - low > Fraction(1, 2**bits):
                break  # narrow the bracket before taking more bits
            known, bits = (known << 64) | further.word(at, bits // 64 - 1), bits + 64
        if known + 1 <= low * 2**bits:
            return True
        if known >= high * 2**bits:
            return False
    raise AssertionError("unreachable: the brackets shrink to a point")


def exp_brackets(x: Fraction) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield shrinking brackets low < exp(−x) < high for x > 0; (1, 1) for x = 0.

    exp(−x) = exp(−x/2^k)^(2^k), with x/2^k ≤ 1/2 and the alternating series in integers scaled by
    2^precision, rounded down for the lower end and up for the upper.
    """
    if x == 0:
        while True:
            yield Fraction(1), Fraction(1)
    halvings = max(0, math.ceil(2 * x).bit_length())
    small = x / 2**halvings
    precision = 128 + 2 * halvings
    while True:
        scale = 1 << precision
        low, high = _alternating(small, precision)
        for _ in range(halvings):
            low = (low * low) // scale
            high = -((-high * high) // scale)
        yield Fraction(low, scale), Fraction(high, scale)
        precision *= 2


def _alternating(x: Fraction, precision: int) -> tuple[int, int]:
    """Bracket exp(−x) for 0 < x ≤ 1/2 by partial sums, as integers over 2^precision."""
    scale = 1 << precision
    term, total = Fraction(1), Fraction(1)
    n = 0
    while term * scale > 1:
        n += 1
        term = term * x / n
        total += -term if n % 2 else term
        # Keep the fractions short; the error is counted below.
        term = Fraction(math.ceil(term * scale * 4), scale * 4)
    slack = n + 2
    return math.floor(total * scale) - slack, math.ceil(total * scale) + slack
