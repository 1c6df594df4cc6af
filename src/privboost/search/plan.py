"""What a search may spend on one run, so that all of it stays within its budget."""

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
"""Of its ε, the least that a run of a search may have."""

PlanRuns = Callable[[float], Sequence[Sequence[Planned]]]
"""From the ε of a run to all that any run may release: training by each candidate, and a score."""


@dataclass(frozen=True)
class SearchPlan:
    """What was decided.

    Attributes
    ----------
    epsilon : float
        What one run has, for training and, on other units, for its score.
    release : SearchRelease
        The event that stands for the whole search.
    """

    epsilon: float
    release: SearchRelease


def plan_search(
    what: str, epsilon: float, delta: float, stop: float, plan_runs: PlanRuns
) -> SearchPlan:
    """Find the largest ε of a run for which the search stays within (ε, δ).

    Training and the score are of different units, so a run costs what the dearer of them does; and
    no more than with the dearest candidate.
    """

    def made(own: float) -> SearchPlan:
        curve = _dearest([curve_of(plan) for plan in _checked(plan_runs(own))])
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


def _dearest(curves: Sequence[Curve]) -> Curve:
    joined = curves[0]
    for curve in curves[1:]:
        joined = joined.joined(curve)
    return joined


def _checked(plans: Sequence[Sequence[Planned]]) -> Sequence[Sequence[Planned]]:
    """Refuse what a search proves nothing for."""
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
