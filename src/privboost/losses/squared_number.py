"""The squared loss of a number in [−1, 1]: the state is F − y, so g = state and h = 1."""

from __future__ import annotations

import numpy as np

from privboost.losses.base import Loss


def _start(gradient: float) -> float:
    """Return the mean number: at a score of 0 a gradient is minus the number."""
    return float(np.clip(-gradient, -1, 1))


SQUARED_NUMBER = Loss(
    target="number",
    name="squared",
    limit=2,
    gradients=(lambda state: state, lambda state: state),
    sizes=(lambda state: state**2 / 2, lambda state: state**2 / 2),
    hessian=np.ones_like,
    curvature=1 / 2,
    start=_start,
)
