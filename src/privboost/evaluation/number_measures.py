"""Measures of a number, from sums of residuals and labels, with bounds beyond the clip.

A measure is a class with an entry in `MEASURES`: its estimate from noisy sums of private rows, and
from exact sums of public rows. Which measures there are depends on `Wanted`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from privboost.evaluation.number_sums import (
    CODE_WIDTH,
    DEVIANCE_QUANTITIES,
    EXACT_BITS,
    ExactSums,
    Mean,
    NoisyMeans,
    Sizes,
    Tail,
    Wanted,
)
from privboost.evaluation.prediction_groups import GroupSums, unknown_gini
from privboost.evaluation.result import (
    ERRORS,
    HIGHER,
    LOWER,
    BoundedValue,
    CalibrationBin,
    Measures,
    Value,
    stands_out,
)


class NumberMeasure(ABC):
    """A measure of a number.

    Attributes
    ----------
    better : {"lower", "higher"} or None
        Which values are better; None where neither are.
    """

    better: ClassVar[str | None] = None

    def exists(self, wanted: Wanted) -> bool:
        """Whether there is such a measure; by default always."""
        return True

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

    better = LOWER

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        second, error, tail, one = means.second, means.error, means.tail, means.clip.residual
        root = math.sqrt(second)
        low = math.sqrt(max(second - ERRORS * error, 0.0)) * (1 - CODE_WIDTH)
        high = math.sqrt(second + ERRORS * error + tail.squares) * (1 + CODE_WIDTH)
        return BoundedValue(
            one * root,
            one * min(root_error(second, error), 0.5),
            one * root * CODE_WIDTH,
            one * low,
            min(one * high, means.clip.range),
            "at least" if tail.squares > second else None,
        )

    def exact(self, sums: ExactSums) -> Value:
        return sums.value(math.sqrt(sums.second), root_error(sums.second, sums.error))


class Mae(NumberMeasure):
    """Mean size of residuals."""

    better = LOWER

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        clip = means.clip
        own = Sizes(means.absolute, means.second, means.tail, clip.residual, clip.range)
        return own.bounded(means.rows)

    def exact(self, sums: ExactSums) -> Value:
        return sums.residual(sums.sums["residual"][1])


class Bias(NumberMeasure):
    """Mean of residuals: above 0 where predictions are too low."""

    def unknown(self, widest: float) -> BoundedValue:
        return BoundedValue(0.0, widest, 0.0, -widest, widest)

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        at, error = means.bias.sampled(-1.0, means.second, means.rows)
        # No mean of sizes exceeds the root of the mean square.
        width = math.sqrt(means.second) * CODE_WIDTH
        reach = ERRORS * error + means.tail.excess + width
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

    better = HIGHER

    def unknown(self, widest: float) -> BoundedValue:
        return BoundedValue(0.0, 1.0, 0.0, None, 1.0)

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        second, label, tail, clip = means.second, means.label, means.tail, means.clip
        label_square, errors = means.label_square, ERRORS * means.error
        scale = (clip.label / clip.residual) ** 2
        variance = label_square.at - label.at**2
        middle = min(abs(label.at), 1.0)
        noise = math.hypot(label_square.error, 2 * middle * label.error)
        most = max(variance * ((1 + middle) ** 2 - variance), 0.0)
        error = math.hypot(noise, math.sqrt(most / means.rows))
        width = 2 * CODE_WIDTH
        low_square = max(second - errors, 0.0) * (1 - width)
        high_square = (second + errors) * (1 + width)
        low_variance = scale * (variance - ERRORS * error - width * label_square.at)
        high_variance = scale * max(variance + ERRORS * error + width * label_square.at, 0.0)
        far = min(middle + ERRORS * label.error, 1.0)
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


class MeanRatio(NumberMeasure):
    """Mean prediction over mean label, of labels that are never negative."""

    def exists(self, wanted: Wanted) -> bool:
        return wanted.ratios

    def unknown(self, widest: float) -> BoundedValue:
        return BoundedValue(1.0, 1.0, 0.0, 0.0, None, "at least")

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        """Return 1 less the bias over the mean label, with the interval of Fieller's theorem.

        What lies beyond the clip is added to the bias, to the mean label, or to both.
        """
        clip, root = means.clip, math.sqrt(means.second)
        bias = clip.residual * min(max(means.bias.at, -1.0), 1.0)
        label = means.middle + clip.label * means.label.at
        errors = clip.residual * means.bias.error, clip.label * means.label.error
        spread = clip.label * math.sqrt(max(means.label_square.at - means.label.at**2, 0.0))
        if not stands_out(label, errors[1]):
            return self.unknown(clip.range)
        at = max(1 - bias / label, 0.0)
        # A row moves the ratio by its residual, and by its label where the ratio is not 1.
        sampled = (clip.residual * root + abs(1 - at) * spread) / math.sqrt(means.rows)
        std = math.hypot(errors[0], (1 - at) * errors[1], sampled) / label
        beyond = clip.residual * means.tail.excess
        # No residual lies further below 0 than predictions may lie above the least label.
        below = beyond if means.middle + clip.half - means.wanted.least > clip.residual else 0.0
        width = clip.residual * root * CODE_WIDTH
        label_width = clip.label * CODE_WIDTH * math.sqrt(max(means.label_square.at, 0.0))
        error = math.hypot(errors[0], sampled)
        ends = [
            _ratio_ends(some / label, own / label, error / label, errors[1] / label)
            for some in (bias - below - width, bias + beyond + width)
            for own in (label - below - label_width, label + beyond + label_width)
        ]
        if any(end is None for end in ends):
            return BoundedValue(at, std, width / label, 0.0, None, "at least")
        lower = max(1 - max(high for _, high in filter(None, ends)), 0.0)
        upper = max(1 - min(low for low, _ in filter(None, ends)), 0.0)
        return BoundedValue(min(max(at, lower), upper), std, width / label, lower, upper)

    def exact(self, sums: ExactSums) -> Value:
        mean = sums.mean(sums.sums["label"][1])
        label = math.ldexp(mean, sums.power) + sums.wanted.least
        if not label > 0:
            return Value(1.0, 1.0)
        bias = math.ldexp(sums.mean(sums.sums["residual"][0]), sums.power)
        at = 1 - bias / label
        square = float(Fraction(sums.square("label"), sums.rows * 2 ** (2 * EXACT_BITS)))
        spread = math.sqrt(max(square - mean**2, 0.0))
        far = math.sqrt(sums.second) + abs(1 - at) * spread
        return Value(at, math.ldexp(far, sums.power) / math.sqrt(sums.rows) / label)


class Gini(NumberMeasure):
    """Gini coefficient of labels that are never negative, in the order of predictions."""

    def exists(self, wanted: Wanted) -> bool:
        return wanted.ratios and wanted.curves

    def unknown(self, widest: float) -> BoundedValue:
        return unknown_gini()

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        assert means.groups is not None
        return means.groups.gini()

    def exact(self, sums: ExactSums) -> Value:
        assert sums.gini is not None
        return sums.gini


class Deviance(NumberMeasure):
    """Mean deviance."""

    better = LOWER

    def exists(self, wanted: Wanted) -> bool:
        return wanted.deviance is not None

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        assert means.deviance is not None
        return means.deviance.bounded(means.rows)

    def exact(self, sums: ExactSums) -> Value:
        mean, square = (
            float(Fraction(sums.sums[name][1], sums.rows * 2 ** sums.bits(name)))
            for name in DEVIANCE_QUANTITIES
        )
        std = math.sqrt(max(square - mean**2, 0.0) / sums.rows)
        return Value(sums.reach * mean, sums.reach * std)


class Pinball(NumberMeasure):
    """Mean pinball loss of a quantile: by its level where labels are above, else by the rest."""

    better = LOWER

    def exists(self, wanted: Wanted) -> bool:
        return wanted.quantile is not None

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        """Return half of the mean size, plus (level − ½) times the mean residual."""
        clip, level = means.clip, means.wanted.quantile
        assert level is not None
        own, most = level - 0.5, max(level, 1 - level)
        at = min(max(means.absolute.at / 2 + own * means.bias.at, 0.0), most)
        error = math.hypot(means.absolute.error / 2, own * means.bias.error)
        mean, tail = Mean(at, error), replace(means.tail, excess=most * means.tail.excess)
        return Sizes(mean, most**2 * means.second, tail, clip.residual, clip.range).bounded(
            means.rows
        )

    def exact(self, sums: ExactSums) -> Value:
        level = sums.wanted.quantile
        assert level is not None
        signed, sizes = (sums.mean(total) for total in sums.sums["residual"])
        mean = sizes / 2 + (level - 0.5) * signed
        square = max(level, 1 - level) ** 2 * sums.second
        return sums.value(mean, math.sqrt(max(square - mean**2, 0.0) / sums.rows))


class ShareBelow(NumberMeasure):
    """Share of labels that are at most the prediction."""

    def exists(self, wanted: Wanted) -> bool:
        return wanted.quantile is not None

    def unknown(self, widest: float) -> BoundedValue:
        return BoundedValue(0.5, 0.5, 0.0, 0.0, 1.0)

    def noisy(self, means: NoisyMeans) -> BoundedValue:
        """Return the ratio of two noisy counts, with the interval of Fieller's theorem."""
        assert means.below is not None
        own, unsure = means.below, means.unsure / means.rows
        at, error = own.sampled(0.0, min(max(own.at, 0.0), 1.0), means.rows)
        above = math.sqrt(max(error**2 - (own.at * unsure) ** 2, 0.0))
        ends = _ratio_ends(own.at, 1.0, above, unsure)
        low, high = (0.0, 1.0) if ends is None else ends
        return BoundedValue(at, error, 0.0, min(max(low, 0.0), at), max(min(high, 1.0), at))

    def exact(self, sums: ExactSums) -> Value:
        share = sums.sums["below"][1] / sums.rows
        return Value(share, math.sqrt(share * (1 - share) / sums.rows))


