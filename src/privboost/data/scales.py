"""Scales of numbers and their inverses, with the same bits on every machine.

Libraries compute logarithms differently from processor to processor, and a label must not depend on
the machine that holds its row. So these functions use additions, products and quotients only, which
every machine rounds alike.
"""

from __future__ import annotations

import numpy as np

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""The logarithm of 2 in two parts; products of the first with small integers are exact."""
_LOG_TERMS = 13
_EXP_TERMS = 16


def to_scale(values: np.ndarray, bounds: tuple[float, float], scale: str) -> np.ndarray:
    """Return numbers within bounds on their scale.

    "log" is log x where the bounds have one sign, and sign(x)·log(1 + |x|) where they include zero.
    """
    if scale == "linear":
        return values
    size = np.abs(values)
    logs: np.ndarray = np.sign(values) * _log(1 + size) if _has_zero(bounds) else _log(size)
    return -logs if bounds[1] < 0 else logs


def from_scale(values: np.ndarray, bounds: tuple[float, float], scale: str) -> np.ndarray:
    """Return the numbers at these positions on their scale."""
    if scale == "linear":
        return values
    if _has_zero(bounds):
        sizes: np.ndarray = np.sign(values) * (_exp(np.abs(values)) - 1)
        return sizes
    return -_exp(-values) if bounds[1] < 0 else _exp(values)


def inverse_scale_name(bounds: tuple[float, float], scale: str) -> str:
    """Return the name of the function that `from_scale` applies, for exports.

    "same" is the identity; of z, "exp" is exp(z), "mirrored" −exp(−z), "signed"
    sign(z)·(exp|z| − 1).
    """
    if scale == "linear":
        return "same"
    if _has_zero(bounds):
        return "signed"
    return "mirrored" if bounds[1] < 0 else "exp"


def slope_of_scale(values: np.ndarray, bounds: tuple[float, float], scale: str) -> np.ndarray:
    """Return the derivative of numbers by their positions on the scale."""
    if scale == "linear":
        return np.ones_like(values)
    slopes: np.ndarray = np.abs(values) + (1 if _has_zero(bounds) else 0)
    return slopes


def _has_zero(bounds: tuple[float, float]) -> bool:
    return bounds[0] <= 0 <= bounds[1]


def _log(values: np.ndarray) -> np.ndarray:
    """Return logarithms of positive numbers: of a power of two, and of a remainder near 1."""
    rest, power = np.frexp(values)
    small = rest < np.sqrt(0.5)
    rest, power = np.where(small, 2 * rest, rest), power - small
    part = (rest - 1) / (rest + 1)
    square = part * part
    series = np.zeros_like(part)
    for k in range(_LOG_TERMS, 0, -1):  # artanh
        series = (series + 1 / (2 * k + 1)) * square
    logs: np.ndarray = power * _LN2_HIGH + (2 * part * (1 + series) + power * _LN2_LOW)
    return logs


def _exp(values: np.ndarray) -> np.ndarray:
    """Return powers of e: a power of two, times a remainder near 1."""
    power = np.rint(values / (_LN2_HIGH + _LN2_LOW))
    rest = (values - power * _LN2_HIGH) - power * _LN2_LOW
    series = np.ones_like(rest)
    for k in range(_EXP_TERMS, 0, -1):
        series = 1 + rest / k * series
    powers: np.ndarray = np.ldexp(series, power.astype(np.int32))
    return powers
