"""Logistic loss of classes: g = p − y, h = p(1 − p)."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit, logit

from privboost.losses.base import Loss, Values

_LEAST_MEAN = 0.01
"""Distance of a mean label from 0 and 1 before its logit is taken."""


class Logistic(Loss):
    """Negative log-likelihood of labels 0 and 1, whose log-odds are the scores."""

    target, name = "classes", "logistic"
    limit, curvature, label_clip = 8, 1 / 8, 0.5
    log_odds = True

    def value(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return the negative log-likelihood of each row."""
        loss: np.ndarray = -log_expit((2 * label - 1) * (scores + offset))
        return loss

    def gradient(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return p − y."""
        gradient: np.ndarray = expit(scores + offset) - label
        return gradient

    def hessian(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return p(1 − p)."""
        shifted = scores + offset
        hessian: np.ndarray = expit(shifted) * expit(-shifted)
        return hessian

    def inverse_link(self, score: float) -> float:
        """Return the probability of a score."""
        return float(expit(score))

    def link(self, mean: float) -> float:
        """Return the log-odds of a probability."""
        return float(logit(np.clip(mean, _LEAST_MEAN, 1 - _LEAST_MEAN)))


LOGISTIC = Logistic()
