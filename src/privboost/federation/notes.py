"""What parties are told between two questions, as it travels: each end follows it in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

import numpy as np

from privboost.engine.updates import CloseBudgets, OpenBudgets, Update
from privboost.errors import FederationError
from privboost.federation.catalogue import Catalogue, read_releases, write_releases
from privboost.federation.fitting import Fitting
from privboost.privacy.curator import Curator
from privboost.privacy.events.event import Event, Planned, SampledGroup
from privboost.privacy.events.sums import GaussianRelease

Note = dict[str, Any]
_Kind = TypeVar("_Kind")


def note_update(update: Update) -> Note:
    """Tell what has been released."""
    return {"update": np.frombuffer(update.to_bytes(), dtype=np.uint8)}


def note_exchange(number: int, releases: Sequence[Planned]) -> Note:
    """Tell what takes the place of a reserved release."""
    return {"exchange": number, "releases": write_releases(releases)}


def note_within(event: Event) -> Note:
    """Tell of a release that is not in the plan, since rows pay for it from their own budgets."""
    return {"within": write_releases([Planned(event, 1)])}


def note_group(number: int | None) -> Note:
    """Tell that a group of releases on one sample begins, or that it is over."""
    return {"group": number}


class NoteReader:
    """Follows notes on behalf of a party.

    Parameters
    ----------
    curator : Curator
        The party's own.
    catalogue : Catalogue
        The events of the party's own plan.
    fitting : Fitting
        Whether updates fit the party's columns.
    """

    def __init__(self, curator: Curator, catalogue: Catalogue, fitting: Fitting) -> None:
        self._curator, self._catalogue, self._fitting = curator, catalogue, fitting
        self._group = ExitStack()

    def follow(self, note: Note) -> None:
        """Do what a note says."""
        if "update" in note:
            self._follow_update(read_message(note["update"], Update.from_bytes))
        elif "exchange" in note:
            self._exchange(note)
        elif "within" in note:
            self._catalogue.add(read_releases(note["within"]))
        elif "group" in note:
            self._change_group(note["group"])
        else:
            raise FederationError("messages: an unknown note")

    def _follow_update(self, update: Any) -> None:
        """Tell the rows; their budgets are this party's own affair, and opened as it planned."""
        if isinstance(update, OpenBudgets):
            self._curator.open_budget(self._catalogue.life)
        elif isinstance(update, CloseBudgets):
            self._curator.close_budgets()
        else:
            self._fitting.follow(update)
            self._curator.publish(update)

    def _exchange(self, note: Note) -> None:
        reserved, releases = self._catalogue[note["exchange"]], read_releases(note["releases"])
        if not isinstance(reserved, GaussianRelease):
            raise FederationError("plan: this release is not exchanged")
        self._curator.exchange(reserved, releases)
        self._catalogue.add(releases)

    def _change_group(self, number: int | None) -> None:
        self._group.close()
        if number is not None:
            event = self._catalogue[number]
            if not isinstance(event, SampledGroup):
                raise FederationError("plan: this release is no group")
            self._group.enter_context(self._curator.sampling(event))


def read_message(data: Any, read: Callable[[bytes], _Kind]) -> _Kind:
    """Read a query or an update; anything else is refused."""
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8:
        raise FederationError("messages: not one of this version")
    try:
        return read(data.tobytes())
    except (LookupError, TypeError, ValueError, AttributeError):
        raise FederationError("messages: neither query nor update") from None
