"""A catalogue numbers the events of a plan: a message names the one its query is charged to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from privboost.errors import FederationError
from privboost.privacy.budgets.life import LifeBudget
from privboost.privacy.events.event import Event, Planned, SampledGroup
from privboost.privacy.events.sums import GaussianRelease


class Catalogue:
    """The events of a plan, numbered alike by every end.

    Parameters
    ----------
    releases : sequence of Planned
        The plan's releases.
    """

    def __init__(self, releases: Sequence[Planned]) -> None:
        self._events: list[Event] = []
        self.add(releases)

    def add(self, releases: Sequence[Planned]) -> None:
        """Number further events: exchanged ones, and those that rows pay for themselves.

        A number permits nothing: ledgers decide.
        """
        for planned in releases:
            inner = planned.event.inner if isinstance(planned.event, SampledGroup) else ()
            for event in (planned.event, *(each.event for each in inner)):
                if event not in self._events:
                    self._events.append(event)

    def __contains__(self, event: Event) -> bool:
        return event in self._events

    def number(self, event: Event) -> int:
        """Return the number of an event."""
        return self._events.index(event)

    def __getitem__(self, number: Any) -> Event:
        if not isinstance(number, int) or not 0 <= number < len(self._events):
            raise FederationError("plan: it has no such release")
        return self._events[number]

    @property
    def life(self) -> LifeBudget:
        """The individual privacy filter of the rows."""
        found = [event for event in self._events if isinstance(event, LifeBudget)]
        if len(found) != 1:
            raise FederationError("plan: rows have no budgets in it")
        return found[0]


def asked_digest(query: bytes, event: Event) -> bytes:
    """Return SHA-256 of a query and of the event that it is charged to, with its noise."""
    return hashlib.sha256(_event_digest(event) + query).digest()


@lru_cache(maxsize=64)
def _event_digest(event: Event) -> bytes:
    return hashlib.sha256(json.dumps(event.to_dict(), sort_keys=True).encode()).digest()


def write_releases(releases: Sequence[Planned]) -> list[dict[str, Any]]:
    """Return Gaussian releases as a part of a message."""
    return [{"count": p.count, "event": p.event.to_dict()} for p in releases]


def read_releases(part: Any) -> list[Planned]:
    """Return the releases that `write_releases` wrote."""
    try:
        return [Planned(_read_event(dict(each["event"])), each["count"]) for each in part]
    except (LookupError, TypeError, ValueError):
        raise FederationError("plan: these are no releases") from None


def _read_event(event: dict[str, Any]) -> GaussianRelease:
    if event.pop("kind") != GaussianRelease.kind:
        raise ValueError("only Gaussian releases are exchanged")
    return GaussianRelease(**event | {"shares": tuple(event["shares"])})
