"""Sums and means of a number's rows: residuals, labels and deviances, noisy or exact.

Residuals of private rows are clipped, where noisy counts choose; `Tail` bounds what lies beyond.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from privboost.evaluation.prediction_groups import GroupSums
from privboost.evaluation.result import ERRORS, BoundedValue, Value

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
    "below": 1,
}
"""Quantities that are summed over public rows, with their digits. The fourth power is of the
residual, for error bars; `outside` is 1 where the label lay outside the target's bounds, `below`
where it is at most the prediction."""
DEVIANCE_QUANTITIES = {"deviance": 5, "deviance²": 5}
"""The same where a deviance is wanted; its square is for error bars."""
OCTAVE_STEPS = 256
"""Codes of a number between two powers of 2."""
RESIDUAL_CELLS = 25
"""Cells in which residuals are counted by size: each halves the reach once more, and the first
holds all smaller ones."""
_CLEAR_CELL = 3.0
"""Standard deviations of its noise that a cell's count must exceed to move the clip: one of 25
empty cells does so in 3 (Gaussian) to 17 (Laplace) of 100 evaluations."""
_MEAN_POWER = {1: 0.65, 2: 0.4}
"""Approximate mean of sizes and of their squares in a cell from 1/2 to 1, where larger ones are
rarer."""


@dataclass(frozen=True)
class Wanted:
    """What decides which measures of a number there are.

    Attributes
    ----------
    least : float
        Lower bound of labels.
    curves : bool
        Whether rows are counted and summed by groups of their prediction.
    deviance : float or None
        Power of the deviance.
    quantile : float or None
        Level of the quantile that the model predicts.
    """

    least: float
    curves: bool = False
    deviance: float | None = None
    quantile: float | None = None

    @property
    def ratios(self) -> bool:
        """Whether labels are never negative, so that ratios and shares of them mean something."""
        return self.least >= 0


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
    half : float
        Largest distance of a prediction from the middle of the model's labels.
    """

    cell: int
    residual: float
    label: float
    range: float
    half: float

    @classmethod
    def at(cls, cell: int, reach: float, half: float, label_reach: float, widest: float) -> Clip:
        """Return the clip at the upper end of a cell of residuals, the last of which is `reach`.

        `half` and `label_reach` are the largest distances of predictions and of labels from the
        middle of the model's labels; `widest` is the largest residual that the bounds allow.
        """
        clip = math.ldexp(reach, cell - RESIDUAL_CELLS + 1)
        return cls(cell, clip, min(half + clip, label_reach), widest, half)

    @property
    def ends(self) -> np.ndarray:
        """Upper end of each cell beyond the clip, in units of it."""
        return ends_beyond(self.cell, self.range / self.residual)


def ends_beyond(cell: int, most: float) -> np.ndarray:
    """Return the upper end of each cell beyond a clip, in units of it, in which `most` is most."""
    ends: np.ndarray = np.minimum(2.0 ** np.arange(1, RESIDUAL_CELLS - cell), max(most, 1.0))
    return ends


def choose_clip(
    counts: np.ndarray,
    rows: float,
    noise: float,
    sum_noise: float,
    otherwise: int,
    power: int = 2,
) -> int:
    """Return the cell at whose upper end sizes are clipped, from noisy counts alone.

    It minimises the sum of two squares: the bias of the sum of squared sizes (of their `power`),
    from the cells beyond the clip whose counts clearly exceed their noise, and the noise of that
    sum, which grows with the same power of the clip. Where counts that clearly exceed their noise
    are not half of the rows, it is `otherwise`. `noise` and `sum_noise` are standard deviations,
    in rows: of each count, and of the sums.
    """
    clear = np.where(counts > _CLEAR_CELL * noise, counts, 0.0)
    if not clear.sum() > max(rows, 0.0) / 2:
        return otherwise
    ends, mean = (2.0**power) ** np.arange(RESIDUAL_CELLS), _MEAN_POWER[power]
    added = np.array(
        [
            (clear[cell + 1 :] * np.maximum(mean * ends[cell + 1 :] - ends[cell], 0)).sum()
            for cell in range(RESIDUAL_CELLS)
        ]
    )
    return int(np.argmin(np.hypot(added, sum_noise * ends)))


