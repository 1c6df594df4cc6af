"""Squared loss of a number in [−1, 1]: g = F − y, which is the state of a row, and h = 1."""

from __future__ import annotations

import numpy as np

from privboost.losses.base import Loss, Values


class SquaredNumber(Loss):
    """Loss (F − y)²/2 of a number."""

    target, name = "number", "squared"
    limit, curvature = 2, 1 / 2

    def value(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return half the squared error of each row."""
        loss: np.ndarray = self.gradient(scores, label, offset) ** 2 / 2
        return loss

    def gradient(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return F − y."""
        return scores + offset - label

    def hessian(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return 1."""
        return np.ones_like(scores)

    def inverse_link(self, score: float) -> float:
        """Return the score, which is the mean number."""
        return score

    def link(self, mean: float) -> float:
        """Return the mean number."""
        return float(np.clip(mean, -1, 1))


SQUARED_NUMBER = SquaredNumber()
