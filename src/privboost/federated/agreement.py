"""The agreement that all ends make before any query: the parties, the run, and its plan.

Each end makes the plan with its own code; a party's consent limits the offers that it accepts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from typing import Any

import numpy as np

from privboost._core.errors import FederationError
from privboost.data.domain import Domain
from privboost.data.table import Batch, RemoteTable, raise_remote_rows
from privboost.federated.aggregation import Quorum
from privboost.recipes import ESTIMATORS
from privboost.recipes.common.plan import Plan

SERVER, DISTRIBUTED = "server", "distributed"
"""Who adds noise: a server that all parties trust with exact totals, or the parties."""
_LOCAL = (
    *("classes", "domain", "domain_given", "domain_share", "domain_rows", "public_rows"),
    *("random_state", "n_jobs", "backend", "ledger", "budget", "verbose"),
)
"""Parameters that are not sent: the agreement has them elsewhere, or they concern one end alone."""


@dataclass(frozen=True)
class Agreement:
    """A run as all ends must see it."""

    version: str  # of privboost
    estimator: str
    parameters: dict[str, Any]
    domain: dict[str, Any]  # with the rule of its unit
    weight: str | None  # the column of sample weights
    n_rows: int | None  # where it is public and the plan depends on it
    plan: str  # the plan's digest
    trust: str
    parties: dict[str, str]  # in order, each with its public key in hexadecimal digits
    colluders: int
    dropouts: int
    seed: int | None  # of a run without a guarantee

    @property
    def quorum(self) -> Quorum:
        """Numbers of parties."""
        try:
            return Quorum(len(self.parties), self.colluders, self.dropouts)
        except ValueError as error:
            raise FederationError(f"quorum: {error}") from None

    @property
    def digest(self) -> str:
        """SHA-256 of the agreement, the order of parties included."""
        content = self.to_dict() | {"parties": list(self.parties.items())}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def describe(self) -> str:
        """Return a line of text about the run."""
        k, c, d = len(self.parties), self.colluders, self.dropouts
        budget = [f"{x} {self.parameters.get(x, 'by default')}" for x in ("epsilon", "delta")]
        return (
            f"{self.estimator}, {' and '.join(budget)}, trust={self.trust!r}, {k} parties of "
            f"which {c} may collude and {d} may be lost"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the agreement as a part of a message."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Any) -> Agreement:
        """Return the agreement that `to_dict` wrote."""
        names = {each.name for each in fields(cls)}
        if not isinstance(content, dict) or set(content) != names:
            raise FederationError("version: the coordinator's agreement has other entries")
        made = cls(**content)
        if made.trust not in (SERVER, DISTRIBUTED) or not isinstance(made.parties, dict):
            raise FederationError("agreement: not one of this version")
        if not isinstance(made.parameters, dict) or not set(made.parameters).isdisjoint(_LOCAL):
            raise FederationError("agreement: parameters that concern one end alone")
        return made


def shared_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator that parties need, as JSON values."""
    shared = {}
    for name, value in parameters.items():
        if name in _LOCAL:
            continue
        try:
            if isinstance(value, Mapping):  # JSON keys are strings
                value = {str(key): entry for key, entry in value.items()}
            shared[name] = json.loads(json.dumps(value, default=_plain))
        except (TypeError, ValueError):
            raise FederationError(f"parameters: {name} cannot be sent to parties") from None
    return shared


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError("neither number nor string")


_MAX_LISTED = 3


@dataclass(frozen=True)
class Consent:
    """A party's limits of the offers that it accepts; see `Party`."""

    domain: Domain | None
    weight: str | None
    colluders: int
    least_parties: int | None
    trust_server: bool
    accept_seed: bool
    tell_rows: bool

    def check(self, agreement: Agreement, pinned: int) -> None:
        """Refuse an offer beyond the limits of a party that has pinned so many, itself included."""
        if agreement.seed is not None and not self.accept_seed:
            raise FederationError("seed: a seeded run protects nobody (accept_seed)")
        if agreement.n_rows is not None:
            self.check_rows()
        if agreement.trust == SERVER and not self.trust_server:
            raise FederationError("trust: this party trusts no server with totals (trust_server)")
        if agreement.quorum.colluders < self.colluders:
            raise FederationError(
                f"colluders: this party requires protection from at least {self.colluders}"
            )
        least = pinned if self.least_parties is None else self.least_parties
        if len(agreement.parties) < least:
            raise FederationError(f"parties: this party requires at least {least}")
        if agreement.weight not in (None, self.weight):
            raise FederationError("weight: this party has not named this column (weight)")
        if self.domain is not None:
            _check_domain(self.domain.to_dict(), agreement.domain)

    def check_rows(self) -> None:
        """Refuse to reveal the number of rows, unless it is public."""
        if not self.tell_rows:
            raise FederationError("rows: their number is private here (tell_rows)")


def _check_domain(own: Mapping[str, Any], offered: Mapping[str, Any]) -> None:
    """Refuse a domain that is not the party's own, and name the differences."""
    mine, theirs = _by_name(own), _by_name(offered)
    differ = [name for name in mine | theirs if mine.get(name) != theirs.get(name)]
    if differ == ["unit"]:
        raise FederationError("unit: the offer bounds units by another rule than this party")
    if differ:
        where = ", ".join(differ[:_MAX_LISTED])
        raise FederationError(f"domain: the offer has another one than this party: {where}")


def _by_name(domain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a domain's dict, and each feature as an entry of its own."""
    features = domain.get("features")
    named = features if isinstance(features, dict) else {"features": features}
    rest = {key: entry for key, entry in domain.items() if key != "features"}
    return {repr(name): entry for name, entry in named.items()} | rest


class AgreedRows(RemoteTable):
    """A table without columns or rows; only its number of rows may be known."""

    def __init__(self, n_rows: int | None) -> None:
        self._n_rows = n_rows

    @property
    def columns(self) -> Any:  # type: ignore[override]
        """Unavailable: the tables lie with the parties."""
        raise FederationError("rows: a federation can be fitted, and nothing else")

    place = columns

    def no_rows(self, names: Sequence[str]) -> Batch:
        """Unavailable: the tables lie with the parties."""
        raise_remote_rows()

    def count_rows(self) -> int:
        """Return the number of rows in the agreement."""
        if self._n_rows is None:
            raise FederationError("plan: it needs the number of rows, and none was agreed")
        return self._n_rows

    def open_backend(self, loads: Sequence[Any]) -> Any:
        """Unavailable: the tables lie with the parties."""
        raise_remote_rows()


def make_plan(agreement: Agreement) -> tuple[Plan, float | None]:
    """Return this end's own copy of the plan, and the bound of sample weights.

    Refuses an agreement whose parameters and domain give none here, or one of another digest.
    """
    if agreement.estimator not in ESTIMATORS:
        raise FederationError("estimator: there is none of this name")
    kind = getattr(
        import_module(f"privboost.{ESTIMATORS[agreement.estimator]}"), agreement.estimator
    )
    try:
        estimator = kind(domain=Domain.from_dict(agreement.domain), **agreement.parameters)
        prepared = estimator._prepare(AgreedRows(agreement.n_rows), None, agreement.weight)
        plan = prepared.plan(prepared.ground())
    except (TypeError, ValueError) as error:
        raise FederationError(f"plan: {error}") from None
    if plan.digest != agreement.plan:
        raise FederationError("plan: it is another one here; versions of packages may differ")
    return plan, prepared.given.weight_bound
