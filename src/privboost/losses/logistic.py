"""The logistic loss of classes: g = p − y, h = p(1 − p)."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit, logit

from privboost.losses.base import Loss

_LEAST_MEAN = 0.01
"""A mean of labels is kept this far from 0 and 1 before its logit is taken."""


def _start(gradient: float) -> float:
    """Return the log-odds of the mean label: at a score of 0 a gradient is ½ − y."""
    return float(logit(np.clip((1 - gradient) / 2, _LEAST_MEAN, 1 - _LEAST_MEAN)))


LOGISTIC = Loss(
    target="classes",
    name="logistic",
    limit=8,
    gradients=(expit, lambda score: expit(score) - 1),
    sizes=(lambda score: -log_expit(-score), lambda score: -log_expit(score)),
    hessian=lambda score: expit(score) * expit(-score),
    curvature=1 / 8,
    start_clip=0.5,
    start=_start,
    log_odds=True,
)
