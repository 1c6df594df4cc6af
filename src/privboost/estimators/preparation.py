"""Stages from parameters and a table to a run: all is checked and reserved before a row is read.

`Preparation.run` leads through the stages: the domain, the plan with its noise, the table's schema,
and the reservation of the whole plan in the ledger. A `Run` is what comes out: ready to read rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning

from privboost._core.checks import check_file, is_number, shown
from privboost._core.errors import BudgetError, DeviceError
from privboost._core.pickling import fresh_copy
from privboost._core.progress import counting_charges
from privboost._core.unit import Unit, column_of, unit_assumptions
from privboost._core.warnings import warn_of_parameters
from privboost.accounting.ledger import Ledger
from privboost.accounts.account import BudgetAccount, PendingCharge
from privboost.cuda.backend import open_cuda
from privboost.data.contribution_bound import UnitRule
from privboost.data.domain import Domain, inferences_of
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, Loader, RowLoader, check_schema, open_source
from privboost.data.sources import is_column_vector
from privboost.data.table import RemoteTable, Table
from privboost.distributed.frames import open_backend_of, open_remote
from privboost.domain_inference.within_fit import (
    DomainInference,
    InferredDomain,
    infer_jointly,
    infer_separately,
)
from privboost.engine.backend import Backend, OpenBackend
from privboost.estimators.class_weights import weights_in_order
from privboost.estimators.sklearn_wrappers import warn_of_wrappers
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import PUBLIC_CLASS_WEIGHTS, Budget, Plan, PublicRows
from privboost.reports.report import WEIGHTED, PrivacyReport
from privboost.reports.writing import add_domain_inference, check_domain_inference, write_report

MakePlan = Callable[[Encoder, float | None, Budget], Any]
"""Function of an encoder, the largest weight of a row and a budget that returns a plan."""


def budget_of(epsilon: Any, delta: Any, public_rows: Any) -> Budget:
    """Return the budget, which is unlimited if the caller declares the rows public.

    Raises
    ------
    BudgetError
        If only one of an infinite epsilon and that declaration is given.
    """
    if not isinstance(public_rows, bool | np.bool_):  # a string such as "no" declares nothing
        raise ValueError(f"public_rows must be True or False; {shown(public_rows)} is not")
    infinite = is_number(epsilon) and epsilon == math.inf
    if infinite and not public_rows:
        raise BudgetError(
            "epsilon is infinite: nothing would be protected. If every row is public, say so with "
            "public_rows=True (--public-rows); for private rows epsilon must be finite"
        )
    if public_rows and not infinite:
        raise BudgetError(
            "public_rows=True goes with epsilon=math.inf only: rows that have a finite epsilon are "
            "private"
        )
    return PublicRows(delta) if public_rows else Budget(epsilon, delta)


def open_table(data: Any, backend: Any) -> Any:
    """Return a table, perhaps one of a cluster; refuse a backend that it cannot use."""
    table = open_remote(data)
    if isinstance(table, RemoteTable) and isinstance(backend, str) and backend == "cuda":
        raise DeviceError('rows of a cluster stay there: leave backend="auto"')
    return table


def choose_backend(backend: Any, threads: int) -> OpenBackend:
    """Return the function that opens a backend on loads of rows."""
    if backend == "auto":
        return open_backend_of(threads)
    if backend == "cuda":
        return open_cuda(threads)
    if callable(backend):
        opened: OpenBackend = backend
        return opened
    raise ValueError('backend must be "auto", "cuda" or a callable that takes loads of rows')


def ledger_path(ledger: Any) -> Path | None:
    """Return the path of the ledger's file, or None."""
    if ledger is None:
        return None
    if not isinstance(ledger, str | Path):
        raise TypeError("ledger must be the path of a file, or None")
    check_file("ledger", ledger)
    return Path(ledger)


