"""Poisson loss of counts, whose score F is the logarithm of the mean: g = e^F − y, h = e^F."""

from __future__ import annotations

import numpy as np

from privboost.losses.base import LogLink, Values


class Poisson(LogLink):
    """Negative log-likelihood of counts, up to a term of the counts alone."""

    name = "poisson"
    whole = True

    def value(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return the negative log-likelihood of each row."""
        shifted = scores + offset
        loss: np.ndarray = np.exp(shifted) - label * shifted
        return loss

    def gradient(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return e^F − y."""
        gradient: np.ndarray = np.exp(scores + offset) - label
        return gradient

    def hessian(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return e^F."""
        hessian: np.ndarray = np.exp(scores + offset)
        return hessian


POISSON = Poisson()
