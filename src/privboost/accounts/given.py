"""Validation of the `budget` parameter."""

from __future__ import annotations

from typing import Any

from privboost.accounts.account import BudgetAccount
from privboost.errors import BudgetError


def check_account(name: str, value: Any, random_state: Any) -> BudgetAccount | None:
    """Return the account to charge, or None; refuse other types, and a seed with an account."""
    if value is None:
        return None
    if not isinstance(value, BudgetAccount):
        raise TypeError(
            f"{name} must be the account of a data set, as in "
            "BudgetStore('store.db').account('patients')"
        )
    if random_state is not None:
        raise BudgetError(
            f"{name}: a seeded run has no guarantee to charge; leave random_state (--seed) out"
        )
    return value
