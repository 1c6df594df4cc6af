"""The beginning of a session at a party: its plan is reserved, then its rows are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from privboost.engine.backend import open_local
from privboost.errors import FederationError
from privboost.federation.agreement import COORDINATOR, DISTRIBUTED, Agreement
from privboost.federation.catalogue import Catalogue
from privboost.federation.channels import Channel
from privboost.federation.distributed import noise_part
from privboost.federation.fitting import Fitting
from privboost.federation.joint import join_parts
from privboost.federation.keys import Advertised, derive, pair_key, random_bytes, session_name
from privboost.federation.messages import key_bytes, whole
from privboost.federation.party_curator import ExactAnswers, NoisyAnswers, PartyCurator
from privboost.federation.party_offers import Accepted, Member
from privboost.federation.party_rounds import PartyRounds
from privboost.federation.party_session import PartySession
from privboost.privacy.ledger import Ledger
from privboost.tables.loading import Load


class Begun(NamedTuple):
    """A session that began, the channel it goes through, and the ledger that has its plan."""

    session: PartySession
    channel: Channel
    ledger: Ledger


def begin_session(
    member: Member, accepted: Accepted, body: Mapping[str, Any], threads: int
) -> Begun:
    """Reserve what was accepted, load the rows, and be ready for questions."""
    agreement, quorum = accepted.agreement, accepted.agreement.quorum
    ends = [_read_end(form, agreement) for form in body.get("ends", ())]
    names = [end.name for end in ends]
    if accepted.said not in ends or len(set(names)) != len(names):
        raise FederationError("session: this party is not in it as it said")
    if len(ends) < quorum.threshold:
        raise FederationError("parties: too few are left")
    session = session_name(agreement.digest, [accepted.coordinator, *ends])
    order = list(agreement.parties)
    pairs = {
        order.index(end.name): pair_key(member.identity, accepted.fresh, end, session)
        for end in ends
        if end.name != member.name
    }
    own = order.index(member.name)
    rounds = PartyRounds(own, quorum, pairs, derive(random_bytes(), "rounds"))
    ledger = member.ledger_for(accepted.own)
    ledger.check(accepted.own.plan.releases)
    member.limit.spend(ledger.epsilon, ledger.delta)
    ledger.reserve(accepted.own.plan.releases)
    first = 0 if agreement.seed is None else whole(body, "first_id")
    load = Load(replace(accepted.load.loader, first_id=first), accepted.load.source)  # type: ignore[type-var]
    backend = open_local([load], threads)
    curator = _curator(member.name, accepted, ledger, backend)
    plan = accepted.own.plan
    fitting = Fitting(plan.encoder.layout, plan.task.n_outputs)
    catalogue = Catalogue(plan.releases)
    commitments = {end.name: end.commitment for end in ends}

    def join(parts: Mapping[str, bytes]) -> bytes:
        if member.name not in parts or len(parts) < quorum.threshold:
            raise FederationError("joint randomness: too many parts, or one's own, are missing")
        return join_parts(parts, commitments, session)

    key = pair_key(member.identity, accepted.fresh, accepted.coordinator, session)
    return Begun(
        PartySession(rounds, curator, catalogue, fitting, backend, join),
        Channel(key, member.name, COORDINATOR),
        ledger,
    )


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
