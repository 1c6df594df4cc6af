"""Exact adaptive composition of bounded-range mechanisms, with anything else outermost.

An ε₀-bounded-range mechanism (the exponential mechanism) is dominated by a family of two-point
losses: t with chance q_t and t − ε₀ with chance 1 − q_t, for t in [0, ε₀]. An adversary who picks
t anew before each release attains

    V₀(e) = (1 − e^e)₊ ,  V_k(e) = sup_t [ q_t V_{k−1}(e − t) + (1 − q_t) V_{k−1}(e − t + ε₀) ] ,

so V_k is δ(ε) of k releases. The recursion runs on a grid. Between grid points V is replaced by
its chord in x = e^e: V is convex in x, so the chord lies above it and every value is an upper
bound; the supremum over t within a cell then has the form const + P·x + Q/x with P, Q ≤ 0 and a
closed solution. Ranges are rounded up to multiples of the grid's step, which is also safe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from privboost.compiling import compiled

_MOST_WORK = 3e8
"""Cell visits allowed in one recursion: a second or two."""
_STEPS = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
"""Grid steps within the smallest range, the finest affordable is taken."""
_ROUNDING = 1e-12
"""What float64 may have lost along the way, relative and absolute; added to every answer."""


@dataclass(frozen=True, eq=False)
class GameCurve:
    """δ(ε) of a composition of bounded-range mechanisms, as values on a grid of ε ≥ 0."""

    step: float
    values: np.ndarray

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), an upper bound."""
        return min(1.0, float(self._at(np.array([epsilon]))[0]))

    def delta_with_gaussian(self, epsilon: float, mu: float) -> float:
        """Return δ(ε) when μ-Gaussian-DP releases are mixed in, at any place.

        It is the mean of V(ε − L) over the Gaussian privacy loss L ~ N(μ²/2, μ²), integrated
        exactly over each cell's chord.
        """
        points, x = self._points()
        v = self._at(points)
        slope = np.diff(v) / np.diff(x)
        intercept = v[:-1] - slope * x[:-1]
        # ε − L lies in a cell [p_j, p_{j+1}] when L lies in [ε − p_{j+1}, ε − p_j].
        edges = epsilon - points
        plain = _interval(edges, mu * mu / 2, mu)
        tilted = _interval(edges, -mu * mu / 2, mu)  # weighted with e^{−L}
        inside = intercept * plain + slope * math.exp(epsilon) * tilted
        # Right of the grid V is at most its last value; left of it, by reflection, at most
        # 1 − (1 − last)·e^y.
        last = v[-1]
        beyond = ndtr(-(edges[0] - mu * mu / 2) / mu)
        tilted_beyond = ndtr(-(edges[0] + mu * mu / 2) / mu)
        left = float(beyond - (1 - last) * math.exp(epsilon) * tilted_beyond)
        right = float(ndtr((edges[-1] - mu * mu / 2) / mu) * last)
        total = float(np.maximum(inside, 0).sum()) + max(left, 0.0) + right
        return min(1.0, total * (1 + _ROUNDING) + _ROUNDING * 1e-6)

    def delta_with_losses(
        self, epsilon: float, losses: np.ndarray, chances: np.ndarray, infinite: float
    ) -> float:
        """Return δ(ε) when a mechanism with a discrete privacy loss is mixed in."""
        return min(1.0, infinite + float((self._at(epsilon - losses) * chances).sum()))

    def _points(self) -> tuple[np.ndarray, np.ndarray]:
        n = len(self.values) - 1
        points = np.arange(-n, n + 1) * self.step
        return points, np.exp(points)

    def _at(self, epsilon: np.ndarray) -> np.ndarray:
        """V at any ε: chords in e^ε right of zero, reflection left of it."""
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


def compose_ranges(ranges: Sequence[float], reach: float = math.inf) -> GameCurve:
    """Compose ε₀-bounded-range mechanisms, chosen adaptively, in the given order of their ranges.

    The order matters where ranges differ; a ledger holds selections to that of the plan.

    Parameters
    ----------
    ranges : sequence of float
        ε₀ of each release.
    reach : float
        The largest ε of interest: beyond it the curve is bounded by its value there.
    """
    ranges = [float(r) for r in ranges]
    if not ranges or min(ranges) <= 0 or not math.isfinite(max(ranges)):
        raise ValueError("range_epsilons must be finite numbers above 0, at least one")
    reach = min(sum(ranges), reach)
    step, widths, reach = _grid(ranges, reach)
    n = math.ceil(reach / step) + 1
    most = max(widths)
    x = np.exp((np.arange(n + most + 1) - most) * step)
    v = np.maximum(-np.expm1((np.arange(n + most + 1) - most) * step), 0.0)
    for width in reversed(widths):  # the last release is the innermost
        v = _play(v, x, width, most, step)
    return GameCurve(step, v[most:])


def _grid(ranges: list[float], reach: float) -> tuple[float, list[int], float]:
    """Choose the finest affordable step; ranges become whole numbers of steps, rounded up."""
    smallest = min(ranges)
    for steps in _STEPS:
        step = smallest / steps
        widths = [math.ceil(r / step - 1e-9) for r in ranges]
        if (reach / step + max(widths)) * sum(widths) <= _MOST_WORK:
            return step, widths, reach
    raise ValueError("this composition is too large for the game accountant: use rdp")


@compiled
def _play(v, x, width, most, step):  # type: ignore[no-untyped-def]
    """One round: from V_{k−1} to V_k, on the grid points from −most·step up."""
    n = v.size
    out = np.empty(n)
    shrink = math.exp(-width * step)
    whole = -math.expm1(-width * step)
    for i in range(most, n):
        k = x[i] * shrink
        best = 0.0
        for j in range(i - width, i):
            slope = (v[j + 1] - v[j]) / (x[j + 1] - x[j])
            intercept = v[j] - slope * x[j]
            far = j + width
            if far + 1 < n:
                far_slope = (v[far + 1] - v[far]) / (x[far + 1] - x[far])
                far_intercept = v[far] - far_slope * x[far]
            else:
                far_slope, far_intercept = 0.0, v[n - 1]
            p = (slope - far_slope) / whole
            q = k * (far_intercept - intercept) / whole
            at = x[j + 1]
            if p < 0.0:
                at = min(max(math.sqrt(max(q / p, 0.0)), x[j]), x[j + 1])
            rest = intercept - k * slope - shrink * far_intercept + k * far_slope / shrink
            best = max(best, rest / whole + p * at + q / at)
        out[i] = min(best, 1.0)
    for back in range(1, most + 1):
        away = back * step
        mirrored = out[most + back] if most + back < n else out[n - 1]
        out[most - back] = -math.expm1(-away) + math.exp(-away) * mirrored
    return out


def _interval(edges: np.ndarray, mean: float, deviation: float) -> np.ndarray:
    """The normal chance of [edges[j+1], edges[j]] (edges decrease), without cancellation."""
    high, low = (edges[:-1] - mean) / deviation, (edges[1:] - mean) / deviation
    right = low > 0
    chance: np.ndarray = np.where(right, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return chance
