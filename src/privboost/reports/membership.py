"""Bounds on membership inference that follow from proved pairs of ε and δ.

`docs/guarantees/odds.md` has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from privboost.privacy.composition import curve_epsilons
from privboost.reports.curve import ORDERS, Curve
from privboost.reports.record import ReportRecord

Point = tuple[float, float]
"""An ε and a δ for which (ε, δ)-DP is proved."""

_PER_DECADE = 4
_DECADES = 12
_UP = 1 + 1e-9
_DELTAS = (
    *(10.0 ** (-step / _PER_DECADE) for step in range(_DECADES * _PER_DECADE, 0, -1)),
    *(step / 20 for step in range(3, 20)),  # decisive for large budgets
)


def proved_points(report: ReportRecord) -> tuple[Point, ...]:
    """Return the stated (ε, δ) and the points of the report's curve, sorted by δ."""
    curve = () if report.curve is None else curve_points(report.curve)
    return _falling([(report.epsilon, report.delta), *curve])


@lru_cache(maxsize=16)  # slow, and needed several times for one document
def curve_points(curve: Curve) -> tuple[Point, ...]:
    """Return points that a curve proves at many δ, sorted by δ."""
    deltas = (*_DELTAS, *_gaussian_distance(curve))
    found = [(_epsilon(curve, delta), delta) for delta in deltas if delta < 1]
    return _falling([*found, *_renyi_distance(curve)])


def _falling(points: Sequence[Point]) -> tuple[Point, ...]:
    """Sort points by δ and take running minima of ε: a guarantee holds at any larger δ."""
    best, fallen = math.inf, []
    for epsilon, delta in sorted(points, key=lambda point: (point[1], point[0])):
        best = min(best, epsilon)
        if best < math.inf:
            fallen.append((best, delta))
    return tuple(fallen)


def best_guess(points: Sequence[Point]) -> float:
    """Return the largest probability of guessing which of two equally likely neighbours was used.

    For (ε, δ)-DP it is (e^ε + δ)/(1 + e^ε); all points hold, so the minimum is taken.

    Examples
    --------
    >>> round(best_guess([(1.0, 0.0)]), 6)
    0.731059
    """
    return min(1.0, min(_sigmoid(e) + d * _sigmoid(-e) for e, d in points) * _UP)


def max_true_positive_rate(points: Sequence[Point], false_positive_rate: float) -> float:
    """Return the largest true-positive rate of a membership test at a false-positive rate.

    Examples
    --------
    >>> round(max_true_positive_rate([(1.0, 0.0)], 0.01), 6)
    0.027183
    """
    bounds = [1.0]
    for epsilon, delta in points:
        if epsilon < 700:  # e^ε overflows beyond
            bounds.append(math.exp(epsilon) * false_positive_rate + delta)
        bounds.append(1 - math.exp(-epsilon) * max(1 - delta - false_positive_rate, 0.0))
    return min(1.0, min(bounds) * _UP)


def _gaussian_distance(curve: Curve) -> tuple[float, ...]:
    """Return the δ at which Gaussian noise has ε near 0: its total variation distance."""
    if not curve.mu_squared:
        return ()
    distance = math.erf(math.sqrt(curve.mu_squared / 8))
    return (distance * _UP * _UP + curve.extra_delta * _UP,)


def _renyi_distance(curve: Curve) -> tuple[Point, ...]:
    """Return the δ at ε = 0 that the divergence of order 2 implies: ½·√(e^ρ − 1)."""
    rho = curve.rho[ORDERS.index(2)]
    if rho is None or rho > 1:  # the bound is vacuous from ln 5 on
        return ()
    return ((0.0, min(1.0, (math.sqrt(math.expm1(rho)) / 2 + curve.extra_delta) * _UP)),)


def _epsilon(curve: Curve, delta: float) -> float:
    """Return ε at δ; infinity where it is unknown or cannot be computed."""
    try:
        with np.errstate(all="ignore"):  # a file may hold any numbers
            found = min(curve_epsilons(curve, delta).values(), default=math.inf)
    except (ValueError, ArithmeticError, RuntimeError):
        return math.inf
    return found if found >= 0 else math.inf


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    grown = math.exp(x)
    return grown / (1 + grown)
