"""Guarantee and price of a fit, before a row is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from privboost._core.checks import check_count
from privboost._core.errors import BudgetError, DomainError
from privboost.accounting.ledger import Ledger, checked_ledger
from privboost.accounts.balance import Balance, format_share, round_down
from privboost.estimators.preparation import Preparation, write_run_report
from privboost.recipes.common.plan import PublicRows
from privboost.reports.report import PrivacyReport
from privboost.reports.writing import add_domain_inference


@dataclass(frozen=True)
class Preview:
    """Guarantee and price of a fit.

    Attributes
    ----------
    privacy : PrivacyReport
        The report that `privacy_` would be: ε and δ, every release with its noise and share, the
        assumptions. Releases that a recipe chooses during training appear as one.
    before, after : Balance or None
        Balance of the account before and after the fit; None without one.
    """

    privacy: PrivacyReport
    before: Balance | None = None
    after: Balance | None = None

    @property
    def left(self) -> float | None:
        """ε that the account would have left for one more run of Gaussian noise."""
        return None if self.after is None else self.after.left

    def __str__(self) -> str:
        lines = ["Nothing was spent, and no row was read: this is what a fit would be.", ""]
        lines.append(str(self.privacy))
        if self.before is not None and self.after is not None:
            taken = self.after.share_of(self.after.entries[-1].price)
            lines.append(
                f"  account     {self.after.dataset}: {format_share(taken)} of it would be taken; "
                f"epsilon {round_down(self.after.left)} would be left for one more run of Gaussian "
                f"noise ({round_down(self.before.left)} now)"
            )
        return "\n".join(lines)

    __repr__ = __str__


def price_preview(preparation: Preparation) -> Preview:
    """Return the price of a run without spending anything; refuses what the run would refuse."""
    setting = preparation.setting
    if isinstance(setting.budget, PublicRows):
        raise BudgetError("public_rows: rows that are public have no price")
    if setting.domain is None:
        raise DomainError(
            "a preview needs the whole domain: the part that is to be learned, and the noise that "
            "is left for training, depend on rows (Domain.learn learns a domain separately)"
        )
    if setting.ledger is not None:
        checked_ledger(setting.ledger)
    preparation.warn()
    ground = preparation.ground()
    plan = preparation.plan(ground)
    ledger = Ledger(ground.budget.epsilon, ground.budget.delta, plan.accountant)
    ledger.reserve(plan.releases)
    report = write_run_report(setting, plan, ledger, preparation.assumptions(ground, plan))
    if plan.is_exchanged:  # a fit reports a bound of all its choices
        report = replace(report, epsilon=ledger.epsilon)
    if ground.paid is not None:
        report = add_domain_inference(ground.paid, report, "training")
    pending_charge = preparation.pending_charge(ground.domain.unit, ground.paid)
    if pending_charge is None:
        return Preview(report)
    after = pending_charge.after(plan.releases, ledger.cost, ledger.delta)
    return Preview(report, pending_charge.account.balance(), after)


def stated_rows(n_rows: Any) -> int:
    """Return the stated number of rows, on which the defaults of a recipe depend."""
    if n_rows is None:
        raise ValueError("n_rows (--rows) must be given: the defaults of this recipe depend on it")
    return check_count("n_rows", n_rows)
