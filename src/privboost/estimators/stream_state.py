"""State of a stream between batches: coded rows, each with an individual privacy filter.

The state is private: the coded rows and the update log, from which a backend rebuilds every row's
score and the rest of its budget. It stays in the estimator's memory, or in a file of its own; a
model, a pickle or a report never holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from privboost._core.errors import BudgetError, SchemaError
from privboost.accounting.individual_budgets import IndividualBudget
from privboost.data.encoding import Encoder
from privboost.data.loading import Coded, Load, RowLoader
from privboost.data.rows import Rows
from privboost.data.table import RemoteTable, raise_mixed_stream
from privboost.engine.updates import Update
from privboost.estimators.preparation import Run
from privboost.recipes.common.newton import check_scores
from privboost.recipes.sbdt import SBDTPlan
from privboost.reports.report import PrivacyReport
from privboost.reports.writing import join_reports

HERE = "on this machine"
_ONE_BATCH = (
    "every protected unit is in one batch of the stream (with a unit column, rows of a unit that "
    "came before are left out), batches were formed without looking at the rows, and no state of "
    "the stream, saved or copied with its process, was continued twice"
)


@dataclass(frozen=True, eq=False)
class Cohort:
    """The rows of one batch, none once they are forgotten, and the names of their units.

    For rows of a cluster, `rows` is how its workers load them again. `budget` is each row's
    individual privacy filter, `used` the number of releases charged to it, and `report` the
    guarantee of the filters, and other charges.
    """

    rows: Coded | Load
    budget: IndividualBudget
    used: int
    report: PrivacyReport

    @property
    def blocks(self) -> tuple[Rows, ...]:
        """Rows that are on this machine."""
        return self.rows.blocks if isinstance(self.rows, Coded) else ()

    def load(self, loader: RowLoader) -> Load:
        """Return the load that a backend is opened with; coded rows need no loader."""
        return Load(loader, self.rows) if isinstance(self.rows, Coded) else self.rows

    def without_rows(self) -> Cohort:
        """Return the cohort with the names of its units only."""
        rows = self.rows
        if isinstance(rows, Coded):
            return replace(self, rows=replace(rows, blocks=()))
        loader = rows.loader
        assert isinstance(loader, RowLoader)
        if loader.unit is None:
            return replace(self, rows=Coded(()))
        names_only = replace(loader, unit=replace(loader.unit, max_rows=0))
        return replace(self, rows=Load(names_only, rows.source))


@dataclass(frozen=True, eq=False, repr=False)
class RowStream:
    """The private state of a stream after some batches, and the parameters of the last.

    `learned` means that the domain was learned from the first batch: later ones did not pay for it.
    """

    encoder: Encoder | None = None
    weight_bound: float | None = None
    clips: tuple[float, float] = (0.0, 0.0)
    next_id: int = 0
    most_score: float = 0.0
    cohorts: tuple[Cohort, ...] = ()
    log: tuple[Update, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    learned: bool = False
    unit_kind: str = "any"

    @property
    def n_batches(self) -> int:
        """Number of batches."""
        return len(self.cohorts)

    @property
    def blocks(self) -> list[Rows]:
        """Rows of all batches."""
        return [block for cohort in self.cohorts for block in cohort.blocks]

    @property
    def place(self) -> str | None:
        """Location of the rows, or of the names of their units; None if there are none."""
        for cohort in self.cohorts:
            if isinstance(cohort.rows, Load):
                return place_of(cohort.rows.source)
            if cohort.rows.blocks or cohort.rows.units is not None:
                return HERE
        return None

    @property
    def budgets(self) -> list[tuple[IndividualBudget, int]]:
        """Filter of each cohort, with the number of its releases."""
        return [(cohort.budget, cohort.used) for cohort in self.cohorts]

    def check(self, plan: SBDTPlan) -> None:
        """Raise if a plan does not continue this stream, before anything is spent."""
        if not self.cohorts:
            return
        if plan.weight_bound != self.weight_bound:
            raise ValueError(
                "sample_weight must be given to every batch of a stream or to none, with the same "
                "sample_weight_bound"
            )
        if _clips(plan) != self.clips:
            raise ValueError("gradient_clip and hessian_clip must equal those of the first batch")
        if dict(plan.settings.monotone) != self.parameters.get("monotone", {}):
            raise ValueError("monotone must equal that of the first batch, whose trees keep to it")
        check_scores(self.most_score + _most_score(plan))
        count = plan.settings.n_updates * plan.task.n_outputs + plan.settings.refinements
        for budget, used in self.budgets:
            for event in filter(None, (plan.leaf, plan.hessian)):
                budget.check(event, count, used)

    def entry_in(self, rows: str) -> str:
        """Return the entry of earlier batches in an account; empty before the first.

        Raises
        ------
        BudgetError
            If they were charged to another account, or to none: no account would have all cohorts.
        """
        if not self.cohorts:
            return ""
        report = self.cohorts[-1].report
        if report.rows != rows:
            raise BudgetError(
                "budget: all batches of a stream are charged to the account that the first one was "
                "charged to, or to none"
            )
        return report.entry

    def check_place(self, table: Any) -> None:
        """Raise if a batch lies elsewhere than earlier ones, before anything is spent."""
        if self.place not in (None, place_of(table)):
            raise_mixed_stream()

    def check_unit(self, kind: str) -> None:
        """Raise if a batch's unit column is of another kind, before anything is spent."""
        if "any" not in (kind, self.unit_kind) and kind != self.unit_kind:
            raise SchemaError(
                f"the unit column holds values of kind {kind!r}, but earlier batches of the stream "
                f"had {self.unit_kind!r}: the same units must be written in the same way"
            )

    def extended(
        self, run: Run, load: Load, log: Sequence[Update], parameters: dict[str, Any]
    ) -> RowStream:
        """Return the stream with one more batch: its run, its rows, and the whole update log."""
        plan = run.plan
        assert isinstance(plan, SBDTPlan)
        assert plan.life is not None
        count = run.ledger.used(plan.life)
        before = [replace(cohort, used=cohort.used + count) for cohort in self.cohorts]
        source = load.source
        rows, n_read = (
            (source, source.n_read) if isinstance(source, Coded) else (load, source.count_rows())
        )
        newest = Cohort(rows, plan.life, count, run.report())
        slopes = dict(plan.settings.monotone)  # as they were checked, where there are any
        plain = {name: value for name, value in parameters.items() if name != "monotone"}
        return replace(
            self,
            encoder=plan.encoder,
            weight_bound=plan.weight_bound,
            clips=_clips(plan),
            next_id=self.next_id + n_read,
            most_score=self.most_score + _most_score(plan),
            cohorts=(*before, newest),
            log=tuple(log),
            parameters=plain | ({"monotone": slopes} if slopes else {}),
            unit_kind=run.unit_kind if self.unit_kind == "any" else self.unit_kind,
        )

    def without_rows(self) -> RowStream:
        """Return the stream without the rows of its batches: later ones train alone."""
        return replace(self, cohorts=tuple(cohort.without_rows() for cohort in self.cohorts))

    def report(self) -> PrivacyReport:
        """Return the guarantee of every unit of every batch."""
        return join_reports([cohort.report for cohort in self.cohorts], _ONE_BATCH)


def place_of(table: Any) -> str:
    """Return the location of a table's rows."""
    return table.place if isinstance(table, RemoteTable) else HERE


def _clips(plan: SBDTPlan) -> tuple[float, float]:
    return plan.step.gradient_clip, plan.step.hessian_clip


def _most_score(plan: SBDTPlan) -> float:
    trees = plan.settings.n_estimators + plan.settings.extra_estimators
    return float(trees * plan.step.leaf_clip * plan.step.learning_rate)
