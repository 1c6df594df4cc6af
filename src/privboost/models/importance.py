"""Rows and noise that are drawn from released values, for importances and their errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privboost.randomness.public_choices import fixed_generator

N_ROWS = 1024
"""The number of rows drawn."""

N_DRAWS = 20
"""The number of noise draws for the errors of importances."""

MORE_NOISE = 2**0.5
"""The factor by which noise grows where it is drawn once more on top of released values."""

_INT32 = np.iinfo(np.int32)
NO_MASS = "feature_importances: this model does not hold what was released about its rows"
NO_ERRORS = "standard errors: this model does not hold how far noise moved it"


def add_noise(values: np.ndarray, noise: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return values with Gaussian noise of these standard deviations, on the score grid."""
    return on_grid(values + np.rint(noise * generator.standard_normal(noise.shape)))


def on_grid(steps: np.ndarray) -> np.ndarray:
    """Round to int32 and clip to its range: a file may claim any noise."""
    rounded: np.ndarray = np.clip(np.rint(steps), _INT32.min, _INT32.max).astype(np.int32)
    return rounded


def draw_rows(probabilities: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows with independent features, and as many other rows.

    Parameters
    ----------
    probabilities : sequence of float arrays
        For each feature the probability of each code.

    Returns
    -------
    rows, others : uint16 arrays of shape (features, rows)
    """
    generator = fixed_generator()
    middles = (np.arange(N_ROWS) + 0.5) / N_ROWS
    rows = np.empty((len(probabilities), N_ROWS), dtype=np.uint16)
    others = np.empty_like(rows)
    for feature, own in enumerate(probabilities):
        ends = np.cumsum(own)
        codes = np.searchsorted(ends, middles * ends[-1])
        rows[feature] = generator.permutation(np.minimum(codes, len(own) - 1))
        others[feature] = generator.permutation(rows[feature])
    return rows, others


def even(mass: np.ndarray) -> np.ndarray:
    """Return probabilities in proportion to noisy counts; even ones where all are 0."""
    total = mass.sum()
    return mass / total if total > 0 else np.full(len(mass), 1 / len(mass))
