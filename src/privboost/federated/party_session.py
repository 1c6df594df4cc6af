"""A party's side of a session: offers, the handshake, and replies to the coordinator's requests.

Nothing is spent, and nothing is sent that depends on rows, until every other party has proved
that it has the key it shares with this one.

An offer is accepted, or refused by a rule that the coordinator may know.

In the handshake parties confirm their keys; then the plan is charged, and rows are loaded.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from privboost import __version__
from privboost._core.errors import BudgetError, DomainError, FederationError, SchemaError
from privboost._core.unit import column_of
from privboost.accounting.events import SampledGroup
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GaussianRelease
from privboost.accounts.account import BudgetAccount, PendingCharge
from privboost.data.contribution_bound import UnitRule
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, RowLoader, check_schema, open_source
from privboost.data.sources import count_rows
from privboost.engine.backend import Backend, LocalBackend, open_local
from privboost.engine.queries import Query
from privboost.engine.updates import CloseBudgets, OpenBudgets, Update
from privboost.federated.aggregation import PartyRounds
from privboost.federated.agreement import (
    DISTRIBUTED,
    Agreement,
    Consent,
    OwnPlan,
    check_distributed,
    make_plan,
    noise_part,
)
from privboost.federated.crypto import (
    COORDINATOR,
    Advertised,
    Channel,
    KeyPair,
    commit_to,
    confirmation,
    derive,
    join_parts,
    pair_key,
    random_bytes,
    session_name,
)
from privboost.federated.messages import (
    Catalogue,
    asked_digest,
    byte_array,
    key_bytes,
    read_bytes,
    read_releases,
    whole,
    write_bytes,
)
from privboost.federated.party_curator import (
    CommandChecker,
    ExactPartyCurator,
    NoisyPartyCurator,
    PartyCurator,
)
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Plan


class PrivateReason(FederationError):
    """A refusal for a reason that only the party's owner may know.

    Attributes
    ----------
    own : str
        The reason, which names the party's account or table.
    """

    def __init__(self, rule: str, own: str) -> None:
        super().__init__(rule)
        self.own = own


@contextmanager
def hiding_reasons(
    budget: str = "budget: this party's account does not cover it",
) -> Iterator[None]:
    """Raise errors of the account and the table as `PrivateReason`."""
    try:
        yield
    except BudgetError as error:
        raise PrivateReason(budget, str(error)) from None
    except (SchemaError, DomainError) as error:
        raise PrivateReason("columns: the table lacks what the domain names", str(error)) from None


@dataclass(frozen=True, eq=False)
class Member:
    """A party's part in every session; see `Party` for the attributes."""

    name: str
    rows: Any
    identity: KeyPair
    pins: Mapping[str, bytes]
    consent: Consent
    budget: BudgetAccount | None
    ledger: Path | None

    def charge_for(self, agreement: Agreement, own: OwnPlan) -> PendingCharge | None:
        """Return the charge of a run to this party's account; None for a seeded run."""
        if agreement.seed is not None:  # it protects nobody: there is nothing to charge
            return None
        if self.budget is None:
            raise FederationError("budget: this party has no account to charge (budget)")
        unit = column_of(own.plan.encoder.domain.unit)
        with hiding_reasons("unit: this party's account protects another one"):
            self.budget.balance().check_unit(unit)
        return PendingCharge(self.budget, agreement.estimator, unit)


