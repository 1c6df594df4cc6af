"""Fits without noise: the budget, the stages and the run of rows that were declared public."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privboost.boosting.checks import is_number, shown
from privboost.boosting.plan import Budget, Plan, PublicRows
from privboost.engine.backend import Backend
from privboost.errors import BudgetError
from privboost.estimators.preparation import Ground, Preparation, Run, Setting
from privboost.privacy.curator import Curator
from privboost.privacy.ledger import Ledger
from privboost.privacy.public_curator import PublicCurator, empty_ledger
from privboost.privacy.statements import write_public_report
from privboost.reports.report import WEIGHTED, PrivacyReport


def budget_of(epsilon: Any, delta: Any, public_rows: Any) -> Budget:
    """Return what may be spent; no limit where the caller declares the rows public.

    Raises
    ------
    BudgetError
        If an infinite epsilon comes without that declaration, or the other way round.
    """
    if not isinstance(public_rows, bool | np.bool_):  # a word such as "no" declares nothing
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


def check_public(setting: Setting) -> None:
    """Refuse promises that mean nothing where nothing is protected."""
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


def check_no_ledger(setting: Setting) -> None:
    """Refuse to keep an account of what has no price."""
    if setting.ledger is not None or setting.account is not None:
        raise BudgetError(
            "public_rows: there is nothing to record in a ledger or an account; leave it out"
        )


class PublicRun(Run):
    """A fit on public rows that is ready to train."""

    def curator(self, backend: Backend) -> Curator:
        """Return who tells the recipe exact sums."""
        plan = self.plan
        keys = self.keys.child("releases")
        return PublicCurator(backend, plan.accountant, keys, plan.contribution)

    def report(self) -> PrivacyReport:
        """State that nothing is protected."""
        plan = self.plan
        return write_public_report(
            plan.releases, self.assumptions, self.seeded, self.parameters, self.digest, self.what
        )


class PublicPreparation(Preparation):
    """The stages of a fit on public rows: nothing is learned, and nothing reserved."""

    _run = PublicRun

    def __init__(self, setting: Setting, *stages: Any) -> None:
        check_public(setting)
        super().__init__(setting, *stages)

    def caution(self) -> None:
        """Say nothing: a seed gives away nothing that is not told."""

    def reserve(self, ground: Ground, plan: Plan) -> Ledger:
        """Set nothing aside, so that nothing private can be charged."""
        return empty_ledger(plan.accountant)

    def assumptions(self, ground: Ground, plan: Plan) -> tuple[str, ...]:
        """Say on whose word no noise was added."""
        said = [
            "the caller declared all rows public (public_rows=True): exact sums of them were told, "
            "and nothing about any row is hidden"
        ]
        bound = self.given.weight_bound
        if bound is not None:
            said.append(f"{WEIGHTED} [0, {bound:g}]")
        return tuple(said)
