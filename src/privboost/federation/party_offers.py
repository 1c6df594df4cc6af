"""An offer as a party judges it: accepted, or refused by a rule; nothing is spent."""

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
from privboost.federation.agreement import COORDINATOR, DISTRIBUTED, Agreement
from privboost.federation.consent import Consent
from privboost.federation.distributed import check_distributed
from privboost.federation.joint import commit_to
from privboost.federation.keys import Advertised, KeyPair, random_bytes
from privboost.federation.messages import key_bytes, write_key
from privboost.federation.plans import OwnPlan, make_plan
from privboost.privacy.ledger import Ledger
from privboost.randomness.keystream import KeyStream
from privboost.tables.beside import open_source
from privboost.tables.encoding import Encoder
from privboost.tables.loader import RowLoader, UnitRule
from privboost.tables.loading import Load, check_schema
from privboost.unit import column_of


class OwnReason(FederationError):
    """A refusal whose reason speaks of the party's own account or table.

    Attributes
    ----------
    own : str
        The reason, for the party's owner alone.
    """

    def __init__(self, rule: str, own: str) -> None:
        super().__init__(rule)
        self.own = own


@contextmanager
def keeping_reasons(
    budget: str = "budget: this party's account does not cover it",
) -> Iterator[None]:
    """Tell the coordinator which rule refused an offer, and the party's owner alone why."""
    try:
        yield
    except BudgetError as error:
        raise OwnReason(budget, str(error)) from None
    except (SchemaError, DomainError) as error:
        raise OwnReason("columns: the table lacks what the domain names", str(error)) from None


@dataclass(frozen=True, eq=False)
class Member:
    """What a party brings to every offer; see `Party`."""

    name: str
    rows: Any
    identity: KeyPair
    pins: Mapping[str, bytes]
    consent: Consent
    budget: BudgetAccount | None
    ledger: Path | None

    def posting_for(self, agreement: Agreement, own: OwnPlan) -> Posting | None:
        """Return this party's account, told what is about to be run; None for a seeded run."""
        if agreement.seed is not None:  # it protects nobody: there is nothing to charge
            return None
        if self.budget is None:
            raise FederationError("budget: this party has no account to charge (budget)")
        unit = column_of(own.plan.encoder.domain.unit)
        with keeping_reasons("unit: this party's account protects another one"):
            self.budget.balance().check_unit(unit)
        return Posting(self.budget, agreement.estimator, unit)

    def ledger_for(self, accepted: Accepted) -> Ledger:
        """Return the ledger of a run, whose reservation is charged to the account first."""
        plan = accepted.own.plan
        posting = self.posting_for(accepted.agreement, accepted.own)
        own = plan.budget.epsilon, plan.budget.delta, plan.accountant
        return Ledger(*own, self.ledger, posting)


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

    def reply(self) -> dict[str, Any]:
        """Return what the coordinator is told."""
        return {
            "stage": "accepted",
            "agreed": self.agreement.digest,
            "fresh": write_key(self.said.fresh),
            "own_nonce": write_key(self.said.nonce),
            "commitment": write_key(self.said.commitment),
        }


def accept_offer(member: Member, body: Mapping[str, Any]) -> Accepted:
    """Accept an offer, or refuse it by a rule."""
    agreement = Agreement.from_form(body.get("agreement"))
    _check_members(member, agreement)
    member.consent.check(agreement, len(member.pins))
    own = make_plan(agreement)
    if agreement.trust == DISTRIBUTED:
        check_distributed(own.plan, agreement.quorum)
    posting = member.posting_for(agreement, own)
    keys = KeyStream.of(agreement.seed)
    with keeping_reasons():
        if posting is not None:
            posting.check(own.plan.releases)
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
    accepted = Accepted(agreement, own, load, coordinator, said, fresh, part, keys)
    with keeping_reasons():
        member.ledger_for(accepted).check(own.plan.releases)
    return accepted


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
