"""Audits: an empirical lower bound on ε, to compare with the claimed ε.

Run a mechanism many times on a table and on its neighbour, and guess from each output which of the
two it was. If the guesses are better than (ε, δ)-DP allows, the claim is false: with
a = P(guess "in" | out) and b = P(guess "in" | in), b ≤ e^ε·a + δ and 1 − a ≤ e^ε(1 − b) + δ.
Clopper–Pearson intervals for a and b turn counts into a bound that holds with a stated confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

Run = Callable[[bool, int], Any]
"""Returns one output, with the canary or without it, from its own seed."""
Score = Callable[[Any], float]
"""Returns a number that is larger if an output looks like one with the canary."""


@dataclass(frozen=True)
class AuditResult:
    """Result of an audit.

    Attributes
    ----------
    epsilon : float
        Lower bound on ε at δ.
    delta : float
        δ of the claim.
    confidence : float
        Confidence of the bound.
    threshold : float
        Outputs scored above it were guessed to have the canary.
    hits, false_alarms, runs : int
        Number of outputs, of `runs` with and `runs` without the canary, guessed to have it.
    """

    epsilon: float
    delta: float
    confidence: float
    threshold: float
    hits: int
    false_alarms: int
    runs: int


def audit(
    run: Run,
    score: Score,
    delta: float,
    runs: int = 1000,
    confidence: float = 0.999,
    seed: int = 0,
) -> AuditResult:
    """Bound ε from below by repeated runs with and without a canary.

    Parameters
    ----------
    run : callable
        `run(with_canary, seed)` returns one output. It must draw fresh noise each time.
    score : callable
        Function of an output: larger where the canary seems to be present.
    delta : float
        The δ at which the claim is made.
    runs : int
        Number of runs with the canary, and of runs without. Half of them choose the threshold, the
        other half measure, so the bound is valid for any threshold.
    confidence : float
        Least probability that the true ε is not below the bound.
    seed : int
        First seed of the runs.

    Returns
    -------
    AuditResult

    Examples
    --------
    >>> import random
    >>> from privboost.audit import audit
    >>> honest = lambda with_canary, seed: with_canary + random.Random(seed).gauss(0, 5)
    >>> audit(honest, float, delta=1e-6, runs=2000).epsilon < 1.5
    True
    """
    if runs < 20 or not 0 < confidence < 1 or not 0 <= delta < 1:
        raise ValueError("runs must be at least 20; confidence and delta lie between 0 and 1")
    outputs = np.array(
        [
            [score(run(canary, seed + 2 * k + canary)) for canary in (True, False)]
            for k in range(runs)
        ]
    )
    if np.isnan(outputs).any():
        raise ValueError("score returned NaN")
    chosen, measured = outputs[: runs // 2], outputs[runs // 2 :]
    threshold, above = _best_threshold(chosen, delta)
    guessed = measured > threshold if above else measured < threshold
    hits, alarms = (int(count) for count in guessed.sum(axis=0))
    epsilon = epsilon_lower_bound(hits, alarms, len(measured), delta, confidence)
    return AuditResult(epsilon, delta, confidence, threshold, hits, alarms, len(measured))


def epsilon_lower_bound(
    hits: int, false_alarms: int, runs: int, delta: float, confidence: float
) -> float:
    """Return the lower bound on ε from counts of guesses, by Clopper–Pearson intervals.

    Examples
    --------
    >>> epsilon_lower_bound(500, 500, 1000, 1e-6, 0.99)
    0.0
    >>> epsilon_lower_bound(1000, 0, 1000, 1e-6, 0.99) > 5
    True
    """
    if not (0 <= hits <= runs and 0 <= false_alarms <= runs and 0 < confidence < 1):
        raise ValueError("hits and false_alarms count runs; confidence lies between 0 and 1")
    half = (1 - confidence) / 2
    b_low = float(stats.beta.ppf(half, hits, runs - hits + 1)) if hits else 0.0
    a_high = (
        float(stats.beta.ppf(1 - half, false_alarms + 1, runs - false_alarms))
        if false_alarms < runs
        else 1.0
    )
    ways = [(b_low - delta, a_high), (1 - a_high - delta, 1 - b_low)]
    found = [math.log(top / bottom) for top, bottom in ways if top > 0 and bottom > 0]
    return max([0.0, *found])


def _best_threshold(scores: np.ndarray, delta: float) -> tuple[float, bool]:
    """Return the threshold, and its side, with the largest bound on these scores."""
    candidates = np.unique(np.quantile(scores, np.linspace(0.005, 0.995, 100)))
    best = (-1.0, float(np.median(scores)), True)
    for threshold in candidates:
        for above in (True, False):
            guessed = scores > threshold if above else scores < threshold
            hits, alarms = (int(count) for count in guessed.sum(axis=0))
            bound = epsilon_lower_bound(hits, alarms, len(scores), delta, 0.9)
            best = max(best, (bound, float(threshold), above))
    return best[1], best[2]
