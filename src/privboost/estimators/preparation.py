"""Preparation of a run: domain, plan, schema check and reservation, before a row is read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sklearn.exceptions import DataConversionWarning

from privboost.accounts.account import BudgetAccount
from privboost.accounts.posting import Posting
from privboost.boosting.plan import PUBLIC_CLASS_WEIGHTS, Budget, Plan
from privboost.cautions import caution
from privboost.engine.backend import Backend, OpenBackend
from privboost.estimators.class_weights import weights_in_order
from privboost.estimators.wrappers import warn_of_wrappers
from privboost.learning.lesson import Learned, Lesson, learn_apart, learn_within
from privboost.pickling import fresh_copy
from privboost.privacy.curator import Curator
from privboost.privacy.ledger import Ledger
from privboost.privacy.statements import add_lesson, check_lesson, write_report
from privboost.progress import counting_charges
from privboost.randomness.keystream import KeyStream
from privboost.reports.report import WEIGHTED, PrivacyReport
from privboost.tables.beside import open_source
from privboost.tables.domain import Domain
from privboost.tables.encoding import Encoder
from privboost.tables.features import lessons_of
from privboost.tables.loader import Loader, RowLoader, UnitRule
from privboost.tables.loading import Load, check_schema
from privboost.tables.sources import Table, is_column_vector
from privboost.unit import Unit, column_of, unit_assumptions

MakePlan = Callable[[Encoder, float | None, Budget], Any]


@dataclass(frozen=True)
class Given:
    """Arguments of `fit`, with the bound of weights, class weights and classes."""

    X: Any
    y: Any
    sample_weight: Any
    weight_bound: float | None
    class_weight: Mapping[Any, float] | None = None
    classes: tuple[Any, ...] | None = None

    @property
    def row_bound(self) -> float | None:
        """Largest weight of a row; None if all rows weigh the same."""
        if self.class_weight is None:
            return self.weight_bound
        largest = max(self.class_weight.values())
        return largest if self.weight_bound is None else largest * self.weight_bound


@dataclass(frozen=True)
class Setting:
    """Checked parameters of a run.

    Attributes
    ----------
    budget : Budget
        The privacy budget.
    random_state : int or None
        The seed.
    keys : KeyStream
        The randomness.
    open_backend : OpenBackend
        Opens the backend that holds the rows.
    ledger : Path or None
        File of the ledger.
    account : BudgetAccount or None
        Account that the plan is charged to.
    what : str
        Name of the estimator or function, for reports and accounts.
    domain : Domain or None
        The domain; None if it is to be learned.
    domain_rows : str
        Rows that a learned domain was learned from: "same" or "other".
    unfinished : tuple of str
        Reservations of earlier runs of the estimator that failed.
    """

    budget: Budget
    random_state: int | None
    keys: KeyStream
    open_backend: OpenBackend
    ledger: Path | None
    account: BudgetAccount | None
    what: str
    domain: Domain | None
    domain_rows: str
    unfinished: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Ground:
    """Domain and budget of a plan.

    Attributes
    ----------
    domain : Domain
        The domain, declared or learned.
    budget : Budget
        Budget of the plan.
    paid : PrivacyReport or None
        Report of a domain inference whose price adds to the plan's.
    learned : Learned or None
        Result of the domain inference of this fit.
    """

    domain: Domain
    budget: Budget
    paid: PrivacyReport | None = None
    learned: Learned | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """A prepared run: everything is reserved, and no row has been read."""

    plan: Plan
    digest: str
    ledger: Ledger
    lesson: PrivacyReport | None
    keys: KeyStream
    load: Load
    unit_kind: str
    open_backend: OpenBackend
    assumptions: tuple[str, ...]
    seeded: bool
    what: str

    def curator(self, backend: Backend) -> Curator:
        """Return the curator of these rows."""
        return Curator(backend, self.ledger, self.keys.child("releases"), self.plan.contribution)

    def structures(self) -> KeyStream:
        """Return the randomness of public choices."""
        return self.keys.child("structures")

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters that the report lists."""
        return parameters_of(self.plan)

    def report(self) -> PrivacyReport:
        """Return the privacy report of the run."""
        report = write_report(
            self.ledger,
            self.plan.encoder.domain.unit,
            self.assumptions,
            self.seeded,
            self.parameters,
            self.digest,
            self.what,
        )
        return report if self.lesson is None else add_lesson(self.lesson, report, "training")


def parameters_of(plan: Plan) -> dict[str, Any]:
    """Return the parameters of a plan that its report lists."""
    weights = plan.class_weight
    own = {} if weights is None else {"class_weight": list(weights)}
    return plan.parameters | own


