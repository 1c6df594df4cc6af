"""A party's side of the handshake: it accepts an offer, then keys are confirmed, then it pays.

Nothing is spent, and nothing is sent that depends on rows, until every other party has proved
that it has the key it shares with this one.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from privboost import __version__
from privboost._core.errors import BudgetError, DomainError, FederationError, SchemaError
from privboost._core.unit import column_of
from privboost.accounting.ledger import Ledger
from privboost.accounts.account import BudgetAccount, PendingCharge
from privboost.data.contribution_bound import UnitRule
from privboost.data.loading import Load, RowLoader, check_schema, open_source
from privboost.data.sources import count_rows
from privboost.engine.backend import open_local
from privboost.federated.aggregation import PartyRounds
from privboost.federated.agreement import DISTRIBUTED, Agreement, Consent, make_plan
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
from privboost.federated.messages import byte_array, key_bytes, read_bytes, whole, write_bytes
from privboost.federated.party_curator import (
    ExactPartyCurator,
    NoisyPartyCurator,
    PartyCurator,
    check_distributed,
    noise_part,
)
from privboost.federated.party_session import PartySession
from privboost.randomness.keystream import KeyStream


class PrivateReason(FederationError):
    """A refusal by a rule, for a reason (`own`) that only the party's owner may know."""

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
    """A party's part in every session; see `Party`."""

    name: str
    rows: Any
    identity: KeyPair
    pins: Mapping[str, bytes]
    consent: Consent
    budget: BudgetAccount | None
    ledger: Path | None

    def check_members(self, agreement: Agreement) -> None:
        """Refuse another version, and parties or keys other than the pinned ones."""
        if agreement.version != __version__:
            raise FederationError(
                f"version: {agreement.version!r} there, and {__version__!r} here; they must be the "
                "same"
            )
        keys = {**agreement.parties}
        if COORDINATOR in keys or len({*keys.values(), self.pins[COORDINATOR].hex()}) <= len(keys):
            raise FederationError("keys: every party has one of its own, and is no coordinator")
        if keys.pop(self.name, None) != self.identity.public.hex():
            raise FederationError("keys: this party is not among the parties, or under another key")
        for name, key in keys.items():
            if self.pins.get(name, b"").hex() != key:
                raise FederationError(f"keys: {name!r} has another key than the one pinned here")


