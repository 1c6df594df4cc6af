"""The backend whose rows lie with the parties of a federation."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np

from privboost.engine.queries import Query
from privboost.engine.updates import Charge, Price, Update
from privboost.errors import FederationError
from privboost.federation.catalogue import Catalogue, asked_digest
from privboost.federation.notes import note_exchange, note_group, note_update, note_within
from privboost.federation.session import Session
from privboost.privacy.events.event import Event, Planned, SampledGroup
from privboost.privacy.events.sums import GaussianRelease


class FederatedBackend:
    """Asks parties for sums under masks; what was released goes with the next question.

    Parameters
    ----------
    session : Session
        The parties, once all have agreed and confirmed their keys.
    releases : sequence of Planned
        What the plan reserves: questions name one of them.
    """

    def __init__(self, session: Session, releases: Sequence[Planned]) -> None:
        self._session, self._catalogue = session, Catalogue(releases)

    def sum(self, query: Query, event: Event | None = None) -> np.ndarray:
        """Return the int64 sums over all parties that are there."""
        if event is None:
            raise FederationError("plan: parties answer on account of a release")
        if event not in self._catalogue:
            self._session.tell(note_within(event))
            self._catalogue.add([Planned(event, 1)])
        message = query.to_bytes()
        asked = asked_digest(message, event)
        total = self._session.sum(
            message, math.prod(query.shape), self._catalogue.number(event), asked
        )
        return total.reshape(query.shape)

    def apply(self, update: Update) -> None:
        """Tell the parties what has been released; what rows pay they compute themselves."""
        if not isinstance(update, Price | Charge):
            self._session.tell(note_update(update))

    def exchange(self, reserved: GaussianRelease, releases: Sequence[Planned]) -> None:
        """Tell the parties what takes the place of a reserved release."""
        self._session.tell(note_exchange(self._catalogue.number(reserved), releases))
        self._catalogue.add(releases)

    def begin_group(self, event: SampledGroup) -> None:
        """Tell the parties that a group of releases on one sample begins."""
        self._session.tell(note_group(self._catalogue.number(event)))

    def end_group(self) -> None:
        """Tell the parties that the group is over."""
        self._session.tell(note_group(None))

    def tally(self) -> dict[bytes, int]:
        """Refuse: texts that occur cannot be added up under masks."""
        raise FederationError("domain: a federation learns none; write it")

    def close(self) -> None:
        """Let the parties let go of their rows; an error that is under way gives the run up."""
        self._session.end(sys.exc_info()[0] is None)