class Preparation:
    """Leads from parameters and a table to a run, stage by stage.

    Parameters
    ----------
    setting : Setting
        Checked parameters of the run.
    given : Given
        Arguments of `fit`.
    make_plan : callable
        Function of an encoder, the bound of weights and a budget that returns a plan.
    lesson : callable
        Function of a budget that returns the domain inference, where there is no domain, and a
        plan of training on a stand-in domain.
    """

    _run: type[Run] = Run

    def __init__(
        self,
        setting: Setting,
        given: Given,
        make_plan: MakePlan,
        lesson: Callable[[Budget], tuple[Lesson, Plan]],
    ) -> None:
        self.setting, self.given, self._make_plan, self._lesson = setting, given, make_plan, lesson

    def run(self) -> Run:
        """Check everything, and reserve the whole plan; return the run, which may read rows."""
        self.warn()
        ground = self.ground()
        plan = self.plan(ground)
        digest = plan.digest
        loader, table = self.rows(plan)
        unit_kind = self.judge_schema(loader, table)
        self.check(plan, unit_kind)
        self._warn_of_column_vectors()
        ledger = self.reserve(ground, plan)
        return self._run(
            plan,
            digest,
            ledger,
            ground.paid,
            self.keys,
            Load(loader, table),
            unit_kind,
            self.setting.open_backend,
            self.assumptions(ground, plan),
            self.setting.random_state is not None,
            self.setting.what,
        )

    def warn(self) -> None:
        """Warn of a seed, of a weak budget, and of scikit-learn's wrappers around `fit`."""
        setting = self.setting
        caution(setting.budget.epsilon, setting.budget.delta, setting.random_state)
        if setting.random_state is None:  # else there is no guarantee to lose
            warn_of_wrappers(setting.account is not None)

    @cached_property
    def keys(self) -> KeyStream:
        """The randomness of this run."""
        return self.setting.keys

    def ground(self) -> Ground:
        """Return the domain, learned if there is none, with the budget that is left."""
        setting = self.setting
        if setting.domain is not None:
            return Ground(setting.domain, setting.budget, self.paid_before(setting.domain))
        lesson, stand_in = self._lesson(setting.budget)
        if all(planned.event.mu is not None for planned in stand_in.releases):
            learned = learn_within(lesson, setting.ledger, self.posting(lesson.unit), self.keys)
            return Ground(learned.domain, learned.budget, None, learned)
        relation = stand_in.releases[0].event.relation
        posting = self.posting(lesson.unit)
        after = stand_in.releases
        learned = learn_apart(lesson, relation, setting.ledger, posting, after, self.keys)
        return Ground(learned.domain, learned.budget, learned.domain.privacy, learned)

    def paid_before(self, domain: Domain) -> PrivacyReport | None:
        """Return the report of the domain inference, if it used these rows."""
        if self.setting.domain_rows == "other":
            return None
        domain.check_price()
        if domain.privacy is None:
            return None
        check_lesson(domain.privacy, domain.unit)
        return domain.privacy

    def plan(self, ground: Ground) -> Plan:
        """Plan all releases, and calibrate the noise."""
        encoder = Encoder.of(ground.domain)
        try:
            plan: Plan = self._make_plan(encoder, self.given.row_bound, ground.budget)
            if self.given.class_weight is not None:
                weights = weights_in_order(self.given.class_weight, ground.domain.target)
                plan = replace(plan, class_weight=weights)
        except ValueError as error:
            if ground.learned is None:
                raise
            raise ValueError(
                f"{error} (the domain was learned, and its price is spent: write a domain, or "
                "learn it once with Domain.learn)"
            ) from None
        return plan

    def rows(self, plan: Plan) -> tuple[Any, Table]:
        """Return the loader of rows, and the table."""
        encoder, given = plan.encoder, self.given
        source, roles = open_source(encoder.domain, given.X, given.y, given.sample_weight)
        rule = UnitRule.of(encoder.domain.unit, self.keys.child("units"))
        own = fresh_copy(encoder)  # the model keeps the plan's encoder, which never sees a row
        loader = RowLoader(own, roles, given.weight_bound, rule, class_steps=plan.class_steps)
        return loader, source

    def judge_schema(self, loader: Loader, table: Table) -> str:
        """Refuse a table that does not fit the domain; return the kind of its unit column."""
        return check_schema(loader, table)

    def check(self, plan: Plan, unit_kind: str) -> None:
        """Refuse a plan that cannot run, before anything more is spent."""

    def posting(self, unit: Unit | None, lesson: PrivacyReport | None = None) -> Posting | None:
        """Return this run's charge to the account; None without one."""
        account = self.setting.account
        if account is None:
            return None
        return Posting(account, self.setting.what, column_of(unit), lesson)

    def reserve(self, ground: Ground, plan: Plan) -> Ledger:
        """Reserve the whole plan in a ledger."""
        learned = ground.learned
        if learned is not None and learned.ledger is not None:
            assert learned.placeholder is not None
            learned.ledger.exchange(learned.placeholder, plan.releases, plan.accountant)
            return learned.ledger
        budget = ground.budget
        posting = self.posting(ground.domain.unit, ground.paid)
        path = self.setting.ledger
        ledger = Ledger(budget.epsilon, budget.delta, plan.accountant, path, posting)
        ledger.reserve(plan.releases)
        return ledger

    def alone(self) -> str:
        """Return the assumption about other releases of the same rows."""
        account = self.setting.account
        if account is None:
            return (
                "these rows were used in no other release; another one adds to the epsilon stated "
                "here"
            )
        return (
            "this epsilon is of this run alone: what all runs on these rows cost together is in "
            f"the account of {account.dataset!r}"
        )

    def assumptions(self, ground: Ground, plan: Plan) -> tuple[str, ...]:
        """Return the assumptions of the guarantee."""
        domain, bound = ground.domain, self.given.weight_bound
        texts = [
            _origin(ground),
            "all parameters of the estimator were chosen, and all that came before it was fitted, "
            "without these rows or exact scores on them",
            self.alone(),
            *map(failure_assumption, self.setting.unfinished),
        ]
        if domain.unit is not None:
            texts += unit_assumptions(domain.unit)
        if bound is not None:
            texts.append(f"{WEIGHTED} [0, {bound:g}], a public bound")
        if plan.class_weight is not None:
            texts.append(PUBLIC_CLASS_WEIGHTS)
        parts = (*domain.features, domain.target)
        named = {part.name: part.reason for part in parts if not lessons_of([part])}
        if domain.unit is not None:
            named[domain.unit.column] = domain.unit.reason
        texts += [f"public about {name!r}: {reason}" for name, reason in named.items() if reason]
        if lessons_of([domain.target]):
            texts.append(f"learned about {domain.target.name!r}: {domain.target.describe()}")
        return (*texts, *plan.assumptions)

    def _warn_of_column_vectors(self) -> None:
        for name in ("y", "sample_weight"):
            if is_column_vector(getattr(self.given, name)):
                message = f"A column-vector {name} was passed when a 1d array was expected"
                warnings.warn(message, DataConversionWarning, stacklevel=4)


