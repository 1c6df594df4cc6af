"""Optimal adaptive composition of bounded-range mechanisms, with other mechanisms outermost.

An ε₀-bounded-range mechanism (the exponential mechanism) is dominated by a family of two-point
losses: t with probability q_t and t − ε₀ otherwise, for t in [0, ε₀]. An adversary who picks
t anew before each release attains

    V₀(e) = (1 − e^e)₊ ,  V_k(e) = sup_t [ q_t V_{k−1}(e − t) + (1 − q_t) V_{k−1}(e − t + ε₀) ] ,

so V_k is δ(ε) of k releases. The recursion runs on a grid. Between grid points V is replaced by
its chord in x = e^e: V is convex in x, so the chord lies above it and every value is an upper
bound; the supremum over t within a cell then has the form const + P·x + Q/x with P, Q ≤ 0 and a
closed solution. Ranges are rounded up to multiples of the grid's step, which is also safe.

Float64: where the supremum lies is found from differences, and there the function is flat; its
value is then computed from positive numbers alone, by some twenty roundings a round, and raised by
`_ROUND`. So no value is understated, whatever the number of rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from privboost._core.compilation import compiled

_MOST_WORK = 3e8
"""Maximum number of cell visits in one recursion: a second or two."""
_STEPS = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
"""Grid steps within the smallest range; the finest affordable number is taken."""
_ROUND = 2.0**-42
"""Relative increase in each round: a hundred times its rounding error."""
_ROUNDING = 1e-12
"""Relative rounding of values and of ε when a curve is evaluated; a millionth of it, absolute."""
GAUSSIAN_ALLOWANCE = _ROUNDING * 1e-6
"""Part of δ kept for rounding where Gaussian releases are mixed in."""
_NORMAL = 5e-14
"""Relative error of the normal distribution function."""


@dataclass(frozen=True, eq=False)
class BoundedRangeCurve:
    """δ(ε) of a composition of bounded-range mechanisms, as values on a grid of ε ≥ 0."""

    step: float
    values: np.ndarray

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), an upper bound."""
        return min(1.0, float(self._at(np.array([_less(epsilon)]))[0]))

    def delta_with_gaussian(self, epsilon: float, mu: float) -> float:
        """Return δ(ε) when μ-Gaussian-DP releases are mixed in, at any position.

        It is the mean of V(ε − L) over the Gaussian privacy loss L ~ N(μ²/2, μ²), integrated
        exactly over each cell's chord. The error of differences of probabilities is added.
        """
        epsilon = _less(epsilon)
        points, x = self._points()
        v = self._at(points)
        slope = np.diff(v) / np.diff(x)
        intercept = v[:-1] - slope * x[:-1]
        # ε − L lies in a cell [p_j, p_{j+1}] when L lies in [ε − p_{j+1}, ε − p_j].
        edges = epsilon - points
        plain, plain_error = _interval(edges, mu * mu / 2, mu)
        tilted, tilted_error = _interval(edges, -mu * mu / 2, mu)  # weighted with e^{−L}
        growth = math.exp(epsilon)
        inside = np.maximum(intercept * plain + slope * growth * tilted, 0)
        inside += np.abs(intercept) * plain_error + np.abs(slope) * growth * tilted_error
        # Right of the grid V is at most its last value; left of it, by reflection, at most
        # 1 − (1 − last)·e^y.
        last = v[-1]
        beyond = float(ndtr(-(edges[0] - mu * mu / 2) / mu))
        tilted_beyond = growth * float(ndtr(-(edges[0] + mu * mu / 2) / mu))
        left = max(beyond - (1 - last) * tilted_beyond, 0.0) + _NORMAL * (beyond + tilted_beyond)
        right = float(ndtr((edges[-1] - mu * mu / 2) / mu) * last) * (1 + _NORMAL)
        total = float(inside.sum()) + left + right
        return float(min(1.0, total * (1 + _ROUNDING) + GAUSSIAN_ALLOWANCE))

    def delta_with_losses(
        self, epsilon: float, losses: np.ndarray, probabilities: np.ndarray, infinite: float
    ) -> float:
        """Return δ(ε) when a mechanism with a discrete privacy loss is mixed in."""
        return min(1.0, infinite + float((self._at(_less(epsilon) - losses) * probabilities).sum()))

    def _points(self) -> tuple[np.ndarray, np.ndarray]:
        n = len(self.values) - 1
        points = np.arange(-n, n + 1) * self.step
        return points, np.exp(points)

    def _at(self, epsilon: np.ndarray) -> np.ndarray:
        """Return V at any ε: chords in e^ε right of zero, reflection left of it."""
        away = np.abs(epsilon)
        place = np.minimum(away / self.step, len(self.values) - 1)
        low = np.minimum(np.floor(place).astype(np.int64), len(self.values) - 2)
        low = np.maximum(low, 0)
        top = min(1, len(self.values) - 1)
        first, second = self.values[low], self.values[low + top]
        inside = np.minimum(away, (len(self.values) - 1) * self.step)
        share = np.expm1(inside - low * self.step) / math.expm1(self.step)
        v = first + (second - first) * np.clip(share, 0, 1)
        v = v * (1 + _ROUNDING)
        both: np.ndarray = np.where(epsilon >= 0, v, -np.expm1(-away) + np.exp(-away) * v)
        return both


