"""The squared loss of classes −1 and 1: g = F − y."""

from __future__ import annotations

import numpy as np

from privboost.losses.base import Loss


def _start(gradient: float) -> float:
    """Return the mean of labels −1 and 1: at a score of 0 a gradient is minus the label."""
    return float(np.clip(-gradient, -1, 1))


SQUARED_CLASSES = Loss(
    target="classes",
    name="squared",
    limit=8,
    gradients=(lambda score: score + 1, lambda score: score - 1),
    sizes=(lambda score: (score + 1) ** 2 / 2, lambda score: (score - 1) ** 2 / 2),
    hessian=np.ones_like,
    curvature=1 / 2,
    start=_start,
)
