"""The agreement that all ends make before any query: the parties, the run, and its plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from privboost.errors import FederationError
from privboost.federation.quorum import Quorum

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
