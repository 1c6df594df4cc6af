"""The agreement that all ends make before any query: the parties, the run, and its plan.

A quorum fixes how many parties may be lost, and how many may collude.

A party's consent limits the offers that it accepts.

Parties add the noise together: each draws a part, and the sum replaces one draw.

Of k parties d may be lost and c may reveal their noise to the server. So every sum has the noise
of k − c − d honest parties, and each draws discrete Gaussian noise of 1/(k − c − d) of the
variance. The sum of m discrete Gaussians of scale s is, at every integer, within e^{±τ} of one
discrete Gaussian of scale s√m, with τ ≤ 10 · Σ_{j<m} exp(−2π²s²·j/(j+1)):
docs/guarantees/federation.md.

Each end makes the plan of an agreement with its own code.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from typing import Any

import numpy as np

from privboost._core.errors import FederationError
from privboost.accounting.events import Event
from privboost.accounting.individual_budgets import IndividualBudget
from privboost.accounting.noisy_sums import GaussianRelease, GramRelease, VectorRelease
from privboost.data.domain import Domain
from privboost.data.table import Batch, RemoteTable, raise_remote_rows
from privboost.recipes import ESTIMATORS
from privboost.recipes.adassp import AdaSSPPlan
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
    """A run as all ends must see it.

    Attributes
    ----------
    version : str
        Version of privboost.
    estimator : str
        Name of the estimator.
    parameters : dict
        Its parameters.
    domain : dict
        The domain, with the rule of its unit.
    weight : str or None
        Column of sample weights.
    n_rows : int or None
        Number of rows, where it is public and the plan depends on it.
    plan : str
        Digest of the plan.
    trust : str
        Who adds noise.
    parties : dict from str to str
        Parties in order, each with its public key in hexadecimal digits.
    colluders, dropouts : int
        See `Quorum`.
    seed : int or None
        Seed of a run without a guarantee.
    """

    version: str
    estimator: str
    parameters: dict[str, Any]
    domain: dict[str, Any]
    weight: str | None
    n_rows: int | None
    plan: str
    trust: str
    parties: dict[str, str]
    colluders: int
    dropouts: int
    seed: int | None

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


MOST_PARTIES = 2**12
"""The noise of so many parties, and the largest sums of rows, fit int64 together."""


@dataclass(frozen=True)
class Quorum:
    """Numbers of parties that a sum needs, and that it is hidden from.

    Attributes
    ----------
    parties : int
        k, the number of parties.
    colluders : int
        c, the number of parties that may collude with the server.
    dropouts : int
        d, the number of parties that may be lost, at any stage.
    """

    parties: int
    colluders: int = 0
    dropouts: int = 0

    def __post_init__(self) -> None:
        for name in ("parties", "colluders", "dropouts"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} must be an integer of at least 0")
        if not 2 <= self.parties <= MOST_PARTIES:
            raise ValueError(f"a federation has between 2 and {MOST_PARTIES} parties")
        if self.threshold <= self.colluders:
            raise ValueError(
                f"{self.colluders} colluders of {self.parties} parties could open masks by "
                f"themselves, if {self.dropouts} may be lost: allow fewer dropouts or colluders"
            )
        if 2 * self.threshold <= self.parties + self.colluders:
            raise ValueError(
                f"with {self.dropouts} dropouts and {self.colluders} colluders of {self.parties} "
                "parties, a server that shows two sets of survivors could open a party's masks: "
                "2(k - d) must exceed k + c"
            )

    @property
    def threshold(self) -> int:
        """t = k − d, the number of parties needed at every stage, and of shares of a seed."""
        return self.parties - self.dropouts

    @property
    def honest(self) -> int:
        """k − c − d, the least number of honest parties in every sum."""
        return self.threshold - self.colluders


_MAX_LISTED = 3


@dataclass(frozen=True)
class Consent:
    """Limits of a party; see `Party` for the attributes."""

    domain: Domain | None
    weight: str | None
    colluders: int
    least_parties: int | None
    trust_server: bool
    accept_seed: bool
    tell_rows: bool

    def check(self, agreement: Agreement, pinned: int) -> None:
        """Refuse an offer beyond the limits.

        Parameters
        ----------
        agreement : Agreement
            The offer.
        pinned : int
            Number of parties that this one has pinned, itself included.
        """
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


GAUSSIAN = (GaussianRelease, VectorRelease, GramRelease)
"""Events whose noise parties can add: these classes, not their subclasses."""
LEAST_SCALE = 2.0**8
"""The least scale of one party's noise, in grid steps."""
SLACK = 1e-300
"""Bound of the ε that a run loses because noise is a sum: from `LEAST_SCALE` on, τ of one number
is below 10 · 2¹² · exp(−6 · 10⁵)."""


def noise_part(quorum: Quorum) -> float:
    """Return a party's part of the noise's standard deviation, rounded up."""
    return math.nextafter(1 / math.sqrt(quorum.honest), math.inf)


def sum_slack(scale: float, parties: int) -> float:
    """Return the bound τ of one number: the log-ratio of a sum of discrete Gaussians to one."""
    ratios = (j / (j + 1) for j in range(1, parties))
    return math.fsum(10 * math.exp(-2 * math.pi**2 * scale**2 * ratio) for ratio in ratios)


def check_distributed(plan: Plan, quorum: Quorum) -> None:
    """Refuse a plan whose noise parties cannot add."""
    if isinstance(plan, AdaSSPPlan) and plan.least is not None:
        raise FederationError(
            'trust: the smallest eigenvalue needs a server that is trusted, trust="server"'
        )
    for planned in plan.releases:
        event = planned.event
        if not isinstance(event, IndividualBudget) and type(event) not in GAUSSIAN:
            raise FederationError(
                f'trust: {event.what!r} needs a server that is trusted, trust="server" '
                f"({event.mechanism})"
            )
        check_scale(event, noise_part(quorum))


def check_scale(event: Event, part: float) -> None:
    """Refuse noise of which a party's part would be below `LEAST_SCALE`."""
    grid = event.gaussian_grid  # None for a Rényi budget: its releases are checked one by one
    if grid is not None and not grid[1] * part >= LEAST_SCALE:
        raise FederationError(
            f"trust: the noise of {event.what!r} is too little to be divided among parties"
        )


_FIT_ONLY = "rows: a federation can be fitted, and nothing else"


class AgreedRows(RemoteTable):
    """A table without columns or rows; only its number of rows may be known."""

    def __init__(self, n_rows: int | None) -> None:
        self._n_rows = n_rows

    @property
    def place(self) -> str:  # type: ignore[override]
        """Unavailable: streams have no federations."""
        raise FederationError(_FIT_ONLY)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Unavailable: the tables lie with the parties."""
        raise FederationError(_FIT_ONLY)

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


@dataclass(frozen=True, eq=False)
class OwnPlan:
    """A party's own copy of the plan, and the bound of its sample weights."""

    plan: Plan
    weight_bound: float | None


def make_plan(agreement: Agreement) -> OwnPlan:
    """Return the plan that the agreement's parameters and domain give here.

    Raises
    ------
    FederationError
        If there is none, or its digest is not the agreed one.
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
    return OwnPlan(plan, prepared.given.weight_bound)