@dataclass(frozen=True, eq=False)
class Accepted:
    """An offer that a party has accepted.

    Attributes
    ----------
    member : Member
        The party.
    agreement : Agreement
        The offer.
    own : OwnPlan
        The party's own copy of the plan.
    load : Load
        Its table, and how it is read.
    coordinator, own_end : Advertised
        Public parts of the coordinator and of this party.
    fresh : KeyPair
        This party's key of the session.
    part : bytes
        Its part of the joint randomness.
    keys : KeyStream
        Its noise and samples.
    """

    member: Member
    agreement: Agreement
    own: OwnPlan
    load: Load
    coordinator: Advertised
    own_end: Advertised
    fresh: KeyPair
    part: bytes
    keys: KeyStream

    def ledger(self) -> Ledger:
        """Return the ledger of the run, whose reservation is charged to the account first."""
        plan, member = self.own.plan, self.member
        charge = member.charge_for(self.agreement, self.own)
        budget = plan.budget.epsilon, plan.budget.delta
        return Ledger(*budget, plan.accountant, member.ledger, charge)

    def reply(self) -> dict[str, Any]:
        """Return the reply to the offer."""
        return {
            "stage": "accepted",
            "agreed": self.agreement.digest,
            "fresh": byte_array(self.own_end.fresh),
            "own_nonce": byte_array(self.own_end.nonce),
            "commitment": byte_array(self.own_end.commitment),
        }


def accept_offer(member: Member, body: Mapping[str, Any]) -> Accepted:
    """Return an accepted offer, or refuse it by a rule; nothing is spent."""
    agreement = Agreement.from_dict(body.get("agreement"))
    _check_members(member, agreement)
    member.consent.check(agreement, len(member.pins))
    own = make_plan(agreement)
    if agreement.trust == DISTRIBUTED:
        check_distributed(own.plan, agreement.quorum)
    charge = member.charge_for(agreement, own)
    keys = KeyStream.of(agreement.seed)
    with hiding_reasons():
        if charge is not None:
            charge.check(own.plan.releases)
        load = _load(member.rows, agreement, own, keys)
    fresh, part = KeyPair(), random_bytes()
    own_end = Advertised(
        member.name, member.identity.public, fresh.public, random_bytes(), commit_to(part)
    )
    coordinator = Advertised(
        COORDINATOR,
        member.pins[COORDINATOR],
        key_bytes(body, "fresh"),
        key_bytes(body, "nonce"),
    )
    accepted = Accepted(member, agreement, own, load, coordinator, own_end, fresh, part, keys)
    with hiding_reasons():
        accepted.ledger().check(own.plan.releases)
    return accepted


def _check_members(member: Member, agreement: Agreement) -> None:
    """Refuse another version, and parties or keys other than the pinned ones."""
    if agreement.version != __version__:
        raise FederationError(
            f"version: {agreement.version!r} there, and {__version__!r} here; they must be the same"
        )
    keys = {**agreement.parties}
    if COORDINATOR in keys or len({*keys.values(), member.pins[COORDINATOR].hex()}) <= len(keys):
        raise FederationError("keys: every party has one of its own, and is no coordinator")
    if keys.pop(member.name, None) != member.identity.public.hex():
        raise FederationError("keys: this party is not among the parties, or under another key")
    for name, key in keys.items():
        if member.pins.get(name, b"").hex() != key:
            raise FederationError(f"keys: {name!r} has another key than the one pinned here")


def _load(rows: Any, agreement: Agreement, own: OwnPlan, keys: KeyStream) -> Load:
    """Return how the rows are loaded; their schema is checked without reading a row."""
    encoder: Encoder = own.plan.encoder
    source, roles = open_source(encoder.domain, rows, None, agreement.weight)
    rule = UnitRule.of(encoder.domain.unit, keys.child("units"))
    steps = own.plan.class_steps
    loader = RowLoader(encoder, roles, own.weight_bound, rule, class_steps=steps)
    check_schema(loader, source)
    return Load(loader, source)


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


_Command = TypeVar("_Command")


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
        query = read_command(body["query"], Query.from_bytes)
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
            self._update(read_command(note["update"], Update.from_bytes))
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


def read_command(data: Any, read: Callable[[bytes], _Command]) -> _Command:
    """Return the query or update of a message; anything else is refused."""
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8:
        raise FederationError("messages: not one of this version")
    try:
        return read(data.tobytes())
    except (LookupError, TypeError, ValueError, AttributeError):
        raise FederationError("messages: neither query nor update") from None