@dataclass(frozen=True)
class FitArguments:
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
class RunSettings:
    """Checked parameters of a run.

    `what` names the estimator or function in reports and accounts, `domain` is None if it is to be
    learned, `domain_rows` tells which rows a learned one came from ("same" or "other"), and
    `unfinished` lists the reservations of earlier runs of the estimator that failed.
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

    @property
    def seeded(self) -> bool:
        """Whether anybody who knows the seed can remove the noise."""
        return self.random_state is not None


@dataclass(frozen=True, eq=False)
class DomainAndBudget:
    """Domain and budget of a plan.

    `paid` is the report of a domain inference whose price adds to the plan's, `learned` the domain
    inference of this very fit.
    """

    domain: Domain
    budget: Budget
    paid: PrivacyReport | None = None
    learned: InferredDomain | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """A prepared run: everything is reserved, and no row has been read."""

    setting: RunSettings
    plan: Plan
    ledger: Ledger
    paid: PrivacyReport | None
    keys: KeyStream
    load: Load
    unit_kind: str
    assumptions: tuple[str, ...]

    def curator(self, backend: Backend) -> Curator:
        """Return the curator of these rows."""
        return Curator(backend, self.ledger, self.keys.child("releases"), self.plan.contribution)

    def structures(self) -> KeyStream:
        """Return the randomness of public choices."""
        return self.keys.child("structures")

    def report(self) -> PrivacyReport:
        """Return the privacy report of the run."""
        report = write_run_report(self.setting, self.plan, self.ledger, self.assumptions)
        return report if self.paid is None else add_domain_inference(self.paid, report, "training")


def write_run_report(
    setting: RunSettings, plan: Plan, ledger: Ledger, assumptions: tuple[str, ...]
) -> PrivacyReport:
    """Return the report of a run, without the price of a domain that was learned before."""
    parameters, unit = reported_parameters(plan), plan.encoder.domain.unit
    about = (setting.seeded, parameters, plan.digest, setting.what)
    return write_report(ledger, unit, assumptions, *about)


def reported_parameters(plan: Plan) -> dict[str, Any]:
    """Return the parameters of a plan that its report lists."""
    weights = plan.class_weight
    own = {} if weights is None else {"class_weight": list(weights)}
    return plan.parameters | own


class Preparation:
    """Leads from parameters and a table to a run, stage by stage.

    `inference` is a function of a budget that returns the domain inference, where there is no
    domain, and a plan of training on a stand-in domain.
    """

    _run: type[Run] = Run

    def __init__(
        self,
        setting: RunSettings,
        given: FitArguments,
        make_plan: MakePlan,
        inference: Callable[[Budget], tuple[DomainInference, Plan]],
    ) -> None:
        self.setting, self.given = setting, given
        self._make_plan, self._inference = make_plan, inference

    def run(self) -> Run:
        """Check everything, and reserve the whole plan; return the run, which may read rows."""
        self.warn()
        ground = self.ground()
        plan = self.plan(ground)
        loader, table = self.rows(plan)
        unit_kind = self.check_table(plan, loader, table)
        for name in ("y", "sample_weight"):
            if is_column_vector(getattr(self.given, name)):
                message = f"A column-vector {name} was passed when a 1d array was expected"
                warnings.warn(message, DataConversionWarning, stacklevel=3)
        ledger = self.reserve(ground, plan)
        own, load = self.assumptions(ground, plan), Load(loader, table)
        return self._run(self.setting, plan, ledger, ground.paid, self.keys, load, unit_kind, own)

    def warn(self) -> None:
        """Warn of a seed, of a weak budget, and of scikit-learn's wrappers around `fit`."""
        setting = self.setting
        warn_of_parameters(setting.budget.epsilon, setting.budget.delta, setting.random_state)
        if not setting.seeded:  # else there is no guarantee to lose
            warn_of_wrappers(setting.account is not None)

    @cached_property
    def keys(self) -> KeyStream:
        """The randomness of this run."""
        return self.setting.keys

    def ground(self) -> DomainAndBudget:
        """Return the domain, learned if there is none, with the budget that is left."""
        setting = self.setting
        if setting.domain is not None:
            return DomainAndBudget(setting.domain, setting.budget, self.paid_before(setting.domain))
        inference, stand_in = self._inference(setting.budget)
        releases, pending_charge = stand_in.releases, self.pending_charge(inference.unit)
        if all(planned.event.mu is not None for planned in releases):
            learned = infer_jointly(inference, setting.ledger, pending_charge, self.keys)
            return DomainAndBudget(learned.domain, learned.budget, None, learned)
        relation = releases[0].event.relation
        learned = infer_separately(
            inference, relation, setting.ledger, pending_charge, releases, self.keys
        )
        return DomainAndBudget(learned.domain, learned.budget, learned.domain.privacy, learned)

    def paid_before(self, domain: Domain) -> PrivacyReport | None:
        """Return the report of the domain inference, if it used these rows."""
        if self.setting.domain_rows == "other":
            return None
        domain.check_price()
        if domain.privacy is None:
            return None
        check_domain_inference(domain.privacy, domain.unit)
        return domain.privacy

    def plan(self, ground: DomainAndBudget) -> Plan:
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

    def check_table(self, plan: Plan, loader: Loader, table: Table) -> str:
        """Refuse a table that does not fit the domain; return the kind of its unit column."""
        return check_schema(loader, table)

    def pending_charge(
        self, unit: Unit | None, inference: PrivacyReport | None = None
    ) -> PendingCharge | None:
        """Return this run's charge to the account; None without one."""
        account = self.setting.account
        if account is None:
            return None
        return PendingCharge(account, self.setting.what, column_of(unit), inference)

    def reserve(self, ground: DomainAndBudget, plan: Plan) -> Ledger:
        """Reserve the whole plan in a ledger."""
        learned = ground.learned
        if learned is not None and learned.ledger is not None:
            assert learned.placeholder is not None
            learned.ledger.exchange(learned.placeholder, plan.releases, plan.accountant)
            return learned.ledger
        budget = ground.budget
        pending_charge = self.pending_charge(ground.domain.unit, ground.paid)
        path = self.setting.ledger
        ledger = Ledger(budget.epsilon, budget.delta, plan.accountant, path, pending_charge)
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

    def assumptions(self, ground: DomainAndBudget, plan: Plan) -> tuple[str, ...]:
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
        named = {part.name: part.reason for part in parts if not inferences_of([part])}
        if domain.unit is not None:
            named[domain.unit.column] = domain.unit.reason
        texts += [f"public about {name!r}: {reason}" for name, reason in named.items() if reason]
        if inferences_of([domain.target]):
            texts.append(f"learned about {domain.target.name!r}: {domain.target.describe()}")
        return (*texts, *plan.assumptions)


@contextmanager
def remembering_failure(estimator: Any) -> Iterator[None]:
    """Record a run that fails after its reservation, in the estimator or search that made it.

    Reports of its later runs name that one too.
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


def _origin(ground: DomainAndBudget) -> str:
    """Return the assumption about the origin of the domain."""
    if ground.domain.privacy is None:
        return (
            "the domain is public: names, bounds, categories, classes and edges were not read "
            "off the rows"
        )
    if ground.learned is not None or ground.paid is not None:
        parts = (*ground.domain.features, ground.domain.target)
        if all(inferences_of([part]) for part in parts):
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
