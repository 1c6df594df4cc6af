"""An offer is accepted, or refused by a rule that the coordinator may know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privboost import __version__
from privboost.accounts.account import BudgetAccount
from privboost.accounts.posting import Posting
from privboost.errors import BudgetError, DomainError, FederationError, SchemaError
from privboost.federation.agreement import DISTRIBUTED, Agreement
from privboost.federation.consent import Consent
from privboost.federation.distributed import check_distributed
from privboost.federation.joint import commit_to
from privboost.federation.keys import COORDINATOR, Advertised, KeyPair, random_bytes
from privboost.federation.messages import byte_array, key_bytes
from privboost.federation.plans import OwnPlan, make_plan
from privboost.privacy.ledger import Ledger
from privboost.randomness.keystream import KeyStream
from privboost.tables.beside import open_source
from privboost.tables.encoding import Encoder
from privboost.tables.loader import RowLoader, UnitRule
from privboost.tables.loading import Load, check_schema
from privboost.unit import column_of


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

    def charge_for(self, agreement: Agreement, own: OwnPlan) -> Posting | None:
        """Return the charge of a run to this party's account; None for a seeded run."""
        if agreement.seed is not None:  # it protects nobody: there is nothing to charge
            return None
        if self.budget is None:
            raise FederationError("budget: this party has no account to charge (budget)")
        unit = column_of(own.plan.encoder.domain.unit)
        with hiding_reasons("unit: this party's account protects another one"):
            self.budget.balance().check_unit(unit)
        return Posting(self.budget, agreement.estimator, unit)


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
