"""The scale that a loss has of its own."""

from __future__ import annotations

from privboost.losses.base import Loss
from privboost.recipes.common.log_scale import LogScale
from privboost.recipes.common.quantile_scale import QuantileScale
from privboost.recipes.common.scale import Scale


def scale_kind(loss: Loss) -> type[Scale]:
    """Return the kind of scale of a loss, or `Scale` itself where it has none of its own."""
    if not loss.own_scale:
        return Scale
    return LogScale if loss.log_link else QuantileScale
