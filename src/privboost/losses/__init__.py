"""Losses, one a module; a new module is found by its `Loss` instance."""

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
