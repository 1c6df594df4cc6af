"""The beginning of a session at a party: keys are confirmed, the plan is charged, rows loaded.

Nothing is spent, and nothing is sent that depends on rows or hides them, until every other party
has shown that it has the key which this one shares with it.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privboost.engine.backend import open_local
from privboost.errors import FederationError
from privboost.federation.agreement import COORDINATOR, DISTRIBUTED, Agreement
from privboost.federation.catalogue import Catalogue
from privboost.federation.channels import Channel
from privboost.federation.distributed import noise_part
from privboost.federation.fitting import Fitting
from privboost.federation.joint import join_parts
from privboost.federation.keys import (
    Advertised,
    confirmation,
    derive,
    pair_key,
    random_bytes,
    session_name,
)
from privboost.federation.messages import (
    key_bytes,
    read_bytes,
    read_part,
    whole,
    write_bytes,
    write_key,
)
from privboost.federation.party_curator import ExactAnswers, NoisyAnswers, PartyCurator
from privboost.federation.party_offers import Accepted, Member, keeping_reasons
from privboost.federation.party_rounds import PartyRounds
from privboost.federation.party_session import PartySession
from privboost.privacy.ledger import Ledger
from privboost.tables.loading import Load
from privboost.tables.sources import count_rows


class Beginning:
    """A party between an offer that all have accepted and the session.

    Parameters
    ----------
    member : Member
        The party.
    accepted : Accepted
        What it has accepted.
    ends : sequence
        What each party has advertised, as the coordinator tells it.

    Attributes
    ----------
    channel : Channel
        What goes between this party and the coordinator.
    """

    def __init__(self, member: Member, accepted: Accepted, ends: Any) -> None:
        agreement = accepted.agreement
        order = list(agreement.parties)
        told = [_read_end(form, agreement) for form in (ends if isinstance(ends, list) else ())]
        if [end.name for end in told] != order:
            raise FederationError("session: it begins with all parties that were agreed on")
        if accepted.said not in told:
            raise FederationError("session: this party is not in it as it said")
        self._member, self._accepted, self._ends = member, accepted, told
        self._session = session_name(agreement.digest, [accepted.coordinator, *told])
        self._pairs = {
            order.index(end.name): self._key(end) for end in told if end.name != member.name
        }
        self.channel = Channel(self._key(accepted.coordinator), member.name, COORDINATOR)

    def _key(self, other: Advertised) -> bytes:
        own = self._member.name, self._member.identity, self._accepted.fresh
        return pair_key(*own, other, self._session)

    def reply(self) -> dict[str, Any]:
        """Return what shows the others that this party has the keys it shares with them."""
        name, accepted = self._member.name, self._accepted
        said = {k: confirmation(key, name, self._ends[k].name) for k, key in self._pairs.items()}
        seeded = accepted.agreement.seed is not None
        return {
            "stage": "ready",
            "part": write_key(accepted.part),
            "confirmations": write_bytes(said),
            "rows": count_rows(self._member.rows) if seeded else None,
        }

    def open(self, body: Mapping[str, Any], threads: int) -> tuple[PartySession, Ledger]:
        """Begin the session, if every other party has confirmed its key to this one.

        The first deal is checked, the plan is charged, then rows are loaded.

        Privacy
        -------
        Spends what the plan costs.
        """
        self._check_confirmed(read_bytes(body.get("confirmations")))
        member, accepted = self._member, self._accepted
        agreement, plan = accepted.agreement, accepted.own.plan
        own = list(agreement.parties).index(member.name)
        secret = derive(random_bytes(), "rounds")
        rounds = PartyRounds(own, agreement.quorum, self._pairs, secret)
        rounds.check_batch(whole(body, "first"), whole(body, "count"))
        joint = self._join(body.get("parts"))
        first = 0 if agreement.seed is None else whole(body, "first_id")
        load = Load(replace(accepted.load.loader, first_id=first), accepted.load.source)  # type: ignore[type-var]
        # Whatever the message alone decides was checked: what is refused from here on is paid for.
        with keeping_reasons():
            ledger = member.ledger_for(accepted)
            ledger.reserve(plan.releases)
            backend = open_local([load], threads)
        curator = _curator(member.name, accepted, ledger, backend)
        fitting = Fitting(plan.encoder.layout, plan.task.n_outputs)
        catalogue = Catalogue(plan.releases)
        return PartySession(rounds, curator, catalogue, fitting, backend, joint), ledger

    def _check_confirmed(self, said: Mapping[int, bytes]) -> None:
        """Refuse to begin unless all others have shown that they have their keys."""
        for k, key in self._pairs.items():
            name = self._ends[k].name
            expected = confirmation(key, name, self._member.name)
            if not hmac.compare_digest(expected, said.get(k, b"")):
                raise FederationError(f"keys: {name!r} has not confirmed the one it shares")

    def _join(self, told: Any) -> bytes:
        """Return the joint randomness of the parts that are told with the first deal."""
        if not isinstance(told, dict) or len(told) != len(self._ends):
            raise FederationError("joint randomness: it has a part of every party")
        parts = {name: read_part(part) for name, part in told.items()}
        return join_parts(parts, {end.name: end.commitment for end in self._ends}, self._session)


def _curator(name: str, accepted: Accepted, ledger: Ledger, backend: Any) -> PartyCurator:
    agreement, contribution = accepted.agreement, accepted.own.plan.contribution
    stream = accepted.keys.child(f"releases of {name}")
    seeded = agreement.seed is not None
    if agreement.trust == DISTRIBUTED:
        part = noise_part(agreement.quorum)
        return NoisyAnswers(backend, ledger, stream, contribution, part, seeded)
    return ExactAnswers(backend, ledger, stream, contribution, 1.0, seeded)


def _read_end(form: Any, agreement: Agreement) -> Advertised:
    """Read what one party said; its identity is the one that was agreed."""
    name = form.get("name") if isinstance(form, dict) else None
    if name not in agreement.parties:
        raise FederationError("session: somebody is in it who is no party")
    identity = bytes.fromhex(agreement.parties[name])
    said = (key_bytes(form, each) for each in ("fresh", "nonce", "commitment"))
    return Advertised(name, identity, *said)
