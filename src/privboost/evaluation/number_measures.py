"""From noisy sums of residuals and labels to measures, with errors to first order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privboost.evaluation.bars import root_error
from privboost.evaluation.outcomes import STEPS
from privboost.evaluation.result import Measures, Value, stands_out


@dataclass(frozen=True)
class Mean:
    """A mean of numbers between −1 and 1, and the error that noise gives it."""

    at: float
    error: float


def measure_number(
    sums: tuple[np.ndarray, ...], noise: tuple[np.ndarray, ...], clip: float, half: float
) -> Measures:
    """Return all that sums of some rows say.

    Parameters
    ----------
    sums : tuple of arrays
        The number of rows; residuals and their squares; their sizes and fourth powers; labels and
        their squares. Numbers lie between −1 and 1.
    noise : tuple of arrays
        The standard deviation of each.
    clip, half : float
        What a residual of 1, and a label of 1, are on the scale of the target.
    """
    rows, unsure = float(sums[0][0]), float(noise[0][0])
    size = Value(max(rows, 0.0), unsure)
    if not stands_out(rows, unsure):
        either = Value(clip / 2, clip / 2)
        values = {"rmse": either, "mae": either, "bias": Value(0.0, clip), "r2": Value(0.0, 1.0)}
        return Measures({"rows": size, **values})
    bias, square, absolute, fourth, label, label_square = (
        _mean(float(total), float(own), rows, unsure)
        for totals, owns in zip(sums[1:], noise[1:], strict=True)
        for total, own in zip(totals, owns, strict=True)
    )
    second = min(max(square.at, 0.0), 1.0)
    # Of numbers between 0 and 1 none varies more than those that are 0 or 1.
    spread = min(max(fourth.at - second**2, 0.0), second * (1 - second))
    error = math.hypot(square.error, math.sqrt(spread / rows))
    width = clip / STEPS
    root = Value(clip * math.sqrt(second), clip * min(root_error(second, error), 0.5), width)
    values = {
        "rmse": root,
        "mae": _told(absolute, 0.0, second, rows, clip),
        "bias": _told(bias, -1.0, second, rows, clip),
        "r2": _r2((clip / half) ** 2, (second, error), label, label_square, rows),
    }
    return Measures({"rows": size, **values})


def _mean(total: float, noise: float, rows: float, unsure: float) -> Mean:
    """Return a mean: noise is in its sum, and in the number of rows."""
    at = total / rows
    return Mean(at, math.hypot(noise, at * unsure) / rows)


def _told(mean: Mean, least: float, second: float, rows: float, clip: float) -> Value:
    """Return a mean on the scale of the target; `second` is that of the squares."""
    at = min(max(mean.at, least), 1.0)
    spread = max(second - at**2, 0.0)
    error = math.hypot(mean.error, math.sqrt(spread / rows))
    return Value(clip * at, clip * min(error, 1.0), clip / STEPS)


def _r2(
    scale: float, square: tuple[float, float], label: Mean, label_square: Mean, rows: float
) -> Value:
    """Return 1 less the part of the labels' variance that is left.

    How much rows move a variance is not released: it is taken at its most for labels of this
    variance, and independent of residuals.
    """
    variance = label_square.at - label.at**2
    middle = min(abs(label.at), 1.0)
    noise = math.hypot(label_square.error, 2 * middle * label.error)
    if not stands_out(variance, noise):
        return Value(0.0, 1.0)
    most = max(variance * ((1 + middle) ** 2 - variance), 0.0)
    error = math.hypot(noise, math.sqrt(most / rows))
    left = scale * square[0] / variance
    far = math.hypot(scale * square[1] / variance, left * error / variance)
    return Value(1 - left, far)
