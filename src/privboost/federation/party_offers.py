"""An offer as a party judges it: accepted, or refused by a rule; nothing is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privboost import __version__
from privboost.errors import FederationError
from privboost.federation.agreement import COORDINATOR, DISTRIBUTED, Agreement
from privboost.federation.consent import Consent
from privboost.federation.distributed import check_distributed
from privboost.federation.joint import commit_to
from privboost.federation.keys import Advertised, KeyPair, random_bytes
from privboost.federation.limits import Limit
from privboost.federation.messages import key_bytes, write_key
from privboost.federation.plans import OwnPlan, make_plan
from privboost.privacy.ledger import Ledger
from privboost.randomness.keystream import KeyStream
from privboost.tables.beside import open_source
from privboost.tables.encoding import Encoder
from privboost.tables.loader import RowLoader, UnitRule
from privboost.tables.loading import Load, check_schema
from privboost.tables.sources import count_rows


@dataclass(frozen=True, eq=False)
class Member:
    """What a party brings to every offer; see `Party`."""

    name: str
    rows: Any
    identity: KeyPair
    pins: Mapping[str, bytes]
    consent: Consent
    limit: Limit

    def ledger_for(self, own: OwnPlan) -> Ledger:
        """Return the ledger of a run, within what is left of the limit."""
        budget = own.plan.budget
        epsilon = self.limit.allowed(budget)
        return Ledger(epsilon, budget.delta, own.plan.accountant, self.limit.path)


@dataclass(frozen=True, eq=False)
class Accepted:
    """What a party keeps between an offer that it accepted and the beginning."""

    agreement: Agreement
    own: OwnPlan
    load: Load
    coordinator: Advertised
    said: Advertised
    fresh: KeyPair
    part: bytes
    keys: KeyStream

    def reply(self, member: Member) -> dict[str, Any]:
        """Return what the coordinator is told."""
        return {
            "stage": "accepted",
            "agreed": self.agreement.digest,
            "fresh": write_key(self.said.fresh),
            "own_nonce": write_key(self.said.nonce),
            "commitment": write_key(self.said.commitment),
            "rows": None if self.agreement.seed is None else count_rows(member.rows),
        }


def accept_offer(member: Member, body: Mapping[str, Any]) -> Accepted:
    """Accept an offer, or refuse it by a rule."""
    agreement = Agreement.from_form(body.get("agreement"))
    _check_members(member, agreement)
    member.consent.check(agreement, len(member.pins))
    own = make_plan(agreement)
    if agreement.trust == DISTRIBUTED:
        check_distributed(own.plan, agreement.quorum)
    member.ledger_for(own).check(own.plan.releases)
    keys = KeyStream.of(agreement.seed)
    load = _load(member.rows, agreement, own, keys)
    fresh, part = KeyPair(), random_bytes()
    keys_said = member.identity.public, fresh.public, random_bytes(), commit_to(part)
    said = Advertised(member.name, *keys_said)
    coordinator = Advertised(
        COORDINATOR,
        member.pins[COORDINATOR],
        key_bytes(body, "fresh"),
        key_bytes(body, "nonce"),
    )
    return Accepted(agreement, own, load, coordinator, said, fresh, part, keys)


def _check_members(member: Member, agreement: Agreement) -> None:
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
    """Say how the rows are loaded; their schema is judged without a row."""
    encoder: Encoder = own.plan.encoder
    source, roles = open_source(encoder.domain, rows, None, agreement.weight)
    rule = UnitRule.of(encoder.domain.unit, keys.child("units"))
    steps = own.plan.class_steps
    loader = RowLoader(encoder, roles, own.weight_bound, rule, class_steps=steps)
    check_schema(loader, source)
    return Load(loader, source)
