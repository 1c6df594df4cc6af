"""Each end makes the plan of an agreement with its own code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from privboost.boosting.plan import Plan
from privboost.errors import FederationError
from privboost.federation.agreement import Agreement
from privboost.recipes import ESTIMATORS
from privboost.tables.domain import Domain
from privboost.tables.pieces import Batch
from privboost.tables.remote import RemoteTable, refuse_remote

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
        refuse_remote()

    def count_rows(self) -> int:
        """Return the number of rows in the agreement."""
        if self._n_rows is None:
            raise FederationError("plan: it needs the number of rows, and none was agreed")
        return self._n_rows

    def open_backend(self, loads: Sequence[Any]) -> Any:
        """Unavailable: the tables lie with the parties."""
        refuse_remote()


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
