"""What an attacker's best odds become: bounds that follow from proved pairs of ε and δ.

`docs/guarantees/odds.md` has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from privboost.privacy.composition import curve_epsilons
from privboost.reports.curve import ORDERS, Curve
from privboost.reports.report import PrivacyReport

Point = tuple[float, float]
"""An ε and a δ for which (ε, δ)-DP is proved."""

_PER_DECADE = 4
_DECADES = 12
_UP = 1 + 1e-9
_DELTAS = (
    *(10.0 ** (-step / _PER_DECADE) for step in range(_DECADES * _PER_DECADE, 0, -1)),
    *(step / 20 for step in range(3, 20)),  # where large budgets have their odds
)


def proved_points(report: PrivacyReport) -> tuple[Point, ...]:
    """Return what is proved at many δ, by the curve that a report carries and by what it states.

    Only what is stated where it carries none; in the order of δ.
    """
    curve = () if report.curve is None else curve_points(report.curve)
    return _falling([(report.epsilon, report.delta), *curve])


@lru_cache(maxsize=16)  # it takes a moment, and is asked for several times
def curve_points(curve: Curve) -> tuple[Point, ...]:
    """Return what a curve proves at many δ, in the order of δ."""
    deltas = (*_DELTAS, *_near_zero(curve))
    found = [(_epsilon(curve, delta), delta) for delta in deltas if delta < 1]
    return _falling([*found, *_distance(curve)])


def _falling(points: Sequence[Point]) -> tuple[Point, ...]:
    """Put points in order; what holds at a δ holds at any larger one."""
    best, fallen = math.inf, []
    for epsilon, delta in sorted(points, key=lambda point: (point[1], point[0])):
        best = min(best, epsilon)
        if best < math.inf:
            fallen.append((best, delta))
    return tuple(fallen)


def best_guess(points: Sequence[Point]) -> float:
    """Return the largest chance to guess right which of two neighbours was used, each as likely.

    Of (ε, δ)-DP it is (e^ε + δ)/(1 + e^ε); all points hold, so the smallest counts.

    Examples
    --------
    >>> round(best_guess([(1.0, 0.0)]), 6)
    0.731059
    """
    return min(1.0, min(_chance(e) + d * _chance(-e) for e, d in points) * _UP)


def most_hits(points: Sequence[Point], false_alarms: float) -> float:
    """Return the largest share of members that a test finds, by the share of others it accuses.

    Examples
    --------
    >>> round(most_hits([(1.0, 0.0)], 0.01), 6)
    0.027183
    """
    ways = [1.0]
    for epsilon, delta in points:
        if epsilon < 700:  # e^ε is no number beyond
            ways.append(math.exp(epsilon) * false_alarms + delta)
        ways.append(1 - math.exp(-epsilon) * max(1 - delta - false_alarms, 0.0))
    return min(1.0, min(ways) * _UP)


def _near_zero(curve: Curve) -> tuple[float, ...]:
    """Return the δ at which Gaussian noise has an ε of nearly 0, where the odds are best known."""
    if not curve.mu_squared:
        return ()
    distance = math.erf(math.sqrt(curve.mu_squared / 8))
    return (distance * _UP * _UP + curve.extra_delta * _UP,)


def _distance(curve: Curve) -> tuple[Point, ...]:
    """Return the δ at an ε of 0 that the divergence of order 2 gives: ½·√(e^ρ − 1)."""
    rho = curve.rho[ORDERS.index(2)]
    if rho is None or rho > 1:  # it says nothing from ln 5 on
        return ()
    return ((0.0, min(1.0, (math.sqrt(math.expm1(rho)) / 2 + curve.extra_delta) * _UP)),)


def _epsilon(curve: Curve, delta: float) -> float:
    """Return ε at δ; infinity where it is not known, or cannot be computed."""
    try:
        with np.errstate(all="ignore"):  # a report may come from anywhere
            found = min(curve_epsilons(curve, delta).values(), default=math.inf)
    except (ValueError, ArithmeticError, RuntimeError):
        return math.inf
    return found if found >= 0 else math.inf


def _chance(log_odds: float) -> float:
    """Return the chance of log-odds."""
    if log_odds >= 0:
        return 1 / (1 + math.exp(-log_odds))
    grown = math.exp(log_odds)
    return grown / (1 + grown)
