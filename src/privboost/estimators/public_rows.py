"""Fits without noise: preparation and run of rows that were declared public."""

from __future__ import annotations

from typing import Any

from privboost._core.errors import BudgetError
from privboost.accounting.ledger import Ledger
from privboost.engine.backend import Backend
from privboost.estimators.preparation import DomainAndBudget, Preparation, Run, reported_parameters
from privboost.estimators.run_settings import RunSettings
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.public_curator import PublicCurator, empty_ledger
from privboost.recipes.common.plan import Plan
from privboost.reports.report import WEIGHTED, PrivacyReport
from privboost.reports.writing import write_public_report


def check_no_ledger(run_settings: RunSettings) -> None:
    """Refuse to record charges: public rows have no price."""
    if run_settings.ledger is not None or run_settings.account is not None:
        raise BudgetError(
            "public_rows: there is nothing to record in a ledger or an account; leave it out"
        )


class PublicRun(Run):
    """A prepared run on public rows."""

    def curator(self, backend: Backend) -> Curator:
        """Return a curator that releases exact sums."""
        plan, keys = self.plan, self.keys.child("releases")
        return PublicCurator(backend, plan.accountant, keys, plan.contribution)

    def report(self) -> PrivacyReport:
        """Return a report that nothing is protected."""
        plan, run_settings = self.plan, self.run_settings
        about = (run_settings.seeded, reported_parameters(plan), plan.digest, run_settings.what)
        return write_public_report(plan.releases, self.assumptions, *about)


class PublicPreparation(Preparation):
    """Preparation of a run on public rows: nothing is learned, and nothing reserved."""

    _run_type = PublicRun

    def __init__(self, run_settings: RunSettings, *stages: Any) -> None:
        domain = run_settings.domain
        if domain is None or domain.privacy is not None or domain.inferences:
            raise BudgetError(
                "public_rows: a domain is learned with noise, at a price; with epsilon=math.inf it "
                "must be written"
            )
        if domain.unit is not None:
            raise BudgetError(
                "public_rows: the domain names a unit to protect, and with epsilon=math.inf nobody "
                "is protected; leave the unit out"
            )
        check_no_ledger(run_settings)
        super().__init__(run_settings, *stages)

    def warn(self) -> None:
        """Warn of nothing: a seed reveals nothing that is not public."""

    def reserve(self, domain_and_budget: DomainAndBudget, plan: Plan) -> Ledger:
        """Return an empty ledger, so that nothing private can be charged."""
        return empty_ledger(plan.accountant)

    def assumptions(self, domain_and_budget: DomainAndBudget, plan: Plan) -> tuple[str, ...]:
        """Return the declaration by which no noise was added."""
        declared = (
            "the caller declared all rows public (public_rows=True): exact sums of them were told, "
            "and nothing about any row is hidden"
        )
        bound = self.given.weight_bound
        return (declared,) if bound is None else (declared, f"{WEIGHTED} [0, {bound:g}]")
