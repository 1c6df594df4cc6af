"""Gamma loss of amounts, whose score F is the logarithm of the mean: g = 1 − y·e^−F, h = y·e^−F."""

from __future__ import annotations

import numpy as np

from privboost.losses.base import LogLink, Values


class Gamma(LogLink):
    """Negative log-likelihood of amounts above 0, up to a term of the amounts alone."""

    name = "gamma"
    least_label = 1e-3
    variance_power = 2.0

    def value(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return the negative log-likelihood of each row."""
        shifted = scores + offset
        loss: np.ndarray = shifted + label * np.exp(-shifted)
        return loss

    def gradient(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return 1 − y·e^−F."""
        gradient: np.ndarray = 1 - label * np.exp(-(scores + offset))
        return gradient

    def hessian(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return y·e^−F."""
        hessian: np.ndarray = label * np.exp(-(scores + offset))
        return hessian


GAMMA = Gamma()
