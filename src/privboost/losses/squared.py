"""Squared loss (F − y)²/2: of a number y in [−1, 1], and of classes y = ±1."""

from __future__ import annotations

import numpy as np

from privboost.losses.base import Loss, Values


class SquaredNumber(Loss):
    """Squared loss of a number; its gradient F − y is the state of a row."""

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


class SquaredClasses(SquaredNumber):
    """Squared loss of classes, whose labels 0 and 1 stand for y = −1 and 1."""

    target = "classes"
    limit = 8

    def gradient(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return F − y."""
        return scores + offset - (2 * label - 1)


SQUARED_NUMBER, SQUARED_CLASSES = SquaredNumber(), SquaredClasses()
