"""Does an event promise what a query reveals? Asked before anything is charged or added up."""

from __future__ import annotations

from privboost.engine.queries import COUNT, STATISTICS, Bound, SumQuery
from privboost.errors import BudgetError
from privboost.grid import Contribution
from privboost.privacy.events.event import Event, Relation
from privboost.privacy.events.sums import NoisySums


def need_noise(event: Event) -> None:
    """Refuse an event without noise, whatever made it."""
    if not event.noise > 0:
        raise BudgetError(f"private rows are never told exactly: {event.what}")


def need_promise(bound: Bound, event: NoisySums, relation: Relation = Relation.ADD_REMOVE) -> None:
    """Refuse an event that promises less than what one protected unit can change."""
    need_noise(event)
    honest = (
        event.steps >= bound.steps
        and event.rows >= bound.rows
        and event.cells >= bound.cells
        and len(event.shares) == bound.statistics
        and event.touched >= bound.rows * bound.coordinates
        and event.relation == relation
    )
    if not honest:
        raise ValueError(f"the event understates what the query reveals: {event.what}")


def need_promise_of_sums(query: SumQuery, event: NoisySums, contribution: Contribution) -> None:
    """Refuse an event that promises less than what sums by cell can reveal of a unit."""
    if query.statistics not in STATISTICS:
        raise ValueError("these counts are for choices: no noise is proved for them")
    bound = query.bound(contribution)
    if event.relation == Relation.REPLACE_ONE:
        if query.statistics != COUNT:
            raise ValueError("of units that are replaced, only counts are proved")
        bound = bound.of_two
    need_promise(bound, event, event.relation)
