"""The coordinator's side of a run: its session with the parties, and its curators."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from privboost._core.errors import FederationError
from privboost._core.grid import Contribution
from privboost.accounting.events import Event, Planned, SampledGroup
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GramRelease, NoisySums
from privboost.engine.queries import GramSums, Query
from privboost.engine.updates import Charge, Price, Update
from privboost.federated.aggregation import Dealt, ServerRounds
from privboost.federated.agreement import Agreement
from privboost.federated.crypto import (
    COORDINATOR,
    Advertised,
    Channel,
    KeyPair,
    join_parts,
    open_reply,
    pair_key,
    random_bytes,
    seal_letter,
    session_name,
)
from privboost.federated.messages import (
    Catalogue,
    asked_digest,
    byte_array,
    key_bytes,
    printable,
    read_bytes,
    text,
    whole,
    write_bytes,
    write_releases,
)
from privboost.federated.party_curator import GAUSSIAN
from privboost.federated.transport import Transport
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream

_DEALT_AT_ONCE = 8
"""Rounds whose seeds are dealt in one message."""
_UNREAD = "no answer came that it can have sealed: is its key the one pinned here?"

Body = dict[str, Any]


@dataclass
class Traffic:
    """Number of messages of a session, and of their bytes."""

    messages: int = 0
    bytes_: int = 0


class Session:
    """The coordinator's side of a session; also the backend of the fit.

    All parties must accept the offer and send their confirmations before the first seeds are dealt.
    Then each party verifies the others' confirmations and pays. A party that is lost afterwards,
    refuses, or sends anything else is out until the session ends; the others go on while enough
    are left.

    As a backend, it sends the parties each query with the number of its event in the plan, and
    with all updates since the last query as notes.

    Attributes
    ----------
    agreement : Agreement
        The offer.
    catalogue : Catalogue
        The numbered events that queries are charged to.
    lost : dict from str to str
        Lost parties, with the reasons.
    joint : bytes
        The joint randomness, once the session has begun.
    traffic : Traffic
        Numbers of messages and bytes.
    """

    def __init__(self, identity: KeyPair, transport: Transport, agreement: Agreement) -> None:
        self._identity, self._transport, self.agreement = identity, transport, agreement
        self._number = {name: number for number, name in enumerate(agreement.parties)}
        self._letter_keys = {
            name: identity.shared(bytes.fromhex(key)) for name, key in agreement.parties.items()
        }
        self._fresh = KeyPair()
        self._own_end = Advertised(COORDINATOR, identity.public, self._fresh.public, random_bytes())
        self._nonce = byte_array(self._own_end.nonce)
        self._active = list(self._number)
        self._needed = len(self._active)
        self._ends: dict[str, Advertised] = {}
        self._first_deal: dict[str, Body] = {}
        self._channels: dict[str, Channel] = {}
        self._rounds = ServerRounds(agreement.quorum, {})
        self.catalogue = Catalogue(())
        self._notes: list[Body] = []
        self._parts: dict[str, bytes] = {}
        self.joint = b""
        self.lost: dict[str, str] = {}
        self.traffic = Traffic()

    def offer(self) -> None:
        """Send the offer, which all parties must accept; nothing is spent."""
        body = {
            "stage": "offer",
            "agreement": self.agreement.to_dict(),
            "fresh": byte_array(self._own_end.fresh),
            "nonce": self._nonce,
        }

        def take(name: str, reply: Body) -> None:
            if text(reply, "agreed") != self.agreement.digest:
                raise FederationError("agreement: the party has another one")
            identity = bytes.fromhex(self.agreement.parties[name])
            keys = (key_bytes(reply, each) for each in ("fresh", "own_nonce", "commitment"))
            end = Advertised(name, identity, *keys)
            self._fresh.shared(end.fresh)  # or it is no key
            self._ends[name] = end

        self._write(body, "accepted", take)

    def begin(self) -> None:
        """Collect the parties' confirmations of their keys, for the coordinator and each other.

        Parties spend when the first seeds are dealt.
        """
        ends = [self._ends[name] for name in self._active]
        session = session_name(self.agreement.digest, [self._own_end, *ends])
        for end in ends:
            key = pair_key(COORDINATOR, self._identity, self._fresh, end, session)
            self._channels[end.name] = Channel(key, COORDINATOR, end.name)
        members = {self._number[name]: name for name in self._active}
        self._rounds = ServerRounds(self.agreement.quorum, members)
        advertised = [
            {
                "name": end.name,
                "fresh": byte_array(end.fresh),
                "nonce": byte_array(end.nonce),
                "commitment": byte_array(end.commitment),
            }
            for end in ends
        ]
        sizes: dict[str, int] = {}
        confirmed: dict[int, dict[int, bytes]] = {}

        def take(name: str, reply: Body) -> None:
            part = key_bytes(reply, "part")
            join_parts({name: part}, {name: self._ends[name].commitment}, session)
            own, tags = self._number[name], read_bytes(reply["confirmations"])
            if set(tags) != set(members) - {own}:
                raise FederationError(
                    "keys: it has confirmed others than the parties of the session"
                )
            sizes[name] = 0 if reply["rows"] is None else max(whole(reply, "rows"), 0)
            confirmed[own], self._parts[name] = tags, part

        body = {"stage": "begin", "nonce": self._nonce, "ends": advertised}
        self._write(body, "ready", take, sealed_reply=True)
        self.joint = join_parts(self._parts, {e.name: e.commitment for e in ends}, session)
        first_id = 0
        for name in self._active:
            own = self._number[name]
            for_this = {p: tags[own] for p, tags in confirmed.items() if p != own}
            self._first_deal[name] = {
                "confirmations": write_bytes(for_this),
                "first_id": first_id,
            }
            first_id += sizes[name]
        self._needed = self.agreement.quorum.threshold

    def note(self, note: Body) -> None:
        """Store a note, which is sent with the next query."""
        self._notes.append(note)

    def apply(self, update: Update) -> None:
        """Send the parties an update; what rows pay they compute themselves."""
        if not isinstance(update, Price | Charge):
            self.note({"update": byte_array(update.to_bytes())})

    def exchange(self, reserved: NoisySums, releases: Sequence[Planned]) -> None:
        """Send the parties the releases that replace a reserved one."""
        number = self.catalogue.number(reserved)
        self.note({"exchange": number, "releases": write_releases(releases)})
        self.catalogue.add(releases)

    def tally(self) -> dict[bytes, int]:
        """Unavailable: strings cannot be added up under masks."""
        raise FederationError("domain: a federation learns none; write it")

    def sum(self, query: Query, event: Event | None = None) -> np.ndarray:
        """Return the int64 sums over all parties that are left, by secure aggregation."""
        if event is None:
            raise FederationError("plan: parties answer on account of a release")
        if event not in self.catalogue:  # rows pay for it from their own budgets
            self.note({"within": write_releases([Planned(event, 1)])})
            self.catalogue.add([Planned(event, 1)])
        message = query.to_bytes()
        asked = asked_digest(message, event).hex()
        dealt = not self._rounds.is_dealt
        if dealt:
            self._deal()
        rounds = self._rounds
        round_ = rounds.begin(math.prod(query.shape))
        body = {
            "stage": "sum",
            "round": round_,
            "notes": self._notes,
            "event": self.catalogue.number(event),
            "query": byte_array(message),
        }
        shares = {
            name: write_bytes(rounds.shares_for(self._number[name])) if dealt else None
            for name in self._active
        }
        self._notes = []

        def take(party: int, reply: Body) -> None:
            if text(reply, "asked") != asked:
                raise FederationError("messages: it has received another query")
            rounds.take_masked(party, reply["words"], read_bytes(reply["tags"]))

        self._ask({name: body | {"shares": own} for name, own in shares.items()}, take)
        # Survivors confirm that these parties' sums are added up.
        self._ask(
            self._with_tags(
                {"stage": "confirm", "round": round_, "survivors": rounds.survivors()},
                rounds.asked_tags,
            ),
            lambda party, reply: rounds.take_confirmed(party, read_bytes(reply["tags"])),
        )
        # Parties that see enough confirmations of the same survivors open shares of the masks.
        self._ask(
            self._with_tags({"stage": "open", "round": round_}, rounds.confirmed_tags),
            lambda party, reply: rounds.take_opened(party, read_bytes(reply["opened"])),
        )
        return rounds.total().reshape(query.shape)

    def _with_tags(self, body: Body, tags: Callable[[int], Mapping[int, bytes]]) -> dict[str, Body]:
        return {
            name: body | {"tags": write_bytes(tags(self._number[name]))} for name in self._active
        }

    def _deal(self) -> None:
        """Have the parties deal the seeds of some rounds; the first time, they pay."""
        first = self._rounds.begin_batch(_DEALT_AT_ONCE)
        parts = {name: byte_array(part) for name, part in self._parts.items()}
        body = {"stage": "deal", "first": first, "count": _DEALT_AT_ONCE, "parts": parts}

        def take(party: int, reply: Body) -> None:
            dealt = Dealt(reply["commitments"], reply["lids"], read_bytes(reply["sealed"]))
            self._rounds.take_dealt(party, dealt)

        self._ask({name: body | self._first_deal.get(name, {}) for name in self._active}, take)
        self._first_deal = {}  # for the first deal only

    def close(self) -> None:
        """End the session; after an error, as a run that was given up."""
        self.end(sys.exc_info()[0] is None)

    def end(self, whole_run: bool) -> None:
        """Tell the parties whether the run was completed, and forget the session's keys."""
        try:
            self._send_end(whole_run)
        finally:
            self._fresh = KeyPair()  # replaces that of the session
            self._channels, self._letter_keys, self._ends = {}, {}, {}
            self._first_deal, self._parts = {}, {}
            self._rounds = ServerRounds(self.agreement.quorum, {})

    def _send_end(self, whole_run: bool) -> None:
        body = {"stage": "end", "whole": whole_run}
        waiting = {name for name in self._active if name in self._channels}
        closing = {n: self._channels[n].close(body) for n in self._active if n in waiting}
        for name, data in self._carried(closing) if closing else ():
            if name in waiting and self._channels[name].open(data) is not None:
                waiting.remove(name)
            if not waiting:
                break

    def _write(
        self, body: Body, stage: str, take: Callable[[str, Body], None], sealed_reply: bool = False
    ) -> None:
        """Send letters, and take the replies.

        With `sealed_reply` these must be sealed under the keys of the session, except refusals: a
        letter needs long-lived keys only.
        """

        def read(name: str, data: bytes) -> Body | None:
            if sealed_reply:
                reply = self._channels[name].open(data)
                if reply is not None:
                    return reply
            reply = open_reply(self._letter_keys[name], COORDINATOR, name, data, self._nonce)
            refused = reply is not None and reply.get("stage") == "refused"
            return reply if refused or not sealed_reply else None

        keys = self._letter_keys
        sealed = {n: seal_letter(keys[n], COORDINATOR, n, body) for n in self._active}
        self._take_all(sealed, stage, read, take)

    def _ask(self, bodies: Mapping[str, Body], take: Callable[[int, Body], None]) -> None:
        """Send a stage's requests within the session, and take the replies."""
        common = next(iter(bodies.values()))
        marks = {mark: common[mark] for mark in ("round", "first") if mark in common}

        def read(name: str, data: bytes) -> Body | None:
            reply = self._channels[name].open(data)
            if reply is None or text(reply, "stage") == "refused":
                return reply
            same = all(whole(reply, mark) == value for mark, value in marks.items())
            return reply if same else None

        sealed = {name: self._channels[name].close(body) for name, body in bodies.items()}
        self._take_all(
            sealed, common["stage"], read, lambda name, reply: take(self._number[name], reply)
        )

    def _take_all(
        self,
        sealed: Mapping[str, bytes],
        stage: str,
        read: Callable[[str, bytes], Body | None],
        take: Callable[[str, Body], None],
    ) -> None:
        """Take one reply of each party; parties without a valid one are lost."""
        waiting, gone, replied = set(sealed), {}, set()
        for name, data in self._carried(sealed):
            if name not in waiting:
                continue
            replied.add(name)
            try:
                reply = read(name, data)
                if reply is None or text(reply, "stage") not in (stage, "refused"):
                    continue  # not the party's, or of an earlier request
                if reply["stage"] == "refused":
                    raise FederationError(printable(text(reply, "rule")))
                take(name, reply)
            except FederationError as error:
                gone[name] = str(error)
            except Exception:  # a malformed reply loses its sender, and nobody else
                gone[name] = "messages: not one of this version"
            waiting.remove(name)
            if not waiting:
                break
        for name in waiting:
            gone[name] = _UNREAD if name in replied else "no answer came"
        self._lose({name: gone[name] for name in sealed if name in gone})

    def _carried(self, sealed: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Send requests; yield the replies, and count both."""
        self.traffic.messages += len(sealed)
        self.traffic.bytes_ += sum(map(len, sealed.values()))
        for name, data in self._transport.gather(sealed):
            self.traffic.messages += 1
            self.traffic.bytes_ += len(data)
            yield name, data

    def _lose(self, gone: Mapping[str, str]) -> None:
        """Go on without some parties; raise if too few are left."""
        self.lost |= gone
        self._active = [name for name in self._active if name not in gone]
        if len(self._active) < self._needed:
            why = "; ".join(f"{name!r}: {reason}" for name, reason in self.lost.items())
            raise FederationError(
                f"{len(self._active)} of {len(self._number)} parties are left, and "
                f"{self._needed} are needed ({why})"
            )


class FederatedCurator(Curator):
    """Curator of a trusted server: it adds noise to the parties' exact totals."""

    def __init__(
        self, session: Session, ledger: Ledger, stream: KeyStream, contribution: Contribution
    ) -> None:
        super().__init__(session, ledger, stream, contribution)
        self._session = session

    def exchange(self, reserved: NoisySums, releases: Sequence[Planned]) -> None:
        """Replace a reserved release by Gaussian ones, here and at each party."""
        super().exchange(reserved, releases)
        self._session.exchange(reserved, releases)

    @contextmanager
    def sampling(self, event: SampledGroup) -> Iterator[None]:
        """Release a group on one sample of the rows, here and at each party."""
        with super().sampling(event):
            self._session.note({"group": self._session.catalogue.number(event)})
            yield
            self._session.note({"group": None})

    def _exact(self, query: Query, event: Event) -> np.ndarray:
        return self._session.sum(query, event)


class RelayCurator(FederatedCurator):
    """Curator of a server that is not trusted: totals come with the parties' noise.

    It makes Gaussian releases only: parties draw no other noise.
    """

    def _draw(self, event: NoisySums, scales: np.ndarray, stream: KeyStream) -> np.ndarray:
        """Return zeros: each party has added its part."""
        return np.zeros(len(scales), dtype=np.int64)

    def _exact(self, query: Query, event: Event) -> np.ndarray:
        if type(event) not in GAUSSIAN or (
            isinstance(query, GramSums) and not isinstance(event, GramRelease)
        ):
            raise FederationError("trust: this release needs a server that is trusted")
        return super()._exact(query, event)
