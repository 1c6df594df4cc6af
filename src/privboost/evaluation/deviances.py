"""Deviances of Poisson, gamma and Tweedie distributions, row by row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import xlogy

from privboost._core.checks import check_choice, check_number

POISSON, GAMMA = 1.0, 2.0
"""Powers p of the variance function V(μ) = μᵖ; those of Tweedie deviances lie between."""
_DEFAULT_POWER = 1.5
_LEAST_PREDICTION = 2.0**-20
"""Least prediction of a deviance, relative to the largest label: that of 0 may be infinite."""
NONE = "none"
"""The name by which a deviance is left out."""
_NAMES = ("poisson", "gamma", "tweedie", NONE)
Range = tuple[float, float]
"""The least and the largest of some numbers."""


def open_deviance(name: Any, power: Any, bounds: Range, predictions: Range) -> float | None:
    """Return the power of a deviance; None without one.

    Raises
    ------
    ValueError
        If the name or the power is none, or labels within `bounds` have no such deviance from
        predictions within theirs.
    """
    if name is not None:
        check_choice("deviance", name, _NAMES)
    if name in (None, NONE):
        if power is not None:
            raise ValueError("power is that of deviance='tweedie'; leave it out")
        return None
    if name != "tweedie" and power is not None:
        raise ValueError(f"power: that of deviance={name!r} is fixed; leave it out")
    given = _DEFAULT_POWER if power is None else power
    found = {"poisson": POISSON, "gamma": GAMMA}.get(name)
    if found is None:
        found = check_number("power", given, POISSON, GAMMA)
    if name == "gamma" and not bounds[0] > 0:
        raise ValueError("deviance: 'gamma' needs a target whose lower bound is above 0")
    if not bounds[0] >= 0:
        raise ValueError(f"deviance: {name!r} needs a target whose lower bound is at least 0")
    if not math.isfinite(largest_deviance(bounds, predictions, found)):
        raise ValueError("deviance: the bounds of the target are too wide for one")
    return found


def unit_deviance(labels: np.ndarray, predictions: np.ndarray, power: float) -> np.ndarray:
    """Return the deviance of each row, at least 0; predictions are above 0."""
    y, mean = labels, predictions
    if power == POISSON:
        half = xlogy(y, y / mean) - (y - mean)
    elif power == GAMMA:
        half = np.log(mean / y) + y / mean - 1
    else:
        one, two = 1 - power, 2 - power
        half = y**two / (one * two) - y * mean**one / one + mean**two / two
    found: np.ndarray = np.maximum(2 * half, 0.0)
    return found


def least_prediction(bounds: Range) -> float:
    """Return the prediction as which smaller ones count, from the bounds of labels alone.

    It is the same for all models of a target, so that their deviances compare.
    """
    return max(bounds[0], bounds[1] * _LEAST_PREDICTION)


def largest_deviance(bounds: Range, predictions: Range, power: float) -> float:
    """Return the largest deviance that the bounds of labels and of predictions allow.

    A deviance grows with the distance of label and prediction, on both sides.
    """
    least = least_prediction(bounds)
    ends = np.array(bounds[::-1]), np.maximum(predictions, least)
    with np.errstate(over="ignore", invalid="ignore"):
        most = unit_deviance(*ends, power)
    return float(most.max()) * (1 + 2.0**-20)
