"""One session as a party takes part in it: it answers what the plan has, and in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privboost.engine.backend import LocalBackend
from privboost.engine.queries import Query
from privboost.errors import FederationError
from privboost.federation.catalogue import Catalogue, asked_digest
from privboost.federation.fitting import Fitting
from privboost.federation.messages import read_bytes, whole, write_bytes
from privboost.federation.notes import NoteReader, read_message
from privboost.federation.party_curator import PartyCurator
from privboost.federation.party_rounds import PartyRounds


class PartySession:
    """What a party keeps while a session lasts.

    Parameters
    ----------
    rounds : PartyRounds
        Its masks.
    curator : PartyCurator
        Who stands between its rows and the federation.
    catalogue : Catalogue
        The events of its own plan.
    fitting : Fitting
        Whether messages fit its columns.
    backend : LocalBackend
        Who holds its rows.
    joint : bytes
        The joint randomness: what public choices are drawn from, so that the party can draw them
        again.
    """

    def __init__(
        self,
        rounds: PartyRounds,
        curator: PartyCurator,
        catalogue: Catalogue,
        fitting: Fitting,
        backend: LocalBackend,
        joint: bytes,
    ) -> None:
        self._rounds, self._curator, self._catalogue = rounds, curator, catalogue
        self._fitting, self._backend = fitting, backend
        self.joint = joint
        self._reader = NoteReader(curator, catalogue, fitting)
        self._stages = {
            "deal": self._deal,
            "sum": self._sum,
            "confirm": self._confirm,
            "open": self._open,
        }

    def follow(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a request asks for; return the reply."""
        stage = body.get("stage")
        if stage not in self._stages:
            raise FederationError("messages: an unknown stage")
        return {"stage": stage, **self._stages[stage](body)}

    def close(self) -> None:
        """Let go of the rows."""
        self._backend.close()

    def _deal(self, body: Mapping[str, Any]) -> dict[str, Any]:
        dealt = self._rounds.deal(whole(body, "first"), whole(body, "count"))
        return {
            "first": body["first"],
            "commitments": dealt.commitments,
            "lids": dealt.lids,
            "sealed": write_bytes(dealt.sealed),
        }

    def _sum(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if body.get("shares") is not None:
            self._rounds.hold(read_bytes(body["shares"]))
        self._rounds.begin(whole(body, "round"))
        for note in body["notes"]:
            self._reader.follow(note)
        query, event = read_message(body["query"], Query.from_bytes), self._catalogue[body["event"]]
        self._fitting.check_query(query)
        asked = asked_digest(body["query"].tobytes(), event)
        answer = self._curator.answer(query, event)
        words, tags = self._rounds.mask(answer, asked + self.joint)
        return {
            "round": body["round"],
            "asked": asked.hex(),
            "words": words,
            "tags": write_bytes(tags),
        }

    def _confirm(self, body: Mapping[str, Any]) -> dict[str, Any]:
        survivors = body.get("survivors")
        if not isinstance(survivors, list) or any(type(each) is not int for each in survivors):
            raise FederationError("messages: a list of survivors is needed")
        said = read_bytes(body.get("tags"))
        tags = self._rounds.confirm(whole(body, "round"), survivors, said)
        return {"round": body["round"], "tags": write_bytes(tags)}

    def _open(self, body: Mapping[str, Any]) -> dict[str, Any]:
        opened = self._rounds.open(whole(body, "round"), read_bytes(body.get("tags")))
        return {"round": body["round"], "opened": write_bytes(opened)}
