"""What a party allows: an offer beyond it is refused, whoever makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privboost.errors import FederationError
from privboost.federation.agreement import SERVER, Agreement
from privboost.tables.domain import Domain

_MOST_PLACES = 3


@dataclass(frozen=True)
class Consent:
    """What a party has said for itself; see `Party`."""

    domain: Domain | None
    weight: str | None
    colluders: int
    least_parties: int | None
    trust_server: bool
    accept_seed: bool
    tell_rows: bool

    def check(self, agreement: Agreement, pinned: int) -> None:
        """Refuse an offer that goes beyond this.

        Parameters
        ----------
        agreement : Agreement
            The offer.
        pinned : int
            How many parties this one knows, itself among them.
        """
        if agreement.seed is not None and not self.accept_seed:
            raise FederationError("seed: a run with a seed protects nobody (accept_seed)")
        if agreement.n_rows is not None:
            self.check_rows()
        if agreement.trust == SERVER and not self.trust_server:
            raise FederationError("trust: this party trusts no server with totals (trust_server)")
        if agreement.quorum.colluders < self.colluders:
            raise FederationError(
                f"colluders: this party wants to be safe from {self.colluders} of them at least"
            )
        least = pinned if self.least_parties is None else self.least_parties
        if len(agreement.parties) < least:
            raise FederationError(f"parties: this party takes part with {least} at least")
        if agreement.weight not in (None, self.weight):
            raise FederationError("weight: this party has not named this column (weight)")
        if self.domain is not None:
            _check_domain(self.domain.to_dict(), agreement.domain)

    def check_rows(self) -> None:
        """Refuse to have the number of rows known, where that is private."""
        if not self.tell_rows:
            raise FederationError("rows: their number is private here (tell_rows)")


def _check_domain(own: Mapping[str, Any], offered: Mapping[str, Any]) -> None:
    """Refuse a domain that is not this party's own, and say where they differ."""
    mine, theirs = _places(own), _places(offered)
    differ = [name for name in mine | theirs if mine.get(name) != theirs.get(name)]
    if differ == ["unit"]:
        raise FederationError("unit: the offer bounds units by another rule than this party")
    if differ:
        where = ", ".join(differ[:_MOST_PLACES])
        raise FederationError(f"domain: the offer has another one than this party: {where}")


def _places(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return a domain's form, each feature by itself."""
    features = form.get("features")
    named = features if isinstance(features, dict) else {"features": features}
    rest = {key: entry for key, entry in form.items() if key != "features"}
    return {repr(name): entry for name, entry in named.items()} | rest
