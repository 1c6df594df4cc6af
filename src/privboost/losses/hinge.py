"""Hinge loss of classes −1 and 1, which has gradients only."""

from __future__ import annotations

import numpy as np

from privboost.losses.base import Loss, Values


class Hinge(Loss):
    """Loss max(1 − yF, 0) of labels y = ±1."""

    target, name = "classes", "hinge"
    limit, curvature = 8, 1 / 8

    def value(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return the loss of each row."""
        loss: np.ndarray = np.maximum(1 - (2 * label - 1) * (scores + offset), 0)
        return loss

    def gradient(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return −y where yF is below 1, else 0."""
        sign = 2 * label - 1
        gradient: np.ndarray = -sign * (sign * (scores + offset) < 1)
        return gradient


HINGE = Hinge()
