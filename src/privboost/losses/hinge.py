"""The hinge loss of classes −1 and 1, which has gradients only."""

from __future__ import annotations

import numpy as np

from privboost.losses.base import Loss

HINGE = Loss(
    target="classes",
    name="hinge",
    limit=8,
    gradients=(lambda s: (s > -1).astype(float), lambda s: -(s < 1).astype(float)),
    sizes=(lambda s: np.maximum(1 + s, 0), lambda s: np.maximum(1 - s, 0)),
    curvature=1 / 8,
)
