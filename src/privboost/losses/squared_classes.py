"""Squared loss of classes −1 and 1: g = F − y."""

from __future__ import annotations

import numpy as np

from privboost.losses.base import Loss, Values


class SquaredClasses(Loss):
    """Loss (F − y)²/2 of labels y = ±1."""

    target, name = "classes", "squared"
    limit, curvature = 8, 1 / 2

    def value(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return half the squared error of each row."""
        loss: np.ndarray = self.gradient(scores, label, offset) ** 2 / 2
        return loss

    def gradient(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return F − y."""
        return scores + offset - (2 * label - 1)

    def hessian(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return 1."""
        return np.ones_like(scores)

    def inverse_link(self, score: float) -> float:
        """Return the score, which is the mean of labels −1 and 1."""
        return score

    def link(self, mean: float) -> float:
        """Return the mean of labels −1 and 1."""
        return float(np.clip(mean, -1, 1))


SQUARED_CLASSES = SquaredClasses()
