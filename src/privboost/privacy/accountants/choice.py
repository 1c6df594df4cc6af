"""Which accountant: the tightest that covers the events, and the others beside it."""

from __future__ import annotations

from collections.abc import Sequence

from privboost.privacy.accountants.advanced import AdvancedAccountant
from privboost.privacy.accountants.base import Accountant
from privboost.privacy.accountants.game import GameAccountant
from privboost.privacy.accountants.gdp import GdpAccountant
from privboost.privacy.accountants.pld import PldAccountant
from privboost.privacy.accountants.pure import PureAccountant
from privboost.privacy.accountants.rdp import RdpAccountant
from privboost.privacy.accountants.resolution import unresolved
from privboost.privacy.events.event import Planned

ACCOUNTANTS: dict[str, type[Accountant]] = {
    kind.name: kind
    for kind in (
        GdpAccountant,
        GameAccountant,
        PldAccountant,
        RdpAccountant,
        PureAccountant,
        AdvancedAccountant,
    )
}
"""From the tightest to the loosest, where several cover the same events."""


def choose_accountant(name: str, events: Sequence[Planned], delta: float) -> Accountant:
    """Return an accountant by name; "auto" is the tightest that covers events and resolves δ.

    Raises
    ------
    ValueError
        If the name is unknown, the accountant does not cover the events, δ is below what it can
        resolve, or δ = 0 is asked of events that are not pure.
    """
    known = ", ".join(map(repr, ["auto", *ACCOUNTANTS]))
    if not isinstance(name, str):
        raise ValueError(f"accountant must be one of {known}; a {type(name).__name__} is not")
    if name not in ("auto", *ACCOUNTANTS):
        raise ValueError(f"accountant must be one of {known}; {name!r} is not")
    names = ["pure"] if delta == 0 else list(ACCOUNTANTS)
    if delta == 0 and not ACCOUNTANTS["pure"]().supports(events):
        raise ValueError(
            "delta = 0 (pure DP) is impossible with Gaussian noise or thresholds; the recipes "
            "privboost (PrivBoostClassifier, PrivBoostRegressor), sarus (SarusXGBClassifier, "
            "SarusXGBRegressor) and lazybb (LazyBBClassifier) can be pure"
        )
    if name != "auto":
        if delta == 0 and name != "pure":
            raise ValueError(f"the {name} accountant needs delta above 0; with 0 there is pure")
        names = [name]
    covering = [kind for each in names if (kind := ACCOUNTANTS[each]()).supports(events)]
    for accountant in covering:
        if delta >= accountant.least_delta(events):
            return accountant
    if covering:
        raise ValueError(unresolved(covering[0].name, covering[0].least_delta(events)))
    able = [each for each, kind in ACCOUNTANTS.items() if kind().supports(events)]
    raise ValueError(f"the {name} accountant does not cover this plan; {', '.join(able)} would")


def compare_accountants(events: Sequence[Planned], delta: float) -> dict[str, float]:
    """Return ε at δ by every accountant that covers the events and can resolve δ.

    Where gdp is exact, pld would only approximate it and is left out.
    """
    found: dict[str, float] = {}
    for name, kind in ACCOUNTANTS.items():
        if name == "pld" and "gdp" in found:
            continue
        accountant = kind()
        if not accountant.supports(events) or (delta == 0 and name != "pure"):
            continue
        try:
            if delta >= accountant.least_delta(events):
                found[name] = accountant.cost(events, delta)
        except ValueError:  # so large a composition that this one gives up
            continue
    return found
