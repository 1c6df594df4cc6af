"""The plan of a search: the ε of one run, so that the whole stays within its budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from privboost.errors import BudgetError
from privboost.privacy.accountants.rdp import RdpAccountant
from privboost.privacy.composition import curve_of
from privboost.privacy.events.event import Planned, Relation
from privboost.privacy.events.search import SearchRelease
from privboost.reports.curve import Curve

_STEPS = 12
_LEAST = 1 / 64
"""Least ε of a run, relative to the search's."""

PlanRuns = Callable[[float], Sequence[Sequence[Planned]]]
"""Function of a run's ε: the releases of training with each candidate, and of a score."""


@dataclass(frozen=True)
class SearchPlan:
    """Plan of a search.

    Attributes
    ----------
    epsilon : float
        ε of one run, for training and, on other units, for its score.
    release : SearchRelease
        Event of the whole search.
    """

    epsilon: float
    release: SearchRelease


def plan_search(
    what: str, epsilon: float, delta: float, stop: float, plan_runs: PlanRuns
) -> SearchPlan:
    """Find the largest ε of a run for which the search stays within (ε, δ).

    Training and the score use different units, so a run costs the larger of both, and at most that
    of the most expensive candidate.
    """

    def made(own: float) -> SearchPlan:
        curve = _largest([curve_of(plan) for plan in _checked(plan_runs(own))])
        return SearchPlan(own, SearchRelease(what, 1.0, stop, curve.rho))

    def fits(plan: SearchPlan) -> bool:
        return RdpAccountant().cost([Planned(plan.release, 1)], delta) <= epsilon

    best, low, high = made(_LEAST * epsilon), _LEAST * epsilon, epsilon
    if not fits(best):
        raise BudgetError(
            "epsilon and delta are too small for a search of so many runs: raise them, or lower "
            "expected_runs"
        )
    for _ in range(_STEPS):
        middle = (low + high) / 2
        tried = made(middle)
        if fits(tried):
            best, low = tried, middle
        else:
            high = middle
    return best


def _largest(curves: Sequence[Curve]) -> Curve:
    joined = curves[0]
    for curve in curves[1:]:
        joined = joined.joined(curve)
    return joined


def _checked(plans: Sequence[Sequence[Planned]]) -> Sequence[Sequence[Planned]]:
    """Refuse releases that the analysis of a search does not cover."""
    for event in (planned.event for plan in plans for planned in plan):
        if event.relation != Relation.ADD_REMOVE:
            raise BudgetError(
                "a search is about adding or removing a unit: one that is replaced may be trained "
                "on before and scored after; choose another recipe"
            )
        if event.extra_delta:
            raise BudgetError(
                "candidates that learn their domain cannot be searched: learn it first"
            )
    return plans