@contextmanager
def remembering_failure(estimator: Any) -> Iterator[None]:
    """Record a run that fails after its reservation: reports of later runs name it.

    Parameters
    ----------
    estimator : estimator or search
        Owner of the run's `epsilon` and `delta`; it keeps the record as `_unfinished`.
    """
    epsilon, delta = estimator.epsilon, estimator.delta  # they may be set meanwhile
    with counting_charges() as charges:
        try:
            yield
        except BaseException:
            if charges.count:
                spent = f"epsilon {float(epsilon):g} and delta {float(delta):g}"
                estimator._unfinished = (*failures_of(estimator), spent)
            raise


def failures_of(estimator: Any) -> tuple[str, ...]:
    """Return the reservations of earlier runs of an estimator that failed."""
    found: tuple[str, ...] = estimator.__dict__.get("_unfinished", ())
    return found


def failure_assumption(spent: str) -> str:
    """Return the assumption of a report about an earlier run that failed."""
    return (
        f"an earlier run of this estimator reserved {spent} and failed: it has no report, and adds "
        "to the epsilon stated here if it was given any of these rows"
    )


def _origin(ground: Ground) -> str:
    """Return the assumption about the origin of the domain."""
    if ground.domain.privacy is None:
        return (
            "the domain is public: names, bounds, categories, classes and edges were not read "
            "off the rows"
        )
    if ground.learned is not None or ground.paid is not None:
        parts = (*ground.domain.features, ground.domain.target)
        if all(lessons_of([part]) for part in parts):
            return (
                "the columns of the table and their types are public; bounds, categories and "
                "classes were learned privately, within this epsilon"
            )
        return (
            "the columns of the table and their types are public, and so is what was given of the "
            "domain; its other bounds, categories and classes were learned privately, within this "
            "epsilon"
        )
    return (
        f"the domain was learned privately ({ground.domain.privacy.guarantee}) from other rows: no "
        "protected unit is among both"
    )
