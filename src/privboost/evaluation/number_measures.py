"""Measures of a number, from sums of residuals and labels, with bounds beyond the clip."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privboost.evaluation.outcomes import (
    DIGIT_BITS,
    EXACT_BITS,
    OCTAVE_STEPS,
    QUANTITIES,
    RESIDUAL_CELLS,
    SQUARE,
)
from privboost.evaluation.result import BoundedValue, Measures, Value, stands_out

_ERRORS = 2.0
"""Standard errors on each side of an interval."""
_CLEAR_CELL = 3.0
"""Standard deviations of its noise that a cell's count must exceed to move the clip: one of 25
empty cells does so in 3 (Gaussian) to 17 (Laplace) of 100 evaluations."""
_MEAN_SQUARE = 0.4
"""Approximate mean square in a cell from 1/2 to 1, where larger residuals are rarer."""


@dataclass(frozen=True)
class Clip:
    """Clips of residuals and labels.

    Attributes
    ----------
    cell : int
        Last cell of residuals within the clip.
    residual : float
        Clip of residuals, on the scale of the target.
    label : float
        Clip of labels, about the middle of the model's labels. A label beyond it has a residual
        beyond the other clip.
    range : float
        Largest residual that the target's bounds allow.
    """

    cell: int
    residual: float
    label: float
    range: float

    @classmethod
    def at(cls, cell: int, reach: float, half: float, label_reach: float, widest: float) -> Clip:
        """Return the clip at the upper end of a cell of residuals.

        Parameters
        ----------
        cell : int
            The cell; the last ends at `reach`.
        reach, label_reach : float
            Largest coded residual and label.
        half : float
            Largest distance of predictions from the middle of the model's labels.
        widest : float
            Largest residual that the bounds allow.
        """
        clip = math.ldexp(reach, cell - RESIDUAL_CELLS + 1)
        return cls(cell, clip, min(half + clip, label_reach), widest)

    @property
    def ends(self) -> np.ndarray:
        """Upper end of each cell beyond the clip, in units of it."""
        powers = np.arange(1, RESIDUAL_CELLS - self.cell)
        ends: np.ndarray = np.minimum(2.0**powers, max(self.range / self.residual, 1.0))
        return ends


def choose_clip(
    counts: np.ndarray, rows: float, noise: float, square_noise: float, otherwise: int
) -> int:
    """Return the cell at whose upper end residuals are clipped, from noisy counts alone.

    It minimises the sum of two squares: the bias of the sum of squared residuals, from the cells
    beyond the clip whose counts clearly exceed their noise, and the noise of that sum, which grows
    with the square of the clip.

    Parameters
    ----------
    counts : float array
        Noisy numbers of rows by cell.
    rows : float
        Noisy number of all rows.
    noise, square_noise : float
        Standard deviation of each count's noise, and of the noise in sums of squares, in rows.
    otherwise : int
        Cell to use where counts that clearly exceed their noise are not half of the rows.
    """
    clear = np.where(counts > _CLEAR_CELL * noise, counts, 0.0)
    if not clear.sum() > max(rows, 0.0) / 2:
        return otherwise
    ends = 4.0 ** np.arange(RESIDUAL_CELLS)
    added = np.array(
        [
            (clear[cell + 1 :] * np.maximum(_MEAN_SQUARE * ends[cell + 1 :] - ends[cell], 0)).sum()
            for cell in range(RESIDUAL_CELLS)
        ]
    )
    return int(np.argmin(np.hypot(added, square_noise * ends)))


@dataclass(frozen=True)
class Mean:
    """A mean of numbers between −1 and 1, and its error due to noise."""

    at: float
    error: float


@dataclass(frozen=True)
class Tail:
    """Upper bounds of what rows beyond the clip add, per row of all; in units of the clip.

    A residual of size e beyond the clip exceeds it by d = e − 1, and its square by d(d + 2).

    Attributes
    ----------
    rows : float
        Their share.
    excess : float
        The mean of d.
    squares : float
        The mean of d(d + 2).
    """

    rows: float
    excess: float
    squares: float

    @classmethod
    def of(cls, counts: np.ndarray, noise: float, ends: np.ndarray, rows: float) -> Tail:
        """Return upper bounds: two standard errors above noisy counts by cell, and above 0.

        Two errors are added even where the counts are below 0: else one evaluation in 40 would
        state that nothing lies beyond the clip.

        Parameters
        ----------
        counts : float array
            Noisy numbers of rows by cell beyond the clip.
        noise : float
            Standard deviation of each.
        ends : float array
            Upper end of each cell.
        rows : float
            Lower bound of the number of rows.
        """

        def most(weights: np.ndarray) -> float:
            error = noise * math.sqrt(float((weights**2).sum()))
            return (max(float(counts @ weights), 0.0) + _ERRORS * error) / rows

        return cls(most(np.ones_like(ends)), most(ends - 1), most(ends**2 - 1))


def measure_number(
    sums: tuple[np.ndarray, ...], noise: tuple[np.ndarray, ...], clip: Clip
) -> Measures:
    """Return all measures of noisy sums.

    Parameters
    ----------
    sums : tuple of arrays
        The number of rows; rows by cell of the residual's size; residuals and their squares; their
        sizes and fourth powers; labels and their squares. Numbers lie between −1 and 1.
    noise : tuple of arrays
        Standard deviation of each.
    clip : Clip
        Scales of residuals and labels.
    """
    rows, unsure = float(sums[0][0]), float(noise[0][0])
    size = Value(max(rows, 0.0), unsure)
    widest = clip.range
    if not stands_out(rows, unsure):
        either = BoundedValue(widest / 2, widest / 2, 0.0, 0.0, widest)
        unknown = {
            "bias": BoundedValue(0.0, widest, 0.0, -widest, widest),
            "r2": BoundedValue(0.0, 1.0, 0.0, None, 1.0),
        }
        return Measures({"rows": size, "rmse": either, "mae": either, **unknown})
    beyond, least = sums[1][clip.cell + 1 :], rows - _ERRORS * unsure
    tail = Tail.of(beyond, float(noise[1][0]), clip.ends, least)
    bias, square, absolute, fourth, label, label_square = (
        _mean(float(total), float(own), rows, unsure)
        for totals, owns in zip(sums[2:], noise[2:], strict=True)
        for total, own in zip(totals, owns, strict=True)
    )
    second = min(max(square.at, 0.0), 1.0)
    # Numbers between 0 and 1 vary most if all are 0 or 1.
    spread = min(max(fourth.at - second**2, 0.0), second * (1 - second))
    error = math.hypot(square.error, math.sqrt(spread / rows))
    values = {
        "rows": size,
        "rmse": _rmse(second, error, tail, clip),
        "mae": _mae(absolute, second, tail, rows, clip),
        "bias": _bias(bias, second, tail, rows, clip),
        "r2": _r2((second, error), label, label_square, tail, rows, clip),
    }
    return Measures(values)


_CODE_WIDTH = 0.5 / OCTAVE_STEPS
"""Largest distance of a number from the middle of its code, relative to itself."""


def _rmse(second: float, error: float, tail: Tail, clip: Clip) -> BoundedValue:
    root, one = math.sqrt(second), clip.residual
    low = math.sqrt(max(second - _ERRORS * error, 0.0)) * (1 - _CODE_WIDTH)
    high = math.sqrt(second + _ERRORS * error + tail.squares) * (1 + _CODE_WIDTH)
    return BoundedValue(
        one * root,
        one * min(root_error(second, error), 0.5),
        one * root * _CODE_WIDTH,
        one * low,
        min(one * high, clip.range),
        "at least" if tail.squares > second else None,
    )


def _mae(mean: Mean, second: float, tail: Tail, rows: float, clip: Clip) -> BoundedValue:
    at, error = _with_spread(mean, 0.0, second, rows)
    low = max(at - _ERRORS * error, 0.0) * (1 - _CODE_WIDTH)
    high = (at + _ERRORS * error + tail.excess) * (1 + _CODE_WIDTH)
    one = clip.residual
    return BoundedValue(
        one * at,
        one * error,
        one * at * _CODE_WIDTH,
        one * low,
        min(one * high, clip.range),
        "at least" if tail.excess > at else None,
    )


def _bias(mean: Mean, second: float, tail: Tail, rows: float, clip: Clip) -> BoundedValue:
    at, error = _with_spread(mean, -1.0, second, rows)
    width = math.sqrt(second) * _CODE_WIDTH  # no mean of sizes exceeds the root of the mean square
    reach = _ERRORS * error + tail.excess + width
    one, widest = clip.residual, clip.range
    low, high = max(one * (at - reach), -widest), min(one * (at + reach), widest)
    return BoundedValue(one * at, one * error, one * width, low, high)


def _mean(total: float, noise: float, rows: float, unsure: float) -> Mean:
    """Return a mean; noise is in its sum and in the number of rows."""
    at = total / rows
    return Mean(at, math.hypot(noise, at * unsure) / rows)


def _with_spread(mean: Mean, least: float, second: float, rows: float) -> tuple[float, float]:
    """Return a mean within its limits and its error; `second` is the mean of the squares."""
    at = min(max(mean.at, least), 1.0)
    spread = max(second - at**2, 0.0)
    return at, min(math.hypot(mean.error, math.sqrt(spread / rows)), 1.0)


def _r2(
    square: tuple[float, float],
    label: Mean,
    label_square: Mean,
    tail: Tail,
    rows: float,
    clip: Clip,
) -> BoundedValue:
    """Return R²: 1 less the unexplained share of the labels' variance.

    The sampling error of a variance is not released: the largest for labels of this variance is
    assumed, independent of residuals.
    """
    scale = (clip.label / clip.residual) ** 2
    variance = label_square.at - label.at**2
    middle = min(abs(label.at), 1.0)
    noise = math.hypot(label_square.error, 2 * middle * label.error)
    most = max(variance * ((1 + middle) ** 2 - variance), 0.0)
    error = math.hypot(noise, math.sqrt(most / rows))
    width = 2 * _CODE_WIDTH
    low_square = max(square[0] - _ERRORS * square[1], 0.0) * (1 - width)
    high_square = (square[0] + _ERRORS * square[1]) * (1 + width)
    low_variance = scale * (variance - _ERRORS * error - width * label_square.at)
    high_variance = scale * max(variance + _ERRORS * error + width * label_square.at, 0.0)
    far = min(middle + _ERRORS * label.error, 1.0)
    upper = _most_r2(low_square, high_variance, tail, (1 + far) * math.sqrt(scale))
    lower = 1 - (high_square + tail.squares) / low_variance if low_variance > 0 else None
    hidden = tail.squares > square[0] or lower is None
    at, std = 0.0, 1.0
    if stands_out(variance, noise):
        left = square[0] / (scale * variance)
        at = 1 - left
        std = math.hypot(square[1] / (scale * variance), left * error / variance)
    return BoundedValue(at, std, (1 - at) * width, lower, upper, "at most" if hidden else None)


def _most_r2(square: float, variance: float, tail: Tail, farthest: float) -> float:
    """Return the largest R² that rows beyond the clip leave possible.

    Rows whose residuals exceed the clip by d add d(d + 2) to the sum of squares. A label exceeds
    its own clip by d at most, so that they add d(d + 2g) to that of labels at most, g being the
    largest distance of a clipped label from the mean of these. With the means x of d and q of d²
    over all rows, R² is at most 1 − (s + q + 2x)/(v + q + 2gx), where x²/p ≤ q for a share p of
    such rows. The fraction is monotone in q, and along q = x²/p it is stationary where a quadratic
    function vanishes: the least is at one of few places.

    Parameters
    ----------
    square, variance : float
        Least mean square of clipped residuals, and largest variance of clipped labels.
    tail : Tail
        Bounds of what lies beyond the clip.
    farthest : float
        g. All are in units of the clip of residuals.
    """
    if variance <= 0:
        return 1.0
    ends = [0.0, tail.excess]
    pairs = [(x, tail.squares) for x in ends]
    if tail.rows > 0:
        s, v, p, g = square, variance, tail.rows, farthest
        roots = np.roots([g - 1, v - s, p * (v - g * s)])
        inside = [float(x) for x in roots.real[roots.imag == 0] if 0 < x < tail.excess]
        pairs += [(x, x * x / p) for x in (*ends, *inside)]
    left = min((square + q + 2 * x) / (variance + q + 2 * farthest * x) for x, q in pairs)
    return min(1 - left, 1.0)


def measure_exactly(
    sums: Mapping[str, tuple[int, int]], rows: int, power: int, widest: float
) -> Measures:
    """Return the measures of public rows; error bars are those of sampling rows.

    Parameters
    ----------
    sums : mapping from str to (int, int)
        Signed and unsigned sum of each of `QUANTITIES`.
    rows : int
        Number of rows.
    power : int
        See `exact_power`.
    widest : float
        Largest residual that the target's bounds allow.
    """
    size = Value(float(rows), 0.0)
    if not rows:
        either = Value(widest / 2, widest / 2)
        unknown = {"bias": Value(0.0, widest), "r2": Value(0.0, 1.0)}
        return Measures({"rows": size, "rmse": either, "mae": either, **unknown})
    signed, absolute = sums["residual"]
    squares, label_squares = (_square(sums, name) for name in ("residual", "label"))
    one = 2**EXACT_BITS
    second = float(Fraction(squares, rows * one**2))
    bias, mae = (float(Fraction(each, rows * one)) for each in (signed, absolute))
    fourth = float(
        Fraction(sums["fourth power"][1], rows * 2 ** (DIGIT_BITS * QUANTITIES["fourth power"]))
    )
    error = math.sqrt(max(fourth - second**2, 0.0) / rows)

    def value(mean: float, error: float) -> Value:
        return Value(math.ldexp(mean, power), math.ldexp(error, power))

    values = {
        "rows": size,
        "rmse": value(math.sqrt(second), root_error(second, error)),
        "mae": value(mae, math.sqrt(max(second - mae**2, 0.0) / rows)),
        "bias": value(bias, math.sqrt(max(second - bias**2, 0.0) / rows)),
    }
    # Exact, since labels may lie close together and far from the lower bound.
    variation = rows * label_squares - sums["label"][1] ** 2
    left = float(Fraction(rows * squares, variation)) if variation else float(squares > 0)
    variance = float(Fraction(variation, (rows * one) ** 2))
    # Labels are assumed to vary about their mean as residuals do about 0, at least as if normal.
    label = max(error / second if squares else 0.0, math.sqrt(2 / rows)) * variance
    label = min(label, math.sqrt(max(variance * (1 - variance), 0.0) / rows))
    far = math.hypot(error, left * label) / variance if variation else 1.0
    return Measures(values | {"r2": Value(1 - left, far)})


def _square(sums: Mapping[str, tuple[int, int]], name: str) -> int:
    """Return a sum of squares from the sums of its three products."""
    upper, mixed, lower = (sums[f"{name} {part}"][1] for part in SQUARE)
    half = EXACT_BITS // 2
    return (upper << EXACT_BITS) + (mixed << (half + 1)) + lower


def root_error(square: float, error: float) -> float:
    """Return the error of a root from that of its square; near 0 it is the root of that error."""
    most = math.sqrt(max(error, 0.0))
    root = math.sqrt(max(square, 0.0))
    return min(error / (2 * root), most) if root > 0 else most
