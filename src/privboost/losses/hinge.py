"""The hinge loss of classes −1 and 1, which has gradients only."""

from __future__ import annotations

from privboost.losses.base import Loss

HINGE = Loss(
    target="classes",
    name="hinge",
    limit=8,
    gradients=(lambda s: (s > -1).astype(float), lambda s: -(s < 1).astype(float)),
    curvature=1 / 8,
)