MEASURES: dict[str, NumberMeasure] = {
    "rmse": Rmse(),
    "mae": Mae(),
    "bias": Bias(),
    "r2": R2(),
    "mean_ratio": MeanRatio(),
    "gini": Gini(),
    "deviance": Deviance(),
    "pinball": Pinball(),
    "share_below": ShareBelow(),
}
"""Measures by name."""


def measures_of(wanted: Wanted) -> dict[str, NumberMeasure]:
    """Return the measures that there are, by name."""
    return {name: measure for name, measure in MEASURES.items() if measure.exists(wanted)}


def measure_number(
    means: NoisyMeans | None, wanted: Wanted, size: Value, widest: float
) -> Measures:
    """Return all measures of private rows; of too few rows (no means) the middles of their ranges.

    `size` is the number of rows, `widest` the largest residual within the target's bounds.
    """
    known = measures_of(wanted)
    if means is None:
        return Measures({"rows": size} | {name: own.unknown(widest) for name, own in known.items()})
    values = {name: own.noisy(means) for name, own in known.items()}
    return Measures({"rows": size} | values, (), _calibration(means.groups))


def measure_exactly(sums: ExactSums, widest: float) -> Measures:
    """Return the measures of public rows; error bars are those of sampling rows."""
    size, known = {"rows": Value(float(sums.rows), 0.0)}, measures_of(sums.wanted)
    if not sums.rows:
        middles = {name: measure.unknown(widest) for name, measure in known.items()}
        return Measures(size | {name: Value(m.value, m.std) for name, m in middles.items()})
    values = {name: measure.exact(sums) for name, measure in known.items()}
    return Measures(size | values, (), _calibration(sums.groups))


def _calibration(groups: GroupSums | None) -> tuple[CalibrationBin, ...]:
    return () if groups is None else groups.calibration()


def _ratio_ends(
    above: float, below: float, error: float, error_below: float
) -> tuple[float, float] | None:
    """Return the interval of a ratio of two means with independent errors; None if it is open.

    It holds the ratios t for which above − t · below is within two of its errors (Fieller).
    """
    a = below**2 - (ERRORS * error_below) ** 2
    c = above**2 - (ERRORS * error) ** 2
    if not (a > 0 and below > 0):
        return None
    middle, root = above * below, math.sqrt(max((above * below) ** 2 - a * c, 0.0))
    return (middle - root) / a, (middle + root) / a


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
