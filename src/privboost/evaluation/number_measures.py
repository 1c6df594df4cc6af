"""Measures of a number, from sums of residuals and labels, with bounds beyond the clip.

A measure is a class with an entry in `MEASURES`: its estimate from noisy sums of private rows, and
from exact sums of public rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from privboost.evaluation.result import BoundedValue, Measures, Value, stands_out

DIGIT_BITS = 12
EXACT_BITS = 60
"""Bits of a residual or label of public rows; squares of 60-bit numbers are split in three."""
SQUARE = ("upper²", "upper·lower", "lower²")
"""(2³⁰u + l)² = 2⁶⁰u² + 2³¹ul + l²: each product has 60 bits."""
QUANTITIES = {
    "residual": 5,
    **{f"residual {part}": 5 for part in SQUARE},
    "fourth power": 10,
    "label": 5,
    **{f"label {part}": 5 for part in SQUARE},
    "outside": 1,
}
"""Quantities that are summed over public rows, with their digits. The fourth power is of the
residual, for error bars; `outside` is 1 where the label lay outside the target's bounds."""
OCTAVE_STEPS = 256
"""Codes of a number between two powers of 2."""
RESIDUAL_CELLS = 25
"""Cells in which residuals are counted by size: each halves the reach once more, and the first
holds all smaller ones."""
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
        """Return the clip at the upper end of a cell of residuals, the last of which is `reach`.

        `half` and `label_reach` are the largest distances of predictions and of labels from the
        middle of the model's labels; `widest` is the largest residual that the bounds allow.
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
    with the square of the clip. Where counts that clearly exceed their noise are not half of the
    rows, it is `otherwise`. `noise` and `square_noise` are standard deviations, in rows: of each
    count, and of sums of squares.
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
        state that nothing lies beyond the clip. `ends` are the upper ends of the cells, `rows` is
        a lower bound of the number of rows.
        """

        def most(weights: np.ndarray) -> float:
            error = noise * math.sqrt(float((weights**2).sum()))
            return (max(float(counts @ weights), 0.0) + _ERRORS * error) / rows

        return cls(most(np.ones_like(ends)), most(ends - 1), most(ends**2 - 1))


_CODE_WIDTH = 0.5 / OCTAVE_STEPS
"""Largest distance of a number from the middle of its code, relative to itself."""


@dataclass(frozen=True)
class Mean:
    """A mean of numbers between −1 and 1, and its error due to noise in its sum and in the rows."""

    at: float
    error: float

    @classmethod
    def of(cls, total: float, noise: float, rows: float, unsure: float) -> Mean:
        """Return the mean of a sum over a number of rows, both with noise."""
        at = total / rows
        return cls(at, math.hypot(noise, at * unsure) / rows)

    def sampled(self, least: float, second: float, rows: float) -> tuple[float, float]:
        """Return the mean within its limits and its error; `second` is the mean of the squares."""
        at = min(max(self.at, least), 1.0)
        spread = max(second - at**2, 0.0)
        return at, min(math.hypot(self.error, math.sqrt(spread / rows)), 1.0)


@dataclass(frozen=True)
class NoisyMeans:
    """Means over private rows, in units of the clips, and bounds of what lies beyond them.

    `second` is the mean square of residuals with its error; `bias`, `absolute`, `label` and
    `label_square` are means of residuals, of their sizes, of labels and of their squares.
    """

    rows: float
    second: float
    error: float
    bias: Mean
    absolute: Mean
    label: Mean
    label_square: Mean
    tail: Tail
    clip: Clip


