"""A party's side of a session: offers, the handshake, and replies to the coordinator's requests.

Nothing is spent, and nothing is sent that depends on rows, until every other party has proved
that it has the key it shares with this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, TypeVar

import numpy as np

from privboost.boosting.plan import Plan
from privboost.engine.backend import LocalBackend
from privboost.engine.protocol import Message
from privboost.engine.queries import Query
from privboost.engine.updates import CloseBudgets, OpenBudgets, Update
from privboost.errors import FederationError
from privboost.federation.catalogue import Catalogue, asked_digest, read_releases
from privboost.federation.fitting import CommandChecker
from privboost.federation.messages import read_bytes, whole, write_bytes
from privboost.federation.party_curator import PartyCurator
from privboost.federation.party_rounds import PartyRounds
from privboost.privacy.events.event import SampledGroup
from privboost.privacy.events.sums import GaussianRelease

_Command = TypeVar("_Command", bound=Message)


class PartySession:
    """The state of a party during a session.

    Parameters
    ----------
    rounds : PartyRounds
        Its side of secure aggregation.
    curator : PartyCurator
        The curator of its rows.
    plan : Plan
        Its own copy of the plan.
    backend : LocalBackend
        The backend that holds its rows.
    joint : bytes
        The joint randomness: the party can repeat the public choices that are drawn from it.
    """

    def __init__(
        self,
        rounds: PartyRounds,
        curator: PartyCurator,
        plan: Plan,
        backend: LocalBackend,
        joint: bytes,
    ) -> None:
        self._rounds, self._curator, self._backend = rounds, curator, backend
        self.joint = joint
        self._catalogue = Catalogue(plan.releases)
        self._checker = CommandChecker(plan.encoder.layout, plan.task.n_outputs)
        self._group = ExitStack()
        self._stages = {
            "deal": self._deal,
            "sum": self._sum,
            "confirm": self._confirm,
            "open": self._open,
        }

    def follow(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to a request."""
        stage = body.get("stage")
        if stage not in self._stages:
            raise FederationError("messages: an unknown stage")
        return {"stage": stage, **self._stages[stage](body)}

    def close(self) -> None:
        """Release the rows."""
        self._backend.close()

    def _deal(self, body: Mapping[str, Any]) -> dict[str, Any]:
        dealt = self._rounds.deal(whole(body, "first"), whole(body, "count"))
        return {
            "first": body["first"],
            "commitments": dealt.commitments,
            "lids": dealt.envelopes,
            "sealed": write_bytes(dealt.sealed),
        }

    def _sum(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if body.get("shares") is not None:
            self._rounds.hold(read_bytes(body["shares"]))
        self._rounds.begin(whole(body, "round"))
        for note in body["notes"]:
            self._apply(note)
        query = read_command(body["query"], Query)
        event = self._catalogue[body["event"]]
        self._checker.check_query(query)
        asked = asked_digest(body["query"].tobytes(), event)
        answer = self._curator.answer(query, event)
        masked, tags = self._rounds.mask(answer, asked + self.joint)
        return {
            "round": body["round"],
            "asked": asked.hex(),
            "words": masked,
            "tags": write_bytes(tags),
        }

    def _confirm(self, body: Mapping[str, Any]) -> dict[str, Any]:
        survivors = body.get("survivors")
        if not isinstance(survivors, list) or any(type(each) is not int for each in survivors):
            raise FederationError("messages: a list of survivors is needed")
        tags = read_bytes(body.get("tags"))
        confirmed = self._rounds.confirm(whole(body, "round"), survivors, tags)
        return {"round": body["round"], "tags": write_bytes(confirmed)}

    def _open(self, body: Mapping[str, Any]) -> dict[str, Any]:
        opened = self._rounds.open(whole(body, "round"), read_bytes(body.get("tags")))
        return {"round": body["round"], "opened": write_bytes(opened)}

    def _apply(self, note: Mapping[str, Any]) -> None:
        """Apply one of the notes that precede a query: see `FederatedBackend`."""
        if "update" in note:
            self._update(read_command(note["update"], Update))
        elif "exchange" in note:
            reserved, releases = self._catalogue[note["exchange"]], read_releases(note["releases"])
            if not isinstance(reserved, GaussianRelease):
                raise FederationError("plan: this release is not exchanged")
            self._curator.exchange(reserved, releases)
            self._catalogue.add(releases)
        elif "within" in note:
            self._catalogue.add(read_releases(note["within"]))
        elif "group" in note:
            self._group.close()
            if note["group"] is not None:
                event = self._catalogue[note["group"]]
                if not isinstance(event, SampledGroup):
                    raise FederationError("plan: this release is no group")
                self._group.enter_context(self._curator.sampling(event))
        else:
            raise FederationError("messages: an unknown note")

    def _update(self, update: Update) -> None:
        """Apply an update; budgets of rows are opened as this party's own plan has them."""
        if isinstance(update, OpenBudgets):
            self._curator.open_budget(self._catalogue.life)
        elif isinstance(update, CloseBudgets):
            self._curator.close_budgets()
        else:
            self._checker.check_update(update)
            self._curator.publish(update)


def read_command(data: Any, kind: type[_Command]) -> _Command:
    """Return the query or update of a message; anything else is refused."""
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8:
        raise FederationError("messages: not one of this version")
    try:
        return kind.from_bytes(data.tobytes())
    except (LookupError, TypeError, ValueError, AttributeError):
        raise FederationError("messages: neither query nor update") from None
