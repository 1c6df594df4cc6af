"""Error bars: estimates beside what they would be with other noise and other rows."""

from __future__ import annotations

import math

import numpy as np

from privboost.evaluation.result import Value

DRAWS = 1000
"""How often noise and rows are drawn again: errors are then known to about 2 %. The draws are the
same in every evaluation, so what they are off by does not average out."""


def drawn_again(
    counts: np.ndarray, generator: np.random.Generator, draws: int = DRAWS
) -> np.ndarray:
    """Return counts, then counts of other rows of the same kind: shape (draws + 1, …).

    A count of rows varies by its root. Noisy counts may be below 0, where there are no rows.
    """
    spread = np.sqrt(np.maximum(counts, 0))
    moves = generator.standard_normal((draws, *counts.shape)) * spread
    return np.concatenate([counts[None], counts + moves])


def noisy_again(counts: np.ndarray, noise: float, generator: np.random.Generator) -> np.ndarray:
    """Add noise once more to all but the first, which has its own."""
    again = generator.standard_normal(counts.shape) * noise
    again[0] = 0
    noisy: np.ndarray = counts + again
    return noisy


def ratio(above: np.ndarray, below: np.ndarray, least: float) -> np.ndarray:
    """Divide, by at least so much: a noisy number of rows may be anything."""
    found: np.ndarray = above / np.maximum(below, max(least, 1e-9))
    return found


def bounded(
    draws: np.ndarray, limits: tuple[float, float], known: bool, width: float = 0.0
) -> Value:
    """Return an estimate within its limits, the first of draws, with their spread as its error.

    Parameters
    ----------
    draws : float array
        The estimate, then what it is with other noise and rows.
    limits : (float, float)
        Between which it lies, whatever the rows.
    known : bool
        Whether anything is known of it; else it is the middle, give or take all.
    width : float
        See `Value`.
    """
    low, high = limits
    if not known:
        return Value((low + high) / 2, (high - low) / 2, 0.0)
    value = min(max(float(draws[0]), low), high)
    # Draws may lie beyond: an estimate at a limit is no surer for it.
    return Value(value, min(float(draws[1:].std()), (high - low) / 2), min(width, high - low))


def root_error(square: float, error: float) -> float:
    """Return the error of a root, given that of its square; near 0 it is the error's own root."""
    most = math.sqrt(max(error, 0.0))
    root = math.sqrt(max(square, 0.0))
    return min(error / (2 * root), most) if root > 0 else most
