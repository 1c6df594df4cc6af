"""The random number of runs of a private search: exactly logarithmic, in integer arithmetic."""

from __future__ import annotations

import math

from privboost.randomness.keystream import KeyStream


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
    """Draw k ≥ 1 with probability proportional to (1 − γ)^k / k.

    A geometric number is accepted with probability 1/k; all coins are exact.

    Parameters
    ----------
    stop : int
        γ, in 2⁻⁶⁴.
    stream : KeyStream
        The randomness.
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