def last_clear_cell(counts: np.ndarray, noise: float) -> int:
    """Return the last cell from which on noisy counts together clearly exceed their noise.

    It is the last of all cells where none do.
    """
    beyond = np.cumsum(counts[::-1])[::-1]
    cells = np.arange(len(counts))
    clear = np.flatnonzero(beyond > _CLEAR_CELL * noise * np.sqrt(len(counts) - cells))
    return int(clear[-1]) if len(clear) else len(counts) - 1


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
            return (max(float(counts @ weights), 0.0) + ERRORS * error) / rows

        return cls(most(np.ones_like(ends)), most(ends - 1), most(ends**2 - 1))


CODE_WIDTH = 0.5 / OCTAVE_STEPS
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
class Sizes:
    """Mean of numbers that are at least 0 over private rows, in units of their clip.

    Attributes
    ----------
    mean : Mean
        Mean of the clipped numbers.
    second : float
        Mean of their squares.
    tail : Tail
        Upper bounds of what lies beyond the clip.
    clip : float
        The clip.
    most : float
        Largest possible number, on the same scale as the clip.
    """

    mean: Mean
    second: float
    tail: Tail
    clip: float
    most: float

    def bounded(self, rows: float) -> BoundedValue:
        """Return the mean with its interval."""
        at, error = self.mean.sampled(0.0, self.second, rows)
        low = max(at - ERRORS * error, 0.0) * (1 - CODE_WIDTH)
        high = (at + ERRORS * error + self.tail.excess) * (1 + CODE_WIDTH)
        return BoundedValue(
            self.clip * at,
            self.clip * error,
            self.clip * at * CODE_WIDTH,
            self.clip * low,
            min(self.clip * high, self.most),
            "at least" if self.tail.excess > at else None,
        )


@dataclass(frozen=True)
class NoisyMeans:
    """Means over private rows, in units of the clips, and bounds of what lies beyond them.

    `second` is the mean square of residuals with its error; `bias`, `absolute`, `label` and
    `label_square` are means of residuals, of their sizes, of labels and of their squares, and
    `below` the share of labels that are at most the prediction. Labels are in units of their clip,
    about `middle`. Deviances and groups are None unless wanted. `unsure` is the standard deviation
    of the noise in the number of rows.
    """

    wanted: Wanted
    rows: float
    unsure: float
    second: float
    error: float
    bias: Mean
    absolute: Mean
    label: Mean
    label_square: Mean
    tail: Tail
    clip: Clip
    middle: float
    below: Mean | None = None
    deviance: Sizes | None = None
    groups: GroupSums | None = None

    @classmethod
    def of(
        cls,
        wanted: Wanted,
        rows: float,
        unsure: float,
        square: Mean,
        fourth: Mean,
        *others: Any,
    ) -> NoisyMeans:
        """Return means of so many rows, from the mean square and mean fourth power of residuals."""
        second = min(max(square.at, 0.0), 1.0)
        # Numbers between 0 and 1 vary most if all are 0 or 1.
        spread = min(max(fourth.at - second**2, 0.0), second * (1 - second))
        error = math.hypot(square.error, math.sqrt(spread / rows))
        return cls(wanted, rows, unsure, second, error, *others)


@dataclass(frozen=True)
class ExactSums:
    """Exact sums over public rows: the signed and the unsigned sum of each of `QUANTITIES`.

    All residuals and labels lie below 2^power; means are in units of that. Labels are counted from
    `Wanted.least`, and deviances lie below `reach`. The Gini coefficient is that of more groups
    than `groups` has.
    """

    wanted: Wanted
    sums: Mapping[str, Sequence[int]]
    rows: int
    power: int
    reach: float = 1.0
    groups: GroupSums | None = None
    gini: Value | None = None

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
        mean = self.mean(total)
        return self.value(mean, math.sqrt(max(self.second - mean**2, 0.0) / self.rows))

    def mean(self, total: int) -> float:
        """Return a mean from its sum."""
        return float(Fraction(total, self.rows * 2**EXACT_BITS))

    def bits(self, name: str) -> int:
        """Return the bits of a quantity whose digits follow the point."""
        return DIGIT_BITS * (QUANTITIES | DEVIANCE_QUANTITIES)[name]
