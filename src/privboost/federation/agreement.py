"""What all ends agree on before anything is asked: who takes part, and what is going to be done."""

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
"""Who adds noise: a server that everybody trusts with exact totals, or the parties."""
COORDINATOR = "coordinator"
"""The name of the server's end; no party has it."""
_OWN = (
    *("classes", "domain", "domain_given", "domain_share", "domain_rows", "public_rows"),
    *("random_state", "n_jobs", "backend", "ledger", "budget", "verbose"),
)
"""Parameters that are not told: what they say stands elsewhere, or concerns one end alone."""


@dataclass(frozen=True)
class Agreement:
    """Everything that a run is, as all ends must see it.

    Attributes
    ----------
    version : str
        The version of privboost.
    estimator : str
        The estimator, by its name.
    parameters : dict
        Its parameters.
    domain : dict
        The domain, with the rule of its unit.
    weight : str or None
        The column of sample weights.
    n_rows : int or None
        How many rows there are, where that is public and decides the plan.
    plan : str
        The digest of the plan.
    trust : str
        Who adds noise.
    parties : dict from str to str
        The parties in their order, each with its public key in hexadecimal digits.
    colluders, dropouts : int
        See `Quorum`.
    seed : int or None
        The seed of a run without a guarantee.
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
        """How many parties there are."""
        try:
            return Quorum(len(self.parties), self.colluders, self.dropouts)
        except ValueError as error:
            raise FederationError(f"quorum: {error}") from None

    @property
    def digest(self) -> str:
        """SHA-256 of all of it; the order of parties is part of it."""
        form = asdict(self) | {"parties": list(self.parties.items())}
        return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()

    @property
    def words(self) -> str:
        """What is going to be done, in words."""
        k, c, d = len(self.parties), self.colluders, self.dropouts
        budget = [f"{x} {self.parameters.get(x, 'as usual')}" for x in ("epsilon", "delta")]
        return (
            f"{self.estimator}, {' and '.join(budget)}, trust={self.trust!r}, {k} parties of "
            f"which {c} may collude and {d} may be lost"
        )

    def to_form(self) -> dict[str, Any]:
        """Return what travels."""
        return asdict(self)

    @classmethod
    def from_form(cls, form: Any) -> Agreement:
        """Read what travelled."""
        names = {each.name for each in fields(cls)}
        if not isinstance(form, dict) or set(form) != names:
            raise FederationError("version: the coordinator speaks of other things")
        made = cls(**form)
        if made.trust not in (SERVER, DISTRIBUTED) or not isinstance(made.parties, dict):
            raise FederationError("agreement: not one of this version")
        if not isinstance(made.parameters, dict) or not set(made.parameters).isdisjoint(_OWN):
            raise FederationError("agreement: parameters that concern one end alone")
        return made


def told_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return an estimator's parameters as parties are told them, and as JSON can say them."""
    told = {}
    for name, value in parameters.items():
        if name in _OWN:
            continue
        try:
            if isinstance(value, Mapping):  # by text, as everywhere
                value = {str(key): entry for key, entry in value.items()}
            told[name] = json.loads(json.dumps(value, default=_plain))
        except (TypeError, ValueError):
            raise FederationError(f"parameters: {name} cannot be told to parties") from None
    return told


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError("neither number nor text")