class Handshake:
    """The handshake of a session: it accepts an offer, or refuses it by a rule, and agrees on keys.

    The order is `accept`, `begin` (after which there is a `channel` to the coordinator), `open`.
    """

    def __init__(self, member: Member, body: Mapping[str, Any]) -> None:
        self.agreement = agreement = Agreement.from_dict(body.get("agreement"))
        self.member = member
        member.check_members(agreement)
        member.consent.check(agreement, len(member.pins))
        self._plan, weight_bound = make_plan(agreement)
        if agreement.trust == DISTRIBUTED:
            check_distributed(self._plan, agreement.quorum)
        charge = self._charge()
        self._keys = KeyStream.of(agreement.seed)
        encoder = self._plan.encoder
        with hiding_reasons():
            if charge is not None:
                charge.check(self._plan.releases)
            source, roles = open_source(encoder.domain, member.rows, None, agreement.weight)
            rule = UnitRule.of(encoder.domain.unit, self._keys.child("units"))
            steps = self._plan.class_steps
            loader = RowLoader(encoder, roles, weight_bound, rule, class_steps=steps)
            check_schema(loader, source)  # without reading a row
        self._load = Load(loader, source)
        self.fresh, self._part = KeyPair(), random_bytes()
        own = member.name, member.identity.public, self.fresh.public, random_bytes()
        self.own_end = Advertised(*own, commit_to(self._part))
        fresh, nonce = key_bytes(body, "fresh"), key_bytes(body, "nonce")
        self.coordinator = Advertised(COORDINATOR, member.pins[COORDINATOR], fresh, nonce)
        with hiding_reasons():
            self._ledger().check(self._plan.releases)

    def _charge(self) -> PendingCharge | None:
        """Return the charge of the run to the party's account; None for a seeded run."""
        if self.agreement.seed is not None:  # it protects nobody: there is nothing to charge
            return None
        account = self.member.budget
        if account is None:
            raise FederationError("budget: this party has no account to charge (budget)")
        unit = column_of(self._plan.encoder.domain.unit)
        with hiding_reasons("unit: this party's account protects another one"):
            account.balance().check_unit(unit)
        return PendingCharge(account, self.agreement.estimator, unit)

    def _ledger(self) -> Ledger:
        """Return the ledger of the run, whose reservation is charged to the account first."""
        budget = self._plan.budget
        return Ledger(
            budget.epsilon,
            budget.delta,
            self._plan.accountant,
            self.member.ledger,
            self._charge(),
        )

    def accept(self) -> dict[str, Any]:
        """Return the reply to the offer."""
        return {
            "stage": "accepted",
            "agreed": self.agreement.digest,
            "fresh": byte_array(self.own_end.fresh),
            "own_nonce": byte_array(self.own_end.nonce),
            "commitment": byte_array(self.own_end.commitment),
        }

    def begin(self, ends: Any) -> dict[str, Any]:
        """Agree on keys with all ends; return what confirms them, and the part of the randomness.

        Nothing is spent.
        """
        agreement, name = self.agreement, self.member.name
        self._ends = [_read_end(end, agreement) for end in (ends if isinstance(ends, list) else ())]
        if [end.name for end in self._ends] != list(agreement.parties):
            raise FederationError("session: it begins with all parties that were agreed on")
        if self.own_end not in self._ends:
            raise FederationError("session: this party is not in it as it advertised itself")
        self._session = session_name(agreement.digest, [self.coordinator, *self._ends])
        self._pairs = {k: self._key(end) for k, end in enumerate(self._ends) if end.name != name}
        self.channel = Channel(self._key(self.coordinator), name, COORDINATOR)
        confirmations = {
            k: confirmation(key, name, self._ends[k].name) for k, key in self._pairs.items()
        }
        return {
            "stage": "ready",
            "part": byte_array(self._part),
            "confirmations": write_bytes(confirmations),
            "rows": None if agreement.seed is None else count_rows(self.member.rows),
        }

    def _key(self, other: Advertised) -> bytes:
        return pair_key(self.member.name, self.member.identity, self.fresh, other, self._session)

    def open(self, body: Mapping[str, Any], threads: int) -> tuple[PartySession, Ledger]:
        """Return the session and its ledger, if all other parties have confirmed their keys.

        The first deal is checked, then the plan is charged, then rows are loaded.

        Privacy
        -------
        Spends what the plan costs.
        """
        self._check_confirmed(read_bytes(body.get("confirmations")))
        agreement, plan = self.agreement, self._plan
        own = list(agreement.parties).index(self.member.name)
        secret = derive(random_bytes(), "rounds")
        rounds = PartyRounds(own, agreement.quorum, self._pairs, secret)
        rounds.check_batch(whole(body, "first"), whole(body, "count"))
        joint = self._join(body.get("parts"))
        first = 0 if agreement.seed is None else whole(body, "first_id")
        load = Load(replace(self._load.loader, first_id=first), self._load.source)  # type: ignore[type-var]
        # The message was checked in full: refusals from here on come after the charge.
        with hiding_reasons():
            ledger = self._ledger()
            ledger.reserve(plan.releases)
            backend = open_local([load], threads)
        stream = self._keys.child(f"releases of {self.member.name}")
        distributed = agreement.trust == DISTRIBUTED
        kind: type[PartyCurator] = NoisyPartyCurator if distributed else ExactPartyCurator
        part = noise_part(agreement.quorum) if distributed else 1.0
        seeded = agreement.seed is not None
        curator = kind(backend, ledger, stream, plan.contribution, part, seeded)
        return PartySession(rounds, curator, plan, backend, joint), ledger

    def _check_confirmed(self, confirmations: Mapping[int, bytes]) -> None:
        """Refuse to begin unless all others have proved that they have their pair keys."""
        for k, key in self._pairs.items():
            name = self._ends[k].name
            expected = confirmation(key, name, self.member.name)
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


def _read_end(end: Any, agreement: Agreement) -> Advertised:
    """Return what a party advertises, with its identity in the agreement."""
    name = end.get("name") if isinstance(end, dict) else None
    if name not in agreement.parties:
        raise FederationError("session: an end of it is not among the parties")
    identity = bytes.fromhex(agreement.parties[name])
    keys = (key_bytes(end, each) for each in ("fresh", "nonce", "commitment"))
    return Advertised(name, identity, *keys)
