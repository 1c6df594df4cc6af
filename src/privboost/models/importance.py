"""How much each feature moves the scores of a model: one measure for all kinds of models.

A model answers two questions from what was released: how likely each code of each feature is
(`chances`), and what the score gains where one feature of a row takes another value, beside how
much of that noise alone explains (`changes`, one feature after the other: all at once would take
far more memory than the model). Rows are drawn from the chances, feature by feature;
no row of the table is needed, so that a loaded model has importances too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from privboost.randomness.public_choices import fixed_generator

N_ROWS = 1024
"""How many rows are drawn."""

N_DRAWS = 20
"""How often noise is drawn for the error of importances."""

MORE = 2**0.5
"""What the noise of values grows by where noise is drawn once more on top."""

_STEPS = np.iinfo(np.int32)
NO_MASS = "feature_importances: this model does not hold what was released about its rows"
NO_ERRORS = "standard errors: this model does not hold how far noise moved it"


class Explainable(Protocol):
    """What importances need of a model's scores."""

    def chances(self) -> tuple[np.ndarray, ...]:
        """Return for each feature how likely its codes are, from released mass.

        Raise AttributeError, with the reason, where no mass or no noise is known.
        """

    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield what scores gain where a row has another row's code of one feature.

        Parameters
        ----------
        rows, others : uint16 arrays of shape (features, rows)
            The codes of each row, and the codes that take their place, one at a time.

        Yields
        ------
        feature : int
            The feature that is changed; those that are left out change nothing.
        change : array of shape (outputs, rows)
            The gain, in score steps.
        doubt : array of the same shape, or (1, rows)
            The variance that noise alone gives it.
        """


def importances(scores: Explainable) -> np.ndarray:
    """Return for each feature how much of the score's movement is its own.

    It is half the mean square of what a score gains where the feature takes another value that
    occurs (the variance that the feature brings in, alone and together with others), less what
    noise alone would give, and never below 0; all add up to 1, or are 0. It is computed from
    released values, so it costs no privacy.

    Raises
    ------
    AttributeError
        Where what was released does not say how many rows a value stands for.
    """
    rows, others = draw_rows(scores.chances())
    moved = np.zeros(len(rows))
    for feature, change, doubt in scores.changes(rows, others):
        moved[feature] = max(0.5 * (change**2 - doubt).mean(axis=1).sum(), 0.0)
    return moved / moved.sum() if moved.any() else moved


def deviations(scores: Any) -> np.ndarray:
    """Return the standard deviation that noise gives to each importance.

    Noise is drawn once more on top of released values, some times: importances then move about as
    far from those of the model as these are from what they would be without noise.

    Parameters
    ----------
    scores : AdditiveScores or CompoundScores
        A model that can draw its noise.
    """
    generator = fixed_generator()
    drawn = [importances(scores.drawn(generator)) for _ in range(N_DRAWS)]
    found: np.ndarray = np.sqrt(((np.array(drawn) - importances(scores)) ** 2).mean(axis=0))
    return found


def add_noise(values: np.ndarray, noise: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return values with Gaussian noise of these standard deviations, on the score grid."""
    return on_grid(values + np.rint(noise * generator.standard_normal(noise.shape)))


def on_grid(steps: np.ndarray) -> np.ndarray:
    """Round to int32, and clip to its ends: a file may claim any noise."""
    rounded: np.ndarray = np.clip(np.rint(steps), _STEPS.min, _STEPS.max).astype(np.int32)
    return rounded


def draw_rows(chances: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows whose features are independent, and the codes of other rows beside them."""
    generator = fixed_generator()
    middles = (np.arange(N_ROWS) + 0.5) / N_ROWS
    rows = np.empty((len(chances), N_ROWS), dtype=np.uint16)
    others = np.empty_like(rows)
    for feature, own in enumerate(chances):
        ends = np.cumsum(own)
        codes = np.searchsorted(ends, middles * ends[-1])
        rows[feature] = generator.permutation(np.minimum(codes, len(own) - 1))
        others[feature] = generator.permutation(rows[feature])
    return rows, others


def even(mass: np.ndarray) -> np.ndarray:
    """Return chances in proportion to a released mass; even ones where none is left."""
    total = mass.sum()
    return mass / total if total > 0 else np.full(len(mass), 1 / len(mass))
