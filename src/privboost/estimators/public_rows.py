"""Fits without noise: budget, preparation and run of rows that were declared public."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privboost._core.checks import is_number, shown
from privboost._core.errors import BudgetError
from privboost.accounting.ledger import Ledger
from privboost.engine.backend import Backend
from privboost.estimators.preparation import DomainAndBudget, Preparation, Run, RunSettings
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.public_curator import PublicCurator, empty_ledger
from privboost.recipes.common.plan import Budget, Plan, PublicRows
from privboost.reports.report import WEIGHTED, PrivacyReport
from privboost.reports.writing import write_public_report


def budget_of(epsilon: Any, delta: Any, public_rows: Any) -> Budget:
    """Return the budget, which is unlimited if the caller declares the rows public.

    Raises
    ------
    BudgetError
        If only one of an infinite epsilon and that declaration is given.
    """
    if not isinstance(public_rows, bool | np.bool_):  # a string such as "no" declares nothing
        raise ValueError(f"public_rows must be True or False; {shown(public_rows)} is not")
    declared = bool(public_rows)
    infinite = is_number(epsilon) and epsilon == math.inf
    if infinite and not declared:
        raise BudgetError(
            "epsilon is infinite: nothing would be protected. If every row is public, say so with "
            "public_rows=True (--public-rows); for private rows epsilon must be finite"
        )
    if declared and not infinite:
        raise BudgetError(
            "public_rows=True goes with epsilon=math.inf only: rows that have a finite epsilon are "
            "private"
        )
    return PublicRows(delta) if declared else Budget(epsilon, delta)


def check_public(setting: RunSettings) -> None:
    """Refuse parameters that are about protection: nothing is protected."""
    domain = setting.domain
    if domain is None or domain.privacy is not None or domain.inferences:
        raise BudgetError(
            "public_rows: a domain is learned with noise, at a price; with epsilon=math.inf it "
            "must be written"
        )
    if domain.unit is not None:
        raise BudgetError(
            "public_rows: the domain names a unit to protect, and with epsilon=math.inf nobody is "
            "protected; leave the unit out"
        )
    check_no_ledger(setting)


def check_no_ledger(setting: RunSettings) -> None:
    """Refuse to record charges: public rows have no price."""
    if setting.ledger is not None or setting.account is not None:
        raise BudgetError(
            "public_rows: there is nothing to record in a ledger or an account; leave it out"
        )


class PublicRun(Run):
    """A prepared run on public rows."""

    def curator(self, backend: Backend) -> Curator:
        """Return a curator that releases exact sums."""
        plan = self.plan
        keys = self.keys.child("releases")
        return PublicCurator(backend, plan.accountant, keys, plan.contribution)

    def report(self) -> PrivacyReport:
        """Return a report that nothing is protected."""
        plan = self.plan
        return write_public_report(
            plan.releases, self.assumptions, self.seeded, self.parameters, self.digest, self.what
        )


class PublicPreparation(Preparation):
    """Preparation of a run on public rows: nothing is learned, and nothing reserved."""

    _run = PublicRun

    def __init__(self, setting: RunSettings, *stages: Any) -> None:
        check_public(setting)
        super().__init__(setting, *stages)

    def warn(self) -> None:
        """Warn of nothing: a seed reveals nothing that is not public."""

    def reserve(self, ground: DomainAndBudget, plan: Plan) -> Ledger:
        """Return an empty ledger, so that nothing private can be charged."""
        return empty_ledger(plan.accountant)

    def assumptions(self, ground: DomainAndBudget, plan: Plan) -> tuple[str, ...]:
        """Return the declaration by which no noise was added."""
        texts = [
            "the caller declared all rows public (public_rows=True): exact sums of them were told, "
            "and nothing about any row is hidden"
        ]
        bound = self.given.weight_bound
        if bound is not None:
            texts.append(f"{WEIGHTED} [0, {bound:g}]")
        return tuple(texts)
