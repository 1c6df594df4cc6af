"""A party's consent limits the offers that it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privboost.errors import FederationError
from privboost.federation.agreement import SERVER, Agreement
from privboost.tables.domain import Domain

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
