"""Registry of accountants, and the choice of the tightest that covers a composition."""

from __future__ import annotations

from collections.abc import Sequence

from privboost.privacy.accountants.advanced import AdvancedAccountant
from privboost.privacy.accountants.base import Accountant
from privboost.privacy.accountants.game import BoundedRangeAccountant
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
        BoundedRangeAccountant,
        PldAccountant,
        RdpAccountant,
        PureAccountant,
        AdvancedAccountant,
    )
}
"""All accountants, from the tightest to the loosest where several cover the same events."""


def choose_accountant(name: str, events: Sequence[Planned], delta: float) -> Accountant:
    """Return an accountant by name; "auto" is the tightest that covers events and resolves δ.

    Raises
    ------
    ValueError
        If the name is unknown, the accountant does not cover the events, δ is below its
        resolution, or δ is 0 and the events are not pure.
    """
    known = ", ".join(map(repr, ["auto", *ACCOUNTANTS]))
    if not isinstance(name, str):
        raise ValueError(f"accountant must be one of {known}; a {type(name).__name__} is not")
    if name not in ("auto", *ACCOUNTANTS):
        raise ValueError(f"accountant must be one of {known}; {name!r} is not")
    kinds = [kind for kind in ACCOUNTANTS.values() if delta > 0 or not kind.needs_delta]
    if delta == 0 and not any(kind().supports(events) for kind in kinds):
        raise ValueError(
            "delta = 0 (pure DP) is impossible with Gaussian noise or thresholds; the recipes "
            "privboost (PrivBoostClassifier, PrivBoostRegressor), sarus (SarusXGBClassifier, "
            "SarusXGBRegressor) and lazybb (LazyBBClassifier) can be pure"
        )
    if name != "auto":
        if delta == 0 and ACCOUNTANTS[name].needs_delta:
            raise ValueError(f"the {name} accountant needs delta above 0; with 0 there is pure")
        kinds = [ACCOUNTANTS[name]]
    covering = [accountant for kind in kinds if (accountant := kind()).supports(events)]
    for accountant in covering:
        if delta >= accountant.least_delta(events):
            return accountant
    if covering:
        raise ValueError(unresolved(covering[0].name, covering[0].least_delta(events)))
    able = [each for each, kind in ACCOUNTANTS.items() if kind().supports(events)]
    raise ValueError(f"the {name} accountant does not cover this plan; {', '.join(able)} would")


def compare_accountants(events: Sequence[Planned], delta: float) -> dict[str, float]:
    """Return ε at δ by every accountant that covers the events and resolves δ.

    An accountant that approximates an exact one is left out where that applies.
    """
    found: dict[str, float] = {}
    for name, kind in ACCOUNTANTS.items():
        accountant = kind()
        superfluous = kind.approximates in found or (delta == 0 and kind.needs_delta)
        if superfluous or not accountant.supports(events):
            continue
        try:
            if delta >= accountant.least_delta(events):
                found[name] = accountant.cost(events, delta)
        except ValueError:  # the composition is too large for this accountant
            continue
    return found