@dataclass(frozen=True)
class ExactSums:
    """Exact sums over public rows: the signed and the unsigned sum of each of `QUANTITIES`.

    All residuals and labels lie below 2^power; means are in units of that.
    """

    sums: Mapping[str, Sequence[int]]
    rows: int
    power: int

    def value(self, mean: float, error: float) -> Value:
        """Return a value on the scale of the target."""
        return Value(math.ldexp(mean, self.power), math.ldexp(error, self.power))

    def square(self, name: str) -> int:
        """Return a sum of squares from the sums of its three products."""
        upper, mixed, lower = (self.sums[f"{name} {part}"][1] for part in SQUARE)
        return (upper << EXACT_BITS) + (mixed << (EXACT_BITS // 2 + 1)) + lower

    @cached_property
    def second(self) -> float:
        """Mean square of residuals."""
        return float(Fraction(self.square("residual"), self.rows * 2 ** (2 * EXACT_BITS)))

    @cached_property
    def error(self) -> float:
        """Sampling error of the mean square."""
        bits = DIGIT_BITS * QUANTITIES["fourth power"]
        fourth = float(Fraction(self.sums["fourth power"][1], self.rows * 2**bits))
        return math.sqrt(max(fourth - self.second**2, 0.0) / self.rows)

    def residual(self, total: int) -> Value:
        """Return the mean of residuals or of their sizes."""
        mean = float(Fraction(total, self.rows * 2**EXACT_BITS))
        return self.value(mean, math.sqrt(max(self.second - mean**2, 0.0) / self.rows))


class NumberMeasure(ABC):
    """A measure of a number."""

    def unknown(self, widest: float) -> BoundedValue:
        """Return the middle of the range; `widest` is the largest residual within the bounds."""
        return BoundedValue(widest / 2, widest / 2, 0.0, 0.0, widest)

    @abstractmethod
    def noisy(self, means: NoisyMeans) -> BoundedValue:
        """Return the estimate from noisy sums, with its interval."""

    @abstractmethod
    def exact(self, sums: ExactSums) -> Value:
        """Return the value on public rows, with its sampling error."""


class Rmse(NumberMeasure):
    """Root of the mean squared residual."""

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        second, error, tail, one = means.second, means.error, means.tail, means.clip.residual
        root = math.sqrt(second)
        low = math.sqrt(max(second - _ERRORS * error, 0.0)) * (1 - _CODE_WIDTH)
        high = math.sqrt(second + _ERRORS * error + tail.squares) * (1 + _CODE_WIDTH)
        return BoundedValue(
            one * root,
            one * min(root_error(second, error), 0.5),
            one * root * _CODE_WIDTH,
            one * low,
            min(one * high, means.clip.range),
            "at least" if tail.squares > second else None,
        )

    def exact(self, sums: ExactSums) -> Value:
        return sums.value(math.sqrt(sums.second), root_error(sums.second, sums.error))


class Mae(NumberMeasure):
    """Mean size of residuals."""

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        tail, one = means.tail, means.clip.residual
        at, error = means.absolute.sampled(0.0, means.second, means.rows)
        low = max(at - _ERRORS * error, 0.0) * (1 - _CODE_WIDTH)
        high = (at + _ERRORS * error + tail.excess) * (1 + _CODE_WIDTH)
        return BoundedValue(
            one * at,
            one * error,
            one * at * _CODE_WIDTH,
            one * low,
            min(one * high, means.clip.range),
            "at least" if tail.excess > at else None,
        )

    def exact(self, sums: ExactSums) -> Value:
        return sums.residual(sums.sums["residual"][1])


class Bias(NumberMeasure):
    """Mean of residuals: above 0 where predictions are too low."""

    def unknown(self, widest: float) -> BoundedValue:
        return BoundedValue(0.0, widest, 0.0, -widest, widest)

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        at, error = means.bias.sampled(-1.0, means.second, means.rows)
        # No mean of sizes exceeds the root of the mean square.
        width = math.sqrt(means.second) * _CODE_WIDTH
        reach = _ERRORS * error + means.tail.excess + width
        one, widest = means.clip.residual, means.clip.range
        low, high = max(one * (at - reach), -widest), min(one * (at + reach), widest)
        return BoundedValue(one * at, one * error, one * width, low, high)

    def exact(self, sums: ExactSums) -> Value:
        return sums.residual(sums.sums["residual"][0])


class R2(NumberMeasure):
    """R²: 1 less the unexplained share of the labels' variance.

    The sampling error of a variance is not released: the largest for labels of this variance is
    assumed, independent of residuals.
    """

    def unknown(self, widest: float) -> BoundedValue:
        return BoundedValue(0.0, 1.0, 0.0, None, 1.0)

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        second, label, tail, clip = means.second, means.label, means.tail, means.clip
        label_square, errors = means.label_square, _ERRORS * means.error
        scale = (clip.label / clip.residual) ** 2
        variance = label_square.at - label.at**2
        middle = min(abs(label.at), 1.0)
        noise = math.hypot(label_square.error, 2 * middle * label.error)
        most = max(variance * ((1 + middle) ** 2 - variance), 0.0)
        error = math.hypot(noise, math.sqrt(most / means.rows))
        width = 2 * _CODE_WIDTH
        low_square = max(second - errors, 0.0) * (1 - width)
        high_square = (second + errors) * (1 + width)
        low_variance = scale * (variance - _ERRORS * error - width * label_square.at)
        high_variance = scale * max(variance + _ERRORS * error + width * label_square.at, 0.0)
        far = min(middle + _ERRORS * label.error, 1.0)
        upper = _most_r2(low_square, high_variance, tail, (1 + far) * math.sqrt(scale))
        lower = 1 - (high_square + tail.squares) / low_variance if low_variance > 0 else None
        hidden = tail.squares > second or lower is None
        at, std = 0.0, 1.0
        if stands_out(variance, noise):
            left = second / (scale * variance)
            at = 1 - left
            std = math.hypot(means.error / (scale * variance), left * error / variance)
        return BoundedValue(at, std, (1 - at) * width, lower, upper, "at most" if hidden else None)

    def exact(self, sums: ExactSums) -> Value:
        rows, squares = sums.rows, sums.square("residual")
        # Exact, since labels may lie close together and far from the lower bound.
        variation = rows * sums.square("label") - sums.sums["label"][1] ** 2
        left = float(Fraction(rows * squares, variation)) if variation else float(squares > 0)
        variance = float(Fraction(variation, (rows * 2**EXACT_BITS) ** 2))
        # Labels are assumed to vary about their mean as residuals do about 0, at least as if
        # normal.
        relative = max(sums.error / sums.second if squares else 0.0, math.sqrt(2 / rows))
        label = min(relative * variance, math.sqrt(max(variance * (1 - variance), 0.0) / rows))
        far = math.hypot(sums.error, left * label) / variance if variation else 1.0
        return Value(1 - left, far)


MEASURES: dict[str, NumberMeasure] = {"rmse": Rmse(), "mae": Mae(), "bias": Bias(), "r2": R2()}
"""Measures by name."""


def measure_number(sums: Sequence[np.ndarray], noise: Sequence[np.ndarray], clip: Clip) -> Measures:
    """Return all measures of noisy sums, which have this noise (standard deviations).

    Sums are the number of rows; rows by cell of the residual's size; residuals and their squares;
    their sizes and fourth powers; labels and their squares. Numbers lie between −1 and 1.
    """
    rows, unsure = float(sums[0][0]), float(noise[0][0])
    size = {"rows": Value(max(rows, 0.0), unsure)}
    if not stands_out(rows, unsure):
        return Measures(size | {name: m.unknown(clip.range) for name, m in MEASURES.items()})
    beyond, least = sums[1][clip.cell + 1 :], rows - _ERRORS * unsure
    tail = Tail.of(beyond, float(noise[1][0]), clip.ends, least)
    bias, square, absolute, fourth, label, label_square = (
        Mean.of(float(total), float(own), rows, unsure)
        for totals, owns in zip(sums[2:], noise[2:], strict=True)
        for total, own in zip(totals, owns, strict=True)
    )
    second = min(max(square.at, 0.0), 1.0)
    # Numbers between 0 and 1 vary most if all are 0 or 1.
    spread = min(max(fourth.at - second**2, 0.0), second * (1 - second))
    error = math.hypot(square.error, math.sqrt(spread / rows))
    means = NoisyMeans(rows, second, error, bias, absolute, label, label_square, tail, clip)
    return Measures(size | {name: measure.noisy(means) for name, measure in MEASURES.items()})


def measure_exactly(
    sums: Mapping[str, Sequence[int]], rows: int, power: int, widest: float
) -> Measures:
    """Return the measures of public rows; error bars are those of sampling rows."""
    size = {"rows": Value(float(rows), 0.0)}
    if not rows:
        middles = {name: measure.unknown(widest) for name, measure in MEASURES.items()}
        return Measures(size | {name: Value(m.value, m.std) for name, m in middles.items()})
    exact = ExactSums(sums, rows, power)
    return Measures(size | {name: measure.exact(exact) for name, measure in MEASURES.items()})


def _most_r2(square: float, variance: float, tail: Tail, farthest: float) -> float:
    """Return the largest R² that rows beyond the clip leave possible.

    Rows whose residuals exceed the clip by d add d(d + 2) to the sum of squares. A label exceeds
    its own clip by d at most, so that they add d(d + 2g) to that of labels at most, g being the
    largest distance of a clipped label from the mean of these. With the means x of d and q of d²
    over all rows, R² is at most 1 − (s + q + 2x)/(v + q + 2gx), where x²/p ≤ q for a share p of
    such rows. The fraction is monotone in q, and along q = x²/p it is stationary where a quadratic
    function vanishes: the least is at one of few places.

    `square` is the least mean square s of clipped residuals, `variance` the largest v of clipped
    labels, `farthest` g; all in units of the clip of residuals.
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


def root_error(square: float, error: float) -> float:
    """Return the error of a root from that of its square; near 0 it is the root of that error."""
    most = math.sqrt(max(error, 0.0))
    root = math.sqrt(max(square, 0.0))
    return min(error / (2 * root), most) if root > 0 else most
