"""Tweedie loss of amounts that are often 0: g = e^(2−p)F − y·e^(1−p)F, of a power 1 < p < 2."""

from __future__ import annotations

import numpy as np

from privboost.losses.base import LogLink, Values


class Tweedie(LogLink):
    """Quasi-likelihood of amounts from 0 on, whose variance is a power of their mean.

    Parameters
    ----------
    power : float
        The power p, between 1 (as Poisson) and 2 (as gamma).
    """

    name = "tweedie"
    parameter = "power"

    def __init__(self, power: float = 1.5) -> None:
        self.power = self.variance_power = power

    def with_parameter(self, value: float) -> Tweedie:
        """Return the loss of another power."""
        return Tweedie(value)

    def value(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return half the deviance of each row, up to a term of its label alone."""
        shifted, p = scores + offset, self.power
        means, labels = np.exp((2 - p) * shifted), label * np.exp((1 - p) * shifted)
        loss: np.ndarray = means / (2 - p) - labels / (1 - p)
        return loss

    def gradient(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return e^(2−p)F − y·e^(1−p)F."""
        shifted, p = scores + offset, self.power
        gradient: np.ndarray = np.exp((2 - p) * shifted) - label * np.exp((1 - p) * shifted)
        return gradient

    def hessian(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return (2 − p)·e^(2−p)F + (p − 1)·y·e^(1−p)F."""
        shifted, p = scores + offset, self.power
        means, labels = np.exp((2 - p) * shifted), label * np.exp((1 - p) * shifted)
        hessian: np.ndarray = (2 - p) * means + (p - 1) * labels
        return hessian


TWEEDIE = Tweedie()
