"""Log-logistic loss of censored times: survival is S(t) = σ((F − log t)/s), F the log median.

A row's state is r = F − log t, and its label tells whether the event was observed at t (1) or the
row was censored there (0). With q = σ(−r/s) an event has g = (1 − 2q)/s and h = 2q(1 − q)/s², a
censored row g = −q/s and h = q(1 − q)/s².
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from privboost.losses.base import Loss, Values


class LogLogistic(Loss):
    """Negative log-likelihood of an accelerated failure time with logistic errors.

    Parameters
    ----------
    scale : float
        The scale s of log times around the score, in units of scores.
    """

    target, name = "survival", "log_logistic"
    limit, curvature = 8, 1 / 2
    own_scale = True

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    @property
    def labels(self) -> tuple[float, float]:
        """Labels of the lines of a table: a censored row, and one whose event was observed."""
        return (0.0, 1.0)

    @property
    def largest_gradient(self) -> float:
        """Bound of gradients."""
        return 1 / self.scale

    @property
    def largest_hessian(self) -> float:
        """Bound of Hessians."""
        return 1 / (2 * self.scale**2)

    def value(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return the negative log-likelihood of each row, up to a term of its time alone."""
        late = -(scores + offset) / self.scale
        density = label * (math.log(self.scale) - late)
        loss: np.ndarray = (1 + label) * np.logaddexp(0, late) + density
        return loss

    def gradient(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return (1 − 2q)/s of an event, and −q/s of a censored row."""
        gone = expit(-(scores + offset) / self.scale)
        gradient: np.ndarray = (label - (1 + label) * gone) / self.scale
        return gradient

    def hessian(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return 2q(1 − q)/s² of an event, and q(1 − q)/s² of a censored row."""
        scaled = (scores + offset) / self.scale
        hessian: np.ndarray = (1 + label) * expit(scaled) * expit(-scaled) / self.scale**2
        return hessian


LOG_LOGISTIC = LogLogistic()