def compose_ranges(ranges: Sequence[float], reach: float = math.inf) -> BoundedRangeCurve:
    """Compose adaptive ε₀-bounded-range mechanisms in the order of their ranges.

    The order matters where ranges differ; a ledger enforces that of the plan. Beyond ε = `reach`
    the curve is bounded by its value there.
    """
    ranges = [float(r) for r in ranges]
    if not ranges or min(ranges) <= 0 or not math.isfinite(max(ranges)):
        raise ValueError("range_epsilons must be finite numbers above 0, at least one")
    reach = min(sum(ranges), reach)
    step, widths, reach = _grid(ranges, reach)
    n = math.ceil(reach / step) + 1
    most = max(widths)
    v = np.maximum(-np.expm1((np.arange(n + most + 1) - most) * step), 0.0)
    for width in reversed(widths):  # the last release is the innermost
        v = _compose_one(v, width, most, step)
    return BoundedRangeCurve(step, v[most:])


def mixed_reach(epsilon: float, mu: float) -> float:
    """Return the largest ε of a curve that its mean over a Gaussian loss depends on, at ε."""
    return abs(epsilon) + mu * mu / 2 + 12 * mu + 0.5


def _grid(ranges: list[float], reach: float) -> tuple[float, list[int], float]:
    """Choose the finest affordable step; ranges become whole numbers of steps, rounded up."""
    smallest = min(ranges)
    for steps in _STEPS:
        # A little above its share, so that a multiple of the smallest range stays one.
        step = smallest / steps * (1 + _ROUNDING)
        widths = [math.ceil(r / step) for r in ranges]
        if (reach / step + max(widths)) * sum(widths) <= _MOST_WORK:
            return step, widths, reach
    raise ValueError("this composition is too large for the game accountant: use rdp")


@compiled
def _compose_one(v, width, most, step):  # type: ignore[no-untyped-def]
    """Return V_k from V_{k−1}, on the grid points from −most·step up.

    In a cell whose lower end lies m steps above e − ε₀, at the share s of the cell (y = e^{−t}
    relative to that end), q_t = (y − e^{−m·step})/(y·whole), and V_{k−1} is linear in s at both
    points where it is needed.
    """
    n = v.size
    out = np.empty(n)
    shrink, whole = math.exp(-width * step), -math.expm1(-width * step)
    cell = math.expm1(step)
    fall = -np.expm1(-step * np.arange(width + 1))
    rise = math.exp(step) * np.expm1(step * np.arange(width + 1))  # e^{(d+1)·step} − e^{step}
    wide = np.full(n + width + 1, v[n - 1])  # right of the grid V is at most its last value
    wide[:n] = v
    slope = (wide[1:] - wide[:-1]) / cell
    for i in range(most, n):
        best = 0.0
        for m in range(width):
            j, far = i - width + m, i + m
            p = slope[j] - shrink * slope[far]
            share = 1.0
            if p < 0.0:
                q = (1.0 - fall[m]) * (wide[far] - slope[far] - wide[j] + slope[j])
                share = min(max((math.sqrt(max(q / p, 0.0)) - 1.0) / cell, 0.0), 1.0)
            rest = 1.0 - share
            near = rest * wide[j] + share * wide[j + 1]
            away = rest * wide[far] + share * wide[far + 1]
            up = share * cell + fall[m]
            down = shrink * (rest * cell + rise[width - m - 1])
            best = max(best, (up * near + down * away) / (1.0 + share * cell))
        out[i] = min(best / whole * (1.0 + _ROUND), 1.0)
    for back in range(1, most + 1):
        mirrored = out[most + back] if most + back < n else out[n - 1]
        out[most - back] = -math.expm1(-back * step) + math.exp(-back * step) * mirrored
    return out


def _less(epsilon: float) -> float:
    """Return an ε rounded down by more than the error of its grid position."""
    return epsilon - _ROUNDING * abs(epsilon)


def _interval(edges: np.ndarray, mean: float, deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the normal probability of [edges[j+1], edges[j]] (decreasing), and its error."""
    high, low = (edges[:-1] - mean) / deviation, (edges[1:] - mean) / deviation
    right = low > 0  # of the two tails, the smaller numbers cancel least
    less = np.where(right, ndtr(-high), ndtr(low))
    more = np.where(right, ndtr(-low), ndtr(high))
    return more - less, _NORMAL * (more + less)
