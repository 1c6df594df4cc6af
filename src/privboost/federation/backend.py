"""`FederatedBackend` sends the queries of a fit to the parties, and the updates between them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np

from privboost.engine.queries import Query
from privboost.engine.updates import Charge, Price, Update
from privboost.errors import FederationError
from privboost.federation.catalogue import Catalogue, asked_digest, write_releases
from privboost.federation.messages import byte_array
from privboost.federation.session import Session
from privboost.privacy.events.event import Event, Planned, SampledGroup
from privboost.privacy.events.sums import GaussianRelease


class FederatedBackend:
    """Sends queries to the parties, with all updates since the last one as notes.

    Parameters
    ----------
    session : Session
        The session, once all parties have confirmed their keys.
    releases : sequence of Planned
        The plan's releases, which queries are charged to.
    """

    def __init__(self, session: Session, releases: Sequence[Planned]) -> None:
        self._session, self._catalogue = session, Catalogue(releases)

    def sum(self, query: Query, event: Event | None = None) -> np.ndarray:
        """Return the int64 sums over all parties that are left."""
        if event is None:
            raise FederationError("plan: parties answer on account of a release")
        if event not in self._catalogue:  # rows pay for it from their own budgets
            self._session.note({"within": write_releases([Planned(event, 1)])})
            self._catalogue.add([Planned(event, 1)])
        message = query.to_bytes()
        total = self._session.sum(
            message,
            math.prod(query.shape),
            self._catalogue.number(event),
            asked_digest(message, event),
        )
        return total.reshape(query.shape)

    def apply(self, update: Update) -> None:
        """Send the parties an update; what rows pay they compute themselves."""
        if not isinstance(update, Price | Charge):
            self._session.note({"update": byte_array(update.to_bytes())})

    def exchange(self, reserved: GaussianRelease, releases: Sequence[Planned]) -> None:
        """Send the parties the releases that replace a reserved one."""
        number = self._catalogue.number(reserved)
        self._session.note({"exchange": number, "releases": write_releases(releases)})
        self._catalogue.add(releases)

    def begin_group(self, event: SampledGroup) -> None:
        """Send the parties the beginning of a group of releases on one sample."""
        self._session.note({"group": self._catalogue.number(event)})

    def end_group(self) -> None:
        """Send the parties the end of the group."""
        self._session.note({"group": None})

    def tally(self) -> dict[bytes, int]:
        """Unavailable: strings cannot be added up under masks."""
        raise FederationError("domain: a federation learns none; write it")

    def close(self) -> None:
        """End the session; after an error, as a run that was given up."""
        self._session.end(sys.exc_info()[0] is None)
