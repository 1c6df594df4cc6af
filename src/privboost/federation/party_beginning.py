"""In the handshake parties confirm their keys; then the plan is charged, and rows are loaded."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from privboost.engine.backend import Backend, open_local
from privboost.errors import FederationError
from privboost.federation.agreement import DISTRIBUTED, Agreement
from privboost.federation.channels import Channel
from privboost.federation.distributed import noise_part
from privboost.federation.joint import join_parts
from privboost.federation.keys import (
    COORDINATOR,
    Advertised,
    confirmation,
    derive,
    pair_key,
    random_bytes,
    session_name,
)
from privboost.federation.messages import byte_array, key_bytes, read_bytes, whole, write_bytes
from privboost.federation.party_curator import ExactPartyCurator, NoisyPartyCurator, PartyCurator
from privboost.federation.party_offers import Accepted, hiding_reasons
from privboost.federation.party_rounds import PartyRounds
from privboost.federation.party_session import PartySession
from privboost.privacy.ledger import Ledger
from privboost.tables.loading import Load
from privboost.tables.sources import count_rows


class Handshake:
    """A party between an offer that all have accepted and the session.

    Parameters
    ----------
    accepted : Accepted
        The offer.
    ends : list
        Public parts of all parties, as the coordinator sends them.

    Attributes
    ----------
    channel : Channel
        The channel to the coordinator.
    """

    def __init__(self, accepted: Accepted, ends: Any) -> None:
        agreement, name = accepted.agreement, accepted.member.name
        order = list(agreement.parties)
        self._ends = [_read_end(end, agreement) for end in (ends if isinstance(ends, list) else ())]
        if [end.name for end in self._ends] != order:
            raise FederationError("session: it begins with all parties that were agreed on")
        if accepted.own_end not in self._ends:
            raise FederationError("session: this party is not in it as it advertised itself")
        self._accepted = accepted
        self._session = session_name(agreement.digest, [accepted.coordinator, *self._ends])
        self._pairs = {k: self._key(end) for k, end in enumerate(self._ends) if end.name != name}
        self.channel = Channel(self._key(accepted.coordinator), name, COORDINATOR)

    def _key(self, other: Advertised) -> bytes:
        accepted, member = self._accepted, self._accepted.member
        return pair_key(member.name, member.identity, accepted.fresh, other, self._session)

    def reply(self) -> dict[str, Any]:
        """Return the party's confirmation for each other party, and its part of the randomness."""
        accepted, member = self._accepted, self._accepted.member
        confirmations = {
            k: confirmation(key, member.name, self._ends[k].name) for k, key in self._pairs.items()
        }
        seeded = accepted.agreement.seed is not None
        return {
            "stage": "ready",
            "part": byte_array(accepted.part),
            "confirmations": write_bytes(confirmations),
            "rows": count_rows(member.rows) if seeded else None,
        }

    def open(self, body: Mapping[str, Any], threads: int) -> tuple[PartySession, Ledger]:
        """Return the session and its ledger, if all other parties have confirmed their keys.

        The first deal is checked, then the plan is charged, then rows are loaded.

        Privacy
        -------
        Spends what the plan costs.
        """
        self._check_confirmed(read_bytes(body.get("confirmations")))
        accepted, member = self._accepted, self._accepted.member
        agreement, plan = accepted.agreement, accepted.own.plan
        own = list(agreement.parties).index(member.name)
        secret = derive(random_bytes(), "rounds")
        rounds = PartyRounds(own, agreement.quorum, self._pairs, secret)
        rounds.check_batch(whole(body, "first"), whole(body, "count"))
        joint = self._join(body.get("parts"))
        first = 0 if agreement.seed is None else whole(body, "first_id")
        load = Load(replace(accepted.load.loader, first_id=first), accepted.load.source)  # type: ignore[type-var]
        # The message was checked in full: refusals from here on come after the charge.
        with hiding_reasons():
            ledger = accepted.ledger()
            ledger.reserve(plan.releases)
            backend = open_local([load], threads)
        curator = _curator(accepted, ledger, backend)
        return PartySession(rounds, curator, plan, backend, joint), ledger

    def _check_confirmed(self, confirmations: Mapping[int, bytes]) -> None:
        """Refuse to begin unless all others have proved that they have their pair keys."""
        for k, key in self._pairs.items():
            name = self._ends[k].name
            expected = confirmation(key, name, self._accepted.member.name)
            if not hmac.compare_digest(expected, confirmations.get(k, b"")):
                raise FederationError(f"keys: {name!r} has not confirmed the one it shares")

    def _join(self, parts: Any) -> bytes:
        """Return the joint randomness of all parts."""
        if not isinstance(parts, dict) or len(parts) != len(self._ends):
            raise FederationError("joint randomness: it has a part of every party")
        if not all(isinstance(x, np.ndarray) and x.dtype == np.uint8 for x in parts.values()):
            raise FederationError("joint randomness: a part is not bytes")
        revealed = {name: part.tobytes() for name, part in parts.items()}
        return join_parts(revealed, {end.name: end.commitment for end in self._ends}, self._session)


def _curator(accepted: Accepted, ledger: Ledger, backend: Backend) -> PartyCurator:
    """Return the curator of the party's rows, by who adds the noise."""
    agreement, contribution = accepted.agreement, accepted.own.plan.contribution
    stream = accepted.keys.child(f"releases of {accepted.member.name}")
    seeded = agreement.seed is not None
    if agreement.trust == DISTRIBUTED:
        part = noise_part(agreement.quorum)
        return NoisyPartyCurator(backend, ledger, stream, contribution, part, seeded)
    return ExactPartyCurator(backend, ledger, stream, contribution, 1.0, seeded)


def _read_end(end: Any, agreement: Agreement) -> Advertised:
    """Return the public part of a party, with the identity of the agreement."""
    name = end.get("name") if isinstance(end, dict) else None
    if name not in agreement.parties:
        raise FederationError("session: an end of it is not among the parties")
    identity = bytes.fromhex(agreement.parties[name])
    keys = (key_bytes(end, each) for each in ("fresh", "nonce", "commitment"))
    return Advertised(name, identity, *keys)
