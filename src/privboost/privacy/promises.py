"""Sensitivity checks: an event covers what one protected unit can change in a query.

The curator runs them before anything is charged or summed.
"""

from __future__ import annotations

from privboost.engine.queries import COUNT, STATISTICS, Bound, SumQuery
from privboost.errors import BudgetError
from privboost.grid import Contribution
from privboost.privacy.events.event import Event, Relation
from privboost.privacy.events.sums import NoisySums


def need_noise(event: Event) -> None:
    """Refuse an event without noise."""
    if not event.noise > 0:
        raise BudgetError(f"private rows are never released exactly: {event.what}")


def need_promise(bound: Bound, event: NoisySums, relation: Relation = Relation.ADD_REMOVE) -> None:
    """Refuse an event whose sensitivity is below what one protected unit can change."""
    need_noise(event)
    covered = (
        event.steps >= bound.steps
        and event.rows >= bound.rows
        and event.cells >= bound.cells
        and len(event.shares) == bound.statistics
        and event.touched >= bound.rows * bound.coordinates
        and event.relation == relation
    )
    if not covered:
        raise ValueError(f"the event understates what the query reveals: {event.what}")


def need_promise_of_sums(query: SumQuery, event: NoisySums, contribution: Contribution) -> None:
    """Refuse an event whose sensitivity is below that of a query of sums by cell."""
    if query.statistics not in STATISTICS:
        raise ValueError("these counts are for selections: no noise is proved for them")
    bound = query.bound(contribution)
    if event.relation == Relation.REPLACE_ONE:
        if query.statistics != COUNT:
            raise ValueError("for units that are replaced, only counts are proved")
        bound = bound.of_two
    need_promise(bound, event, event.relation)
