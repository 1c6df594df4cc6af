"""Losses, one a file. A loss is known by its target and its name, and found by being there."""

from privboost.losses.base import (
    OTHER_CLASS,
    OWN_CLASS,
    UNKNOWN,
    UNKNOWN_LABEL,
    Loss,
    LossTable,
    class_indicator,
    filtered,
    loss_of,
    losses_of,
    newton_losses,
    within_steps,
)

__all__ = [
    "OTHER_CLASS",
    "OWN_CLASS",
    "UNKNOWN",
    "UNKNOWN_LABEL",
    "Loss",
    "LossTable",
    "class_indicator",
    "filtered",
    "loss_of",
    "losses_of",
    "newton_losses",
    "within_steps",
]
