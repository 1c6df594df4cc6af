"""Audits: a lower bound on ε from what a mechanism does, against the ε that is claimed.

Run something many times on a table and on its neighbour, and tell from each output which of the
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
"""Makes one output, with the canary or without it, from a seed of its own."""
Score = Callable[[Any], float]
"""Says how much an output looks like one with the canary."""


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Attributes
    ----------
    epsilon : float
        The lower bound on ε at δ.
    delta : float
        The δ of the claim.
    confidence : float
        How sure the bound is.
    threshold : float
        Outputs scored above it were guessed to have the canary.
    hits, false_alarms, runs : int
        Of `runs` outputs each, how many with and without the canary were guessed to have it.
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
        `run(with_canary, seed)` makes one output. It must draw its noise anew each time.
    score : callable
        From an output to a number that is larger where the canary seems to be present.
    delta : float
        The δ at which the claim is made.
    runs : int
        Runs with, and as many without, the canary. Half of them choose the threshold, the other
        half measure: the bound does not depend on how well the threshold was chosen.
    confidence : float
        The chance, at least, that the true ε is not below the bound.
    seed : int
        Where the seeds of the runs start.

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
        raise ValueError("score gave a number that is none (NaN)")
    chosen, measured = outputs[: runs // 2], outputs[runs // 2 :]
    threshold, above = _best_threshold(chosen, delta)
    guessed = measured > threshold if above else measured < threshold
    hits, alarms = (int(count) for count in guessed.sum(axis=0))
    epsilon = epsilon_lower_bound(hits, alarms, len(measured), delta, confidence)
    return AuditResult(epsilon, delta, confidence, threshold, hits, alarms, len(measured))


def epsilon_lower_bound(
    hits: int, false_alarms: int, runs: int, delta: float, confidence: float
) -> float:
    """Return the ε that counts of guesses refute anything below, by Clopper–Pearson intervals.

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
    """The threshold, and its side, that would give the largest bound on these scores."""
    candidates = np.unique(np.quantile(scores, np.linspace(0.005, 0.995, 100)))
    best = (-1.0, float(np.median(scores)), True)
    for threshold in candidates:
        for above in (True, False):
            guessed = scores > threshold if above else scores < threshold
            hits, alarms = (int(count) for count in guessed.sum(axis=0))
            bound = epsilon_lower_bound(hits, alarms, len(scores), delta, 0.9)
            best = max(best, (bound, float(threshold), above))
    return best[1], best[2]
